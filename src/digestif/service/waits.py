"""Requests that wait for the store. Where it is away, they need not wait for as long as the store itself tries."""

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from digestif.errors import Overloaded, StoreUnavailable
from digestif.service.service import Service
from digestif.stores.base import Store
from digestif.stores.documents import Bounds, Document
from digestif.threads import DaemonThreads

T = TypeVar("T")

READY_WITHIN = 1.5  # seconds for the store to take the write of a probe
PROBED_AGAIN = 1.0  # seconds from one write to the next, however many ask
GIVEN_UP_AFTER = 2.0  # seconds that a request has waited; the store is probed before, so that the answer is known then
LOOKED_EVERY = 0.25  # seconds
COLLECTION = "probes"
BOUNDS = Bounds(entries=1)


class Probe:
    """Tries whether the store takes a write: one call at a time, in a thread of its own.

    A store that hangs holds up no other thread, and threads that it holds up do not keep the probe from its answer.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._thread = DaemonThreads(1, "digestif-probe")
        self._call: asyncio.Task[None] | None = None
        self._began = 0.0
        self._has_failed = False  # the last call that has ended

    @property
    def is_away(self) -> bool:
        """True if the last write failed, or one that is under way takes too long."""
        if self._call is None or self._call.done():
            return self._has_failed
        return self._has_failed or self._left() <= 0

    async def ask(self) -> None:
        """Return when the store takes a write; StoreUnavailable if it does not within READY_WITHIN seconds."""
        call = self.begin()
        await asyncio.wait([call], timeout=max(0.0, self._left()))
        if not call.done():
            raise StoreUnavailable("the store does not answer")
        call.result()

    def begin(self) -> "asyncio.Task[None]":
        """Begin a call, unless one is under way or began less than a second ago: that one answers all who ask."""
        now = asyncio.get_running_loop().time()
        if self._call is None or (self._call.done() and now >= self._began + PROBED_AGAIN):
            self._began = now
            self._call = asyncio.create_task(self._thread.run(partial(_write, self._service.digests.store)))
            self._call.add_done_callback(self._note)
        return self._call

    def _left(self) -> float:
        """The seconds that are left for the latest call."""
        return self._began + READY_WITHIN - asyncio.get_running_loop().time()

    def _note(self, call: "asyncio.Task[None]") -> None:
        self._has_failed = call.cancelled() or call.exception() is not None


def _write(store: Store) -> None:
    """Make a small write. A store that refuses to grow answers, and what it refuses is told to those who ask for it."""
    store.reach()
    with suppress(Overloaded):
        store.keep(COLLECTION, Document("write", b""), bounds=BOUNDS, replace=True, now=None)


_under_way: set[asyncio.Task[Any]] = set()


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that goes on if its request is given up."""
    task = asyncio.create_task(work)
    _under_way.add(task)
    task.add_done_callback(_ended)
    return await asyncio.shield(task)


def _ended(task: asyncio.Task[Any]) -> None:
    _under_way.discard(task)
    if not task.cancelled():
        task.exception()  # a request that was given up does not ask for it


class Waits:
    """Ends requests that have waited for a while, if the store does not answer a probe.

    A store that is slow answers it, so its requests take the time that they need. What was asked of the store may be
    done after the request has ended.
    """

    def __init__(self, service: Service) -> None:
        self._probe = service.part(Probe)
        self._since: dict[asyncio.Task[Any], float] = {}
        self._ended: set[asyncio.Task[Any]] = set()
        self._looking: asyncio.Task[None] | None = None

    async def until(self, work: Awaitable[T]) -> T:
        """The result of the work of a request; StoreUnavailable if the store is away."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._since[task] = loop.time()
        if self._looking is None:
            self._looking = loop.create_task(self._look())
        try:
            return await work
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
            raise StoreUnavailable("the store does not answer") from None
        finally:
            del self._since[task]
            self._ended.discard(task)

    async def _look(self) -> None:
        """Look as long as requests come."""
        try:
            while self._since:
                await asyncio.sleep(LOOKED_EVERY)
                if self._waiting(GIVEN_UP_AFTER - READY_WITHIN):
                    self._probe.begin()
                if self._probe.is_away:
                    for task in self._waiting(GIVEN_UP_AFTER):
                        self._ended.add(task)
                        task.cancel()
        finally:
            self._looking = None

    def _waiting(self, seconds: float) -> list[asyncio.Task[Any]]:
        """The requests that have waited for so many seconds."""
        before = asyncio.get_running_loop().time() - seconds
        return [task for task, since in self._since.items() if since <= before and task not in self._ended]
