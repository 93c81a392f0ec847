"""A worker's loop: what it claims and when, the attempts that it holds, and the calls to the store under way."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple, TypeVar

from digestif.attempts import Attempt, Attempts, Kind, Page, Room
from digestif.clock import monotonic
from digestif.core.times import Millis
from digestif.core.verdicts import Verdict, give_back
from digestif.errors import StoreError
from digestif.events.engine import StoreFailed
from digestif.ids import chance
from digestif.stores.base import PAGE_TIMELINES
from digestif.threads import DaemonThreads
from digestif.worker.execution import Execution
from digestif.worker.limits import DEFAULT, Limits, Tuning
from digestif.worker.suspects import Suspects

T = TypeVar("T")
Places = dict[Kind, int]  # for digests, by the kind of their handlers

MOST_ATTEMPTS = 10 * PAGE_TIMELINES  # that a worker holds of each kind
MOST_UNENDED = 4 * PAGE_TIMELINES  # attempts whose end the store does not know, before nothing more is claimed


class Round(NamedTuple):
    """What one round of the loop did."""

    claimed: int  # timelines
    more: bool  # timelines may be due that it left
    first: Millis | None = None  # when the first of them was due


class Loop:
    """Everything that a worker does on one event loop."""

    def __init__(
        self, attempts: Attempts, limits: Limits, suspects: Suspects | None = None, *, tuning: Tuning = DEFAULT
    ) -> None:
        self._attempts = attempts
        self._limits = limits
        self._tuning = tuning
        self._execution = Execution(attempts, limits, judged=self._on_judged, cancel_seconds=tuning.cancel)
        self._suspects = suspects or Suspects(lease_seconds=attempts.lease / 1000, patience_seconds=tuning.suspects)
        self._threads = DaemonThreads(8, "digestif-store")  # two claims, ending, waiting, planning, presence, hanging
        self._claims: dict[asyncio.Future[Page], Places] = {}  # under way, and the places that they may fill
        self._judged: dict[bool, deque[tuple[Attempt, Verdict]]] = {False: deque(), True: deque()}
        self._ending: dict[bool, asyncio.Task[None]] = {}  # by whether it is tried again
        self._changed = asyncio.Event()  # a place may be free
        self._short: frozenset[Kind] = frozenset()  # kinds of handlers that lately had too few places
        self._is_unbounded = False  # a claim is under way that may take a digest of any size
        self._large_until = 0.0  # until when nothing is claimed beside attempts that hold much: a digest was too large
        self._is_stopping = False  # nothing more is claimed
        self._is_over = False  # no handler is called any more…
        self._is_closed = False  # …and no attempt is ended in the store
        self._maintain_at = 0.0

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    # Claiming

    async def run_once(self, partitions: Collection[int] | None = None) -> Round:
        """Claim what is due, in these partitions or in all, as much as there are places for.

        Raises StoreError if the store does not answer.
        """
        await self._maintain_if_due()
        await self._hold_back_until(self._is_no_kind_short)
        if self._suspects.are_tried:
            return await self._look_again(self._tuning.look_again)
        if self._suspects.are_next:
            return await self._try_suspects_next()
        return await self._claim(partitions)

    async def _claim(self, partitions: Collection[int] | None) -> Round:
        places, memory = self._free_places(), self._free_memory()
        if monotonic() < self._large_until and not self._holds_little():  # a large digest is next
            return await self._look_again(self._tuning.look_again)
        if self._short and self._claims:  # one claim at a time, while a kind has too few places
            return await self._look_again(self._tuning.hold_back)
        wanted = min(self._wanted(places), MOST_UNENDED - self._unended)
        if wanted < 1 or memory < 1:
            return await self._look_again(self._tuning.look_again)
        slow = frozenset(kind for kind in self._short if places[kind] == 0)
        room = self._room(places, slow, memory)
        try:
            page = await self._take_on(lambda: self._attempts.claim(wanted, room=room, partitions=partitions), places)
        finally:
            self._is_unbounded = False
        self._large_until = monotonic() + self._tuning.suspects if room.was_too_small else 0.0
        self._suspects.saw(page.suspect, looked_everywhere=partitions is None and page.claimed < wanted)
        if room.short or page.claimed < wanted:
            self._short = frozenset(room.short)
        if page.claimed == 0 and self._suspects.exist:
            await self._hold_back_until(self._is_alone)  # by chance a busy worker hardly ever is
            if self._is_alone():
                return await self._try_suspects(alone=True)
        return Round(page.claimed, more=page.claimed >= wanted or page.kept > 0, first=_first_due(page))

    def _room(self, places: Places, slow: frozenset[Kind], memory: int) -> Room:
        """Make room for a claim: for any digest while the others hold little, if one was too large before."""
        self._is_unbounded = monotonic() < self._large_until and self._holds_little()
        return Room(
            places,
            slow=slow,
            memory=min(memory, self._limits.memory // 2 or 1),
            most=None if self._is_unbounded else memory,
            records=self._tuning.records,
        )

    async def _try_suspects_next(self) -> Round:
        """Try them once the attempts under way have ended, or once they have waited long enough for that."""
        if not self._is_alone() and not self._suspects.wait_no_longer:
            return await self._look_again(self._tuning.look_again)
        return await self._try_suspects(alone=self._is_alone())

    async def _try_suspects(self, *, alone: bool) -> Round:
        tried: list[Attempt] = []
        room = Room(memory=self._limits.memory, records=self._tuning.records)
        self._suspects.begin_claim()
        try:
            size = self._suspects.group_size(self._most_suspects())
            page = await self._take_on(lambda: self._attempts.claim_suspects(size, alone=alone, room=room), {})
            tried = [*page.attempts, *(attempt for attempt, _ in page.judged)]
        finally:
            self._suspects.end_claim(tried)
        return Round(page.claimed, more=page.claimed > 0, first=_first_due(page))

    def _most_suspects(self) -> int:
        """Return how many suspects can run together; of a kind with fewer slots, the rest of a group waits for them."""
        most = [self._limits.of(handler.kind) * (handler.batch or 1) for handler in self._attempts.handlers]
        return min(max(most, default=1), MOST_ATTEMPTS)

    def _is_alone(self) -> bool:
        """True if nothing runs here, nor in another worker of this process."""
        return not self._claims and not self._execution.attempts and self._attempts.is_process_idle

    def _holds_little(self) -> bool:
        """True if the attempts under way hold less than half of the memory, and no claim may bring more."""
        return not self._claims and self._execution.weight < max(1, self._limits.memory // 2)

    async def _take_on(self, claim: Callable[[], Page], places: Places) -> Page:
        future = asyncio.ensure_future(self.in_thread(claim))
        self._claims[future] = {kind: places.get(kind, 0) for kind in Kind}
        future.add_done_callback(self._on_claimed)
        page = await asyncio.shield(future)  # what it claims is taken on even if this wait is cancelled
        if page.error is not None:
            raise page.error
        return page

    def _on_claimed(self, claim: asyncio.Future[Page]) -> None:
        del self._claims[claim]
        if claim.cancelled() or claim.exception() is not None:
            return
        page = claim.result()
        if self._is_stopping or self._is_over:  # the claim was under way when it stopped
            self._enqueue([(attempt, give_back(begun=False)) for attempt in page.attempts])
        else:
            self._execution.start(page.attempts)
        self._enqueue(page.judged)

    def _free_places(self) -> Places:
        """How many digests each kind of handler can take: half of its places at most, so that two claims take turns.

        A handler of batches takes as many as its batch at once.
        """
        return {kind: self._free_places_of(kind) for kind in Kind}

    def _free_places_of(self, kind: Kind) -> int:
        batches = [handler.batch or 1 for handler in self._attempts.handlers if handler.kind is kind]
        limit = min(self._limits.of(kind) * max(batches, default=0), MOST_ATTEMPTS)
        claimed = sum(claim[kind] for claim in self._claims.values())
        return max(0, min(limit - self._execution.count(kind) - claimed, (limit + 1) // 2))

    @property
    def held(self) -> int:
        """Bytes of the records that it holds, and of those that claims under way may bring."""
        return self._limits.memory - self._free_memory()

    def _free_memory(self) -> int:
        """How many bytes of records may still be held. Each claim under way reserves half of the limit."""
        if self._is_unbounded:
            return 0
        reserved = len(self._claims) * (self._limits.memory // 2)
        return self._limits.memory - self._execution.weight - reserved

    def _is_no_kind_short(self) -> bool:
        """True if every kind of handler that had too few places has some now. Slow kinds have not, for long."""
        return all(self._free_places_of(kind) for kind in self._short)

    async def _hold_back_until(self, condition: Callable[[], bool]) -> None:
        """Give attempts under way a moment to end before anything else is claimed."""
        end = monotonic() + self._tuning.hold_back
        while not self._is_stopping and not condition() and (left := end - monotonic()) > 0:
            await self._wait_for_change(left)

    def _wanted(self, places: Places) -> int:
        """How many to claim: if one kind of handler had too few places, no more than that kind can take now."""
        limit = min((places[kind] for kind in self._short), default=None)
        return limit or sum(places.values())

    async def _look_again(self, seconds: float) -> Round:
        await self._wait_for_change(seconds)
        return Round(0, more=True)

    @property
    def timelines(self) -> list[str]:
        """Those whose handlers are running."""
        return self._execution.timelines

    @property
    def is_busy(self) -> bool:
        """True while handlers run, or the store does not know yet how some ended."""
        return bool(self._execution.attempts or self._claims or self._ending or self._unended)

    async def change(self, seconds: float) -> None:
        """Wait until an attempt has ended, or so many seconds."""
        await self._wait_for_change(seconds)

    async def _wait_for_change(self, seconds: float) -> None:
        self._changed.clear()
        if not self._is_stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    async def _maintain_if_due(self) -> None:
        if monotonic() < self._maintain_at:
            return
        self._maintain_at = monotonic() + self._tuning.maintenance * (0.5 + chance())
        try:
            if await self.in_thread(self._attempts.maintain):
                self._maintain_at = 0.0
        except StoreError as error:  # claims may go well all the same
            self._attempts.events.emit(StoreFailed(operation="maintenance", error=error))

    # Ending

    @property
    def _unended(self) -> int:
        """Attempts of whose end the store does not know yet."""
        return sum(map(len, self._judged.values()))

    def _on_judged(self, judged: list[tuple[Attempt, Verdict]]) -> None:
        self._changed.set()
        self._enqueue(judged)

    def _enqueue(self, judged: list[tuple[Attempt, Verdict]]) -> None:
        self._judged[False].extend(judged)
        self._end_enqueued()

    def _end_enqueued(self) -> None:
        if self._is_closed:  # a claim came late
            self._abandon()
            return
        for again, waiting in self._judged.items():
            if waiting and again not in self._ending:
                self._ending[again] = asyncio.get_running_loop().create_task(self._end_all(again=again))

    async def _end_all(self, *, again: bool) -> None:
        """End attempts in the store, a page in each call.

        Those whose call failed are tried again apart from the rest, so that a partition that does not answer holds up
        no other.
        """
        waiting, failures = self._judged[again], 0
        try:
            while waiting:
                failures += again
                if failures:
                    await asyncio.sleep(self._tuning.pause(failures))
                error = await self._end_page(waiting)
                self._changed.set()
                if error:
                    self._attempts.events.emit(StoreFailed(operation="end", error=error))
        finally:
            del self._ending[again]
        self._end_enqueued()  # some may have to be tried again

    async def _end_page(self, waiting: deque[tuple[Attempt, Verdict]]) -> StoreError | None:
        page = [waiting.popleft() for _ in range(min(len(waiting), PAGE_TIMELINES))]
        try:
            answers = await self.in_thread(lambda: self._attempts.end(page))
        except asyncio.CancelledError:  # the worker ends before the answer comes
            waiting.extend(page)
            raise
        for one, answer in zip(page, answers, strict=True):
            if isinstance(answer, StoreError) and not one[0].is_ended:
                self._judged[True].append(one)
        return next((answer for answer in answers if isinstance(answer, StoreError)), None)

    # Stopping

    def wake(self) -> None:
        """End waits for a free place: nothing more will be claimed."""
        self._is_stopping = True
        self._changed.set()

    async def idle(self) -> None:
        """Wait until all handlers have ended and the store knows."""
        while self._execution.attempts or self._ending:
            await self._execution.finished()
            if self._ending:
                await asyncio.wait(self._ending.values())

    async def wind_down(self, grace: float) -> None:
        """Let handlers finish for so many seconds, then give back what they have not finished."""
        self._is_over = True
        if self._claims:
            await asyncio.wait(self._claims, timeout=self._tuning.last_calls)
        await self._execution.finished(grace)
        await self._execution.give_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._tuning.last_calls):
                await self._end_rest()
        self._is_closed = True
        await self._stop_ending()
        self._abandon()
        self._threads.shutdown()

    async def _end_rest(self) -> None:
        self._end_enqueued()
        while self._ending:
            await asyncio.wait(self._ending.values())

    async def _stop_ending(self) -> None:
        tasks = list(self._ending.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _abandon(self) -> None:
        """Give up on the attempts that the store could not end: their leases lapse, and their digests come again."""
        error = StoreError("the store did not answer before the worker ended")
        for waiting in self._judged.values():
            while waiting:
                self._attempts.abandon(*waiting.popleft(), error)


def _first_due(page: Page) -> Millis | None:
    attempts = [*page.attempts, *(attempt for attempt, _ in page.judged)]
    return min((attempt.lease.at for attempt in attempts), default=None)
