"""The worker: claims what is due, runs handlers side by side, and ends attempts in batches."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from inspect import isawaitable
from typing import Protocol

from digestif.attempts import Attempts, Heartbeat
from digestif.attempts.sampling import Sampler
from digestif.clock import monotonic
from digestif.core.texts import shortened
from digestif.core.times import Duration
from digestif.errors import ConfigError, StoreError, StoreUnavailable
from digestif.events.engine import StoreFailed, WorkerStarted, WorkerStopped, WorkerStopping
from digestif.ids import chance, fresh_id
from digestif.stores.base import Wakeups
from digestif.worker.clock_watch import ClockWatch
from digestif.worker.drain import Drain
from digestif.worker.hints import Hints
from digestif.worker.limits import DEFAULT, Limits
from digestif.worker.loop import Loop
from digestif.worker.options import check_count, check_seconds
from digestif.worker.presence import Presence
from digestif.worker.signals import run
from digestif.worker.suspects import Suspects

MEMORY = 256 << 20  # bytes

Replanning = Callable[[], int | Awaitable[int]]


class Engine(Protocol):
    """What a worker needs of a `Digests`."""

    def attempts(self, now: float | None = None) -> Attempts: ...
    def replan_changed(self) -> int | Awaitable[int]: ...
    def replan(self) -> int | Awaitable[int]: ...


class Worker:
    """Delivers the digests of one `Digests` through its handlers, until it is stopped.

    Any number of workers may serve a store, in any number of processes. `concurrency` is how many coroutines run at
    once, `threads` how many functions; `memory` how many bytes of records, as decoded values, it holds at once; `poll`
    the seconds between two looks at a store that gives no hints; `grace` the seconds that handlers get to finish when
    the worker stops; `start_timeout` the seconds in which the store must have answered once, else StoreUnavailable ends
    the worker (None: it waits for ever). Later outages are waited out. With `drain`, `run` and `serve` end once all
    that was due at the start is delivered, as `drain()` does.
    """

    tuning = DEFAULT

    def __init__(
        self,
        digests: Engine,
        *,
        concurrency: int = 100,
        threads: int = 16,
        memory: int = MEMORY,
        poll: Duration = 1.0,
        grace: Duration = 25.0,
        start_timeout: Duration | None = 60.0,
        name: str | None = None,
        drain: bool = False,
    ) -> None:
        check_count("concurrency", concurrency)
        check_count("threads", threads)
        check_count("memory", memory)
        if type(drain) is not bool:
            raise ConfigError(f"drain: {shortened(drain)} is not True or False")
        self.name = fresh_id()[:8] if name is None else name
        self._digests = digests
        self._limits = Limits(concurrency, threads, memory)
        self._poll = check_seconds("poll", poll)
        self._grace = check_seconds("grace", grace)
        self._start_timeout = None if start_timeout is None else check_seconds("start_timeout", start_timeout)
        self._drains = drain
        self._suspects: Suspects | None = None  # of `run_once`: how long they have waited outlasts a call
        self._last_error: StoreError | None = None
        self._is_stopping = False
        self._wake: Callable[[], None] | None = None
        self._loop: Loop | None = None  # of `serve`

    def stop(self) -> None:
        """Claim nothing more; running handlers may finish. May be called in any thread or signal handler."""
        self._is_stopping = True
        if self._wake is not None:
            self._wake()

    async def serve(self) -> None:
        """Work until `stop`. If this is cancelled, what is running is cancelled and given back at once."""
        if self._drains:
            await self.drain()
            return
        attempts = self._attempts(None)
        loop = self._loop = Loop(attempts, self._limits, tuning=self.tuning)
        reached = asyncio.Event()
        reaching = asyncio.create_task(_check_reach(attempts, loop, reached, seconds=self.tuning.reach))
        replanning = asyncio.create_task(self._replan(attempts, loop, reached))
        wakeups = await loop.in_thread(attempts.store.listen)
        async with self._running(attempts, loop, reached) as ending:
            attempts.report_short_windows(poll=self._poll)
            try:
                await self._work(attempts, loop, wakeups, reached)
                ending.grace = self._grace
            finally:
                reaching.cancel()
                replanning.cancel()
                wakeups.close()

    async def drain(self) -> int:
        """Deliver what is due now and return when it has ended: how many timelines it claimed.

        It waits for nothing that is due later, retries of failed attempts included, and for handlers as long as one of
        them ends every `grace` seconds: then what they have not finished is given back. Raises StoreError if the store
        does not answer.
        """
        attempts = self._attempts(None)
        loop = Loop(attempts, self._limits, tuning=self.tuning)
        running, reached = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: _call_soon(running, loop.wake)
        async with self._running(attempts, loop, reached) as ending:
            began = await loop.in_thread(attempts.time)
            reached.set()
            await self._replan_once(attempts, loop, self._digests.replan_changed)
            drained = Drain(loop, began=began, partitions=attempts.store.partitions, patience=self._grace)
            try:
                while not self._is_stopping and not drained.is_over:
                    await drained.step()
            except StoreError:
                ending.grace = self._grace
                raise
            if self._is_stopping:
                ending.grace = self._grace
        return drained.claimed

    @asynccontextmanager
    async def _running(self, attempts: Attempts, loop: Loop, reached: asyncio.Event) -> "AsyncIterator[Ending]":
        """Leases are renewed and the worker is noted in the store, until it has ended what it began."""
        ending, presence = Ending(), Presence(attempts, self.name)
        noting = asyncio.create_task(self._note(presence, loop, reached))
        sampling = asyncio.create_task(self._sample(attempts, loop, reached))
        with Heartbeat(attempts.renew, seconds=attempts.lease / 3000):
            attempts.events.emit(_started(self.name, attempts))
            try:
                yield ending
            finally:
                self._wake = None
                noting.cancel()
                sampling.cancel()
                if loop.timelines and ending.grace:
                    attempts.events.emit(_stopping(self.name, loop, ending.grace))
                with suppress(StoreError, TimeoutError):
                    await asyncio.wait_for(loop.in_thread(presence.leave), self.tuning.cancel)
                await loop.wind_down(ending.grace)
                await attempts.handlers.close()
                attempts.events.emit(
                    WorkerStopped(worker=self.name, delivered=attempts.delivered, returned=attempts.returned)
                )

    async def _note(self, presence: Presence, loop: Loop, reached: asyncio.Event) -> None:
        """Note that the worker is alive. Nothing depends on it: a store that does not answer is asked again later."""
        await reached.wait()
        while True:
            with suppress(StoreError):
                await loop.in_thread(presence.renew)
            await asyncio.sleep(self.tuning.presence * (0.8 + 0.4 * chance()))

    async def _sample(self, attempts: Attempts, loop: Loop, reached: asyncio.Event) -> None:
        """Note the counters of the store from time to time, for curves. One of all processes does it."""
        await reached.wait()
        sampler = Sampler(attempts.store)
        while True:
            await asyncio.sleep(self.tuning.sampling)
            with suppress(StoreError):
                await loop.in_thread(lambda: sampler.tick(attempts.time()))

    async def run_once(self, now: float | None = None) -> int:
        """Deliver some of what is due and return when it has ended: how many timelines it claimed, 0 if none is due."""
        attempts = self._attempts(now)
        if self._suspects is None:
            self._suspects = Suspects(lease_seconds=attempts.lease / 1000, patience_seconds=self.tuning.suspects)
        loop = Loop(attempts, self._limits, self._suspects, tuning=self.tuning)
        with Heartbeat(attempts.renew, seconds=attempts.lease / 3000):
            try:
                claimed = (await loop.run_once()).claimed
                await loop.idle()
            finally:
                await loop.wind_down(0)
                await attempts.handlers.close()
        return claimed

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; with `drain`, until what is due is delivered."""
        run(self)

    def _attempts(self, now: float | None) -> Attempts:
        attempts = self._digests.attempts(now)
        if not attempts.handlers:
            raise ConfigError(
                "there is no handler: register one with @digests.handler('mail:*'), or a route, before a worker runs"
            )
        return attempts

    async def _work(self, attempts: Attempts, loop: Loop, wakeups: Wakeups, reached: asyncio.Event) -> None:
        """Claim until stopped. As long as there is plenty, a second claim is under way while the first is read.

        So it is while the first takes long at a store of several servers: it may wait for one that does not answer.
        """
        running = asyncio.get_running_loop()
        began: dict[object, float] = {}  # the rounds under way
        stopped, plenty, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

        def wake() -> None:
            for event in (stopped, plenty, answered):
                event.set()
            loop.wake()
            wakeups.close()

        self._wake = lambda: _call_soon(running, wake)

        async def claim(rest: Callable[[], Awaitable[frozenset[int] | None]]) -> None:
            failures, partitions = 0, None
            while not self._is_stopping:
                began[rest] = monotonic()
                try:
                    more = (await loop.run_once(partitions)).more
                    failures, partitions = 0, None
                    answered.set()
                    reached.set()
                except StoreError as error:
                    failures, partitions = failures + 1, None
                    self._last_error = error
                    attempts.events.emit(StoreFailed(operation="claim", error=error))
                    await _wait(stopped, self.tuning.pause(failures))
                    continue
                finally:
                    del began[rest]
                if more:
                    plenty.set()
                elif not self._is_stopping:
                    plenty.clear()
                    partitions = await rest()
            answered.set()  # stopped: the answer does not matter any more

        async def rest_until_plenty() -> None:
            while not plenty.is_set():
                await _wait(plenty, self.tuning.slow)
                if attempts.store.is_divided and any(monotonic() - at > self.tuning.slow for at in began.values()):
                    return

        hints = Hints(wakeups, poll=self._poll)
        first, second = claim(lambda: loop.in_thread(hints.wait)), claim(rest_until_plenty)
        tasks = [asyncio.create_task(each) for each in (first, second, self._give_up_unless(answered))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for each in tasks:
                each.cancel()

    async def _replan(self, attempts: Attempts, loop: Loop, reached: asyncio.Event) -> None:
        """Plan timelines again whose policy changed with the code, and all of them after the clock was set back.

        Deliveries do not wait for that.
        """
        await reached.wait()
        await self._replan_at_last(attempts, loop, self._digests.replan_changed)
        watch = ClockWatch()
        while not self._is_stopping:
            with suppress(StoreError):
                if watch.was_set_back(await loop.in_thread(attempts.time)):
                    await self._replan_at_last(attempts, loop, self._digests.replan)
            await asyncio.sleep(self.tuning.sampling)

    async def _replan_at_last(self, attempts: Attempts, loop: Loop, replan: Replanning) -> None:
        """Plan again as soon as the store answers."""
        failures = 0
        while not self._is_stopping and not await self._replan_once(attempts, loop, replan):
            failures += 1
            await asyncio.sleep(self.tuning.pause(failures))

    async def _replan_once(self, attempts: Attempts, loop: Loop, replan: Replanning) -> bool:
        """False if the store did not answer, which is reported."""
        try:
            answer = await loop.in_thread(replan)
            if isawaitable(answer):  # of an AsyncDigests
                await answer
        except StoreError as error:
            attempts.events.emit(StoreFailed(operation="replan", error=error))
            return False
        return True

    async def _give_up_unless(self, answered: asyncio.Event) -> None:
        """StoreUnavailable if the store has not answered in time: waiting does not correct a wrong address."""
        try:
            await asyncio.wait_for(answered.wait(), self._start_timeout)
        except TimeoutError:
            reason = f" ({self._last_error})" if self._last_error else ""
            raise StoreUnavailable(
                f"the store has not answered once in {self._start_timeout:g} s{reason}; check its address and "
                "password, or let the worker wait for it (--wait, start_timeout=None)"
            ) from self._last_error


class Ending:
    """How a worker ends."""

    grace = 0.0  # seconds for handlers that are running


def _started(name: str, attempts: Attempts) -> WorkerStarted:
    handlers = list(attempts.handlers)
    channels = {handler.channel for handler in handlers if isinstance(handler.channel, str)}
    patterns = tuple(handler.pattern for handler in handlers)
    return WorkerStarted(worker=name, store=attempts.place, handlers=patterns, channels=tuple(sorted(channels)))


def _stopping(name: str, loop: Loop, grace: float) -> WorkerStopping:
    timelines = loop.timelines
    return WorkerStopping(worker=name, running=len(timelines), timelines=tuple(timelines[:100]), grace=grace)


async def _check_reach(attempts: Attempts, loop: Loop, reached: asyncio.Event, *, seconds: float) -> None:
    """Say soon why the store can't be reached: a claim would try for longer before it fails."""
    error: StoreError = StoreUnavailable(f"the store has not answered for {seconds:g} s; check its address")
    try:
        await asyncio.wait_for(loop.in_thread(attempts.store.reach), seconds)
        reached.set()
        return
    except TimeoutError:
        pass
    except StoreError as reason:
        error = reason
    except ConfigError:
        return  # claims raise it
    attempts.events.emit(StoreFailed(operation="connect", error=error))


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nothing waits any more
        loop.call_soon_threadsafe(call)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
