"""Requests that wait for the store. Where it is away, they need not wait for as long as the store itself tries."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

from digestif.errors import Overloaded, StoreError, StoreUnavailable
from digestif.service.service import Service
from digestif.stores.base import Store
from digestif.stores.documents import Bounds, Document
from digestif.threads import DaemonThreads

T = TypeVar("T")

READY_WITHIN = 1.5  # seconds for the store to take the write of a probe
PROBED_AGAIN = 1.0  # seconds from one write to the next, however many ask
GIVEN_UP_AFTER = 2.0  # seconds that a request has waited; the store is probed before, so that the answer is known then
LOOKED_EVERY = 0.25  # seconds
HELD_UP = 0.25  # seconds by which the event loop is late: what it was busy with is no silence of the store
COLLECTION = "probes"
BOUNDS = Bounds(entries=1)
READING = ("GET", "HEAD")  # methods

logger = logging.getLogger(__name__)


class Probe:
    """Tries whether the store takes a write: one call at a time, in a separate thread.

    A store that hangs holds up no other thread, and threads that it holds up do not keep the probe from its answer.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._thread = DaemonThreads(1, "digestif-probe")
        self._call: asyncio.Task[StoreError | None] | None = None
        self._deadline: asyncio.Task[None] | None = None  # ends when the call has ended or is late
        self._began = 0.0
        self._has_failed = self._was_silent = False  # the last call that has ended

    @property
    def is_away(self) -> bool:
        """True if the last write failed, or one that is under way takes too long."""
        return self._has_failed or self._is_late

    @property
    def is_silent(self) -> bool:
        """The same, but False for a store that answers by refusing to be written: it can be read."""
        return self._was_silent or self._is_late

    @property
    def _is_late(self) -> bool:
        return self._call is not None and not self._call.done() and self._deadline is not None and self._deadline.done()

    async def ask(self) -> None:
        """Return when the store takes a write; StoreUnavailable if it does not within READY_WITHIN seconds."""
        call = self.begin()
        assert self._deadline is not None
        await asyncio.wait([call, self._deadline], return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            raise StoreUnavailable("the store does not answer")
        if refusal := call.result():
            raise refusal

    def begin(self) -> "asyncio.Task[StoreError | None]":
        """Begin a call, unless one is under way or began less than a second ago: that one answers all who ask."""
        now = asyncio.get_running_loop().time()
        if self._call is None or (self._call.done() and now >= self._began + PROBED_AGAIN):
            self._began = now
            self._call = asyncio.create_task(self._thread.run(partial(_write, self._service.digests.store)))
            self._deadline = asyncio.create_task(_wait_for(self._call))
            self._call.add_done_callback(self._note)
        return self._call

    def _note(self, call: "asyncio.Task[StoreError | None]") -> None:
        if call.cancelled():
            self._has_failed = self._was_silent = True
            return
        error = call.exception()
        failure = error or call.result()
        was_late = self._deadline is not None and self._deadline.done()
        if failure is not None and not self._has_failed:
            logger.warning("the store takes no writes: %s", failure)
        self._has_failed, self._was_silent = failure is not None, error is not None or was_late


async def _wait_for(call: "asyncio.Task[Any]") -> None:
    """Wait for a call, for at most READY_WITHIN seconds in which the event loop runs.

    While the loop is kept, the answer can't be noticed, and may not even be made if the interpreter is kept as well.
    """
    left, clock = READY_WITHIN, asyncio.get_running_loop().time
    while left > 0 and not call.done():
        began, step = clock(), min(left, LOOKED_EVERY)
        await asyncio.wait([call], timeout=step)
        left -= _counted(clock() - began, step)


def _counted(took: float, step: float) -> float:
    """Return the part of a pause that counts as waiting for the store: none of one in which the loop was kept."""
    return took if took < step + HELD_UP else 0.0


def _write(store: Store) -> StoreError | None:
    """Make a small write, and return why the store refused it. One that refuses to grow takes others."""
    store.reach()
    try:
        store.keep(COLLECTION, Document("write", b""), bounds=BOUNDS, replace=True, now=None)
    except Overloaded:
        return None
    except StoreError as refusal:
        return refusal
    return None


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


class Wait(NamedTuple):
    """Since when a request waits, by the clock of its `Waits`, and whether it only reads."""

    since: float
    reads: bool


class Waits:
    """Ends requests that have waited for a while, if the store does not answer a probe.

    A store that is slow answers it, so its requests take the time that they need. A request that only
    reads is not ended because the store refuses to be written. What was asked of the store may be done after the
    request has ended.
    """

    def __init__(self, service: Service) -> None:
        self._probe = service.part(Probe)
        self._waits: dict[asyncio.Task[Any], Wait] = {}
        self._ended: set[asyncio.Task[Any]] = set()
        self._time = 0.0  # seconds of looks in which the event loop was not kept
        self._looking: asyncio.Task[None] | None = None

    async def until(self, work: Awaitable[T], *, method: str) -> T:
        """The result of the work of a request; StoreUnavailable if the store is away."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._waits[task] = Wait(self._time + LOOKED_EVERY, method in READING)  # the next look may come soon
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
            del self._waits[task]
            self._ended.discard(task)

    async def _look(self) -> None:
        """Look as long as requests come."""
        clock = asyncio.get_running_loop().time
        try:
            while self._waits:
                began = clock()
                await asyncio.sleep(LOOKED_EVERY)
                self._time += _counted(clock() - began, LOOKED_EVERY)
                if self._waiting(GIVEN_UP_AFTER - READY_WITHIN):
                    self._probe.begin()
                for task in self._waiting(GIVEN_UP_AFTER):
                    if self._probe.is_silent if self._waits[task].reads else self._probe.is_away:
                        self._ended.add(task)
                        task.cancel()
        finally:
            self._looking = None

    def _waiting(self, seconds: float) -> list[asyncio.Task[Any]]:
        """The requests that have waited for this many seconds."""
        before = self._time - seconds
        return [task for task, wait in self._waits.items() if wait.since <= before and task not in self._ended]
