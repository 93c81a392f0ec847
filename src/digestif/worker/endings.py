"""Endings: attempts that are judged, until they have ended in the store."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from digestif.attempts.pipeline import Pipeline
from digestif.attempts.stages import Judged
from digestif.attempts.steps import run
from digestif.attempts.submission import Unanswerable
from digestif.errors import StoreError
from digestif.events.engine import StoreFailed
from digestif.stores.base import PAGE_TIMELINES
from digestif.threads import DaemonThreads, outcome
from digestif.worker.limits import DEFAULT, Tuning


class Endings:
    """Ends attempts in the store, a page in each call. `on_ended` is called after each page.

    Those whose call failed are tried again apart from the rest, so that a partition that does not answer holds up no
    other.
    """

    def __init__(
        self, pipeline: Pipeline, threads: DaemonThreads, *, on_ended: Callable[[], None], tuning: Tuning = DEFAULT
    ) -> None:
        self._pipeline = pipeline
        self._threads = threads
        self._on_ended = on_ended
        self._tuning = tuning
        self._fresh = _Queue(is_retry=False)
        self._failed = _Queue(is_retry=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False  # `close` has given up: later attempts are only reported

    @property
    def waiting(self) -> int:
        """The number of attempts that no call to the store ends yet."""
        return len(self._fresh.waiting) + len(self._failed.waiting)

    @property
    def is_busy(self) -> bool:
        """True while the store does not know yet how some attempts ended."""
        return bool(self._tasks or self.waiting)

    def end(self, judged: Sequence[Judged] = ()) -> None:
        """Queue attempts, and begin to end all that wait."""
        self._fresh.waiting.extend(judged)
        if self._is_closed:  # a claim or a handler came late
            self._abandon()
            return
        for queue in (self._fresh, self._failed):
            if queue.waiting and not queue.is_ending:
                queue.is_ending = True
                task = asyncio.get_running_loop().create_task(self._end_all(queue))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _end_all(self, queue: "_Queue") -> None:
        failures = 1 if queue.is_retry else 0  # in a row
        try:
            while queue.waiting:
                if failures:
                    await asyncio.sleep(self._tuning.pause(failures))
                error = await self._end_page(queue.waiting)
                failures = failures + 1 if error and queue.is_retry else 0
                self._on_ended()
                if error:
                    self._pipeline.events.emit(StoreFailed(operation="end", error=error))
        finally:
            queue.is_ending = False
        self.end()  # some may have to be tried again

    async def _end_page(self, waiting: deque[Judged]) -> StoreError | None:
        """End a page of attempts in one call; return the first error that the store answered."""
        page = [waiting.popleft() for _ in range(min(len(waiting), PAGE_TIMELINES))]
        call = partial(run, self._pipeline.end(page))
        try:
            answers, failure = await asyncio.get_running_loop().run_in_executor(self._threads, outcome, call)
        except asyncio.CancelledError:  # the worker ends before the answer comes
            waiting.extend(page)
            raise
        if answers is None:  # a user's clock or channel function failed
            assert failure is not None
            return self._pipeline.abandon(page, failure)
        errors = []
        for one, answer in zip(page, answers, strict=True):
            if isinstance(answer, StoreError):
                errors.append(answer)
                if not isinstance(answer, Unanswerable):
                    self._failed.waiting.append(one)
        return errors[0] if errors else None

    async def finished(self) -> None:
        """Wait until all attempts have ended in the store."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # Stopping

    async def close(self) -> None:
        """End attempts for some seconds more, then give up on the rest, and on those that come later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._tuning.last_calls):
                self.end()
                await self.finished()
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._abandon()

    def _abandon(self) -> None:
        """Give up on the attempts that the store could not end: their leases lapse, and their digests come again."""
        error = StoreError("the store did not answer before the worker ended")
        for queue in (self._fresh, self._failed):
            while queue.waiting:
                self._pipeline.reports.abandoned(queue.waiting.popleft(), error)


class _Queue:
    """Judged attempts that wait for a call to the store."""

    def __init__(self, *, is_retry: bool) -> None:
        self.waiting: deque[Judged] = deque()
        self.is_ending = False  # a task makes the calls
        self.is_retry = is_retry  # an earlier call for these attempts failed
