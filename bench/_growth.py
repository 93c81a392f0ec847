"""Subjects: adds to SQLite when one timeline holds many records, or the store many timelines."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from enum import StrEnum
from itertools import count
from pathlib import Path
from time import perf_counter

from bench._measure import Figures, Stopwatch, input_output
from bench._workload import BATCH, CACHE, VALUE, Source, fill, opened, timeline_key, writer
from digestif import Digests, Policy, Record
from digestif.testing import FakeClock

SMALL = 1_000  # records; so small a timeline grows quickly, and is filled anew
BEGINNING = 1_700_000_000.0
STEP = 0.001  # seconds between two calls
AFTERWARDS = BEGINNING + 1000  # after a store of a million timelines was filled
MOVES = Policy.debounce(quiet=60, maximum=600)  # every add moves the due time: the most expensive kind


class Kind(StrEnum):
    """Kinds of keys and timelines."""

    RANDOM = "random keys"
    RISING = "rising keys"  # as from a counter or a clock: they fall on the same pages of the index
    FULL = "at capacity"  # random keys, and each add drops the oldest record


class Records:
    """One timeline with so many records."""

    def __init__(self, folder: str, size: int, kind: Kind, calls: tuple[int, int]) -> None:
        self._size = size
        self._kind = kind
        self._calls = calls
        self._source = Source(1)
        self._times = count(1)
        self._timeline = timeline_key(0)
        path = Path(folder) / f"records-{size}-{kind.name}.db"
        self._digests = opened(path, policy=Policy(capacity=size if kind is Kind.FULL else None))
        self._fill()
        self.close = self._digests.close

    def cost(self) -> Figures:
        """Return microseconds per record, added singly and in batches."""
        singles, batches = self._calls
        return {"single": self._singly(singles), "batch": self._in_batches(batches)}

    def _singly(self, times: int) -> float:
        watch = Stopwatch()
        for number in range(times):
            record = self._record()
            with watch.running():
                self._digests.add(self._timeline, record)
            if number % max(self._size // 10, 10) == 0:
                self._restore()
        return watch.seconds / times * 1e6

    def _in_batches(self, times: int) -> float:
        watch = Stopwatch()
        for _ in range(times):
            batch = list(self._events(BATCH))
            with watch.running():
                self._digests.add_many(batch)
            self._restore()
        return watch.seconds / (times * BATCH) * 1e6

    def _restore(self) -> None:
        """Bring a small timeline back to its size; in a large one a few more records do not matter."""
        if self._size <= SMALL and self._kind is not Kind.FULL:
            self._digests.delete(self._timeline)
            self._fill()

    def _fill(self) -> None:
        fill(self._digests, self._events(self._size), total=self._size, title=f"{self._size:,} records")

    def _events(self, size: int) -> Iterator[tuple[str, Record]]:
        return ((self._timeline, self._record()) for _ in range(size))

    def _record(self) -> Record:
        number = next(self._times)
        key = f"{number:020x}" if self._kind is Kind.RISING else self._source.key()
        return Record(key, VALUE, float(number))


class Timelines:
    """A store with so many timelines, all waiting, one record in each."""

    def __init__(self, folder: str, size: int, calls: tuple[int, int]) -> None:
        self._size = size
        self._calls = calls
        self._clock = FakeClock(BEGINNING)
        self._source = Source(size)
        self._digests = filled(folder, size, self._clock)
        self.close = self._digests.close

    def cost(self) -> Figures:
        """Return microseconds per record, added singly and in batches, to timelines chosen at random.

        For batches also the reads from the file, and the kibibytes written, per record.
        """
        singles, batches = self._calls
        single = self._measured(self._add, singles)
        before = input_output()
        batch = self._measured(self._add_many, batches) / BATCH
        reads, written = (now - then for now, then in zip(input_output(), before, strict=True))
        count = batches * BATCH
        return {"single": single, "batch": batch, "reads": reads / count, "kibibytes": written / count / 1024}

    def _measured(self, step: Callable[[], None], times: int) -> float:
        """Return microseconds per step."""
        began = perf_counter()
        for _ in range(times):
            step()
        return (perf_counter() - began) / times * 1e6

    def _add(self) -> None:
        self._clock.advance(STEP)
        self._digests.add(self._source.timeline(), self._source.record())

    def _add_many(self) -> None:
        self._clock.advance(STEP)
        self._digests.add_many(self._source.batch())


class Cached(Timelines):
    """The same timelines in a copy of the file, with a cache for the whole file."""

    def __init__(self, folder: str, size: int, calls: tuple[int, int]) -> None:
        copy = Path(folder) / f"copy-{size}"
        copy.mkdir()
        with closing(sqlite3.connect(_path(folder, size))) as source, closing(sqlite3.connect(_path(copy, size))) as to:
            source.backup(to)
        super().__init__(str(copy), size, calls)
        kibibytes = max(CACHE, 2 * _path(copy, size).stat().st_size // 1024)
        self._connection = writer(self._digests)
        self._connection.execute(f"PRAGMA cache_size = -{kibibytes}")
        self._connection.execute("PRAGMA quick_check").fetchall()  # reads every page

    def cost_without_checkpoints(self) -> Figures:
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")
        figures = self.cost()
        self._connection.execute("PRAGMA wal_checkpoint").fetchall()
        self._connection.execute("PRAGMA wal_autocheckpoint = 1000")
        return figures


def _path(folder: str | Path, size: int) -> Path:
    return Path(folder) / f"timelines-{size}.db"


def filled(folder: str, size: int, clock: FakeClock) -> Digests:
    """Open a store with so many waiting timelines, due in the order of their names; fill it the first time."""
    path = _path(folder, size)
    fresh = not path.exists()
    digests = opened(path, policy=MOVES, clock=clock)
    source = Source(size)

    def events() -> Iterator[tuple[str, Record]]:
        for number in range(size):
            clock.advance(STEP / 10)
            yield timeline_key(number), source.record()

    if fresh:
        fill(digests, events(), total=size, title=f"{size:,} timelines")
    clock.set(AFTERWARDS)
    return digests
