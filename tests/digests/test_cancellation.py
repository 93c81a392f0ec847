"""Cancelled awaits leave nothing half done."""

import asyncio
import gc
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from digestif import AsyncDigests, Delivered, Digest, Ended, Event, Policy, Returned, State, StoreUnavailable, Unsettled
from digestif.core.times import Millis
from digestif.stores.base import Completion, Lease, Release
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


class Held(MemoryStore):
    """Blocks in `complete` and `release` until `may_end` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.ending, self.may_end = threading.Event(), threading.Event()

    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        self._wait()
        return super().complete(completions, now=now)

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        self._wait()
        return super().release(releases, now=now)

    def _wait(self) -> None:
        self.ending.set()
        assert self.may_end.wait(30)


class Hanging:
    """A handler that delivers nothing until it is cancelled."""

    def __init__(self) -> None:
        self.inside = asyncio.Event()

    async def __call__(self, digest: Digest) -> None:
        self.inside.set()
        await asyncio.Event().wait()


async def cancel_twice(digests: AsyncDigests, store: Held, timeline: str) -> None:
    """Cancel a delivery in its handler, and again while its digest is given back."""
    handler = Hanging()
    digests.handler(timeline)(handler)
    await digests.add(timeline, 1)
    delivering = asyncio.create_task(digests.deliver(timeline))
    await handler.inside.wait()
    delivering.cancel()
    assert await asyncio.to_thread(store.ending.wait, 30)
    delivering.cancel()
    await asyncio.wait([delivering])
    assert delivering.cancelled()
    store.may_end.set()


def test_a_delivery_that_is_cancelled_twice_costs_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    store = Held()

    async def cancel() -> None:
        async with AsyncDigests(store) as digests:
            await cancel_twice(digests, store, "t")
            together = threading.Barrier(digests._threads._max_workers)
            await asyncio.gather(*[digests.in_thread(lambda: together.wait(10)) for _ in range(together.parties)])

    asyncio.run(cancel())

    assert store.inspect("t").state is State.READY
    assert store.ledger().open == 1
    assert caplog.get_records("call") == []


def test_a_notification_that_is_cancelled_while_its_digest_ends_opens_no_other_digest() -> None:
    """The record that arrived during the delivery waits: a timeline that is ready is not scheduled."""
    store, ends = Held(), list[Event]()

    async def cancel() -> None:
        async with AsyncDigests(store, policy=Policy(minimum_delay=0, increment_delay=0, maximum_delay=0)) as digests:
            digests.sync.subscribe(lambda event: ends.append(event) if isinstance(event, Ended) else None)

            @digests.handler("t")
            async def add_another(digest: Digest) -> None:
                await digests.add("t", "late")

            notifying = asyncio.create_task(digests.notify("t", "early"))
            assert await asyncio.to_thread(store.ending.wait, 30)
            notifying.cancel()
            await asyncio.wait([notifying])
            store.may_end.set()

    asyncio.run(cancel())

    assert [type(end) for end in ends] == [Delivered]
    assert store.inspect("t").state is State.WAITING
    assert (store.ledger().pending, store.ledger().open) == (1, 0)


def test_a_cancelled_delivery_leaves_no_records_to_the_garbage_collector() -> None:
    async def cancel() -> None:
        async with AsyncDigests("memory://") as digests:
            handler = Hanging()
            digests.handler("forgotten")(handler)
            await digests.add("forgotten", 1)
            delivering = asyncio.create_task(digests.deliver("forgotten"))
            await handler.inside.wait()
            delivering.cancel()
            await asyncio.wait([delivering])
            threads = digests._threads._threads
        for thread in threads:
            thread.join(10)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(cancel())
        assert [each for each in gc.get_objects() if isinstance(each, Digest) and each.timeline == "forgotten"] == []
    finally:
        gc.enable()
