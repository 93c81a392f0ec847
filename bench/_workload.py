"""The events of benchmarks, 300 bytes each, and the stores that they are added to."""

import sqlite3
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import msgspec

from bench._measure import WIDTH
from digestif import Digests, Policy, Record
from digestif.clock import wall_clock
from digestif.testing import FakeClock

PAYLOAD = 300  # bytes of an encoded value
_EMPTY = len(msgspec.json.encode({"title": ""}))


def value_of(size: int) -> dict[str, str]:
    """A value of so many bytes when it is encoded."""
    return {"title": "x" * (size - _EMPTY)}


VALUE = value_of(PAYLOAD)
BATCH = 100
CALLERS = 64
PAGE = 1000
CACHE = 16 * 1024  # KiB that SQLite may use, the same as in the store


def timeline_key(number: int) -> str:
    return f"mail:customer-{number:08d}"


class Source:
    """Random events, repeatable by their seed; new keys sort anywhere among stored ones."""

    def __init__(self, timelines: int, *, seed: int = 1) -> None:
        self._random = Random(seed)
        self._timelines = timelines

    def timeline(self) -> str:
        return timeline_key(self._random.randrange(self._timelines))

    def key(self) -> str:
        return f"{self._random.getrandbits(80):020x}"

    def record(self, timestamp: float = 0.0) -> Record:
        return Record(self.key(), VALUE, timestamp)

    def names(self, count: int) -> list[tuple[str, str]]:
        """Timelines and keys."""
        return [(self.timeline(), self.key()) for _ in range(count)]

    def records(self, count: int) -> list[tuple[str, Record]]:
        """Timelines and records of now."""
        now = wall_clock()
        return [(timeline, Record(key, VALUE, now)) for timeline, key in self.names(count)]

    def batch(self, size: int = BATCH) -> list[tuple[str, Record]]:
        return [(self.timeline(), self.record()) for _ in range(size)]


def opened(path: Path, *, policy: Policy | None = None, clock: FakeClock | None = None) -> Digests:
    """Open the store with its defaults: WAL, synchronous=FULL."""
    return Digests(f"sqlite:///{path}", policy=policy, clock=clock)


def writer(digests: Digests) -> sqlite3.Connection:
    """Return the connection that writes, for measurements with other settings than the store's."""
    connection: sqlite3.Connection = vars(digests.store)["_writer"].connection
    return connection


def fill(digests: Digests, events: Iterable[tuple[str, Record]], *, total: int, title: str) -> None:
    """Add many events, page by page, with a progress bar on a terminal."""
    page: list[tuple[str, Record]] = []
    for event in progress(events, total=total, title=title):
        page.append(event)
        if len(page) == PAGE:
            digests.add_many(page)
            page = []
    digests.add_many(page)


def progress(
    events: Iterable[tuple[str, Record]], *, total: int, title: str
) -> Iterator[tuple[str, Record]] | Iterable[tuple[str, Record]]:
    """Yield the same events; on a terminal, with a progress bar that vanishes at the end."""
    if not sys.stderr.isatty() or total < 10 * PAGE:
        return events
    from rich.console import Console
    from rich.progress import track

    screen = Console(stderr=True)
    screen.width = min(screen.width, WIDTH)
    return track(events, f" {title}", total=total, console=screen, transient=True)
