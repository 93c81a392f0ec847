"""Kills workers that send webhooks, and counts what a receiver that deduplicates by id has got."""

import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook

from digestif import Digests
from digestif.ids import chance
from tests.channels.receiver import Receiver, reset, running
from tests.routes.sender import POLICY

ROOT = Path(__file__).parents[2]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WORKERS, TIMELINES = 3, 5


async def misbehave(receiver: Receiver, request: web.Request) -> web.StreamResponse:
    """Mostly take the message; sometimes take it and reset the connection, or answer 500."""
    if chance() < 0.05:
        return await reset(receiver, request)
    return web.Response(status=500 if chance() < 0.05 else 204)


def seen_through_kills(store: str, *, kills: int) -> dict[str, Any]:
    """Kill workers while records come in, let others finish, and count what the receiver got."""
    with Digests(store, policy=POLICY) as digests, running() as receiver:
        receiver.behave(misbehave)
        channel = f"webhook+http://127.0.0.1:{receiver.port}/hook?secret={SECRET}&allow_private=true"
        workers = [_start(store, channel) for _ in range(WORKERS)]
        accepted, pause = 0, threading.Event()
        try:
            for kill in range(kills):
                for _ in range(20):
                    digests.add(f"hook:{accepted % TIMELINES}", {"n": accepted}, key=str(accepted))
                    accepted += 1
                    pause.wait(0.01 * chance())
                receiver.arrived.clear()
                receiver.arrived.wait(5)  # a worker delivers…
                pause.wait(0.03 * chance())  # …and is killed at any point of it
                victim = kill % WORKERS
                workers[victim].send_signal(signal.SIGKILL)
                workers[victim].wait()
                workers[victim] = _start(store, channel)
            _drained(digests, pause)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        assert digests.verify()
        ledger = digests.ledger()
    return {"accepted": accepted, "delivered": ledger.delivered, **_judged(receiver)}


def _start(store: str, channel: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "tests.routes.sender", store, channel], cwd=ROOT)


def _drained(digests: Digests, pause: threading.Event) -> None:
    while digests.ledger().delivered < digests.ledger().accepted:
        pause.wait(0.05)


def _judged(receiver: Receiver) -> dict[str, Any]:
    """How often each record arrived, if ids that came before are ignored."""
    contents: dict[str, list[str]] = {}
    differing = 0
    for request in receiver.requests:
        headers = {name.lower(): value for name, value in request.headers.items()}
        verified: Any = Webhook(SECRET).verify(request.body, headers)
        records = [record["key"] for record in verified["data"]["records"]]
        if contents.setdefault(headers["webhook-id"], records) != records:
            differing += 1
    counts = Counter(key for records in contents.values() for key in records)
    return {
        "requests": len(receiver.requests),
        "ids": len(contents),
        "differing": differing,  # an id that came with two contents
        "records": len(counts),
        "twice": sum(1 for count in counts.values() if count > 1),
    }
