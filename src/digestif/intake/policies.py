"""Which policy is in force for a timeline: its override, that of its handler or route, or the engine's."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from math import inf
from threading import Lock
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace as replace_fields

from digestif.clock import monotonic
from digestif.core.cadences import PolicyInForce
from digestif.core.hooks import check_hook
from digestif.core.policy import Policy
from digestif.core.terms import Openings, Override, Terms
from digestif.core.texts import reason_of, shortened
from digestif.core.times import Millis
from digestif.core.windows.window import Window
from digestif.errors import ConfigError
from digestif.events.base import Events
from digestif.events.engine import PolicyFailed
from digestif.intake.patterns import Patterns
from digestif.intake.zone_data import zone_data_version

PolicyOf = Callable[[str], Policy]  # from timeline
Redelivery = Literal["merge", "same"]
Clock = Callable[[], float]

ANSWER_LASTS = 60.0  # seconds for which the answer of a function holds
FAILURE_LASTS = 5.0  # seconds until a function that failed is asked again
ANSWERS = 10_000  # timelines whose answers are remembered
REPORTED_EVERY = 60.0  # seconds between two events about the same source
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Policies:
    """The policies of one engine."""

    def __init__(
        self, engine: Policy | PolicyOf | None = None, *, events: Events | None = None, clock: Clock = monotonic
    ) -> None:
        check_policy(engine)
        self.default = engine if isinstance(engine, Policy) else Policy()
        self._clock = clock
        self._failures = _Failures(Events() if events is None else events, clock)
        self._engine = self._source("engine", self.default if engine is None else engine, None)
        self._sources: Patterns[_Source] = Patterns()
        self.asks = self._engine.asks  # a policy has a window or is a function: what is due may have to wait

    def add(
        self,
        pattern: str,
        policy: Policy | PolicyOf | None,
        *,
        kind: Literal["handler", "route"] = "handler",
        redelivery: Redelivery | None = None,
    ) -> None:
        """Set the policy for the timelines of a pattern; None means the engine's. `redelivery` comes before its own."""
        check_policy(policy)
        if policy is None and redelivery is None:
            source = self._engine
        elif policy is None:
            source = self._source("engine", self._engine.policy, redelivery)
        else:
            source = self._source(f"{kind} {pattern}", policy, redelivery)
        self._sources.add(pattern, source)
        self.asks = self.asks or source.asks

    def _source(self, name: str, policy: Policy | PolicyOf, redelivery: Redelivery | None) -> "_Source":
        if isinstance(policy, Policy):
            return _Fixed(name, policy, redelivery)
        return _Asked(name, policy, redelivery, fallback=self.default, failures=self._failures, clock=self._clock)

    def _find(self, timeline: str) -> "_Source":
        found = self._sources.find(timeline) if self._sources else None
        return self._engine if found is None else found

    def of(self, timeline: str) -> Policy:
        """The policy of a timeline in the code."""
        return self._find(timeline).find(timeline).policy

    def source_of(self, timeline: str) -> str:
        """Where that policy comes from: engine, route PATTERN or handler PATTERN."""
        return self._find(timeline).name

    def is_known(self, timeline: str) -> bool:
        """False if the policy can't be found out without a call of a user's function, which may take its time."""
        return self._find(timeline).is_known(timeline)

    def terms(self, timeline: str, now: Millis = 0) -> Terms:
        """That policy as the numbers that an add needs. The time counts if it has a window."""
        source = self._find(timeline)
        if source.terms is not None:
            return source.terms
        prepared = source.find(timeline)
        try:
            return prepared.terms(timeline, now)
        except Exception as error:  # noqa: BLE001  # the user's function that gives the zone; the record is accepted
            self._failures.report(timeline, source.name, error)
            return prepared.held_back()

    @property
    def common_terms(self) -> Terms | None:
        """The same for every timeline, if they depend neither on its name nor on the time."""
        return None if self._sources else self._engine.terms

    def in_force(self, timeline: str, override: Override | None) -> PolicyInForce:
        """The policy of a timeline and its source: the stored override, else what the code says."""
        source = self._find(timeline)
        if override is None:
            policy = source.find(timeline).policy
            return PolicyInForce(policy=policy, source=source.name, failure=source.failure(timeline))
        name = "override" if override.cadence is None else f"cadence {override.cadence}"
        if override.off:
            return PolicyInForce(policy=source.find(timeline).policy, source=name, off=True)
        try:
            return PolicyInForce(policy=_with_redelivery(parsed(override.text), source.redelivery), source=name)
        except ConfigError as error:  # written by another release
            self._failures.report(timeline, name, error)
            failure = f"its stored policy can't be read: {error}; that in the code holds"
            return PolicyInForce(policy=source.find(timeline).policy, source=source.name, failure=failure)

    def refuse_delays(self, timeline: str, delays: Mapping[str, float], override: Override | None) -> None:
        """Raise ConfigError if a delay of a call, in seconds, is too long for the ttl in force."""
        found = self.in_force(timeline, override)
        for name, delay in delays.items():
            if not found.off and not found.policy.allows(delay):
                raise ConfigError(
                    f"{name}: {delay:g} is too long for the ttl {found.policy.ttl:g} of {shortened(timeline)} "
                    f"({found.source}): records could expire before they are due; "
                    f"give at most {max(0, found.policy.longest_allowed):g}, or a policy with a longer ttl"
                )

    def report(self, timeline: str, source: str, error: Exception) -> None:
        """Emit that a policy failed, at most once a minute for each source."""
        self._failures.report(timeline, source, error)

    def forget(self, timeline: str | None = None) -> None:
        """Ask functions again: about one timeline, or about all."""
        for source in (self._engine, *self._sources):
            source.forget(timeline)

    @property
    def shortest_ttl(self) -> float | None:
        """The shortest ttl of all policies, of functions as far as they were asked; None if one of them has none."""
        ttls = [policy.ttl for source in (self._engine, *self._sources) for policy in source.policies()]
        return None if None in ttls else min(ttl for ttl in ttls if ttl is not None)

    def windows(self) -> list[tuple[str, Window]]:
        """Where each window in the code comes from, and the window; of functions, as far as they were asked."""
        sources = (self._engine, *self._sources)
        known = {(source.name, policy.window) for source in sources for policy in source.policies()}
        return [(name, window) for name, window in sorted(known, key=repr) if window is not None]

    def fingerprints(self) -> dict[str, str]:
        """A text for the policy of each pattern, of a program without any for `*`. It changes if the code does."""
        return {p: source.fingerprint for p, source in self._sources.items()} or {"*": self._engine.fingerprint}

    def texts(self) -> dict[str, str]:
        """The policy of each pattern as a text that is the same in every process with the same code."""
        return {pattern: source.text for pattern, source in self._sources.items()}


