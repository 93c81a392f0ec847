"""The programs of a move under load: `python -m torture._moves ROLE FOLDER …`. Files in the folder steer them.

    produce FOLDER NAME SOURCE TARGET CONTROL   adds to the source, after `switch` to the target; and to the control
    deliver FOLDER STORE LOG                    a worker; it writes a line for each digest into the log
    move FOLDER SOURCE TARGET                   moves and follows; its lock lapses soon after a kill

A store is given as DSN#NAMESPACE. `stop` ends the producers.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from digestif import Digest, Digests, Move, Policy, Worker
from digestif.stores.registry import open_store

COOL_DOWN = 3.0
POLICY = Policy(minimum_delay=COOL_DOWN, increment_delay=0.05, maximum_delay=2 * COOL_DOWN, capacity=None)
TIMELINES = 15
PAUSE = 0.4  # seconds between two rounds over all timelines
LOCK_SECONDS = 0.5


def digests_of(place: str) -> Digests:
    dsn, _, namespace = place.rpartition("#")
    return Digests(dsn, namespace=namespace, policy=POLICY)


def store_of(place: str) -> Any:
    dsn, _, namespace = place.rpartition("#")
    return open_store(dsn, namespace=namespace)


def produce(folder: Path, name: str, source: str, target: str, control: str) -> None:
    old, new, alone = map(digests_of, (source, target, control))
    pause = threading.Event()
    number = 0
    while not (folder / "stop").exists():
        current = new if (folder / "switch").exists() else old
        for timeline in range(TIMELINES):
            key = f"{name}-{number}-{timeline}"
            current.add(f"busy:{timeline}", number, key=key)
            alone.add(f"busy:{timeline}", number, key=key)
        if current is new:
            (folder / f"switched-{name}").touch()
        number += 1
        pause.wait(PAUSE)
    (folder / f"produced-{name}").write_text(str(number * TIMELINES))


def deliver(folder: Path, place: str, log: str) -> None:
    digests = digests_of(place)
    with (folder / log).open("a", buffering=1) as lines:

        @digests.handler("*")
        def send(digest: Digest) -> None:
            keys = [record.key for record in digest]
            lines.write(json.dumps([time.time(), digest.timeline, digest.idempotency_key, keys]) + "\n")

        Worker(digests, poll=0.1).run()


def move(folder: Path, source: str, target: str) -> None:
    Move(store_of(source), store_of(target), lock_seconds=LOCK_SECONDS).run(follow=True)


ROLES: dict[str, Callable[..., None]] = {"produce": produce, "deliver": deliver, "move": move}

if __name__ == "__main__":
    ROLES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
