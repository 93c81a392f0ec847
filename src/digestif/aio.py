"""`AsyncDigests`: `Digests` for asyncio. Store calls run in threads; concurrent adds share one call."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from digestif.additions import acceptance, pages_of
from digestif.attempts import Attempt, Attempts
from digestif.blocks import async_digest_block
from digestif.core.cadences import Cadences
from digestif.core.options import refuse_misspelt
from digestif.core.policy import Policy
from digestif.core.records import Acceptance, Digest, ScheduleEntry, check_timeline
from digestif.core.terms import Terms
from digestif.core.times import Duration, Instant, Millis
from digestif.core.verdicts import DELIVERED, give_back
from digestif.digests import SCHEDULE_PAGE, Digests, check_notify_delays
from digestif.dsn import forgetful
from digestif.errors import DigestifError, InvalidState, StaleLease, StoreUnavailable
from digestif.intake.arrivals import TermsOf
from digestif.intake.policies import PolicyOf
from digestif.stores.base import PAGE_RECORDS, Accepted, Arrival, Store
from digestif.stores.codec import Codec, LargeValue

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
Opened = TypeVar("Opened", bound=Attempt | None)

_THREADS = 8
_GATHERING = 0.005  # seconds
_TURNS = 2  # of the event loop, from what a socket has received to an add
_LONG = 1.0  # seconds after which the adds that wait for a store call are sent beside it
_MOST_LONG = 4  # calls that take longer than that, side by side: half of the threads


def _awaitable(
    method: Callable[Concatenate[Digests, P], T],
) -> "Callable[Concatenate[AsyncDigests, P], Coroutine[Any, Any, T]]":
    """The same method, run in a thread."""

    @wraps(method)
    async def call(self: "AsyncDigests", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._in_thread(partial(method, self._digests, *args, **kwargs))

    return call


def _unchanged(method: Callable[Concatenate[Digests, P], T]) -> "Callable[Concatenate[AsyncDigests, P], T]":
    """The same method, which does not wait for the store."""

    @wraps(method)
    def call(self: "AsyncDigests", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._digests, *args, **kwargs)

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
    """`Digests` for asyncio: every method awaitable, `async for` over schedule, `async with` for digest."""

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
        self._digests = Digests(
            store, policy=policy, namespace=namespace, lease=lease, codec=codec, clock=clock, cadences=cadences
        )
        self._renew_threads()
        self._returning: set[Future[None]] = set()  # give back digests whose opener was cancelled
        self._closed = False

    @property
    def store(self) -> Store:
        return self._digests.store

    @property
    def policy(self) -> Policy:
        return self._digests.policy

    @property
    def cadences(self) -> Cadences:
        """The cadences that people can choose from."""
        return self._digests.cadences

    @property
    def enabled(self) -> bool:
        """False if the store accepts nothing (`off://`)."""
        return self._digests.enabled

    async def close(self) -> None:
        """Wait for calls that are under way, then close as `Digests.close` does."""
        if self._closed:
            return
        for gate in self._own_gates.values():
            await gate.drained()
        await self._digests._handlers.close()
        while returning := list(self._returning):
            await asyncio.wait([asyncio.wrap_future(each) for each in returning])
        await self._in_thread(self._digests.close)
        self._closed = True
        for threads in (self._threads, self._adding):
            threads.shutdown(wait=False)

    async def __aenter__(self) -> "AsyncDigests":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._submit(call))

    def _submit(self, call: Callable[[], T], *, adds: bool = False) -> Future[T]:
        """Let a thread make a call. It is made even if the event loop ends before.

        Adds have threads of their own, so that they never wait for calls that read much.
        """
        if self._closed:
            raise StoreUnavailable("this AsyncDigests is closed")
        if self._process != os.getpid():  # a fork does not copy threads
            self._renew_threads()
        return (self._adding if adds else self._threads).submit(call)

    def _renew_threads(self) -> None:
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="digestif")
        self._adding = ThreadPoolExecutor(_THREADS, thread_name_prefix="digestif-adds")
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, _AddGate]] = WeakKeyDictionary()

    @property
    def _own_gates(self) -> "dict[bool, _AddGate]":
        """The gates of the running loop, by whether the server of a timeline does not answer.

        Several loops, each in its own thread, may use this object.
        """
        loop = asyncio.get_running_loop()
        gates = self._gates.get(loop)
        if gates is None:
            gates = self._gates[loop] = {False: _AddGate(self, most_long=_MOST_LONG), True: _AddGate(self)}
        return gates

    def _through_gate(self, arrival: Arrival, now: Millis | None) -> "asyncio.Future[Accepted]":
        return self._own_gates[self.store.is_silent(arrival.timeline)].add(arrival, now)

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
        intake = self._digests._intake
        terms = intake.terms(now=now, **delays)
        if self._digests._policies.asks:
            terms = await self._terms(timeline, terms)
        arrival = await self._arrival(timeline, value, key, timestamp, within=within, terms=terms, now=now)
        if arrival.terms.given:
            await self._refuse_long_delays([arrival])
        if connection is not None:
            await self.store.add_inside_async(connection, [arrival], in_thread=self._in_thread)
            return False
        return (await self._through_gate(arrival, intake.millis(now))).ready

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
        intake = self._digests._intake
        terms = intake.terms(now=now, **delays)
        if self._digests._policies.asks:
            terms = await self._terms(timeline, terms)
        arrival = await self._arrival(timeline, value, key, timestamp, within=within, terms=terms, now=now, asks=True)
        if arrival.terms.given:
            await self._refuse_long_delays([arrival])
        return acceptance(arrival, await self._through_gate(arrival, intake.millis(now)))

    async def _arrival(self, *given: Any, **named: Any) -> Arrival:
        """A record for the store. Whether the namespace allows a large value is read in a thread."""
        intake = self._digests._intake
        try:
            return intake.arrival(*given, **named, waits=False)
        except LargeValue:
            return await self._in_thread(partial(intake.arrival, *given, **named))

    async def _terms(self, timeline: str, terms: TermsOf) -> TermsOf:
        """The terms of one add. A function of the user's that gives the policy may take its time: it has a thread."""
        if self._digests._policies.is_known(check_timeline(timeline)):
            return terms
        return partial(_same, await self._in_thread(partial(terms, timeline)))

    async def _refuse_long_delays(self, arrivals: Sequence[Arrival]) -> None:
        await self._in_thread(partial(self._digests._refuse_long_delays, arrivals))

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
            return await self._in_thread(partial(self._digests.add_many, records, within=within, now=now, **delays))
        intake = self._digests._intake
        terms = intake.terms(now=now, **delays)
        arrivals = await self._in_thread(partial(intake.arrivals, records, within=within, terms=terms, now=now))
        if arrivals and arrivals[0].terms.given:
            await self._refuse_long_delays(arrivals)
        for page in pages_of(arrivals):
            await self.store.add_inside_async(connection, page, in_thread=self._in_thread)
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
        check_notify_delays(minimum_delay, dispatch)
        await self._check_cool_down(timeline, minimum_delay)
        if not self._digests._gathers(check_timeline(timeline)):
            override = await self._in_thread(partial(self._digests._override, timeline))
            if override is None or not override.off:
                attempt = self._digests._unstored(timeline, value, override=override, now=now, **record)
                return await self._deliver_alone(attempt, now=now)
        if not dispatch:
            self._digests._handlers.required(timeline)
        accepted = await self.accept(timeline, value, now=now, **record)
        make_ready = partial(self._digests._made_ready, timeline, accepted.due, now=now)
        is_ready = accepted.ready or await self._in_thread(make_ready)
        if is_ready and dispatch:
            await self._in_thread(partial(dispatch, timeline))
        elif is_ready:
            make_ready = partial(self._digests._made_ready, timeline, 0, now=now)
            with suppress(InvalidState, StaleLease):  # as in `Digests.notify`
                while await self._deliver(timeline, minimum_delay, now=now) and await self._in_thread(make_ready):
                    pass
        return is_ready

    async def _check_cool_down(self, timeline: str, minimum_delay: Duration | None) -> None:
        if minimum_delay is not None:
            await self._in_thread(partial(self._digests._check_cool_down, timeline, minimum_delay))

    async def _deliver_alone(self, attempt: Attempt, *, now: float | None) -> bool:
        assert attempt.handler is not None
        try:
            error = await attempt.handler.deliver(attempt, in_thread=self._in_thread)
        except BaseException as failure:  # noqa: BLE001  # raised below
            error = failure
        return self.attempts(now).finish_unstored(attempt, error)

    @_like(Digests.deliver)
    async def deliver(self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None) -> bool:
        """Open a ready timeline and let its handler deliver it here and now, as `Digests.deliver` does."""
        self._digests._handlers.required(check_timeline(timeline))
        await self._check_cool_down(timeline, minimum_delay)
        return await self._deliver(timeline, minimum_delay, now=now)

    async def _deliver(self, timeline: str, minimum_delay: Duration | None, *, now: float | None) -> bool:
        digests = self._digests
        handler = digests._handlers.required(timeline)
        attempts = digests._attempts_to_open(now)
        opening = partial(attempts.open_for, handler, timeline, minimum_delay=minimum_delay)
        attempt = await self._opened(attempts, opening)
        if attempt is None:
            return False
        try:
            with attempts.renewed(attempt, renews=digests._renews(now)):
                error = await handler.deliver(attempt, in_thread=self._in_thread)
        except Exception as failure:  # noqa: BLE001  # judged by the policy's rules
            error = failure
        except BaseException as interrupt:
            await self._end(partial(attempts.fail, attempt, interrupt))
            raise
        return await self._end(partial(attempts.conclude, attempt, error))

    @_like(Digests.serve)
    async def serve(self, **options: Any) -> None:
        """Run a worker on the running event loop until cancelled; the options are those of `Worker`."""
        await self._digests.serve(**options)

    def schedule(
        self, deadline: float | None = None, page: int = SCHEDULE_PAGE, *, now: float | None = None
    ) -> AsyncIterator[ScheduleEntry]:
        """Make due timelines ready and yield them, as `Digests.schedule` does."""
        return self._entries(self._digests._schedule(deadline, page, now=now))

    async def _entries(self, pages: Iterator[list[ScheduleEntry]]) -> AsyncIterator[ScheduleEntry]:
        while (page := await self._in_thread(partial(next, pages, None))) is not None:
            for entry in page:
                yield entry

    @async_digest_block
    async def digest(
        self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None
    ) -> AsyncIterator[Digest]:
        """Open a ready timeline and deliver its digest in the block, as `Digests.digest` does."""
        await self._check_cool_down(timeline, minimum_delay)
        digests = self._digests
        attempts = digests._attempts_to_open(now)
        opening = partial(attempts.open, check_timeline(timeline), minimum_delay=minimum_delay)
        attempt = await self._opened(attempts, opening)
        try:
            with attempts.renewed(attempt, renews=digests._renews(now)):
                yield attempt.digest
        except BaseException as error:
            await self._end(partial(attempts.fail, attempt, error))
            raise
        await self._end(partial(attempts.finish, attempt, DELIVERED))

    async def _opened(self, attempts: Attempts, call: Callable[[], Opened]) -> Opened:
        """Open in a thread; if cancelled, give the digest back as soon as it is open."""
        opening = self._submit(call)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            self._give_back_later(attempts, opening)
            raise

    def _give_back_later(self, attempts: Attempts, opening: Future[Opened]) -> None:
        """Give a digest back once it is open, in the thread that opens it: a slow store holds up no second thread."""
        returned: Future[None] = Future()
        self._returning.add(returned)

        def on_opened(opening: Future[Opened]) -> None:
            try:
                _give_back(attempts, opening)
            finally:
                self._returning.discard(returned)
                returned.set_result(None)

        if opening.done() and not self._closed:  # a callback would be called here, on the event loop
            self._submit(partial(on_opened, opening))
        else:
            opening.add_done_callback(on_opened)

    async def _end(self, call: Callable[[], T]) -> T:
        """Make the call that ends an attempt: in a thread, where a cancelled wait does not stop it.

        After `close` there are no threads: the call is made here, and the closed store refuses it at once.
        """
        return call() if self._closed else await asyncio.shield(asyncio.wrap_future(self._submit(call)))

    subscribe = _unchanged(Digests.subscribe)
    handler = _unchanged(Digests.handler)
    route = forgetful(_unchanged(Digests.route))
    attempts = _unchanged(Digests.attempts)
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


