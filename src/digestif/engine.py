"""`Engine`: the parts behind `Digests` and `AsyncDigests`, and the operations on them that several callers share."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from digestif.attempts.delivery import unstored
from digestif.attempts.handlers import Handlers
from digestif.attempts.lease_watch import LeaseWatch
from digestif.attempts.outages import Outages
from digestif.attempts.pipeline import Pipeline
from digestif.attempts.stages import Unstored
from digestif.core.cadences import Cadences
from digestif.core.damage import Damage
from digestif.core.policy import Policy, check_delay, given_delays
from digestif.core.records import Record, check_timeline
from digestif.core.terms import Override
from digestif.core.texts import shortened
from digestif.core.times import Duration, Instant, Millis, in_seconds, is_lease, to_millis
from digestif.dsn import redacted
from digestif.errors import ConfigError
from digestif.events.base import Events
from digestif.events.engine import Added, Damaged, Dropped, RecordsLost
from digestif.intake.arrivals import Intake
from digestif.intake.policies import Policies, PolicyOf
from digestif.routes.background import BackgroundLoop
from digestif.stores.base import PAGE_TIMELINES, Accepted, Arrival, Store
from digestif.stores.codec import Codec, Sealer
from digestif.stores.damage import DROP, LOSS
from digestif.stores.registry import check_namespace, open_store

if TYPE_CHECKING:
    from digestif.routes.archive import MessageArchive
    from digestif.routes.route import Route
    from digestif.routes.table import Routes


class Engine:
    """The access of one process to a store: the store, and the parts that decide, encode, deliver and report.

    The arguments are those of `Digests`.
    """

    def __init__(
        self,
        store: str | Store,
        *,
        policy: Policy | PolicyOf | None,
        namespace: str,
        lease: Duration,
        codec: str | Codec,
        clock: Callable[[], float] | None,
        cadences: Cadences | Mapping[str, Any] | None,
    ) -> None:
        if clock is not None and not callable(clock):
            raise ConfigError(f"clock: {shortened(clock)} is not a callable that gives seconds")
        seconds = in_seconds(lease)
        if not is_lease(seconds):
            raise ConfigError(f"lease: {shortened(lease)} is not a number of seconds > 0")
        self.events = Events()
        self.policies = Policies(policy, events=self.events)
        if cadences is not None:
            self.cadences = cadences if isinstance(cadences, Cadences) else Cadences(cadences)
        self.lease = to_millis(seconds)
        self.sealer = Sealer(codec)
        self.handlers = Handlers()
        self.background = BackgroundLoop(self.handlers.close)
        self.routes: Routes | None = None  # made with the first route: templates take a while to import
        self.owns_store = isinstance(store, str)
        self.place = redacted(store) if isinstance(store, str) else type(store).__name__
        self.store = _store(store, namespace)
        self.store.report_to(self.events)
        self.intake = Intake(self.policies, self.sealer, clock, value_bytes=self.store.value_bytes)
        self.outages = Outages(self.store, handlers=self.handlers, events=self.events)
        self.lease_watch = LeaseWatch(self.store, lease=self.lease)
        self._unsubscribe = self.store.damages.subscribe(self._report_damage)

    @cached_property
    def cadences(self) -> Cadences:
        """The cadences that people can choose from."""
        return Cadences()

    @cached_property
    def archive(self) -> "MessageArchive":
        """The messages that routes keep."""
        from digestif.routes.archive import MessageArchive

        return MessageArchive(self.store)

    def close(self) -> None:
        """Close the connections of routes, and the store if it was made from a DSN."""
        self._unsubscribe()
        self.background.close()
        if self.owns_store:
            self.store.close()

    def _report_damage(self, damage: Damage) -> None:
        if damage.part == LOSS and damage.timeline is not None:
            self.events.emit(RecordsLost(timeline=damage.timeline, records=damage.records))
        elif damage.part == DROP and damage.timeline is not None:
            self.events.emit(Dropped(timeline=damage.timeline, records=damage.records))
        else:
            self.events.emit(Damaged(timeline=damage.timeline, part=damage.part, problem=damage.problem))

    def time(self, partition: int, at: Millis | None) -> Millis:
        """Return the given time, else the time of the store's clock."""
        return self.store.time(partition) if at is None else at

    # Adding

    def add_page(self, arrivals: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        """Add the records of one store call, and emit what was added and dropped."""
        events = self.events
        answers = self.store.add(arrivals, now=now)
        if events.wanted(Added):
            ready = tuple(arrival.timeline for arrival, answer in zip(arrivals, answers, strict=True) if answer.ready)
            events.emit(Added(records=len(arrivals), ready=ready))
        if events.wanted(Dropped):
            for timeline, records in _drops(arrivals, answers).items():
                events.emit(Dropped(timeline=timeline, records=records))
        return answers

    def override(self, timeline: str) -> Override | None:
        """Read what people chose for the timeline."""
        [override] = self.store.overrides([check_timeline(timeline)])
        return override

    def refuse_long_delays(self, arrivals: Sequence[Arrival]) -> None:
        """Raise ConfigError if a delay that the call gave is too long for the ttl in force for one of the timelines.

        Reads the overrides of the timelines. If another policy is set before the records are added, it wins.
        """
        delays = given_delays(arrivals[0].terms)
        timelines = list(dict.fromkeys(arrival.timeline for arrival in arrivals))
        for start in range(0, len(timelines), PAGE_TIMELINES):
            page = timelines[start : start + PAGE_TIMELINES]
            for timeline, override in zip(page, self.store.overrides(page), strict=True):
                self.policies.refuse_delays(timeline, delays, override)

    def check_cool_down(self, timeline: str, minimum_delay: Duration | None) -> None:
        """Raise ConfigError if a cool-down that the call gave is wrong, or too long for the ttl in force.

        Reads the timeline's override. If another policy is set during the delivery, it wins.
        """
        if minimum_delay is not None:
            delays = {"minimum_delay": check_delay("minimum_delay", minimum_delay)}
            self.policies.refuse_delays(timeline, delays, self.override(timeline))

    # Routes

    def add_route(self, route: "Route") -> None:
        """Let a route deliver the timelines of its pattern. ConfigError if the pattern has a handler already."""
        from digestif.routes.table import Routes

        if self.routes is None:
            self.routes = Routes(self.handlers, self.policies, self.background, self.archive)
        self.routes.add(route)

    def route_of(self, timeline: str) -> "Route | None":
        """Return the route that delivers a timeline; None if there is none, or a handler delivers it."""
        return None if self.routes is None else self.routes.find(timeline)

    def gathers(self, timeline: str) -> bool:
        """Return False if each record of the timeline is delivered on its own."""
        return self.store.enabled and (self.routes is None or self.routes.gathers(timeline))

    # Delivering

    def pipeline(self, now: float | None = None) -> Pipeline:
        """Return the steps of attempts at the given time, else by the clock."""
        self.intake.millis(now)  # a wrong time must not open anything
        return Pipeline(
            self.store,
            policies=self.policies,
            sealer=self.sealer,
            lease=self.lease,
            now=lambda: self.intake.millis(now),
            events=self.events,
            handlers=self.handlers,
            outages=self.outages,
            lease_watch=self.lease_watch,
        )

    def renews(self, now: float | None) -> bool:
        """Return True if leases are renewed in the background: not if the time is given."""
        return now is None and self.intake.clock is None

    def run_coroutines(self) -> None:
        """For task queues: let `deliver` and `notify` run coroutines, on an event loop in a thread of its own."""
        self.handlers.run = self.background.run

    def unstored(
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
    ) -> Unstored:
        """Return a record that is delivered without being stored, but is checked as if it were stored."""
        handler = self.handlers.required(check_timeline(timeline))
        arrival = self.intake.arrival(
            timeline, value, key, timestamp, within=within, terms=self.intake.terms(now=now, **delays), now=now
        )
        self.policies.refuse_delays(timeline, given_delays(arrival.terms), override)
        record = Record(arrival.key, self.sealer.unseal(arrival.payload), arrival.timestamp)
        policy = self.policies.in_force(timeline, override).policy
        return unstored(self.store, timeline, record, policy, handler, override, now=lambda: self.intake.millis(now))


def _store(store: str | Store, namespace: str) -> Store:
    if isinstance(store, str):
        return open_store(store, namespace=namespace)
    if not isinstance(store, Store):
        raise ConfigError(f"store: a value of type {type(store).__name__} is neither a DSN nor a Store")
    check_namespace(namespace)
    if namespace not in ("d", store.namespace):
        raise ConfigError(f"namespace: {namespace!r} was given, but the store has {store.namespace!r}")
    return store


def _drops(arrivals: Sequence[Arrival], answers: Sequence[Accepted]) -> Counter[str]:
    """Count the records that were dropped, by timeline."""
    drops: Counter[str] = Counter()
    for arrival, answer in zip(arrivals, answers, strict=True):
        if answer.dropped:
            drops[arrival.timeline] += answer.dropped
    return drops