def check_policy(policy: object) -> None:
    """ConfigError unless it is a Policy, a function from timeline to Policy, or None."""
    if policy is None or isinstance(policy, Policy):
        return
    if not callable(policy) or isinstance(policy, type):
        parse = f'; write Policy.parse("{policy}")' if isinstance(policy, str) and _is_text_of_policy(policy) else ""
        raise ConfigError(
            f"policy: {shortened(policy)} is neither a Policy nor a function from timeline to Policy{parse}"
        )
    if iscoroutinefunction(policy):
        raise ConfigError(f"policy: {shortened(policy)} is a coroutine; it must be a function that answers at once")
    check_hook("policy", policy, "timeline")


def _is_text_of_policy(text: str) -> bool:
    try:
        Policy.parse(text)
    except ConfigError:
        return False
    return True


@lru_cache(ANSWERS)
def parsed(text: str) -> Policy:
    """The policy of a stored text."""
    return Policy.parse(text)


class _Dated(NamedTuple):
    """Terms that hold from one opening to the next."""

    begin: Millis
    end: Millis
    terms: Terms


class Prepared:
    """A policy with its terms, which are made once and shared by all records."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.plain = policy.terms()
        self._dated: dict[str, _Dated] = {}  # by timeline, unless all have the same

    @property
    def asks_for_zone(self) -> bool:
        """True if a function of the user's gives the time zone of the window."""
        return self.policy.window is not None and self.policy.window.holds_callable

    def terms(self, timeline: str, now: Millis) -> Terms:
        window = self.policy.window
        if window is None:
            return self.plain
        name = "" if window.is_shared else timeline
        known = self._dated.get(name)
        if known is not None and known.begin <= now < known.end:
            return known.terms
        return self._dated_terms(name, timeline, now)

    def _dated_terms(self, name: str, timeline: str, now: Millis) -> Terms:
        """The terms with the openings of this moment, which are the same until the next one."""
        assert self.policy.window is not None
        openings = self.policy.openings(timeline, now)
        terms = replace_fields(self.plain, openings=openings)
        if openings is not None and len(openings.numbers) > 1 and not self.policy.window.holds_callable:
            if len(self._dated) >= ANSWERS:
                self._dated.clear()
            self._dated[name] = _Dated(now, openings.numbers[1], terms)
        return terms

    def held_back(self) -> Terms:
        """The terms while nothing is known of the window: the timeline waits until it can be asked."""
        return replace_fields(self.plain, openings=Openings(()))