def _same(terms: Terms, _: str) -> Terms:
    return terms


def _give_back(attempts: Attempts, opening: Future[Opened]) -> None:
    """Give a digest back that was opened for a caller who no longer waits. The event loop may have ended."""
    with suppress(DigestifError, CancelledError):  # it could not be opened, or no thread had begun to
        attempt = opening.result()
        if attempt is not None:
            attempts.finish_quietly(attempt, give_back(begun=False))


_Add = tuple[Arrival, Millis | None, "asyncio.Future[Accepted]"]  # its time, and the answer


class _AddGate:
    """Collects the adds that arrive during a store call, and makes the next call with all of them.

    A call may take long, because one of its records waits for a server that does not answer. Then the next call does
    not wait for it, unless `most_long` calls take that long.
    """

    def __init__(self, owner: AsyncDigests, *, most_long: int = 0) -> None:
        self._owner = owner
        self._most_long = most_long
        self._waiting: list[_Add] = []
        self._flushing: asyncio.Task[None] | None = None
        self._long: set[asyncio.Task[None]] = set()  # flushes whose last call takes long

    def add(self, arrival: Arrival, now: Millis | None) -> "asyncio.Future[Accepted]":
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._take([(arrival, now, answer)])
        return answer

    def _take(self, adds: list[_Add]) -> None:
        self._waiting += adds
        if self._flushing is None and adds:
            self._flushing = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        this = asyncio.current_task()
        try:
            while self._waiting and self._flushing is this:
                await self._gather()
                if page := self._next_page():
                    await self._call(page)
        finally:
            if self._flushing is this:
                self._flushing = None

    def _leave_behind(self) -> None:
        """Send the adds that wait, and those to come, beside the call that takes long: another server may answer."""
        if self._flushing is not None and len(self._long) < self._most_long and self._owner.store.is_divided:
            self._long.add(self._flushing)
            self._flushing.add_done_callback(self._long.discard)
            self._flushing = asyncio.create_task(self._flush()) if self._waiting else None

    async def _gather(self) -> None:
        """Wait while each turn of the event loop brings further adds, for a moment at most.

        A thread in the store and a busy event loop would only take the interpreter from each other.
        """
        loop = asyncio.get_running_loop()
        end, before = loop.time() + _GATHERING, 0
        while before < len(self._waiting) < PAGE_RECORDS and loop.time() < end:
            before = len(self._waiting)
            for _ in range(_TURNS):
                await asyncio.sleep(0)

    async def drained(self) -> None:
        """Wait until no add is under way."""
        while under_way := {*self._long, *([] if self._flushing is None else [self._flushing])}:
            await asyncio.wait(under_way)

    def _next_page(self) -> list[_Add]:
        """The adds of one store call: those with the same time, without those whose callers no longer wait."""
        if self._long:
            self._pass_on_silent()
        if not self._waiting:
            return []
        now = self._waiting[0][1]
        size = next((i for i, item in enumerate(self._waiting) if item[1] != now), len(self._waiting))
        size = len(next(pages_of([arrival for arrival, _, _ in self._waiting[: min(size, PAGE_RECORDS)]])))
        page = self._waiting[:size]
        del self._waiting[: len(page)]
        return [item for item in page if not item[2].done()]

    def _pass_on_silent(self) -> None:
        """Pass the adds to the other gate whose servers were found not to answer while they waited."""
        is_silent, waiting = self._owner.store.is_silent, self._waiting
        self._waiting = [each for each in waiting if not is_silent(each[0].timeline)]
        self._owner._own_gates[True]._take([each for each in waiting if is_silent(each[0].timeline)])

    async def _call(self, page: list[_Add]) -> None:
        arrivals = [arrival for arrival, _, _ in page]
        results: Sequence[Accepted | None]
        failure: Exception | None
        long = asyncio.get_running_loop().call_later(_LONG, self._leave_behind)
        try:
            accept = partial(self._owner._digests._accept, arrivals, now=page[0][1])
            results = await asyncio.wrap_future(self._owner._submit(accept, adds=True))
        except Exception as error:  # noqa: BLE001  # raised in each caller whose record may not have been accepted
            known = getattr(error, "answers", None) or [None] * len(page)
            results = [None if ready is None else Accepted(ready=ready) for ready in known]
            failure = error
        else:
            failure = None
        finally:
            long.cancel()
        for (_, _, answer), result in zip(page, results, strict=True):
            if answer.done():
                continue
            if result is not None:
                answer.set_result(result)
            elif failure is not None:
                answer.set_exception(failure)
