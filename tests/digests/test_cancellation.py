"""Cancelled awaits leave nothing half done."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from digestif import AsyncDigests, Ended, Event, Returned, State, StoreUnavailable, Unsettled
from digestif.core.times import Millis
from digestif.stores.base import Lease, Release
from digestif.stores.memory import MemoryStore


class Slow(MemoryStore):
    """Opens only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.opening = threading.Event()
        self.may_open = threading.Event()
        self.released = threading.Event()

    def open(
        self,
        timeline: str,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        alone: bool = False,
        asks: bool = False,
    ) -> Lease:
        self.opening.set()
        assert self.may_open.wait(30)
        given = super().open(timeline, token=token, lease=lease, now=now, alone=alone, asks=asks)
        self.opened = given.digest_id
        return given

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        try:
            return super().release(releases, now=now)
        finally:
            self.released.set()


def test_a_digest_that_is_cancelled_while_it_is_opened_is_given_back() -> None:
    store = Slow()

    async def deliver(digests: AsyncDigests) -> None:
        async with digests.digest("t"):
            raise AssertionError("it was cancelled before")

    async def cancel() -> None:
        async with AsyncDigests(store) as digests:
            await digests.add("t", 1)
            task = asyncio.create_task(deliver(digests))
            await asyncio.to_thread(store.opening.wait, 30)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            store.may_open.set()
            assert await asyncio.to_thread(store.released.wait, 30)

    asyncio.run(cancel())

    assert store.inspect("t").state is State.READY
    assert store.ledger().open == 1


def test_a_delivery_that_is_cancelled_while_it_is_opened_ends_although_its_loop_has_ended() -> None:
    store, told, ended = Slow(), list[Event](), threading.Event()
    digests = AsyncDigests(store)
    digests.handler("t")(print)
    digests.subscribe(told.append)
    digests.subscribe(lambda event: ended.set() if isinstance(event, Ended) else None)

    async def leave() -> None:
        await digests.add("t", 1)
        delivering = asyncio.create_task(digests.deliver("t"))
        await asyncio.to_thread(store.opening.wait, 30)
        assert not delivering.done()

    asyncio.run(leave())
    store.may_open.set()

    assert ended.wait(30)
    [end] = [event for event in told if isinstance(event, Ended)]
    assert end == Returned(timeline="t", digest_id=store.opened, attempt=1, begun=False)
    assert store.inspect("t").state is State.READY


def test_an_opening_that_is_cancelled_holds_up_no_thread_but_its_own() -> None:
    store, threads = Slow(), 8
    opening = range(threads - 1)  # one thread is left for other calls

    async def deliver(digests: AsyncDigests, number: int) -> None:
        async with asyncio.timeout(0.05), digests.digest(f"t{number}"):
            raise AssertionError("it was cancelled before")

    async def ask() -> None:
        async with AsyncDigests(store) as digests:
            assert digests._threads._max_workers == threads
            await digests.add_many([(f"t{number}", number) for number in opening])
            cancelled = await asyncio.gather(*[deliver(digests, number) for number in opening], return_exceptions=True)
            assert [type(error) for error in cancelled] == [TimeoutError] * len(opening)
            try:
                async with asyncio.timeout(10):  # sooner than `open` gives up
                    assert (await digests.ledger()).accepted == len(opening)
            finally:
                store.may_open.set()

    asyncio.run(ask())

    assert [store.inspect(f"t{number}").state for number in opening] == [State.READY] * len(opening)


def test_a_block_that_is_cancelled_gives_its_digest_back() -> None:
    store = MemoryStore()

    async def deliver(digests: AsyncDigests, inside: asyncio.Event) -> None:
        async with digests.digest("t"):
            inside.set()
            await asyncio.Event().wait()

    async def cancel() -> None:
        async with AsyncDigests(store) as digests:
            await digests.add("t", 1)
            inside = asyncio.Event()
            task = asyncio.create_task(deliver(digests, inside))
            await inside.wait()
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(cancel())

    assert store.inspect("t").state is State.READY


@pytest.mark.parametrize("fails", [False, True])
def test_a_block_that_ends_after_its_store_was_closed_tells_that_it_could_not_be_ended(
    tmp_path: Path, fails: bool
) -> None:
    told: list[Event] = []

    async def outlive() -> None:
        digests = AsyncDigests(f"sqlite:///{tmp_path}/d.db")
        digests.subscribe(told.append)
        await digests.add("t", 1)
        async with digests.digest("t"):
            await digests.close()
            if fails:
                raise LookupError

    with pytest.raises(LookupError if fails else StoreUnavailable):
        asyncio.run(outlive())

    [end] = [event for event in told if isinstance(event, Ended)]
    assert isinstance(end, Unsettled)
