"""One AsyncDigests serves several event loops, each in a thread of its own."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine

import pytest

from digestif import AsyncDigests, Digest, Ended, Event, Returned, State
from digestif.stores.memory import MemoryStore


def test_two_loops_add_at_the_same_time() -> None:
    digests = AsyncDigests(MemoryStore())
    start = threading.Barrier(2)

    async def add_many(name: str) -> None:
        await asyncio.to_thread(start.wait, 30)
        for _ in range(20):
            await asyncio.gather(*(digests.add(name, n) for n in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(add_many(name),)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert digests.store.ledger().accepted == 800
    asyncio.run(digests.close())


async def deliver(digests: AsyncDigests, begun: asyncio.Event) -> None:
    @digests.handler("t")
    async def hang(_: Digest) -> None:
        begun.set()
        await asyncio.Event().wait()

    await digests.deliver("t")


async def hold_block(digests: AsyncDigests, begun: asyncio.Event) -> None:
    async with digests.digest("t"):
        begun.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("work", [deliver, hold_block])
def test_a_delivery_whose_event_loop_is_closed_gives_its_digest_back(
    work: Callable[[AsyncDigests, asyncio.Event], Coroutine[None, None, None]],
) -> None:
    """The garbage collector finds the delivery and the coroutine that drives it together, and closes either first."""
    digests = AsyncDigests("memory://")
    ends, ended = list[Event](), threading.Event()
    digests.subscribe(lambda event: ends.append(event) if isinstance(event, Ended) else None)
    digests.subscribe(lambda event: ended.set() if isinstance(event, Ended) else None)
    tasks = list[asyncio.Task[None]]()

    async def begin() -> None:
        await digests.add("t", 1)
        begun = asyncio.Event()
        tasks.append(asyncio.create_task(work(digests, begun)))
        await begun.wait()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()
    tasks.clear()
    del loop
    gc.collect()

    assert ended.wait(30)
    assert [type(end) for end in ends] == [Returned]
    assert digests.store.inspect("t").state is State.READY
    asyncio.run(digests.close())
