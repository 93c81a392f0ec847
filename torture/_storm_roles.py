"""The processes of a storm: they produce, work, dispatch and operate until they are ended.

Each notes what it is about to do, and each answer before it goes on, so that it may be killed at any time.
A record's id is its value too: `timeline/key`, with `#` and a number if several versions share the key.
"""

import asyncio
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from digestif import (
    AsyncDigests,
    Busy,
    DeliveryFailed,
    Digest,
    Digests,
    Discard,
    InvalidState,
    Policy,
    Record,
    Retry,
    RetryLater,
    StaleLease,
    StoreError,
)
from digestif.clock import monotonic, wall_clock
from tests.logbook import Logbook

LEASE = 2.0  # seconds
POLL = 0.2
PACE = 0.08  # seconds between two calls of one producer, at most
POLICY = Policy(
    minimum_delay=0.05,
    increment_delay=0.01,
    maximum_delay=0.3,
    capacity=None,
    attempts=4,
    lapses=6,
    retry=Retry(initial=0.05, factor=1),
)
SMALL = replace(POLICY, capacity=5)  # for those who add to timelines of that name

# Families of timelines, by what may happen to their records besides being delivered, and how many there are.
FAMILIES = {
    "plain": 20,
    "coroutine": 8,
    "batch": 8,
    "bad": 4,  # most attempts fail, so that they end as dead letters, which are replayed
    "small": 4,  # capacity drops
    "gone": 10,  # records are retracted, replaced by others of the same key, discarded, or deleted with their timeline
}
TIMELINES = [f"{family}:{number}" for family, many in FAMILIES.items() for number in range(many)]


class Notes:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._logbook = Logbook(path)

    def note(self, what: str, *facts: Any) -> None:
        self._logbook.note([what, monotonic(), *facts])


def key_of(id: str) -> str:
    return id.partition("/")[2].partition("#")[0]


def family_of(timeline_or_id: str) -> str:
    return timeline_or_id.partition(":")[0]


def ids_of(records: Sequence[Record]) -> list[str]:
    return [record.value["id"] for record in records]