class _Source(ABC):
    """Where the policy of some timelines comes from."""

    policy: Policy | PolicyOf  # as it was given
    terms: Terms | None = None  # those of all its timelines, at any time
    asks: bool

    def __init__(self, name: str, redelivery: Redelivery | None) -> None:
        self.name = name
        self.redelivery = redelivery

    @abstractmethod
    def find(self, timeline: str) -> Prepared: ...

    @abstractmethod
    def is_known(self, timeline: str) -> bool: ...

    @abstractmethod
    def policies(self) -> list[Policy]:
        """Those that are known."""

    @abstractmethod
    def forget(self, timeline: str | None) -> None:
        """Forget the answer about a timeline, or all answers."""

    def failure(self, timeline: str) -> str | None:  # noqa: ARG002  # for functions
        """Why the policy of a timeline could not be told when it was asked for last."""
        return None

    @property
    def text(self) -> str:
        """The policy; a function by its name, without its module, which is __main__ in a process that it started."""
        if isinstance(self.policy, Policy):
            return _fingerprint(self.policy)
        return f"function {getattr(self.policy, '__qualname__', type(self.policy).__qualname__)}"

    @property
    def fingerprint(self) -> str:
        text = _fingerprint(self.policy)
        return f"{text} by zone data {zone_data_version()}" if self.asks else text


class _Fixed(_Source):
    """A policy in the code."""

    def __init__(self, name: str, policy: Policy, redelivery: Redelivery | None) -> None:
        super().__init__(name, redelivery)
        self.policy = policy
        self._prepared = Prepared(_with_redelivery(policy, redelivery))
        self.terms = self._prepared.plain if policy.window is None else None
        self.asks = policy.window is not None

    def find(self, timeline: str) -> Prepared:  # noqa: ARG002  # the same for all
        return self._prepared

    def is_known(self, timeline: str) -> bool:  # noqa: ARG002
        return not self._prepared.asks_for_zone

    def forget(self, timeline: str | None) -> None:
        """Do nothing: there are no answers."""

    def policies(self) -> list[Policy]:
        return [self._prepared.policy]


class _Answer(NamedTuple):
    until: float  # by the clock that never steps
    prepared: Prepared
    failure: str | None = None


