"""The rounds of a worker: claim after claim until it stops, and a second one beside the first while that helps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from digestif.attempts.pipeline import Pipeline
from digestif.clock import monotonic
from digestif.errors import StoreError, StoreUnavailable
from digestif.events.engine import StoreFailed
from digestif.stores.base import Wakeups
from digestif.worker.loop import Loop

Wait = Callable[[], Awaitable[frozenset[int] | None]]  # waits, and returns the partitions to claim from then


class Rounds:
    """Claims for a loop, round after round.

    As long as there is plenty, a second claim is under way while the first is read. It also is while the first takes
    long at a store of several servers: that one may wait for a server that does not answer.
    """

    def __init__(
        self,
        loop: Loop,
        pipeline: Pipeline,
        wakeups: Wakeups,
        *,
        poll: float,
        reached: asyncio.Event,
    ) -> None:
        self._loop = loop
        self._pipeline = pipeline
        self._wakeups = wakeups
        self._tuning = loop.tuning
        self._poll = poll
        self._reached = reached  # set when the store has answered
        self._began: list[float] = []  # when each round under way did
        self._last_error: StoreError | None = None
        self._stopped, self._more_due, self._answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self, *, start_timeout: float | None) -> None:
        """Claim until stopped. Raises StoreUnavailable if the store has not answered once in this time."""
        hints = Hints(self._wakeups, poll=self._poll)
        first = self._claim(partial(self._loop.in_thread, hints.wait))
        second = self._claim(self._wait_until_more_due)
        async with beside(first, second, self._give_up_after(start_timeout)) as tasks:
            await asyncio.gather(*tasks)

    def stop(self) -> None:
        """Claim nothing more, and end all waits. On the event loop."""
        for event in (self._stopped, self._more_due, self._answered):
            event.set()
        self._loop.wake()
        self._wakeups.close()

    async def _claim(self, wait: Wait) -> None:
        failures, partitions = 0, None
        while not self._stopped.is_set():
            began = monotonic()
            self._began.append(began)
            try:
                more = (await self._loop.run_once(partitions)).more
                failures, partitions = 0, None
                self._answered.set()
                self._reached.set()
            except StoreError as error:
                failures, partitions = failures + 1, None
                self._last_error = error
                self._pipeline.events.emit(StoreFailed(operation="claim", error=error))
                await _wait(self._stopped, self._tuning.pause(failures))
                continue
            finally:
                self._began.remove(began)
            if more:
                self._more_due.set()
            elif not self._stopped.is_set():
                self._more_due.clear()
                partitions = await wait()
        self._answered.set()  # stopped: the answer does not matter any more

    async def _wait_until_more_due(self) -> None:
        while not self._more_due.is_set():
            await _wait(self._more_due, self._tuning.slow)
            is_slow = any(monotonic() - began > self._tuning.slow for began in self._began)
            if is_slow and self._pipeline.store.is_divided:
                return

    async def _give_up_after(self, seconds: float | None) -> None:
        """Raise StoreUnavailable if the store has not answered in time: waiting does not correct a wrong address."""
        try:
            await asyncio.wait_for(self._answered.wait(), seconds)
        except TimeoutError:
            reason = f" ({self._last_error})" if self._last_error else ""
            raise StoreUnavailable(
                f"the store has not answered once in {seconds:g} s{reason}; check its address and password, or let the "
                "worker wait for it (--wait, start_timeout=None)"
            ) from self._last_error


class Hints:
    """Where an idle worker looks next: hints name partitions. Every `poll` seconds it looks at all of them."""

    def __init__(self, wakeups: Wakeups, *, poll: float, clock: Callable[[], float] = monotonic) -> None:
        self._wakeups = wakeups
        self._poll = poll
        self._clock = clock
        self._named: frozenset[int] | None = None  # by the last hints
        self._looked_at = 0.0  # the last claim from all partitions ended

    def wait(self) -> frozenset[int] | None:
        """Wait, and return the partitions to claim from then; None: all of them."""
        if self._named is None:
            self._looked_at = self._clock()
        look_at = self._looked_at + self._poll
        named = self._wakeups.wait_where(max(0.0, look_at - self._clock()))
        self._named = None if self._clock() >= look_at else named
        return self._named


@asynccontextmanager
async def beside(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[Sequence[asyncio.Task[None]]]:
    """Run coroutines beside the block; cancel them at its end."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield tasks
    finally:
        for each in tasks:
            each.cancel()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