class Actor:
    """One process: its engine, its notes and its chances."""

    def __init__(self, dsn: str, notes: Notes, *, name: str, seed: str) -> None:
        self.dsn = dsn
        self.name = name
        self.notes = notes
        self.random = Random(seed)
        self._made = 0
        self._pause = threading.Event()

    def open(self, policy: Policy = POLICY) -> Digests:
        return Digests(self.dsn, policy=policy, lease=LEASE)

    def pause(self, longest: float) -> None:
        self._pause.wait(self.random.uniform(0, longest))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def in_threads(self, *loops: Callable[[], Iterator[None]]) -> None:
        """Run loops in threads, each step by step; expected errors do not end them."""
        threads = [threading.Thread(target=self._run, args=(loop,)) for loop in loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self, loop: Callable[[], Iterator[None]]) -> None:
        while True:
            try:
                for _ in loop():
                    self.pause(PACE)
            except StoreError as error:
                self.notes.note("failed", f"{type(error).__name__}: {error}"[:200])
                self.pause(PACE)
            except BaseException:  # noqa: BLE001  # whatever it is, it is noted
                self.notes.note("crash", traceback.format_exc())
                os._exit(1)

    # Producing

    def fresh(self, timeline: str) -> tuple[str, Record]:
        self._made += 1
        key = f"{self.name}.{self._made}"
        id = f"{timeline}/{key}"
        if family_of(timeline) == "gone" and self.chance(0.3):
            shared = f"shared{self.random.randrange(5)}"
            id, key = f"{timeline}/{shared}#{key}", shared
        value = {"id": id, "padding": "x" * self.random.choice([0, 0, 0, 0, 2000])}
        return timeline, Record(key, value, wall_clock())

    def produce(self) -> None:
        """Add records one by one and in batches, from several threads; deliver what becomes ready."""
        lock = threading.Lock()
        with self.open() as digests, self.open(SMALL) as small:

            def add() -> Iterator[None]:
                while True:
                    with lock:
                        batch = [self.fresh(self.random.choice(TIMELINES)) for _ in range(self._size())]
                    limited = [each for each in batch if family_of(each[0]) == "small"]
                    for engine, part in ((small, limited), (digests, [each for each in batch if each not in limited])):
                        self._add(engine, part, within=0.01 if self.chance(0.05) else None)
                    yield

            self.in_threads(add, add, add)

    def _size(self) -> int:
        return self.random.choice([1, 1, 1, 1, 5, 5, 60])

    def _add(self, digests: Digests, batch: list[tuple[str, Record]], *, within: float | None) -> None:
        if not batch:
            return
        ids = ids_of([record for _, record in batch])
        self.notes.note("add", ids)
        try:
            if len(batch) == 1:
                ready = [digests.add(*batch[0], within=within)]
            else:
                ready = digests.add_many(batch, within=within)
        except StoreError as error:
            known = error.answers or [None] * len(ids)
            self.notes.note("ack", [id for id, answer in zip(ids, known, strict=True) if answer is not None])
            raise
        self.notes.note("ack", ids)
        for (timeline, _), is_ready in zip(batch, ready, strict=True):
            if is_ready and self.chance(0.5):
                self.deliver(digests, timeline)

    def produce_in_tasks(self) -> None:
        """Add records from many tasks at once, of which some are cancelled."""
        with asyncio.Runner() as runner:
            runner.run(self._tasks())

    async def _tasks(self) -> None:
        async with AsyncDigests(self.dsn, policy=POLICY, lease=LEASE) as digests:
            timelines = [timeline for timeline in TIMELINES if family_of(timeline) != "small"]
            while True:
                batch = [self.fresh(self.random.choice(timelines)) for _ in range(self.random.randrange(1, 12))]
                self.notes.note("add", ids_of([record for _, record in batch]))
                adds = [asyncio.ensure_future(self._add_in_task(digests, *each)) for each in batch]
                await asyncio.sleep(self.random.uniform(0, 0.004))
                for task in adds:
                    if self.chance(0.03):
                        task.cancel()
                for outcome in await asyncio.gather(*adds, return_exceptions=True):
                    if isinstance(outcome, StoreError):
                        self.notes.note("failed", f"{type(outcome).__name__}: {outcome}"[:200])
                    elif isinstance(outcome, Exception):
                        raise outcome
                await asyncio.sleep(self.random.uniform(0, PACE))

    async def _add_in_task(self, digests: AsyncDigests, timeline: str, record: Record) -> None:
        is_ready = await digests.add(timeline, record)
        self.notes.note("ack", ids_of([record]))
        if is_ready and self.chance(0.5):
            with suppress(InvalidState, StaleLease, ConnectionError):
                async with digests.digest(timeline) as digest:
                    self._send(digest)

    # Delivering

    def work(self) -> None:
        """Run a worker whose handlers fail, hang, and end their process."""
        with self.open() as digests:
            digests.handler("*")(self._handle)
            digests.handler("batch:*", batch=5)(lambda several: [self._outcome(digest) for digest in several])

            @digests.handler("coroutine:*")
            async def coroutine(digest: Digest) -> None:
                await asyncio.sleep(self.random.uniform(0, 0.02))
                self._send(digest)

            @digests.handler("bad:*")
            def bad(digest: Digest) -> None:
                if self.chance(0.7):
                    raise DeliveryFailed("not here", retry=self.chance(0.8), after=0.05)
                self._handle(digest)

            @digests.handler("gone:*")
            def gone(digest: Digest) -> None:
                if self.chance(0.05):
                    self.notes.note("discard", ids_of(digest))
                    raise Discard
                self._handle(digest)

            digests.run(threads=4, poll=POLL)

    def _handle(self, digest: Digest) -> None:
        self.pause(0.01)
        if self.chance(0.03):
            raise self.random.choice([ConnectionError, RetryLater, SystemExit])
        self._send(digest)
        if self.chance(0.002):
            self._pause.wait(2 * LEASE)  # the lease is renewed meanwhile

    def _outcome(self, digest: Digest) -> Exception | None:
        try:
            self._send(digest)
        except ConnectionError as error:
            return error
        return None

    def _send(self, digest: Digest) -> None:
        """Note the digest as sent, and now and then end the process just after, as a kill would."""
        if self.chance(0.03):
            raise ConnectionError("nobody is there")
        if self.chance(0.0003):
            self.notes.note("gone", "before sending")
            os._exit(0)
        if digest:
            self.notes.note("sent", digest.idempotency_key, ids_of(digest))
        if self.chance(0.0003):
            self.notes.note("gone", "after sending")
            os._exit(0)

    def deliver(self, digests: Digests, timeline: str) -> None:
        """Deliver by `digest()`."""
        with suppress(InvalidState, StaleLease, ConnectionError, SystemExit), digests.digest(timeline) as digest:
            self.pause(0.01)
            self._send(digest)
            if self.chance(0.01):
                raise SystemExit  # it may have gone out or not
            if self.chance(0.002):
                self._pause.wait(2 * LEASE)

    def dispatch(self) -> None:
        """Schedule and deliver, as a program with a task queue of its own; some dispatches get lost."""
        with self.open() as digests:

            def tick() -> Iterator[None]:
                while True:
                    if self.chance(0.1):
                        digests.maintenance(wall_clock() - LEASE)
                    for entry in digests.schedule(page=5):
                        if self.chance(0.9):
                            self.deliver(digests, entry.key)
                        if self.chance(0.2):
                            break
                    yield

            self.in_threads(tick, tick)

    # Operating

    def operate(self) -> None:
        """Flush, pause, resume, retract, delete, replay, discard, and call every query."""
        with self.open() as digests:
            acts = [self._flush, self._pause_and_resume, self._retract, self._delete, self._settle_letters, self._look]

            def act() -> Iterator[None]:
                while True:
                    self.random.choice(acts)(digests)
                    yield

            self.in_threads(act, act)

    def _gone(self) -> str:
        return f"gone:{self.random.randrange(FAMILIES['gone'])}"

    def _flush(self, digests: Digests) -> None:
        digests.flush(self.random.choice(TIMELINES))

    def _pause_and_resume(self, digests: Digests) -> None:
        timeline = self.random.choice(TIMELINES)
        digests.pause(timeline)
        self.pause(0.3)
        digests.resume(timeline)

    def _retract(self, digests: Digests) -> None:
        timeline = self._gone()
        for record in digests.peek(timeline)[:3]:
            self.notes.note("remove", timeline, record.key)
            digests.retract(timeline, record.key)
            self.notes.note("removed", timeline, record.key)

    def _delete(self, digests: Digests) -> None:
        if self.chance(0.3):
            timeline = self._gone()
            self.notes.note("remove", timeline)
            digests.delete(timeline)
            self.notes.note("removed", timeline)

    def _settle_letters(self, digests: Digests) -> None:
        for letter in digests.dead_letters(limit=20):
            if family_of(letter.timeline) == "gone" and self.chance(0.5):
                self.notes.note("discard", ids_of(digests.dead_records(letter.id)))
                digests.discard(letter.id)
            else:
                with suppress(Busy):
                    digests.replay(letter.id)

    def _look(self, digests: Digests) -> None:
        timeline = self.random.choice(TIMELINES)
        if not digests.ledger().balanced:
            self.notes.note("crash", f"the ledger does not balance: {digests.ledger()}")
        digests.explain(timeline)
        digests.timelines(limit=10)
        digests.backlog()
        for entry in digests.history(timeline, limit=1):
            for key in entry.keys[:1]:
                digests.trace(timeline, key)


ROLES: dict[str, Callable[[Actor], None]] = {
    "produce": Actor.produce,
    "tasks": Actor.produce_in_tasks,
    "work": Actor.work,
    "dispatch": Actor.dispatch,
    "operate": Actor.operate,
}


def play(role: str, dsn: str, path: Path, *, name: str, seed: str) -> None:
    """Run one process of the storm. Only a worker ends by itself, on SIGTERM."""
    notes = Notes(path)
    _end_with_parent()
    try:
        ROLES[role](Actor(dsn, notes, name=name, seed=seed))
    except BaseException:
        notes.note("crash", traceback.format_exc())
        raise


def _end_with_parent() -> None:
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            threading.Event().wait(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