class _Asked(_Source):
    """A function in the code. While it fails, its last answer holds."""

    asks = True

    def __init__(
        self,
        name: str,
        call: PolicyOf,
        redelivery: Redelivery | None,
        *,
        fallback: Policy,
        failures: "_Failures",
        clock: Clock,
    ) -> None:
        super().__init__(name, redelivery)
        self.policy = call
        self._call: Callable[[str], Any] = call
        self._fallback = _prepared(fallback, redelivery)
        self._failures = failures
        self._clock = clock
        self._answers: dict[str, _Answer] = {}  # those asked for longest ago first
        self._lock = Lock()

    def find(self, timeline: str) -> Prepared:
        known = self._answers.get(timeline)
        if known is not None and self._clock() < known.until:
            return known.prepared
        return self._ask(timeline, self._fallback if known is None else known.prepared)

    def is_known(self, timeline: str) -> bool:
        known = self._answers.get(timeline)
        return known is not None and self._clock() < known.until and not known.prepared.asks_for_zone

    def failure(self, timeline: str) -> str | None:
        known = self._answers.get(timeline)
        if known is None or known.failure is None:
            return None
        return (
            f"its policy can't be told: {known.failure}; its last answer or else the default holds, "
            f"and it is asked again after {FAILURE_LASTS:g} s"
        )

    def _ask(self, timeline: str, otherwise: Prepared) -> Prepared:
        try:
            answer = _Answer(ANSWER_LASTS, _prepared(_policy(self._call(timeline)), self.redelivery))
        except Exception as error:  # noqa: BLE001  # a record must be accepted whatever the function does
            self._failures.report(timeline, self.name, error)
            answer = _Answer(FAILURE_LASTS, otherwise, reason_of(error))
        self._remember(timeline, answer._replace(until=self._clock() + answer.until))
        return answer.prepared

    def _remember(self, timeline: str, answer: _Answer) -> None:
        with self._lock:
            self._answers.pop(timeline, None)
            if len(self._answers) >= ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[timeline] = answer

    def policies(self) -> list[Policy]:
        with self._lock:
            known = {id(answer.prepared): answer.prepared.policy for answer in self._answers.values()}
        return [self._fallback.policy, *known.values()]

    def forget(self, timeline: str | None) -> None:
        """Ask again; until then the last answers are kept for a function that fails."""
        with self._lock:
            for name in list(self._answers) if timeline is None else [timeline]:
                if name in self._answers:
                    self._answers[name] = self._answers[name]._replace(until=-inf)


class _Failures:
    """Emits that policies failed, at most once a minute for each source."""

    def __init__(self, events: Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._told: dict[str, float] = {}

    def report(self, timeline: str, source: str, error: Exception) -> None:
        now = self._clock()
        told = self._told.get(source)
        if told is None or now - told >= REPORTED_EVERY:
            self._told[source] = now
            self._events.emit(PolicyFailed(timeline=timeline, source=source, error=error))


def _policy(answer: Any) -> Policy:
    if isinstance(answer, Policy):
        return answer
    if iscoroutine(answer):
        answer.close()
    kind = "an awaitable" if isawaitable(answer) else shortened(answer)
    raise ConfigError(f"policy: the function gave {kind}, not a Policy")


def _prepared(policy: Policy, redelivery: Redelivery | None) -> Prepared:
    try:
        return _shared(policy, redelivery)
    except TypeError:  # it holds a function that can't be hashed
        return Prepared(_with_redelivery(policy, redelivery))


@lru_cache(1000)
def _shared(policy: Policy, redelivery: Redelivery | None) -> Prepared:
    """Equal policies share their terms, so that a batch for many timelines has few of them."""
    return Prepared(_with_redelivery(policy, redelivery))


def _with_redelivery(policy: Policy, redelivery: Redelivery | None) -> Policy:
    if redelivery is None or redelivery == policy.redelivery:
        return policy
    return replace(policy, redelivery=redelivery)


def _fingerprint(policy: Policy | PolicyOf) -> str:
    if isinstance(policy, Policy):
        try:
            return str(policy)
        except ConfigError:  # it holds a function
            return _ADDRESS.sub("", repr(policy))
    module, name = getattr(policy, "__module__", None), getattr(policy, "__qualname__", None)
    return f"{module}.{name}" if name else _ADDRESS.sub("", repr(policy))
