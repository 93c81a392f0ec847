"""Adds of one event loop: those that come together share a store call."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from digestif import AsyncDigests, shared_adds
from digestif.core.times import Millis
from digestif.stores.base import Accepted, Arrival
from digestif.stores.memory import MemoryStore


class Counting(MemoryStore):
    """A store that notes how many records each call brings."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        self.calls.append(len(batch))
        return super().add(batch, now=now)


@pytest.fixture
def store() -> Counting:
    return Counting()


def test_adds_that_come_turn_by_turn_share_a_store_call(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_adds, "GATHERING", 60.0)  # however busy the machine is

    async def late(digests: AsyncDigests, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await digests.add("t", turns)

    async def run() -> None:
        async with AsyncDigests(store) as digests:
            await asyncio.gather(*[late(digests, turns) for turns in range(40)])

    asyncio.run(run())

    assert store.calls == [40]


def test_a_single_add_waits_for_no_other(store: Counting) -> None:
    async def run() -> None:
        async with AsyncDigests(store) as digests:
            for number in range(5):
                await digests.add("t", number)

    asyncio.run(run())

    assert store.calls == [1] * 5


class Stuck(Counting):
    """A store of several servers, of which that of one timeline does not answer until it is freed."""

    def __init__(self, *, is_divided: bool) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.free = threading.Event()
        self.is_known = False  # that it does not answer
        self._is_divided = is_divided

    @property
    def is_divided(self) -> bool:
        return self._is_divided

    def is_silent(self, timeline: str) -> bool:
        return self.is_known and timeline == "stuck"

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        if any(arrival.timeline == "stuck" for arrival in batch):
            self.reached.set()
            assert self.free.wait(30)
        return super().add(batch, now=now)


def test_adds_do_not_wait_for_a_call_that_takes_long_because_of_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_adds, "LONG", 0.05)
    store = Stuck(is_divided=True)

    async def run() -> None:
        async with AsyncDigests(store) as digests:
            stuck = asyncio.create_task(digests.add("stuck", 1))
            await asyncio.to_thread(store.reached.wait, 30)
            for number in range(5):
                await digests.add("t", number)

            assert not stuck.done()
            store.free.set()

    asyncio.run(run())  # to close waits for the first add

    assert store.calls == [1] * 6


def test_adds_to_a_server_that_is_known_to_be_silent_go_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_adds, "LONG", 60.0)
    store = Stuck(is_divided=True)
    store.is_known = True

    async def run() -> None:
        async with AsyncDigests(store) as digests:
            stuck = asyncio.gather(*[digests.add("stuck", number) for number in range(3)])
            await asyncio.gather(*[digests.add("t", number) for number in range(3)])

            assert not stuck.done()
            store.free.set()
            await stuck

    asyncio.run(run())

    assert sum(store.calls) == 6


def test_a_store_of_one_server_gets_one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_adds, "LONG", 0.01)
    store = Stuck(is_divided=False)

    async def run() -> None:
        async with AsyncDigests(store) as digests:
            adds = [asyncio.create_task(digests.add("stuck", 0))]
            for number in range(3):
                await asyncio.sleep(0.02)
                adds.append(asyncio.create_task(digests.add("t", number)))
            store.free.set()
            await asyncio.gather(*adds)

    asyncio.run(run())

    assert store.calls == [1, 3]
