"""Subjects: adds to SQLite, one by one and in batches, beside bare upserts into two tables."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Barrier, Thread
from time import perf_counter

from bench._measure import Figures
from bench._workload import BATCH, CACHE, CALLERS, PAYLOAD, VALUE, Source, opened
from digestif import AsyncDigests
from digestif.stores.shield import Shield

TIMELINES = 100

TABLES = """
CREATE TABLE timeline (key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE record (
    timeline TEXT NOT NULL, key TEXT NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (timeline, key)
) WITHOUT ROWID;
"""
UPSERT_TIMELINE = "INSERT INTO timeline VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET at = excluded.at"
UPSERT_RECORD = (
    "INSERT INTO record VALUES (?, ?, ?) ON CONFLICT (timeline, key) DO UPDATE SET payload = excluded.payload"
)


class Bare:
    """The yardstick: the least work of a durable add, with the sqlite3 module alone."""

    def __init__(self, folder: str, seconds: float, group: int) -> None:
        self._seconds = seconds
        self._group = group
        self._source = Source(TIMELINES)
        self._payload = b"x" * PAYLOAD
        self._connection = sqlite3.connect(Path(folder) / f"bare-{group}.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(f"PRAGMA cache_size = -{CACHE}")
        self._connection.executescript(TABLES)

    def rate(self) -> Figures:
        return repeated(self._commit, self._group, seconds=self._seconds)

    def _commit(self) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for _ in range(self._group):
            timeline = self._source.timeline()
            execute(UPSERT_TIMELINE, (timeline, 0))
            execute(UPSERT_RECORD, (timeline, self._source.key(), self._payload))
        execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class OneCaller:
    """One thread that adds one by one, or in batches."""

    def __init__(self, folder: str, seconds: float, batch: int) -> None:
        self._seconds = seconds
        self._batch = batch
        self._source = Source(TIMELINES)
        self._digests = opened(Path(folder) / f"{type(self).__name__}-{batch}.db")
        self.close = self._digests.close

    def rate(self) -> Figures:
        return repeated(self._add if self._batch == 1 else self._add_many, self._batch, seconds=self._seconds)

    def _add(self) -> None:
        self._digests.add(self._source.timeline(), VALUE, key=self._source.key())

    def _add_many(self) -> None:
        self._digests.add_many(self._source.batch(self._batch))


class Helped(OneCaller):
    """One thread whose adds run in a helper thread, where no signal handler interrupts them."""

    def __init__(self, folder: str, seconds: float) -> None:
        super().__init__(folder, seconds, 1)
        self._shield = Shield("helper")

    def _add(self) -> None:
        self._shield.run(super()._add)


class Threads:
    """Many threads, each adding one by one and waiting for its own durable commit."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._seconds = seconds
        self._digests = opened(Path(folder) / "threads.db")
        self._sources = [Source(TIMELINES, seed=seed) for seed in range(CALLERS)]
        self.close = self._digests.close

    def rate(self) -> Figures:
        counts = [0] * CALLERS
        together = Barrier(CALLERS + 1)
        threads = [Thread(target=self._add, args=(i, counts, together)) for i in range(CALLERS)]
        for thread in threads:
            thread.start()
        together.wait()
        began = perf_counter()
        for thread in threads:
            thread.join()
        return {"rate": sum(counts) / (perf_counter() - began)}

    def _add(self, number: int, counts: list[int], together: Barrier) -> None:
        source = self._sources[number]
        together.wait()
        ends = perf_counter() + self._seconds
        while perf_counter() < ends:
            self._digests.add(source.timeline(), VALUE, key=source.key())
            counts[number] += 1


class Tasks:
    """Many asyncio tasks, each adding one by one and waiting for its own durable commit."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._path = Path(folder) / "tasks.db"
        self._seconds = seconds
        self._sources = [Source(TIMELINES, seed=seed) for seed in range(CALLERS)]

    def rate(self) -> Figures:
        return asyncio.run(self._rate())

    async def _rate(self) -> Figures:
        async with AsyncDigests(f"sqlite:///{self._path}") as digests:
            began = perf_counter()
            ends = began + self._seconds
            counts = await asyncio.gather(*(_add_until(ends, digests.add, source) for source in self._sources))
            return {"rate": sum(counts) / (perf_counter() - began)}

    def close(self) -> None: ...


async def _add_until(ends: float, add: Callable[..., Awaitable[bool]], source: Source) -> int:
    count = 0
    while perf_counter() < ends:
        await add(source.timeline(), VALUE, key=source.key())
        count += 1
    return count


def repeated(step: Callable[[], None], weight: int, *, seconds: float) -> Figures:
    """Repeat a step for some seconds, and return how many events it adds per second."""
    count = 0
    began = now = perf_counter()
    while now < began + seconds:
        step()
        count += weight
        now = perf_counter()
    return {"rate": count / (now - began)}


SUBJECTS: dict[str, tuple[Callable[..., object], list[int]]] = {
    "bare upserts": (Bare, [1]),
    f"bare upserts by {BATCH}": (Bare, [BATCH]),
    "add": (OneCaller, [1]),
    "add in a helper thread": (Helped, []),
    f"add_many of {BATCH}": (OneCaller, [BATCH]),
    f"add in {CALLERS} threads": (Threads, []),
    f"add in {CALLERS} tasks": (Tasks, []),
}
