"""Roles of a storm that add records, from threads and from tasks."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from digestif import AsyncDigests, Digests, InvalidState, Record, StaleLease, StoreError
from digestif.clock import wall_clock
from torture._storm.actor import PACE, ids_of
from torture._storm.deliverers import Deliverer
from torture._storm.scene import POLICY, TIMELINES, family_of

SMALL = replace(POLICY, capacity=5)  # for those who add to timelines of that name


class Producer(Deliverer):
    """Adds records one by one and in batches, from several threads; delivers timelines that become ready."""

    made = 0

    def play(self) -> None:
        lock = threading.Lock()
        with self.open(self.scene.produce) as digests, self.open(self.scene.produce, SMALL) as small:

            def add() -> Iterator[None]:
                while True:
                    with lock:
                        batch = [self.fresh(self.random.choice(TIMELINES)) for _ in range(self._size())]
                    limited = [each for each in batch if family_of(each[0]) == "small"]
                    for engine, part in ((small, limited), (digests, [each for each in batch if each not in limited])):
                        self._add(engine, part, within=0.01 if self.chance(0.05) else None)
                    yield

            self.in_threads(add, add, add)

    def fresh(self, timeline: str) -> tuple[str, Record]:
        self.made += 1
        key = f"{self.name}.{self.made}"
        id = f"{timeline}/{key}"
        if family_of(timeline) == "gone" and self.chance(0.3):
            shared = f"shared{self.random.randrange(5)}"
            id, key = f"{timeline}/{shared}#{key}", shared
        value = {"id": id, "padding": "x" * self.random.choice([0, 0, 0, 0, 2000])}
        return timeline, Record(key, value, wall_clock())

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


class TaskProducer(Producer):
    """Adds records from many tasks side by side, of which some are cancelled."""

    def play(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._produce())

    async def _produce(self) -> None:
        async with AsyncDigests(**self.options(self.scene.produce)) as digests:
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
                        self.note_failure(outcome)
                    elif isinstance(outcome, Exception):
                        raise outcome
                await asyncio.sleep(self.random.uniform(0, PACE))

    async def _add_in_task(self, digests: AsyncDigests, timeline: str, record: Record) -> None:
        is_ready = await digests.add(timeline, record)
        self.notes.note("ack", ids_of([record]))
        if is_ready and self.chance(0.5):
            with suppress(InvalidState, StaleLease, ConnectionError):
                async with digests.digest(timeline) as digest:
                    self.send(digest)
