"""Readers behind a webhook of which a part is away: `python -m torture._partial SHARE [SECONDS] [STORE]`.

A server answers 503 to this share of its requests, each for itself. Two workers deliver to ten readers, each with an
event every two seconds. Prints how many of their digests the readers got, as JSON.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from digestif import Digests, Policy
from digestif.channels import WebhookChannel
from tests.channels.receiver import running
from tests.routes.partial_outages import SECRET, away_in_part

READERS = tuple(f"hook:reader{number}" for number in range(10))
PERIOD = 2.0
WORKERS = 2
POLICY = Policy(minimum_delay=PERIOD - 0.5, increment_delay=0)


def main(share: str, seconds: str = "180", store: str | None = None) -> None:
    if share == "worker":
        work(seconds, store or "")
    else:
        sys.stdout.write(json.dumps(measured(float(share), float(seconds), store)) + "\n")


def measured(share: float, seconds: float, store: str | None) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        dsn = store or f"sqlite:///{folder}/d.db"
        server = stack.enter_context(running())
        arrived = away_in_part(server, share, random.Random(7))
        for _ in range(WORKERS):
            command = [sys.executable, "-m", "torture._partial", "worker", dsn, server.url]
            process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stderr=subprocess.DEVNULL)
            stack.callback(process.wait, 30)
            stack.callback(process.send_signal, signal.SIGTERM)
        digests = stack.enter_context(Digests(dsn, policy=POLICY))
        rounds = round(seconds / PERIOD)
        while len(digests.workers()) < WORKERS:
            time.sleep(0.1)
        began = time.monotonic()
        for number in range(rounds):
            digests.add_many([(reader, {"title": f"event-{number}"}) for reader in READERS])
            time.sleep(max(0.0, began + (number + 1) * PERIOD - time.monotonic()))
        ledger = digests.ledger()
        return summed_up(share, rounds, arrived, dead=ledger.dead)


def summed_up(share: float, rounds: int, arrived: list[tuple[str, str]], *, dead: int) -> dict[str, Any]:
    by_reader = Counter(reader for reader, _ in set(arrived))
    counts = sorted(by_reader[reader] for reader in READERS)
    return {
        "away": share,
        "of": rounds,
        "least": counts[0],
        "most": counts[-1],
        "together": round(sum(counts) / (rounds * len(READERS)), 3),
        "twice": len(arrived) - len(set(arrived)),
        "dead": dead,
    }


def work(store: str, url: str) -> None:
    with Digests(store, policy=POLICY) as digests:
        digests.route("hook:*", channel=WebhookChannel(url, secrets=[SECRET], allow_private=True))
        digests.run(poll=0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
