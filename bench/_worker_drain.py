"""Subject: worker processes that empty a store of due timelines, with handlers that do nothing."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier, Event
from time import perf_counter
from typing import Any, NamedTuple

from bench._redis_adds import LongKeys
from bench._workload import timeline_key
from digestif import Delivered, Digest, Digests, Policy, Worker
from digestif.clock import wall_clock

RECORDS = 10  # in each digest
PAGE = 2_000  # timelines that are filled at once
POLICY = Policy(minimum_delay=3600, maximum_delay=3600)  # nothing is due twice
LONGEST = 300  # seconds


class Load(NamedTuple):
    """What to deliver, and by how many processes."""

    dsn: str
    namespace: str
    timelines: int
    processes: int
    is_async: bool = True  # coroutines, or functions in threads


def fill(load: Load) -> None:
    """Add ten records to each timeline; the first makes it ready."""
    source = LongKeys(load.timelines)
    with Digests(load.dsn, policy=POLICY, namespace=load.namespace) as digests:
        for start in range(0, load.timelines, PAGE):
            names = [timeline_key(number) for number in range(start, min(start + PAGE, load.timelines))]
            for _ in range(RECORDS):
                now = wall_clock()
                digests.add_many([(name, source.record(now)) for name in names])


def drain(load: Load) -> float:
    """Deliver every timeline, and return the seconds; fails unless each is delivered exactly once."""
    context = get_context("spawn")
    counted, done = context.Value("i", 0), context.Event()
    together = context.Barrier(load.processes + 1)
    workers = [
        context.Process(target=_work, args=(load, together, counted, done), daemon=True) for _ in range(load.processes)
    ]
    for worker in workers:
        worker.start()
    together.wait(LONGEST)
    began = perf_counter()
    finished = done.wait(LONGEST)
    seconds = perf_counter() - began
    for worker in workers:
        worker.join(LONGEST)
    with Digests(load.dsn, policy=POLICY, namespace=load.namespace) as digests:
        delivered, verified = digests.ledger().delivered, digests.verify()
    if not finished or delivered != load.timelines * RECORDS or not verified:
        raise RuntimeError(f"{delivered:,} of {load.timelines * RECORDS:,} records were delivered; {verified.problems}")
    return seconds


def _work(load: Load, together: Barrier, counted: Any, done: Event) -> None:
    with Digests(load.dsn, policy=POLICY, namespace=load.namespace) as digests, suppress(KeyboardInterrupt):
        digests.handler("*")(_async_nothing if load.is_async else _nothing)
        worker = Worker(digests, concurrency=200, threads=16, poll=0.1)
        digests.subscribe(_counting(counted, load.timelines, done))
        asyncio.run(_serve(worker, together, done))


async def _serve(worker: Worker, together: Barrier, done: Event) -> None:
    loop = asyncio.get_running_loop()
    together.wait(LONGEST)
    serving = asyncio.create_task(worker.serve())
    await loop.run_in_executor(None, done.wait, LONGEST)
    worker.stop()
    await serving


def _counting(counted: Any, wanted: int, done: Event) -> Callable[[object], None]:
    def listen(event: object) -> None:
        if isinstance(event, Delivered):
            with counted.get_lock():
                counted.value += 1
                if counted.value == wanted:
                    done.set()

    return listen


def _nothing(digest: Digest) -> None:
    assert len(digest) == RECORDS


async def _async_nothing(digest: Digest) -> None:
    assert len(digest) == RECORDS
