"""The worker of a process whose settings can change: a new one begins before the old one has ended."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from digestif.errors import StoreError
from digestif.service.settings import Settings
from digestif.worker.worker import Worker

if TYPE_CHECKING:
    from digestif.aio import AsyncDigests

logger = logging.getLogger("digestif.service")

REPLAN_AGAIN = 5.0  # seconds, if the store did not answer


class Delivery:
    """Delivers with one engine after the other. Without routes, or if it does not work, it only plans again."""

    def __init__(
        self,
        *,
        works: bool,
        on_failure: Callable[[BaseException], None],
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._works = works
        self._on_failure = on_failure
        self._options = {"start_timeout": None, **options}  # of `Worker`, before those of the settings
        self._worker: Worker | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._current: asyncio.Task[None] | None = None

    def worker_of(self, settings: Settings, digests: "AsyncDigests") -> Worker | None:
        """The worker for `begin`; None if nothing is to be delivered. ConfigError if it refuses its options."""
        if not self._works or not settings.routes:
            return None
        return Worker(digests, **{**settings.worker.options(), **self._options})

    def begin(self, digests: "AsyncDigests", worker: Worker | None) -> None:
        """Deliver with this engine from now on. The worker before ends in order: what it began, it finishes."""
        before, self._worker = self._worker, worker
        coroutine = _replanned(digests) if worker is None else worker.serve()
        if before is None and self._current is not None:
            self._current.cancel()  # it plans by policies that are out of date
        self._current = asyncio.create_task(coroutine)
        self._serving.add(self._current)
        self._current.add_done_callback(self._ended)
        if before is not None:
            before.stop()

    def stop(self) -> None:
        """Claim nothing more."""
        if self._worker is not None:
            self._worker.stop()
        elif self._current is not None:
            self._current.cancel()

    async def ended(self, task: "asyncio.Task[None] | None" = None) -> None:
        """Wait until all workers, or the given one, have ended."""
        while waiting := self._serving if task is None else {task} & self._serving:
            await asyncio.wait(set(waiting))

    def held(self) -> int:
        """Bytes of the records that the worker holds, as decoded values."""
        return 0 if self._worker is None else self._worker.held

    @property
    def current(self) -> "asyncio.Task[None] | None":
        return self._current

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._serving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)


async def _replanned(digests: "AsyncDigests") -> None:
    """Plan what waits by changed policies, as a worker does when it begins."""
    while True:
        with suppress(StoreError):
            logger.info("replanned: timelines with another due time=%d", await digests.replan_changed())
            return
        await asyncio.sleep(REPLAN_AGAIN)
