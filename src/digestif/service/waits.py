"""Requests that wait for the store. Where it is away, they need not wait for as long as the store itself tries."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from digestif.errors import StoreUnavailable
from digestif.service.service import Service

T = TypeVar("T")

READY_WITHIN = 1.0  # seconds for the store to answer a probe
PROBED_AFTER = 1.0  # seconds that a request has waited
LOOKED_EVERY = 0.5  # seconds


class Probe:
    """Asks whether the store answers, one call at a time: a store that hangs must not hold up more than one thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._call: asyncio.Future[None] | None = None

    async def ask(self) -> None:
        """Return when the store answers. Those who ask meanwhile wait for the same call."""
        if self._call is None or self._call.done():  # not in a thread of the engine: calls may hold up all of them
            self._call = asyncio.ensure_future(asyncio.to_thread(self._service.digests.store.reach))
        async with asyncio.timeout(READY_WITHIN):
            await asyncio.shield(self._call)


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
                if self._waiting() and await self._is_away():
                    for task in self._waiting():
                        self._ended.add(task)
                        task.cancel()
        finally:
            self._looking = None

    def _waiting(self) -> list[asyncio.Task[Any]]:
        """The requests that have waited for a while."""
        before = asyncio.get_running_loop().time() - PROBED_AFTER
        return [task for task, since in self._since.items() if since <= before and task not in self._ended]

    async def _is_away(self) -> bool:
        try:
            await self._probe.ask()
        except Exception:  # noqa: BLE001  # whatever it is, the store does not answer
            return True
        return False
