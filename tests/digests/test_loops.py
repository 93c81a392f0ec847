"""One AsyncDigests serves several event loops, each in a thread of its own."""

import asyncio
import threading

from digestif import AsyncDigests
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
