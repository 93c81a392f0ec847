"""A worker's loop: what is claimed and when, the attempts in hand, and the calls to the store under way."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from digestif.attempts import Attempt, Attempts, Kind, Page, Room
from digestif.clock import monotonic
from digestif.core.verdicts import Verdict, give_back
from digestif.errors import StoreError
from digestif.events.engine import StoreFailed
from digestif.ids import chance
from digestif.stores.base import PAGE_TIMELINES
from digestif.threads import DaemonThreads
from digestif.worker.execution import Execution
from digestif.worker.suspects import Suspects

T = TypeVar("T")
Hands = dict[Kind, int]

MAINTENANCE_SECONDS = 10.0  # between two looks for expired records
LOOK_AGAIN_SECONDS = 1.0  # while no hand is free
STAND_BACK_SECONDS = 0.1  # that a kind of handler without a free hand may keep the other kind waiting
IN_HAND_MOST = 10 * PAGE_TIMELINES
UNENDED_MOST = 4 * PAGE_TIMELINES  # attempts of whose end the store does not know, before nothing more is claimed
PAUSE_SECONDS = 0.1, 5.0  # after the first failure of the store, and at most
LAST_WORDS_SECONDS = 5.0  # for telling the store of what ended, when the worker stops


class Limits(NamedTuple):
    """How much a worker takes on."""

    concurrency: int  # coroutines that run at once
    threads: int  # functions that run at once
    memory: int  # bytes of records

    def hands(self, kind: Kind) -> int:
        return self.concurrency if kind is Kind.COROUTINE else self.threads


class Round(NamedTuple):
    """What was taken on."""

    claimed: int  # timelines
    more: bool  # there may be


class Loop:
    """Everything that a worker does on one event loop."""

    def __init__(self, attempts: Attempts, limits: Limits, suspects: Suspects | None = None) -> None:
        self._attempts = attempts
        self._limits = limits
        self._execution = Execution(attempts, limits.concurrency, limits.threads, judged=self._on_judged)
        self._suspects = suspects or Suspects(lease_seconds=attempts.lease / 1000)
        self._threads = DaemonThreads(6, "digestif-store")  # two claims, ending, waiting, and what hangs
        self._claims: dict[asyncio.Future[Page], Hands] = {}  # under way, and for how many of each kind
        self._judged: dict[bool, deque[tuple[Attempt, Verdict]]] = {False: deque(), True: deque()}
        self._ending: dict[bool, asyncio.Task[None]] = {}  # by whether the store is told for the second time
        self._changed = asyncio.Event()  # a hand may be free
        self._crowded: frozenset[Kind] = frozenset()  # kinds of handlers that were short of hands lately
        self._is_stopping = False  # nothing more is claimed
        self._is_over = False  # nothing more is begun…
        self._is_closed = False  # …and the store is told nothing more
        self._maintain_at = 0.0

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    # Claiming

    async def run_once(self) -> Round:
        """Take what is due, as much as there are hands for. Raises StoreError if the store does not answer."""
        await self._maintain_if_due()
        await self._see_who_is_slow()
        if self._suspects.are_tried:
            return await self._look_again(LOOK_AGAIN_SECONDS)
        if self._suspects.are_next:
            return await self._try_suspects_next()
        return await self._claim()

    async def _claim(self) -> Round:
        hands, memory = self._free_hands(), self._free_memory()
        if self._crowded and self._claims:  # one claim at a time, while they are short of hands
            return await self._look_again(STAND_BACK_SECONDS)
        wanted = min(self._wanted(hands), UNENDED_MOST - self._unended)
        if wanted < 1 or memory < 1:
            return await self._look_again(LOOK_AGAIN_SECONDS)
        slow = frozenset(kind for kind in self._crowded if hands[kind] == 0)
        room = Room(hands, slow=slow, memory=min(memory, self._limits.memory // 2 or 1))
        page = await self._take_on(lambda: self._attempts.claim(wanted, room=room), hands)
        self._suspects.saw(page.suspect, looked_everywhere=page.claimed < wanted)
        if room.crowded or page.claimed < wanted:
            self._crowded = frozenset(room.crowded)
        if page.claimed == 0 and self._suspects.exist and await self._is_alone_soon():
            return await self._try_suspects(alone=True)
        return Round(page.claimed, more=page.claimed >= wanted)

    async def _is_alone_soon(self) -> bool:
        """Wait a moment for what is in hand, and claim nothing meanwhile: a busy worker would hardly ever be alone."""
        end = monotonic() + STAND_BACK_SECONDS
        while not self._is_alone and not self._is_stopping and (left := end - monotonic()) > 0:
            await self._free_hand(left)
        return self._is_alone and not self._is_stopping

    async def _try_suspects_next(self) -> Round:
        """Wait until what is in hand has ended, but not for ever."""
        if not self._is_alone and not self._suspects.wait_no_longer:
            return await self._look_again(LOOK_AGAIN_SECONDS)
        return await self._try_suspects(alone=self._is_alone)

    async def _try_suspects(self, *, alone: bool) -> Round:
        tried: list[Attempt] = []
        room = Room(memory=self._limits.memory)
        self._suspects.begin_claim()
        try:
            page = await self._take_on(lambda: self._attempts.claim_suspects(alone=alone, room=room), {})
            tried = [*page.attempts, *(attempt for attempt, _ in page.judged)]
        finally:
            self._suspects.end_claim(tried)
        return Round(page.claimed, more=page.claimed > 0)

    @property
    def _is_alone(self) -> bool:
        """True if nothing runs here, nor in another worker of this process."""
        return not self._claims and not self._execution.attempts and self._attempts.is_process_idle

    async def _take_on(self, claim: Callable[[], Page], hands: Hands) -> Page:
        future = asyncio.ensure_future(self.in_thread(claim))
        self._claims[future] = {kind: hands.get(kind, 0) for kind in Kind}
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
            self._note([(attempt, give_back(begun=False)) for attempt in page.attempts])
        else:
            self._execution.start(page.attempts)
        self._note(page.judged)

    def _free_hands(self) -> Hands:
        """How many digests each kind of handler can take: half of its hands at most, so that two claims take turns.

        A handler of batches takes as many as its batch at once.
        """
        return {kind: self._free_hands_of(kind) for kind in Kind}

    def _free_hands_of(self, kind: Kind) -> int:
        batches = [handler.batch or 1 for handler in self._attempts.handlers if handler.kind is kind]
        limit = min(self._limits.hands(kind) * max(batches, default=0), IN_HAND_MOST)
        claimed = sum(claim[kind] for claim in self._claims.values())
        return max(0, min(limit - self._execution.count(kind) - claimed, (limit + 1) // 2))

    def _free_memory(self) -> int:
        """Bytes. A claim that is under way may take half of what there is."""
        reserved = len(self._claims) * (self._limits.memory // 2)
        return self._limits.memory - self._execution.weight - reserved

    async def _see_who_is_slow(self) -> None:
        """Wait a moment for a kind of handler that is short of hands: only if it is slow it has to stand back."""
        end = monotonic() + STAND_BACK_SECONDS
        while not self._is_stopping and any(self._free_hands_of(kind) == 0 for kind in self._crowded):
            left = end - monotonic()
            if left <= 0:
                return
            await self._free_hand(left)

    def _wanted(self, hands: Hands) -> int:
        """How many to claim. Where one kind of handler was short of hands, no more than that kind can take now."""
        short = min((hands[kind] for kind in self._crowded), default=None)
        return short or sum(hands.values())

    async def _look_again(self, seconds: float) -> Round:
        await self._free_hand(seconds)
        return Round(0, more=True)

    async def _free_hand(self, seconds: float) -> None:
        self._changed.clear()
        if not self._is_stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)

    async def _maintain_if_due(self) -> None:
        if monotonic() < self._maintain_at:
            return
        self._maintain_at = monotonic() + MAINTENANCE_SECONDS * (0.5 + chance())
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
        self._note(judged)

    def _note(self, judged: list[tuple[Attempt, Verdict]]) -> None:
        self._judged[False].extend(judged)
        self._tell_store()

    def _tell_store(self) -> None:
        if self._is_closed:  # a claim came late
            self._abandon()
            return
        for again, waiting in self._judged.items():
            if waiting and again not in self._ending:
                self._ending[again] = asyncio.get_running_loop().create_task(self._end_all(again=again))

    async def _end_all(self, *, again: bool) -> None:
        """Tell the store of what ended, all that has come together while it was told of the last.

        It is told again apart from the rest, so that a part of the store that does not answer holds up no other.
        """
        waiting, failures = self._judged[again], 0
        try:
            while waiting:
                failures += again
                if failures:
                    await asyncio.sleep(pause(failures))
                error = await self._end_page(waiting)
                self._changed.set()
                if error:
                    self._attempts.events.emit(StoreFailed(operation="end", error=error))
        finally:
            del self._ending[again]
        self._tell_store()  # some may have to be told again

    async def _end_page(self, waiting: deque[tuple[Attempt, Verdict]]) -> StoreError | None:
        page = [waiting.popleft() for _ in range(min(len(waiting), PAGE_TIMELINES))]
        try:
            answers = await self.in_thread(lambda: self._attempts.end(page))
        except asyncio.CancelledError:  # the worker ends, and does not hear the answer
            waiting.extend(page)
            raise
        for one, answer in zip(page, answers, strict=True):
            if isinstance(answer, StoreError) and not one[0].is_told:
                self._judged[True].append(one)
        return next((answer for answer in answers if isinstance(answer, StoreError)), None)

    # Stopping

    def wake(self) -> None:
        """End waits for a free hand: nothing more will be claimed."""
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
            await asyncio.wait(self._claims, timeout=LAST_WORDS_SECONDS)
        await self._execution.finished(grace)
        await self._execution.give_up()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._last_words()
        self._is_closed = True
        await self._stop_ending()
        self._abandon()
        self._threads.shutdown()

    async def _last_words(self) -> None:
        self._tell_store()
        while self._ending:
            await asyncio.wait(self._ending.values())

    async def _stop_ending(self) -> None:
        tasks = list(self._ending.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _abandon(self) -> None:
        """Tell of what the store does not know of: leases that lapse, and digests that come again."""
        error = StoreError("the store did not answer before the worker ended")
        for waiting in self._judged.values():
            while waiting:
                self._attempts.abandon(*waiting.popleft(), error)


def pause(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    first, most = PAUSE_SECONDS
    return min(first * 2.0 ** min(failures - 1, 10), most) * (0.5 + chance() / 2)
