"""`Digests`, the public face: checks arguments, calls the store page by page, and returns plain values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import Signature, signature
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from digestif.additions import Additions
from digestif.attempts import Attempt, Attempts, Handlers
from digestif.attempts.admission import Admissions
from digestif.attempts.lease_watch import LeaseWatch
from digestif.attempts.outages import Outages
from digestif.attempts.reports import report_maintenance
from digestif.blocks import digest_block
from digestif.core.cadences import Cadences
from digestif.core.damage import Damage
from digestif.core.options import refuse_misspelt
from digestif.core.policy import Policy, check_delay, check_options, given_delays
from digestif.core.records import (
    Digest,
    Record,
    ScheduleEntry,
    State,
    check_record_key,
    check_timeline,
)
from digestif.core.terms import Override
from digestif.core.texts import shortened
from digestif.core.times import Duration, Instant, Millis, in_seconds, is_lease, to_millis, to_seconds
from digestif.core.verdicts import DELIVERED
from digestif.dsn import forgetful, redacted
from digestif.errors import ConfigError, InvalidState, StaleLease, StoreError
from digestif.events.base import Events, Listener
from digestif.events.engine import Damaged, Dropped, RecordsLost
from digestif.intake.arrivals import Intake, check_limit, check_time
from digestif.intake.policies import Policies, PolicyOf, check_policy
from digestif.messages import Messages
from digestif.preferences import Preferences
from digestif.routes.background import BackgroundLoop
from digestif.stores.base import PAGE_TIMELINES, Admission, Candidate, Due, Maintained, Store
from digestif.stores.codec import Codec, Sealer
from digestif.stores.damage import DROP, LOSS
from digestif.stores.partitions import visit
from digestif.stores.registry import check_namespace, open_store
from digestif.worker.worker import Worker

if TYPE_CHECKING:
    from digestif.channels.base import Channel
    from digestif.routes.archive import MessageArchive
    from digestif.routes.route import RouteOptions
    from digestif.routes.table import Routes

P = ParamSpec("P")
R = TypeVar("R")
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[[Any], Any])

MAINTENANCE_DELAY = 300_000  # milliseconds after which a dispatch counts as lost
SCHEDULE_PAGE = 1000  # timelines


def _with_options_of(
    worker: Callable[Concatenate[Any, P], object],
) -> "Callable[[Callable[..., R]], Callable[Concatenate[Digests, P], R]]":
    """Let a method have the options of `Worker`, for people and for types."""

    def decorate(call: Callable[..., R]) -> "Callable[Concatenate[Digests, P], R]":
        own, *_ = signature(call).parameters.values()
        _, *options = signature(worker).parameters.values()
        returns = signature(call).return_annotation
        call.__signature__ = Signature([own, *options], return_annotation=returns)  # type: ignore[attr-defined]
        return call

    return decorate


def _with_options_checked(
    route: "Callable[Concatenate[Digests, P], None]",
) -> "Callable[Concatenate[Digests, P], None]":
    """Name a misspelt option of a route before Python says that `channel` is missing."""

    @wraps(route)
    def checked(self: "Digests", /, *arguments: P.args, **options: P.kwargs) -> None:
        from digestif.routes.route import Route

        check_options(Route, options)
        route(self, *arguments, **options)

    return checked


class Digests(Additions, Preferences, Messages):
    """Gathers records in timelines and returns them as digests.

    `store` is a DSN or a `Store`; `close` also closes a store that was made from a DSN. `clock` is a callable that
    returns seconds, for tests and simulations; without it the store's own clock counts. `policy` is a Policy, or a
    function from timeline to Policy.
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
        if clock is not None and not callable(clock):
            raise ConfigError(f"clock: {shortened(clock)} is not a callable that gives seconds")
        seconds = in_seconds(lease)
        if not is_lease(seconds):
            raise ConfigError(f"lease: {shortened(lease)} is not a number of seconds > 0")
        self.events = Events()
        self._policies = Policies(policy, events=self.events)
        self.policy = self._policies.default
        self._cadences = cadences if cadences is None or isinstance(cadences, Cadences) else Cadences(cadences)
        self._lease = to_millis(seconds)
        self._sealer = Sealer(codec)
        self._intake = Intake(self._policies, self._sealer, clock, value_bytes=lambda: self.store.value_bytes())
        self._handlers = Handlers()
        self._background = BackgroundLoop(self._handlers.close)
        self._routes: Routes | None = None  # made with the first route: templates take a while to import
        self._kept: MessageArchive | None = None
        self._owns_store = isinstance(store, str)
        self._place = redacted(store) if isinstance(store, str) else type(store).__name__
        self.store = _store(store, namespace)
        self.store.report_to(self.events)
        self._outages = Outages(self.store, handlers=self._handlers, events=self.events)
        self._lease_watch = LeaseWatch(self.store, lease=self._lease)
        self._unsubscribe = self.store.damages.subscribe(self._tell_of_damage)

    @property
    def enabled(self) -> bool:
        """False if the store accepts nothing (`off://`)."""
        return self.store.enabled

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with every event from now on; call the returned function to stop."""
        return self.events.subscribe(listener)

    def _tell_of_damage(self, damage: Damage) -> None:
        if damage.part == LOSS and damage.timeline is not None:
            self.events.emit(RecordsLost(timeline=damage.timeline, records=damage.records))
        elif damage.part == DROP and damage.timeline is not None:
            self.events.emit(Dropped(timeline=damage.timeline, records=damage.records))
        else:
            self.events.emit(Damaged(timeline=damage.timeline, part=damage.part, problem=damage.problem))

    def close(self) -> None:
        """Close the connections of routes, and the store if it was made from a DSN."""
        self._unsubscribe()
        self._background.close()
        if self._owns_store:
            self.store.close()

    def __reduce__(self) -> str:
        raise TypeError("a Digests can't be pickled; open one with the same DSN in the other process")

    def __enter__(self) -> "Digests":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Producing

    def notify(
        self,
        timeline: str,
        value: Any,
        *,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
        minimum_delay: Duration | None = None,
        dispatch: Callable[[str], object] | None = None,
        now: float | None = None,
    ) -> bool:
        """Add a record, and deliver its timeline now if it is due then: the answer is True.

        A timeline that is ready before is left alone: it was dispatched already. `dispatch` is called with the
        timeline, for example a task's `delay`. Without it the handler is called here; if it fails, the digest comes
        again by the policy's rules. Where digesting is switched off, each record is delivered at once, on its own. The
        delays are those of `add` and `deliver`.
        """
        check_notify_delays(minimum_delay, dispatch)
        self._check_cool_down(timeline, minimum_delay)
        delays = {"first_delay": first_delay, "increment_delay": increment_delay, "maximum_delay": maximum_delay}
        record: dict[str, Any] = {"key": key, "timestamp": timestamp, "within": within, "now": now, **delays}
        if not self._gathers(timeline):
            override = self._override(timeline)
            if override is None or not override.off:
                return self._deliver_alone(self._unstored(timeline, value, override=override, **record), now=now)
        handler = None if dispatch else self._handlers.required(timeline)
        accepted = self.accept(timeline, value, **record)
        is_ready = accepted.ready or self._made_ready(timeline, accepted.due, now=now)
        if is_ready and dispatch:
            dispatch(timeline)
        elif is_ready and handler:
            with suppress(InvalidState, StaleLease):  # a worker took it first, or the handler deleted it
                while self._deliver(timeline, minimum_delay, now=now) and self._made_ready(timeline, 0, now=now):
                    pass  # records that came during the delivery may be due already, and their producers have left
        return is_ready

    def _made_ready(self, timeline: str, due: float | None, *, now: float | None) -> bool:
        """Make a timeline ready that waits and is due. False if it is not, or another process was quicker.

        A failure of the store is not raised, as the record was accepted: a worker or the next record finds it.
        """
        if due is None:
            return False
        at = self._intake.millis(now)
        with suppress(StoreError):
            time = self._time(self.store.partition_of(timeline), at)
            return due <= to_seconds(time) and self._schedule_one(timeline, time, now=at)
        return False

    def _schedule_one(self, timeline: str, time: Millis, *, now: Millis | None) -> bool:
        """Make a timeline that is due ready, as `schedule` does. False if it may not be delivered yet."""
        slot = self.store.inspect(timeline)
        if slot.state is not State.WAITING or slot.at > time or not slot.pending:
            return False
        admissions = Admissions(self._policies, self._outages)
        admissions.must_ask(now)
        return bool(self._admitted(admissions.decide([Candidate(timeline, slot, time)]), now=now))

    def _gathers(self, timeline: str) -> bool:
        """False if each record of the timeline is delivered on its own."""
        return self.enabled and (self._routes is None or self._routes.gathers(timeline))

    def _override(self, timeline: str) -> Override | None:
        """What people chose for the timeline."""
        [override] = self.store.overrides([check_timeline(timeline)])
        return override

    def _unstored(
        self,
        timeline: str,
        value: Any,
        *,
        override: Override | None,
        key: str | None = None,
        timestamp: Instant | None = None,
        within: Duration | None = None,
        now: float | None = None,
        **delays: Duration | None,
    ) -> Attempt:
        """An attempt for one record that is not stored, but checked as if it were."""
        handler = self._handlers.required(check_timeline(timeline))
        arrival = self._intake.arrival(
            timeline, value, key, timestamp, within=within, terms=self._intake.terms(now=now, **delays), now=now
        )
        self._policies.refuse_delays(timeline, given_delays(arrival.terms), override)
        record = Record(arrival.key, self._sealer.unseal(arrival.payload), arrival.timestamp)
        return self.attempts(now).unstored(timeline, record, handler, override)

    def _deliver_alone(self, attempt: Attempt, *, now: float | None) -> bool:
        """Deliver a record that is not stored. What its handler raises is raised here."""
        assert attempt.handler is not None
        attempts = self.attempts(now)
        try:
            error = attempt.handler.deliver_here(attempt)
        except BaseException as failure:  # noqa: BLE001  # raised below
            error = failure
        return attempts.finish_unstored(attempt, error)

    def retract(self, timeline: str, record_key: str, *, now: float | None = None) -> bool:
        """Take back a pending record. False if there is none: it is in a digest already, or unknown."""
        return self.store.retract(check_timeline(timeline), check_record_key(record_key), now=self._intake.millis(now))

    # Dispatching through a task queue of the caller's own

    def schedule(
        self, deadline: float | None = None, page: int = SCHEDULE_PAGE, *, now: float | None = None
    ) -> Iterator[ScheduleEntry]:
        """Make due timelines ready and yield them, page by page.

        A page is committed before its entries are yielded; maintenance finds those again that are not delivered. Each
        timeline comes once per call.
        """
        return chain.from_iterable(self._schedule(deadline, page, now=now))

    def _schedule(self, deadline: float | None, page: int, *, now: float | None) -> Iterator[list[ScheduleEntry]]:
        """Pages of entries, each committed before it is yielded."""
        check_limit("page", page)
        given = None if deadline is None else to_millis(check_time("deadline", deadline))
        at = self._intake.millis(now)

        def pages(partition: int) -> Iterator[list[ScheduleEntry]]:
            after: tuple[int | str, ...] | None = None
            until = self._time(partition, at) if given is None else given
            admissions = Admissions(self._policies, self._outages)
            asks = admissions.must_ask(at)
            while True:
                found = self.store.schedule(
                    partition, until, after=after, limit=min(page, SCHEDULE_PAGE), now=at, asks=asks
                )
                decided = admissions.decide(found.candidates, at=until)
                entries = sorted([*found.entries, *self._admitted(decided, now=at)], key=_due_first)
                yield [ScheduleEntry(due.timeline, to_seconds(due.at)) for due in entries]
                after = found.after
                if after is None:
                    return

        return visit(self.store, "schedule", pages, self.events)

    def _admitted(self, decided: Sequence[Admission], *, now: Millis | None) -> list[Due]:
        """Make those candidates ready that may be delivered."""
        pages = [decided[start : start + PAGE_TIMELINES] for start in range(0, len(decided), PAGE_TIMELINES)]
        return [due for some in pages for due in self.store.admit(some, now=now).ready]

    def maintenance(self, deadline: float | None = None, *, now: float | None = None) -> int:
        """Make timelines wait again whose dispatch got lost or whose lease lapsed, and return how many.

        A dispatch counts as lost if its timeline became ready at or before `deadline`, by default five minutes ago.
        Also expires old records.
        """
        given = None if deadline is None else to_millis(check_time("deadline", deadline))
        at = self._intake.millis(now)

        def pages(partition: int) -> Iterator[Maintained]:
            time = self._time(partition, at)
            more = True
            while more:
                since = time - MAINTENANCE_DELAY if given is None else given
                page = self.store.maintain(partition, since, limit=PAGE_TIMELINES, now=at)
                report_maintenance(page, self.store, self.events, now=time)
                yield page
                more = page.more

        self._lease_watch.look(at)
        done = visit(self.store, "maintenance", pages, self.events)
        return sum(len(page.moved) + len(page.lapsed) for page in done)

    # Delivering

    @digest_block
    def digest(
        self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None
    ) -> Iterator[Digest]:
        """Open a ready timeline and deliver its digest in the block; leaving the block completes it.

        If the block raises, nothing is removed and the timeline is ready again; after the last attempt of the policy
        the digest becomes a dead letter. Raises InvalidState or Busy if it can't be opened, StaleLease if
        the lease was lost.
        """
        self._check_cool_down(timeline, minimum_delay)
        attempts = self._attempts_to_open(now)
        attempt = attempts.open(check_timeline(timeline), minimum_delay=minimum_delay)
        try:
            with attempts.renewed(attempt, renews=self._renews(now)):
                yield attempt.digest
        except BaseException as error:
            attempts.fail(attempt, error)
            raise
        attempts.finish(attempt, DELIVERED)

    def _check_cool_down(self, timeline: str, minimum_delay: Duration | None) -> None:
        """Raise ConfigError if a cool-down that the call gave is wrong, or too long for the ttl in force.

        Reads the timeline's override. If another policy is set during the delivery, it wins.
        """
        if minimum_delay is not None:
            delays = {"minimum_delay": check_delay("minimum_delay", minimum_delay)}
            self._policies.refuse_delays(timeline, delays, self._override(timeline))

    def _attempts_to_open(self, now: float | None) -> Attempts:
        self._intake.millis(now)  # a wrong time must not open anything
        return self.attempts(now)

    def attempts(self, now: float | None = None) -> Attempts:
        """For workers only: begins and ends attempts."""
        return Attempts(
            self.store,
            policies=self._policies,
            sealer=self._sealer,
            lease=self._lease,
            now=lambda: self._intake.millis(now),
            events=self.events,
            handlers=self._handlers,
            outages=self._outages,
            lease_watch=self._lease_watch,
            place=self._place,
        )

    def _run_coroutines(self) -> None:
        """For task queues: let `deliver` and `notify` run coroutines, on an event loop in a thread of its own."""
        self._handlers.run = self._background.run

    def _renews(self, now: float | None) -> bool:
        """Leases are renewed in the background, but not if the time is given."""
        return now is None and self._intake.clock is None

    def deliver(self, timeline: str, minimum_delay: Duration | None = None, *, now: float | None = None) -> bool:
        """Open a ready timeline and call its handler here and now. True if it was delivered.

        If the handler raises, an event carries the error, and the digest comes again by the policy's rules. False also
        if there is nothing to send. Raises InvalidState or Busy if it can't be opened.
        """
        self._handlers.required(check_timeline(timeline))
        self._check_cool_down(timeline, minimum_delay)
        return self._deliver(timeline, minimum_delay, now=now)

    def _deliver(self, timeline: str, minimum_delay: Duration | None, *, now: float | None) -> bool:
        """Deliver with a cool-down that has been checked."""
        handler = self._handlers.required(timeline)
        handler.refuse_unless_here()
        attempts = self._attempts_to_open(now)
        attempt = attempts.open_for(handler, timeline, minimum_delay=minimum_delay)
        if attempt is None:
            return False
        try:
            with attempts.renewed(attempt, renews=self._renews(now)):
                error = handler.deliver_here(attempt)
        except Exception as failure:  # noqa: BLE001  # judged by the policy's rules
            error = failure
        except BaseException as interrupt:
            attempts.fail(attempt, interrupt)
            raise
        return attempts.conclude(attempt, error)

    # Handlers and workers

    def handler(
        self,
        pattern: str,
        *,
        policy: Policy | PolicyOf | None = None,
        batch: int | None = None,
        at_most_once: bool = False,
        channel: str | Callable[[str], str] | None = None,
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Register the decorated function, or coroutine, for the digests of timelines that match the pattern.

        `*` stands for any characters; the pattern with the longest literal part wins. The function takes a `Digest`.
        If it raises, the digest comes again by the policy's rules. Options, with their defaults:

        - policy=None: for these timelines instead of the engine's, a Policy or a function from timeline to Policy
        - batch=None: call the function with a list of at most so many digests; it may return a list of None or errors
        - at_most_once=False: True: complete the digest before the function is called
        - channel=None: what the function delivers by, a name or a function from timeline to name: digests of one
          channel wait together while the function raises Unavailable
        """
        if callable(pattern):  # @digests.handler, without the parentheses
            name = getattr(pattern, "__name__", "send")
            raise ConfigError(f'handler: say which timelines {name} delivers: @digests.handler("mail:*")')
        check_policy(policy)

        def register(call: HandlerFunction) -> HandlerFunction:
            self._handlers.register(pattern, call, batch=batch, at_most_once=at_most_once, channel=channel)
            self._policies.add(pattern, policy)  # None: the engine's, not that of a route for more timelines
            return call

        return register

    @forgetful
    @_with_options_checked
    def route(self, pattern: str, *, channel: "str | Channel", **options: "Unpack[RouteOptions]") -> None:
        """Let a channel deliver the digests of timelines that match the pattern, grouped and rendered.

        Needs no handler. `pattern` is as for `handler`; `channel` is a DSN or a Channel. Options, with their defaults:

        - policy=None: for these timelines instead of the engine's, a Policy or a function from timeline to Policy
        - redelivery=None: "merge" or "same" instead of the policy's; None: "same" for webhooks and with split
        - group_by=(): one or two fields by which records are grouped, such as "user.id"
        - distinct={}: names, and the fields whose different values are counted
        - top=10: subjects that are shown of each group
        - items=5: newest records that are listed of each subject
        - details=None: fields that are shown beside the text, in this order; None: all that may be shown; []: none
        - weight=None: which subjects come first: a function, or {"by": a field, "order": its values}
        - order="newest": which of the listed records of a subject comes first; "oldest" for conversations
        - template=None: the name of a template of your own
        - templates=None: the folder of your templates
        - to=None: the recipient, a text with {timeline} or a function from timeline; None: what `*` stands for
        - keep=None: a function from records to those that are still wanted
        - prepare=None: a function from records to the records as this message shows them
        - split=None: a function from a digest to the records of each recipient
        - budget=None: a Budget: how many messages each recipient gets
        - zone=None: the time zone that a reader sees, or a function from recipient; None: the chosen or the window's
        - hours=24: a clock of 12 or 24 hours
        - wording={}: a Wording, a mapping of its fields, or a function from recipient to them
        - links={}: addresses of the buttons open, settings and unsubscribe, or a function that gives them
        - title=None: the headline, with {timeline} and {recipient}; None: made from the records
        - brand={}: the sender's name, logo and color, such as {"name": "Web shop", "color": "#0a7d55"}
        - reason=None: why a reader gets the message, at its foot; None: the address that it was sent to; "": nothing
        - digest=True: gather records; False: `notify` sends each one at once
        """
        from digestif.routes.route import Route
        from digestif.routes.table import Routes

        if self._routes is None:
            self._routes = Routes(self._handlers, self._policies, self._background, self._archive)
        self._routes.add(Route(pattern=pattern, channel=channel, **options))

    @_with_options_of(Worker)
    def run(self, **options: Any) -> None:
        """Run a worker until SIGTERM or SIGINT; the options are those of `Worker`."""
        Worker(self, **options).run()

    @_with_options_of(Worker)
    async def serve(self, **options: Any) -> None:
        """Run a worker on the running event loop until cancelled; the options are those of `Worker`."""
        await Worker(self, **options).serve()


def check_notify_delays(minimum_delay: Duration | None, dispatch: object) -> None:
    """ConfigError for a cool-down that is wrong, or that a task would have to be given."""
    if minimum_delay is None:
        return
    check_delay("minimum_delay", minimum_delay)
    if dispatch is not None:
        raise ConfigError("minimum_delay: with dispatch, let the task give it to deliver(timeline, minimum_delay)")


def _due_first(due: Due) -> Millis:
    return due.at


def _store(store: str | Store, namespace: str) -> Store:
    if isinstance(store, str):
        return open_store(store, namespace=namespace)
    if not isinstance(store, Store):
        raise ConfigError(f"store: a value of type {type(store).__name__} is neither a DSN nor a Store")
    check_namespace(namespace)
    if namespace not in ("d", store.namespace):
        raise ConfigError(f"namespace: {namespace!r} was given, but the store has {store.namespace!r}")
    return store
