"""A process that uses a store with the package that it finds first. Requests come as lines of JSON, and so do answers.
The first line is the path of the package.

`python process.py DSN`; the first element of a request is the name of an action below, the others are its arguments.
"""

import asyncio
import json
import logging
import sys
import threading
from contextlib import ExitStack
from typing import Any

import digestif
from digestif import DigestifError, Digests, Policy, Worker


class Process:
    """What the process holds: a store, digests that are open, a worker, and what was delivered and reported."""

    def __init__(self, dsn: str) -> None:
        self.digests = Digests(dsn, policy=Policy(minimum_delay=0, increment_delay=0), lease=120)
        self.open_digests: dict[str, ExitStack] = {}
        self.delivered: list[str] = []
        self.reports: list[str] = []
        self.released = threading.Event()
        self.began = threading.Event()
        self.digests.events.subscribe(self._report)

    def _report(self, event: object) -> None:
        error = getattr(event, "error", None)
        if error is not None:
            self.reports.append(f"{type(event).__name__}: {error}")

    def add(self, *timelines: str) -> list[bool]:
        return self.digests.add_many([(timeline, 1) for timeline in timelines])

    def add_two(self, timeline: str) -> list[bool]:
        """Add to two timelines in one transaction: a single record may go a shorter way."""
        return self.add(timeline, f"{timeline} too")

    def add_one(self, timeline: str) -> bool:
        return self.digests.add(timeline, 1)

    def add_inside(self, timeline: str, isolation: str = "READ COMMITTED") -> None:
        import psycopg

        store: Any = self.digests.store
        with psycopg.connect(store._database._address._conninfo.reveal()) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
            connection.execute("SELECT 1")
            self.digests.add(timeline, 1, connection=connection)

    def open(self, timeline: str) -> int:
        stack = self.open_digests[timeline] = ExitStack()
        return len(stack.enter_context(self.digests.digest(timeline)))

    def close(self, timeline: str) -> None:
        self.open_digests.pop(timeline).close()

    def work(self) -> None:
        """Start a worker; a delivery of a timeline that is called busy waits for `release`."""

        @self.digests.handler("*")
        def deliver(digest: digestif.Digest) -> None:
            self.delivered.append(digest.timeline)
            if digest.timeline.startswith("busy"):
                self.began.set()
                self.released.wait()

        worker = Worker(self.digests, poll=0.05)
        threading.Thread(target=lambda: asyncio.run(worker.serve()), daemon=True).start()

    def wait_until_busy(self) -> bool:
        return self.began.wait(30)

    def release(self) -> None:
        self.released.set()

    def wait_for(self, *timelines: str) -> list[str]:
        """Wait until these were delivered; return all that were."""
        for _ in range(600):
            if set(timelines) <= set(self.delivered):
                break
            threading.Event().wait(0.05)
        return sorted(set(self.delivered))

    def wait_for_report(self) -> bool:
        """Wait until a failure was reported."""
        for _ in range(600):
            if self.reports:
                break
            threading.Event().wait(0.05)
        return bool(self.reports)

    def pause_for(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def refuse(self, timeline: str) -> None:
        self.digests.prefer(timeline, "off")

    def pending(self) -> int:
        return self.digests.ledger().pending

    def declined(self) -> int:
        return self.digests.ledger().declined

    def verify(self) -> bool:
        return bool(self.digests.verify())

    def migrate(self) -> list[int]:
        store: Any = self.digests.store
        upgrade = store.migrate()
        return [upgrade.version, upgrade.latest, upgrade.oldest, upgrade.oldest_after]

    def call(self, name: str, *arguments: Any) -> None:
        answer = getattr(self.digests, name)(*arguments)
        if hasattr(answer, "__next__"):
            list(answer)


def main(dsn: str) -> None:
    logging.disable()  # reports say the same
    _answer(str(digestif.__file__))
    process: Process | None = None
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            process = process or Process(dsn)
            held = getattr(process, name)
            answer = held(*arguments) if callable(held) else held
        except DigestifError as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        _answer(json.dumps(answer))


def _answer(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
