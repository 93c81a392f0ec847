"""A worker on duty: one event loop, the digests in hand, and the calls to the store under way."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from digestif.clock import monotonic
from digestif.desk import Desk
from digestif.errors import StoreError
from digestif.events import StoreFailed
from digestif.handlers import Handlers
from digestif.ids import chance
from digestif.runtime.execution import Execution
from digestif.runtime.shift import Page, Shift
from digestif.stores.base import PAGE_TIMELINES
from digestif.threads import DaemonThreads

T = TypeVar("T")

logger = logging.getLogger("digestif")

MAINTENANCE_SECONDS = 10.0  # between two looks for expired records and vanished workers
LOOK_AGAIN_SECONDS = 1.0  # while no hand is free
STAND_BACK_SECONDS = 0.1  # that a kind of handler without a free hand may keep the other kind waiting
IN_HAND_MOST = 10 * PAGE_TIMELINES
UNSETTLED_MOST = 4 * PAGE_TIMELINES  # endings that the store does not know of, before nothing more is claimed
PAUSE_SECONDS = 0.1, 5.0  # after the first failure of the store, and at most
LAST_WORDS_SECONDS = 5.0  # for telling the store of what ended, at the end


class Round(NamedTuple):
    """What was taken on."""

    claimed: int  # timelines
    more: bool  # there may be


class Duty:
    """Everything that a worker does on one event loop."""

    def __init__(self, desk: Desk, handlers: Handlers, *, concurrency: int, threads: int) -> None:
        self.shift = Shift(desk, handlers)
        self._events = desk.events
        self._handlers = handlers
        self._limits = concurrency, threads
        self._execution = Execution(self.shift, concurrency=concurrency, threads=threads, ended=self._on_ended)
        self._calls = DaemonThreads(6, "digestif-store")  # two claims, settling, waiting, and what hangs
        self._claims: dict[asyncio.Future[Page], dict[bool, int]] = {}  # under way, and for how many of each kind
        self._settling: dict[bool, asyncio.Task[None]] = {}  # for the first time, or again
        self._changed = asyncio.Event()  # a slot may be free
        self._crowded: frozenset[bool] = frozenset()  # kinds of handlers that were short of hands lately
        self._is_stopping = False  # nothing more is claimed
        self._is_over = False  # nothing more is begun…
        self._is_closed = False  # …and the store is told nothing more
        self._maintain_at = 0.0

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._calls, call)

    # Claiming

    def _room(self) -> dict[bool, int]:
        """How many digests coroutines (True) and functions (False) can take: half of their hands at most.

        So two claims can take turns. A handler of batches takes as many as its batch at once.
        """
        room = {}
        for is_async, hands in zip((True, False), self._limits, strict=True):
            batches = [handler.batch or 1 for handler in self._handlers if handler.is_async is is_async]
            limit = min(hands * max(batches, default=0), IN_HAND_MOST)
            claimed = sum(claim[is_async] for claim in self._claims.values())
            room[is_async] = max(0, min(limit - self._execution.jobs_of(is_async=is_async) - claimed, (limit + 1) // 2))
        return room

    async def round(self) -> Round:
        """Take what is due, as much as there are hands for. Raises StoreError if the store does not answer."""
        await self._maintain_if_due()
        await self._see_who_is_slow()
        room = self._room()
        if self._crowded and self._claims:  # one claim at a time, while they are short of hands
            await self._free_hand(STAND_BACK_SECONDS)
            return Round(0, more=True)
        wanted = min(self._wanted(room), UNSETTLED_MOST - self.shift.unsettled)
        if wanted < 1:
            await self._free_hand(LOOK_AGAIN_SECONDS)
            return Round(0, more=True)
        slow = frozenset(kind for kind in self._crowded if room[kind] == 0)
        claim = asyncio.ensure_future(self.in_thread(lambda: self.shift.claim(wanted, room=room, slow=slow)))
        self._claims[claim] = room
        claim.add_done_callback(self._on_claimed)
        page = await asyncio.shield(claim)  # what it takes is taken on even if nobody waits any more
        if page.crowded or page.claimed < wanted:
            self._crowded = page.crowded
        return Round(page.claimed, more=page.claimed >= wanted)

    async def _see_who_is_slow(self) -> None:
        """Wait a moment for a kind of handler that is short of hands: only if it is slow it has to stand back."""
        end = monotonic() + STAND_BACK_SECONDS
        while not self._is_stopping and any(self._room()[kind] == 0 for kind in self._crowded):
            left = end - monotonic()
            if left <= 0:
                return
            await self._free_hand(left)

    def _wanted(self, room: dict[bool, int]) -> int:
        """How many to claim. Where one kind of handler was short of hands, no more than that kind can take now."""
        short = min((room[kind] for kind in self._crowded), default=None)
        return short or sum(room.values())

    async def _free_hand(self, seconds: float) -> None:
        self._changed.clear()
        if not self._is_stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    def _on_claimed(self, claim: asyncio.Future[Page]) -> None:
        del self._claims[claim]
        if not claim.cancelled() and claim.exception() is None:
            self._take_on(claim.result())
        elif self.shift.unsettled:  # leases that it could not make use of
            self._on_ended()

    def _take_on(self, page: Page) -> None:
        if self._is_stopping or self._is_over:  # the claim was under way when it stopped
            for job in page.jobs:
                self.shift.give_back(job, begun=False)
        else:
            self._execution.start(page.jobs)
        if self.shift.unsettled:  # some ended before they began
            self._on_ended()

    async def _maintain_if_due(self) -> None:
        if monotonic() < self._maintain_at:
            return
        self._maintain_at = monotonic() + MAINTENANCE_SECONDS * (0.5 + chance())
        try:
            if await self.in_thread(self.shift.maintain):
                self._maintain_at = 0.0
        except StoreError as error:  # claims may go well all the same
            self._events.emit(StoreFailed(operation="maintenance", error=error))

    # Settling

    def _on_ended(self) -> None:
        self._changed.set()
        if self._is_closed:
            return
        for again in (False, True):
            if again not in self._settling and self.shift.has_to_tell(again=again):
                self._settling[again] = asyncio.get_running_loop().create_task(self._settle(again=again))

    async def _settle(self, *, again: bool) -> None:
        """Tell the store of what ended, all that has come together while it was told of the last."""
        failures = 0
        try:
            while self.shift.has_to_tell(again=again):
                failures += again
                if failures:
                    await asyncio.sleep(pause(failures))
                error = await self._settle_page(again=again)
                self._changed.set()
                if error:
                    self._events.emit(StoreFailed(operation="settle", error=error))
        finally:
            del self._settling[again]
        self._on_ended()  # some may have to be told again

    async def _settle_page(self, *, again: bool) -> StoreError | None:
        try:
            return await self.in_thread(lambda: self.shift.settle(again=again))
        except Exception:
            logger.exception("digests could not be ended; they come again when their leases have lapsed")
            return None

    # Stopping

    def wake(self) -> None:
        """Whoever waits for a free hand should wait no longer: nothing more will be claimed."""
        self._is_stopping = True
        self._changed.set()

    async def settled(self) -> None:
        """Wait until all handlers have ended and the store knows."""
        while self._execution.jobs or self._settling:
            await self._execution.finished()
            if self._settling:
                await asyncio.wait(self._settling.values())

    async def wind_down(self, grace: float) -> None:
        """Let handlers finish for so many seconds, then give back what they have not finished."""
        self._is_over = True
        if self._claims:
            await asyncio.wait(self._claims, timeout=LAST_WORDS_SECONDS)
        await self._execution.finished(grace)
        await self._execution.give_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._last_words()
        self._is_closed = True
        for task in self._settling.values():
            task.cancel()
        self._calls.shutdown()

    async def _last_words(self) -> None:
        self._on_ended()
        while self._settling:
            await asyncio.wait(self._settling.values())


def pause(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    first, most = PAUSE_SECONDS
    return min(first * 2.0 ** min(failures - 1, 10), most) * (0.5 + chance() / 2)
