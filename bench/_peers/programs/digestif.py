"""Digestif itself, on any store: the defaults of its policy, 300 times as fast."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

from bench._peers.producing import Event, Producer, obey
from bench._peers.readiness import tell_ready
from bench._peers.sink import Sink
from digestif import Delivered, Digest, Digests, Policy, Worker


def policy(settings: dict[str, Any]) -> Policy:
    delay = settings["delay"]
    return Policy(minimum_delay=delay, increment_delay=delay / 10, maximum_delay=delay * 6, capacity=None)


class Caller(Producer):
    def __init__(self, digests: Digests) -> None:
        self._digests = digests

    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        self._digests.add(timeline, value)
        return True

    def add_many(self, events: Sequence[Event]) -> None:
        self._digests.add_many(events)


def deliver(digests: Digests, settings: dict[str, Any]) -> None:
    sink = Sink(settings["sink"])

    @digests.handler("*")
    async def send(digest: Digest) -> None:
        sink.note(record.value["id"] for record in digest)

    def listen(event: object) -> None:
        if isinstance(event, Delivered):
            sink.note_late(event.late + event.took)

    digests.subscribe(listen)
    asyncio.run(_serve(Worker(digests, poll=settings["poll"])))


async def _serve(worker: Worker) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    tell_ready()
    await worker.serve()


def main(role: str, settings: dict[str, Any]) -> None:
    with Digests(settings["url"], policy=policy(settings)) as digests:
        if role == "producer":
            obey(Caller(digests), settings["events"])
        else:
            deliver(digests, settings)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
