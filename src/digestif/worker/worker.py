"""The worker: claims what is due, runs handlers side by side, and ends attempts in batches."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from inspect import isawaitable
from typing import Protocol

from digestif.attempts.heartbeat import Heartbeat
from digestif.attempts.pipeline import Pipeline
from digestif.core.texts import shortened
from digestif.core.times import Duration
from digestif.errors import ConfigError, StoreError, StoreUnavailable
from digestif.events.engine import ShortWindow, StoreFailed, WorkerStarted, WorkerStopping
from digestif.ids import chance, fresh_id
from digestif.notes.samples import Sampler
from digestif.worker.clock_watch import ClockWatch
from digestif.worker.drain import Drain
from digestif.worker.limits import DEFAULT, Limits
from digestif.worker.loop import Loop
from digestif.worker.options import check_count, check_seconds
from digestif.worker.presence import Presence
from digestif.worker.rounds import Rounds, beside
from digestif.worker.signals import run
from digestif.worker.suspects import Suspects

MEMORY = 256 << 20  # bytes

Replanning = Callable[[], int | Awaitable[int]]


class Engine(Protocol):
    """What a worker needs of the engine of a `Digests`."""

    place: str  # of the store, as it may be shown

    def pipeline(self, now: float | None = None) -> Pipeline: ...


class Face(Protocol):
    """What a worker needs of a `Digests` or `AsyncDigests`."""

    @property
    def engine(self) -> Engine: ...
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
        digests: Face,
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
        self._is_stopping = False
        self._wake: Callable[[], None] | None = None
        self._loop: Loop | None = None  # of `serve`

    @property
    def held(self) -> int:
        """Bytes of the records that the worker holds, and of those that claims under way may bring."""
        return 0 if self._loop is None else self._loop.held

    def stop(self) -> None:
        """Claim nothing more; running handlers may finish. May be called in any thread or signal handler."""
        self._is_stopping = True
        if (wake := self._wake) is not None:  # read once: the end of `serve` takes it back
            wake()

    async def serve(self) -> None:
        """Work until `stop`. If this is cancelled, what is running is cancelled and given back at once."""
        if self._drains:
            await self.drain()
            return
        pipeline = self._pipeline(None)
        loop = self._loop = Loop(pipeline, self._limits, tuning=self.tuning)
        reached = asyncio.Event()
        async with (
            self._running(pipeline, loop, reached),
            beside(
                _check_reach(pipeline, loop, reached, seconds=self.tuning.reach),
                self._replan(pipeline, loop, reached),
            ),
            loop.listening() as wakeups,
        ):
            _report_short_windows(pipeline, poll=self._poll)
            rounds = Rounds(loop, pipeline, wakeups, poll=self._poll, reached=reached)
            self._wake = partial(_call_soon, asyncio.get_running_loop(), rounds.stop)
            if self._is_stopping:  # since before it could be woken
                rounds.stop()
            await rounds.run(start_timeout=self._start_timeout)
            loop.grace = self._grace

    async def drain(self) -> int:
        """Deliver what is due now and return when it has ended: how many timelines it claimed.

        It waits for nothing that is due later, retries of failed attempts included, and for handlers as long as one of
        them ends every `grace` seconds: then what they have not finished is given back. Raises StoreError if the store
        does not answer.
        """
        pipeline = self._pipeline(None)
        loop = Loop(pipeline, self._limits, tuning=self.tuning)
        reached = asyncio.Event()
        self._wake = partial(_call_soon, asyncio.get_running_loop(), loop.wake)
        async with self._running(pipeline, loop, reached):
            began = await loop.in_thread(pipeline.time)
            reached.set()
            await self._replan_once(pipeline, loop, self._digests.replan_changed)
            drained = Drain(loop, began=began, partitions=pipeline.store.partitions, patience=self._grace)
            try:
                while not self._is_stopping and not drained.is_over:
                    await drained.step()
            except StoreError:
                loop.grace = self._grace
                raise
            if self._is_stopping:
                loop.grace = self._grace
        return drained.claimed

    @asynccontextmanager
    async def _running(self, pipeline: Pipeline, loop: Loop, reached: asyncio.Event) -> AsyncIterator[None]:
        """Renew leases and note the worker in the store, until the worker has ended all attempts that it began."""
        presence = Presence(pipeline, self.name)
        with Heartbeat(pipeline.renew, lease=pipeline.leases.duration):
            pipeline.events.emit(_started(self.name, pipeline, place=self._digests.engine.place))
            try:
                async with beside(self._note(presence, loop, reached), self._sample(pipeline, loop, reached)):
                    yield
            finally:
                self._wake = None
                if loop.timelines and loop.grace:
                    pipeline.events.emit(_stopping(self.name, loop))
                with suppress(StoreError, TimeoutError):
                    await asyncio.wait_for(loop.in_thread(presence.leave), self.tuning.cancel)
                await loop.wind_down(loop.grace)
                await pipeline.handlers.close()
                pipeline.events.emit(pipeline.reports.stopped(self.name))

    async def _note(self, presence: Presence, loop: Loop, reached: asyncio.Event) -> None:
        """Note that the worker is alive. Nothing depends on it: a store that does not answer is asked again later."""
        await reached.wait()
        while True:
            with suppress(StoreError):
                await loop.in_thread(presence.renew)
            await asyncio.sleep(self.tuning.presence * (0.8 + 0.4 * chance()))

    async def _sample(self, pipeline: Pipeline, loop: Loop, reached: asyncio.Event) -> None:
        """Note the counters of the store from time to time, for curves. One of all processes does it."""
        await reached.wait()
        sampler = Sampler(pipeline.store)
        while True:
            await asyncio.sleep(self.tuning.sampling)
            with suppress(StoreError):
                await loop.in_thread(lambda: sampler.tick(pipeline.time()))

    async def run_once(self, now: float | None = None) -> int:
        """Deliver some of what is due and return when it has ended: how many timelines it claimed, 0 if none is due."""
        pipeline = self._pipeline(now)
        loop = Loop(pipeline, self._limits, self._suspects, tuning=self.tuning)
        self._suspects = loop.suspects
        with Heartbeat(pipeline.renew, lease=pipeline.leases.duration):
            try:
                claimed = (await loop.run_once()).claimed
                await loop.idle()
            finally:
                await loop.wind_down(0)
                await pipeline.handlers.close()
        return claimed

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; with `drain`, until what is due is delivered."""
        run(self)

    def _pipeline(self, now: float | None) -> Pipeline:
        pipeline = self._digests.engine.pipeline(now)
        if not pipeline.handlers:
            raise ConfigError(
                "there is no handler: register one with @digests.handler('mail:*'), or a route, before a worker runs"
            )
        return pipeline

    async def _replan(self, pipeline: Pipeline, loop: Loop, reached: asyncio.Event) -> None:
        """Plan timelines again whose policy changed with the code, and all of them after the clock was set back.

        Deliveries do not wait for that.
        """
        await reached.wait()
        await self._replan_at_last(pipeline, loop, self._digests.replan_changed)
        watch = ClockWatch()
        while not self._is_stopping:
            with suppress(StoreError):
                if watch.was_set_back(await loop.in_thread(pipeline.time)):
                    await self._replan_at_last(pipeline, loop, self._digests.replan)
            await asyncio.sleep(self.tuning.sampling)

    async def _replan_at_last(self, pipeline: Pipeline, loop: Loop, replan: Replanning) -> None:
        """Plan again as soon as the store answers."""
        failures = 0
        while not self._is_stopping and not await self._replan_once(pipeline, loop, replan):
            failures += 1
            await asyncio.sleep(self.tuning.pause(failures))

    async def _replan_once(self, pipeline: Pipeline, loop: Loop, replan: Replanning) -> bool:
        """Plan again; report a store that does not answer, and return False."""
        try:
            answer = await loop.in_thread(replan)
            if isawaitable(answer):  # of an AsyncDigests
                await answer
        except StoreError as error:
            pipeline.events.emit(StoreFailed(operation="replan", error=error))
            return False
        return True


