"""`AsyncDigests`: `Digests` for asyncio. Store calls run in threads; concurrent adds share one call."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from digestif.additions import acceptance, pages_of
from digestif.attempts.steps import Accept, Call, Finished, GoOn, NotBegun, Request, Steps, advance, follow, send
from digestif.blocks import async_digest_block
from digestif.core.cadences import Cadences
from digestif.core.options import refuse_misspelt
from digestif.core.policy import Policy
from digestif.core.records import Acceptance, Digest, ScheduleEntry, check_timeline
from digestif.core.terms import Terms
from digestif.core.times import Duration, Instant, Millis
from digestif.deliveries import Deliveries, delivery_of, throw
from digestif.digests import Digests
from digestif.dsn import forgetful
from digestif.errors import DigestifError, StoreUnavailable
from digestif.intake.arrivals import TermsOf
from digestif.intake.policies import PolicyOf
from digestif.schedule import SCHEDULE_PAGE, schedule_pages
from digestif.shared_adds import SharedAdds
from digestif.stores.base import Accepted, Arrival, Store
from digestif.stores.codec import Codec, LargeValue

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger("digestif")

_THREADS = 8
_MOST_LONG = 4  # calls that take longer than that, side by side: half of the threads


def _awaitable(
    method: Callable[Concatenate[Digests, P], T],
) -> "Callable[Concatenate[AsyncDigests, P], Coroutine[Any, Any, T]]":
    """The same method, run in a thread."""

    @wraps(method)
    async def call(self: "AsyncDigests", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.in_thread(partial(method, self.sync, *args, **kwargs))

    return call


def _unchanged(method: Callable[Concatenate[Digests, P], T]) -> "Callable[Concatenate[AsyncDigests, P], T]":
    """Call a method of `Digests`, which does not wait for the store."""

    @wraps(method)
    def call(self: "AsyncDigests", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.sync, *args, **kwargs)

    return call


def _like(
    method: Callable[Concatenate[Digests, P], object],
) -> "Callable[[Callable[..., R]], Callable[Concatenate[AsyncDigests, P], R]]":
    """Show a method with the parameters of the same method of `Digests`, to `help` and to type checkers."""

    def decorate(call: Callable[..., R]) -> "Callable[Concatenate[AsyncDigests, P], R]":
        call.__wrapped__ = method  # type: ignore[attr-defined]  # where `inspect` looks for its parameters
        return call

    return decorate


class AsyncDigests:
    """`Digests` for asyncio: every method awaitable, `async for` over schedule, `async with` for digest.

    `sync` is a `Digests` with the same store, handlers and routes, for code in threads. `engine` is as in `Digests`.
    """

    @forgetful
    @refuse_misspelt
    def __init__(
        self,
        store: str | Store,
        *,
        policy: Policy | PolicyOf | None = None,
        namespace: str = "d",
        lease: Duration = 30,
        codec: str | Codec = "json",
        clock: Callable[[], float] | None = None,
        cadences: Cadences | Mapping[str, Any] | None = None,
    ) -> None:
        self.sync = Digests(
            store, policy=policy, namespace=namespace, lease=lease, codec=codec, clock=clock, cadences=cadences
        )
        self.engine = self.sync.engine
        self._renew_threads()
        self._ending: set[Future[None]] = set()  # steps whose caller was cancelled
        self._driven: set[Steps[Any]] = set()  # by coroutines
        self._closed = False

    @property
    def store(self) -> Store:
        return self.sync.store

    @property
    def policy(self) -> Policy:
        return self.sync.policy

    @property
    def cadences(self) -> Cadences:
        """The cadences that people can choose from."""
        return self.sync.cadences

    @property
    def enabled(self) -> bool:
        """False if the store accepts nothing (`off://`)."""
        return self.sync.enabled

    async def close(self) -> None:
        """Wait for calls that are under way, then close as `Digests.close` does."""
        if self._closed:
            return
        for adds in self._own_adds.values():
            await adds.drained()
        await self.engine.handlers.close()
        while ending := list(self._ending):
            await asyncio.wait([asyncio.wrap_future(each) for each in ending])
        await self.in_thread(self.sync.close)
        self._closed = True
        for threads in (self._threads, self._adding):
            threads.shutdown(wait=False)

    async def __aenter__(self) -> "AsyncDigests":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Make a call that waits, in one of the threads in which the store is called."""
        return await asyncio.wrap_future(self._submit(call))

    def _submit(self, call: Callable[[], T], *, adds: bool = False) -> Future[T]:
        """Let a thread make a call. It is made even if the event loop ends before.

        Adds have threads of their own, so that they never wait for calls that read much.
        """
        self._refuse_if_closed()
        if self._process != os.getpid():  # a fork does not copy threads
            self._renew_threads()
        return (self._adding if adds else self._threads).submit(_without_stop, call)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("this AsyncDigests is closed")

    def _renew_threads(self) -> None:
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="digestif")
        self._adding = ThreadPoolExecutor(_THREADS, thread_name_prefix="digestif-adds")
        self._shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, SharedAdds]] = WeakKeyDictionary()

    @property
    def _own_adds(self) -> "dict[bool, SharedAdds]":
        """Return the adds of the running loop, by whether the server of a timeline does not answer.

        Several loops, each in its own thread, may use this object.
        """
        loop = asyncio.get_running_loop()
        adds = self._shared.get(loop)
        if adds is None:
            adding = self.engine, partial(self._submit, adds=True)
            silent = SharedAdds(*adding)
            adds = self._shared[loop] = {False: SharedAdds(*adding, silent=silent, most_long=_MOST_LONG), True: silent}
        return adds

    def _share(self, arrival: Arrival, now: Millis | None) -> "asyncio.Future[Accepted]":
        return self._own_adds[self.store.is_silent(arrival.timeline)].add(arrival, now)

    @_like(Digests.add)
    async def add(
        self,
        timeline: str,
        value: Any,
        *,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        connection: Any = None,
        now: float | None = None,
        **delays: Duration | None,
    ) -> bool:
        """Accept a record, as `Digests.add` does. If cancelled, the record may or may not have been accepted."""
        engine = self.engine
        intake = engine.intake
        terms = intake.terms(now=now, **delays)
        if engine.policies.asks:
            terms = await self._terms(timeline, terms)
        arrival = await self._arrival(timeline, value, key, timestamp, within=within, terms=terms, now=now)
        if arrival.terms.given:
            await self._refuse_long_delays([arrival])
        if connection is not None:
            await self.store.add_inside_async(connection, [arrival], in_thread=self.in_thread)
            return False
        return (await self._share(arrival, intake.millis(now))).ready

    @_like(Digests.accept)
    async def accept(
        self,
        timeline: str,
        value: Any,
        *,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        now: float | None = None,
        **delays: Duration | None,
    ) -> Acceptance:
        """Accept a record, as `Digests.accept` does. If cancelled, the record may or may not have been accepted."""
        engine = self.engine
        intake = engine.intake
        terms = intake.terms(now=now, **delays)
        if engine.policies.asks:
            terms = await self._terms(timeline, terms)
        arrival = await self._arrival(timeline, value, key, timestamp, within=within, terms=terms, now=now, asks=True)
        if arrival.terms.given:
            await self._refuse_long_delays([arrival])
        return acceptance(arrival, await self._share(arrival, intake.millis(now)))

    async def _arrival(self, *given: Any, **named: Any) -> Arrival:
        """Return a checked record for the store. Whether the namespace takes large values is read in a thread."""
        intake = self.engine.intake
        try:
            return intake.arrival(*given, **named, waits=False)
        except LargeValue:
            return await self.in_thread(partial(intake.arrival, *given, **named))

    async def _terms(self, timeline: str, terms: TermsOf) -> TermsOf:
        """Return the terms of one add. A user's function that gives the policy may be slow: it runs in a thread."""
        if self.engine.policies.is_known(check_timeline(timeline)):
            return terms
        return partial(_same, await self.in_thread(partial(terms, timeline)))

    async def _refuse_long_delays(self, arrivals: Sequence[Arrival]) -> None:
        await self.in_thread(partial(self.engine.refuse_long_delays, arrivals))

    @_like(Digests.add_many)
    async def add_many(
        self,
        records: Iterable[tuple[str, Any]],
        *,
        within: float | None = None,
        connection: Any = None,
        now: float | None = None,
        **delays: float | None,
    ) -> list[bool]:
        """Accept many records, as `Digests.add_many` does."""
        if connection is None:
            return await self.in_thread(partial(self.sync.add_many, records, within=within, now=now, **delays))
        intake = self.engine.intake
        terms = intake.terms(now=now, **delays)
        arrivals = await self.in_thread(partial(intake.arrivals, records, within=within, terms=terms, now=now))
        if arrivals and arrivals[0].terms.given:
            await self._refuse_long_delays(arrivals)
        for page in pages_of(arrivals):
            await self.store.add_inside_async(connection, page, in_thread=self.in_thread)
        return [False] * len(arrivals)

    @_like(Digests.notify)
    async def notify(
        self,
        timeline: str,
        value: Any,
        *,
        minimum_delay: Duration | None = None,
        dispatch: Callable[[str], object] | None = None,
        now: float | None = None,
        **record: Any,
    ) -> bool:
        """Add a record and deliver its timeline now if it is due then, as `Digests.notify` does."""
        deliveries = Deliveries(self.engine, now, blocking=False)
        steps = deliveries.notify(timeline, value, minimum_delay=minimum_delay, dispatch=dispatch, record=record)
        return await self._drive(deliveries, steps)

    @_like(Digests.deliver)
    async def deliver(self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None) -> bool:
        """Open a ready timeline and let its handler deliver it here and now, as `Digests.deliver` does."""
        deliveries = Deliveries(self.engine, now, blocking=False)
        return await self._drive(deliveries, deliveries.deliver(timeline, minimum_delay))

    @_like(Digests.serve)
    async def serve(self, **options: Any) -> None:
        """Run a worker on the running event loop until cancelled; the options are those of `Worker`."""
        await self.sync.serve(**options)

    def schedule(
        self, deadline: float | None = None, page: int = SCHEDULE_PAGE, *, now: float | None = None
    ) -> AsyncIterator[ScheduleEntry]:
        """Make due timelines ready and yield them, as `Digests.schedule` does."""
        return self._entries(schedule_pages(self.engine, deadline, page, now=now))

    async def _entries(self, pages: Iterator[list[ScheduleEntry]]) -> AsyncIterator[ScheduleEntry]:
        while (page := await self.in_thread(partial(next, pages, None))) is not None:
            for entry in page:
                yield entry

    @async_digest_block
    async def digest(
        self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None
    ) -> AsyncIterator[Digest]:
        """Open a ready timeline and deliver its digest in the block, as `Digests.digest` does."""
        deliveries = Deliveries(self.engine, now, blocking=False)
        self._refuse_if_closed()
        steps = deliveries.digest(timeline, minimum_delay)
        with self._driving(steps):
            delivery = delivery_of(await self._advance(steps))
            try:
                with deliveries.renewed(delivery):
                    yield delivery.digest
            except GeneratorExit as gone:  # of the block, or as the event loop has gone: nothing can be awaited
                self._end_in_thread(steps, gone)
                raise
            except BaseException as error:
                await self._in_thread_of(steps, partial(throw, steps, error))
                raise
            await self._advance(steps)

    # Driving steps

    async def _drive(self, deliveries: Deliveries, steps: Steps[T]) -> T:
        """Drive steps to their end: calls in threads, handlers and adds on the event loop."""
        self._refuse_if_closed()
        with self._driving(steps):
            found = await self._advance(steps)
            while not isinstance(found, Finished):
                answer: Any = None
                error: BaseException | None = None
                try:
                    answer = await self._perform(deliveries, found)
                except GeneratorExit as gone:  # of the handler, or as the event loop has gone: nothing can be awaited
                    self._end_in_thread(steps, gone)
                    raise
                except BaseException as failure:  # noqa: BLE001  # thrown into the steps
                    error = failure
                try:
                    found = await self._advance(steps, answer, error)
                finally:
                    del error  # whose traceback has this frame
        result: T = found.answer
        return result

    @contextmanager
    def _driving(self, steps: Steps[Any]) -> Iterator[None]:
        """Keep steps alive while a coroutine drives them.

        Once its event loop is closed, both may be garbage. Steps that the garbage collector closes before the coroutine
        can't give their digest back.
        """
        self._driven.add(steps)
        try:
            yield
        finally:
            self._driven.discard(steps)

    async def _perform(self, deliveries: Deliveries, request: Request) -> Any:
        if isinstance(request, Accept):
            return await self.accept(request.timeline, request.value, **request.options)
        if isinstance(request, GoOn):
            return None
        assert request.handler is not None
        with deliveries.renewed(request.delivery):
            return await request.handler.deliver(request.delivery, in_thread=self.in_thread)

    async def _advance(
        self, steps: Steps[Any], answer: Any = None, error: BaseException | None = None
    ) -> Request | Finished:
        """Send an answer, or throw an error; if steps ask for calls then, make these in one thread."""
        try:
            step = send(steps, answer, error)
        finally:
            del error
        return await self._in_thread_of(steps, partial(follow, steps, step)) if isinstance(step, Call) else step

    async def _in_thread_of(self, steps: Steps[Any], call: Callable[[], T]) -> T:
        """Drive steps on in a thread. If this is cancelled, they end all the same, without a delivery.

        After `close` there are no threads: the call is made here, and the closed store refuses it at once.
        """
        if self._closed:
            return call()
        under_way = self._submit(call)
        try:
            return await asyncio.shield(asyncio.wrap_future(under_way))
        except asyncio.CancelledError:
            if not _is_cancelled_inside(under_way):
                self._end_later(steps, under_way)
            raise
        finally:
            del under_way  # whose error has a traceback with this frame

    def _end_in_thread(self, steps: Steps[Any], error: GeneratorExit) -> None:
        """Throw an error into steps, and let them end in a thread."""
        try:
            under_way = self._submit(partial(advance, steps, error=error))
        except (RuntimeError, StoreUnavailable):  # there are no threads any more
            steps.close()
        else:
            self._end_later(steps, under_way)

    def _end_later(self, steps: Steps[Any], under_way: Future[Any]) -> None:
        """Let steps end that nothing waits for, in the thread that drives them: a slow store holds up no second one."""
        ended: Future[None] = Future()
        self._ending.add(ended)

        def on_advanced(under_way: Future[Any]) -> None:
            try:
                _end_undelivered(steps, under_way)
            finally:
                self._ending.discard(ended)
                ended.set_result(None)

        if under_way.done() and not self._closed:  # a callback would be called here, on the event loop
            self._submit(partial(on_advanced, under_way))
        else:
            under_way.add_done_callback(on_advanced)

    subscribe = _unchanged(Digests.subscribe)
    handler = _unchanged(Digests.handler)
    route = forgetful(_unchanged(Digests.route))
    keep_messages = _unchanged(Digests.keep_messages)
    forget_policies = _unchanged(Digests.forget_policies)

    accept_many = _awaitable(Digests.accept_many)
    accept_valid = _awaitable(Digests.accept_valid)
    retract = _awaitable(Digests.retract)
    maintenance = _awaitable(Digests.maintenance)
    delete = _awaitable(Digests.delete)
    flush = _awaitable(Digests.flush)
    pause = _awaitable(Digests.pause)
    resume = _awaitable(Digests.resume)
    replay = _awaitable(Digests.replay)
    requeue = _awaitable(Digests.requeue)
    discard = _awaitable(Digests.discard)
    set_policy = _awaitable(Digests.set_policy)
    clear_policy = _awaitable(Digests.clear_policy)
    policy_of = _awaitable(Digests.policy_of)
    prefer = _awaitable(Digests.prefer)
    preference = _awaitable(Digests.preference)
    replan = _awaitable(Digests.replan)
    replan_changed = _awaitable(Digests.replan_changed)
    timeline = _awaitable(Digests.timeline)
    timelines = _awaitable(Digests.timelines)
    timelines_page = _awaitable(Digests.timelines_page)
    peek = _awaitable(Digests.peek)
    explain = _awaitable(Digests.explain)
    trace = _awaitable(Digests.trace)
    backlog = _awaitable(Digests.backlog)
    overview = _awaitable(Digests.overview)
    outages = _awaitable(Digests.outages)
    failures = _awaitable(Digests.failures)
    workers = _awaitable(Digests.workers)
    samples = _awaitable(Digests.samples)
    ledger = _awaitable(Digests.ledger)
    check = _awaitable(Digests.check)
    verify = _awaitable(Digests.verify)
    repair = _awaitable(Digests.repair)
    dead_letters = _awaitable(Digests.dead_letters)
    dead_records = _awaitable(Digests.dead_records)
    history = _awaitable(Digests.history)
    messages = _awaitable(Digests.messages)
    message = _awaitable(Digests.message)
    preview = _awaitable(Digests.preview)


def _without_stop(call: Callable[[], T]) -> T:
    """Make a call. A StopIteration becomes a RuntimeError, as in a coroutine: futures of Python 3.11 can't hold one."""
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError("a function raised StopIteration") from error


def _same(terms: Terms, _: str) -> Terms:
    return terms


def _is_cancelled_inside(under_way: Future[Any]) -> bool:
    """Return True if steps have ended with the cancellation that was thrown into them."""
    return under_way.done() and not under_way.cancelled() and isinstance(under_way.exception(), asyncio.CancelledError)


def _end_undelivered(steps: Steps[Any], under_way: Future[Any]) -> None:
    """Drive steps to their end whose caller no longer waits: no handler is called. The event loop may have ended.

    Nothing is raised: an error would end the thread, which the executor would go on counting as one of its threads.
    """
    try:
        found = under_way.result()
        while not isinstance(found, Finished):
            found = advance(steps, error=NotBegun())
    except (DigestifError, CancelledError, asyncio.CancelledError, NotBegun, GeneratorExit):
        pass  # nothing was opened, or all has ended
    except BaseException:
        logger.exception("a delivery failed after its caller was cancelled")
