"""A worker's loop: what it claims and when, and the attempts under way, until it stops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar

from digestif.attempts.leases import HeldLease, running
from digestif.attempts.maintenance import maintain
from digestif.attempts.pipeline import Pipeline
from digestif.attempts.stages import Judged, Page
from digestif.attempts.steps import Steps, run
from digestif.clock import monotonic
from digestif.core.times import Millis, to_seconds
from digestif.core.verdicts import give_back
from digestif.errors import StoreError
from digestif.events.engine import StoreFailed
from digestif.ids import chance
from digestif.stores.base import PAGE_TIMELINES, Wakeups
from digestif.threads import DaemonThreads
from digestif.worker.capacity import Capacity, Places
from digestif.worker.endings import Endings
from digestif.worker.execution import Execution
from digestif.worker.limits import DEFAULT, Limits, Tuning
from digestif.worker.suspects import Suspects

T = TypeVar("T")

MOST_UNENDED = 4 * PAGE_TIMELINES  # attempts whose end the store does not know, before nothing more is claimed


class Round(NamedTuple):
    """What one round of the loop did."""

    claimed: int  # timelines
    more: bool  # timelines may be due that it left
    page: Page | None = None  # None: nothing was claimed

    @property
    def first(self) -> Millis | None:
        """When the first of the timelines was due."""
        held = [] if self.page is None else _held(self.page)
        return min((each.lease.at for each in held), default=None)


class Loop:
    """Everything that a worker does on one event loop."""

    def __init__(
        self, pipeline: Pipeline, limits: Limits, suspects: Suspects | None = None, *, tuning: Tuning = DEFAULT
    ) -> None:
        self._pipeline = pipeline
        self.tuning = tuning
        # Side by side: two claims, two calls that end attempts, wake-ups, replanning, presence, samples.
        self._threads = DaemonThreads(8, "digestif-store")
        self._changed = asyncio.Event()  # a place may be free
        self._execution = Execution(limits, on_judged=self._on_judged, cancel_seconds=tuning.cancel)
        self._endings = Endings(pipeline, self._threads, on_ended=self._changed.set, tuning=tuning)
        self._capacity = Capacity(pipeline.handlers, limits, self._execution, tuning=tuning)
        self.suspects = suspects or Suspects(
            lease_seconds=to_seconds(pipeline.leases.duration), patience_seconds=tuning.suspects
        )
        self.grace = 0.0  # seconds for handlers that run when the worker ends
        self._is_stopping = False  # nothing more is claimed, and what a claim still brings is given back
        self._maintain_at = 0.0

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Wakeups]:
        """Listen for wake-ups until the block ends. What comes after a cancellation is closed."""
        listening = self._threads.submit(self._pipeline.store.listen)
        try:
            yield await asyncio.wrap_future(listening)
        finally:
            listening.add_done_callback(_close)

    # Claiming

    async def run_once(self, partitions: Collection[int] | None = None) -> Round:
        """Claim what is due, in these partitions or in all, as much as there are places for.

        Raises StoreError if the store does not answer.
        """
        await self._maintain_if_due()
        await self._hold_back_until(self._capacity.has_places)
        if self.suspects.are_tried:
            return await self._look_again(self.tuning.look_again)
        if self.suspects.hold_others():
            return await self._try_suspects_next()
        return await self._claim(partitions)

    async def _claim(self, partitions: Collection[int] | None) -> Round:
        if self._capacity.waits_for_memory:
            return await self._look_again(self.tuning.look_again)
        if self._capacity.waits_for_claim:
            return await self._look_again(self.tuning.hold_back)
        allotment = self._capacity.allot(MOST_UNENDED - self._endings.waiting)
        if allotment is None:
            return await self._look_again(self.tuning.look_again)
        most, room, places = allotment
        claimed: int | None = None
        try:
            page = await self._take_on(self._pipeline.claim(most, room=room, partitions=partitions), places)
            claimed = page.claimed
        finally:
            self._capacity.end_claim(allotment, claimed)
        self.suspects.saw(page.suspect_since, looked_everywhere=partitions is None and claimed < most)
        if claimed == 0 and self.suspects.exist:
            await self._hold_back_until(self._is_alone)  # by chance a busy worker hardly ever is
            if self._is_alone():
                return await self._try_suspects(alone=True)
        return Round(claimed, more=claimed >= most or page.kept > 0, page=page)

    async def _try_suspects_next(self) -> Round:
        """Try suspects once the attempts under way have ended, or once they have waited long enough for that."""
        if not self._is_alone() and not self.suspects.wait_no_longer:
            return await self._look_again(self.tuning.look_again)
        return await self._try_suspects(alone=self._is_alone())

    async def _try_suspects(self, *, alone: bool) -> Round:
        tried: list[HeldLease] = []
        most, room, places = self._capacity.allot_suspects()
        size = self.suspects.begin_claim(most)
        try:
            page = await self._take_on(self._pipeline.claim_suspects(size, alone=alone, room=room), places)
            tried = _held(page)
        finally:
            self.suspects.end_claim(tried)
        return Round(page.claimed, more=page.claimed > 0, page=page)

    def _is_alone(self) -> bool:
        """True if nothing runs here, nor in another worker of this process."""
        return not self._capacity.claims and not self._execution.attempts and running().is_idle

    async def _take_on(self, claim: Steps[Page], places: Places) -> Page:
        future = asyncio.ensure_future(self.in_thread(partial(run, claim)))
        self._capacity.claims[future] = places
        future.add_done_callback(self._on_claimed)
        page = await asyncio.shield(future)  # what it claims is taken on even if this wait is cancelled
        if page.error is not None:
            raise page.error
        return page

    def _on_claimed(self, claim: asyncio.Future[Page]) -> None:
        del self._capacity.claims[claim]
        if claim.cancelled() or claim.exception() is not None:
            return
        page = claim.result()
        if self._is_stopping:  # the claim was under way when it stopped
            self._endings.end([each.judged(give_back(begun=False)) for each in page.loaded])
        else:
            self._execution.start(page.loaded)
        self._endings.end(page.judged)

    def _on_judged(self, judged: list[Judged]) -> None:
        self._changed.set()
        self._endings.end(judged)

    async def _maintain_if_due(self) -> None:
        if monotonic() < self._maintain_at:
            return
        self._maintain_at = monotonic() + self.tuning.maintenance * (0.5 + chance())
        try:
            if await self.in_thread(partial(maintain, self._pipeline)):
                self._maintain_at = 0.0
        except StoreError as error:  # claims may go well all the same
            self._pipeline.events.emit(StoreFailed(operation="maintenance", error=error))

    # Waiting

    async def _hold_back_until(self, condition: Callable[[], bool]) -> None:
        """Give attempts under way a moment to end before anything else is claimed."""
        end = monotonic() + self.tuning.hold_back
        while not self._is_stopping and not condition() and (left := end - monotonic()) > 0:
            await self.change(left)

    async def _look_again(self, seconds: float) -> Round:
        await self.change(seconds)
        return Round(0, more=True)

    async def change(self, seconds: float) -> None:
        """Wait until a place may be free, at most these seconds; not at all once the loop stops."""
        self._changed.clear()
        if not self._is_stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    async def idle(self) -> None:
        """Wait until all handlers have ended and the store knows."""
        await self._execution.finished()
        await self._endings.finished()

    # What is under way

    @property
    def timelines(self) -> list[str]:
        """The timelines whose handlers are running."""
        return self._execution.timelines

    @property
    def held(self) -> int:
        """Bytes of the records that handlers hold, and of those that claims under way may bring."""
        return self._capacity.held

    @property
    def is_busy(self) -> bool:
        """True while handlers run, or the store does not know yet how some ended."""
        return bool(self._execution.attempts or self._capacity.claims or self._endings.is_busy)

    # Stopping

    def wake(self) -> None:
        """End waits for a free place: nothing more will be claimed."""
        self._is_stopping = True
        self._changed.set()

    async def wind_down(self, grace: float) -> None:
        """Let handlers finish within `grace` seconds, then give back what they have not finished."""
        self._is_stopping = True
        if self._capacity.claims:
            await asyncio.wait(self._capacity.claims, timeout=self.tuning.last_calls)
        await self._execution.finished(grace)
        await self._execution.give_up()
        await self._endings.close()
        self._threads.shutdown()


def _close(listening: Future[Wakeups]) -> None:
    if not listening.cancelled() and listening.exception() is None:
        listening.result().close()


def _held(page: Page) -> list[HeldLease]:
    return [*(each.claimed.held for each in page.loaded), *(each.held for each in page.judged)]
