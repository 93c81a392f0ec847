"""Adds of one event loop: those that come together share a store call."""

import asyncio
from collections.abc import Sequence

import pytest

from digestif import AsyncDigests, aio
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
    monkeypatch.setattr(aio, "_GATHERING", 60.0)  # however busy the machine is

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