def _started(name: str, pipeline: Pipeline, *, place: str) -> WorkerStarted:
    handlers = list(pipeline.handlers)
    channels = {handler.channel for handler in handlers if isinstance(handler.channel, str)}
    patterns = tuple(handler.pattern for handler in handlers)
    return WorkerStarted(worker=name, store=place, handlers=patterns, channels=tuple(sorted(channels)))


def _stopping(name: str, loop: Loop) -> WorkerStopping:
    timelines = loop.timelines
    return WorkerStopping(worker=name, running=len(timelines), timelines=tuple(timelines[:100]), grace=loop.grace)


def _report_short_windows(pipeline: Pipeline, *, poll: float) -> None:
    """Report the windows in the code that a worker may miss, because it looks too seldom."""
    for source, window in pipeline.policies.windows():
        problem = window.missed_by(poll)
        if problem is not None:
            pipeline.events.emit(ShortWindow(source=source, problem=problem))


async def _check_reach(pipeline: Pipeline, loop: Loop, reached: asyncio.Event, *, seconds: float) -> None:
    """Say soon why the store can't be reached: a claim would try for longer before it fails."""
    error: StoreError = StoreUnavailable(f"the store has not answered for {seconds:g} s; check its address")
    try:
        await asyncio.wait_for(loop.in_thread(pipeline.store.reach), seconds)
        reached.set()
        return
    except TimeoutError:
        pass
    except StoreError as reason:
        error = reason
    except ConfigError:
        return  # claims raise it
    pipeline.events.emit(StoreFailed(operation="connect", error=error))


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nothing waits any more
        loop.call_soon_threadsafe(call)
