"""From the arguments of a call to what a store takes: checked times, delays and encoded records."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from digestif.clock import wall_clock
from digestif.core.records import MOST_VALUE_BYTES, Addition, Record, check_key, check_timestamp, check_within
from digestif.core.terms import Terms
from digestif.core.texts import shortened
from digestif.core.times import FARTHEST, Duration, Instant, Millis, is_time, to_millis
from digestif.errors import ConfigError, InvalidRecord
from digestif.ids import fresh_key
from digestif.intake.policies import Policies
from digestif.stores.base import Arrival
from digestif.stores.codec import LargeValue, Sealer, mark_timestamp

TermsOf = Callable[[str], Terms]  # by timeline
_new = tuple.__new__  # the constructor of a NamedTuple takes twice as long


class Intake:
    """Makes arrivals with the policies, the codec and the clock of an engine."""

    def __init__(
        self,
        policies: Policies,
        sealer: Sealer,
        clock: Callable[[], float] | None,
        *,
        value_bytes: Callable[[], int],
    ) -> None:
        self.clock = clock
        self._policies = policies
        self._sealer = sealer
        self._value_bytes = value_bytes  # asks the store

    def terms(
        self,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
        *,
        now: float | None,
    ) -> TermsOf:
        """The terms of one add, by timeline: the delays given to the call, else those of the policy in force."""
        policies = self._policies
        at = to_millis(self.seconds(now)) if policies.asks else 0
        if first_delay is None and increment_delay is None and maximum_delay is None:
            if (common := policies.common_terms) is not None:
                return lambda _: common
            return (lambda timeline: policies.terms(timeline, at)) if policies.asks else policies.terms
        delays = {"first_delay": first_delay, "increment_delay": increment_delay, "maximum_delay": maximum_delay}
        policies.default.terms(**delays)  # refuses wrong ones before anything else

        def terms(timeline: str) -> Terms:
            openings = policies.terms(timeline, at).openings
            given = policies.of(timeline).terms(**delays)
            return given if openings is None else replace(given, openings=openings)

        return terms

    def arrival(
        self,
        timeline: str,
        value: Any,
        key: str | None = None,
        timestamp: Instant | None = None,
        *,
        within: Duration | None,
        terms: TermsOf,
        now: float | None,
        asks: bool = False,
        waits: bool = True,
    ) -> Arrival:
        """A record for the store, which `asks` when its timeline is due. Raises InvalidRecord with what is wrong.

        A value that is larger than is known to be allowed `waits` for the store's answer; otherwise it is a LargeValue.
        """
        try:
            return self._arrival(timeline, value, key, timestamp, within, terms, now, asks)
        except LargeValue as large:
            if not waits:
                raise
            return self._allowed(large, timeline, value, key, timestamp, within, terms, now, asks)

    def _allowed(self, large: LargeValue, *given: Any) -> Arrival:
        """The arrival of a value that was too large, if the namespace allows it by now."""
        if large.size > MOST_VALUE_BYTES:
            raise large
        self._sealer.limit = max(self._sealer.limit, self._value_bytes())
        return self._arrival(*given)

    def _arrival(
        self,
        timeline: str,
        value: Any,
        key: str | None,
        timestamp: Instant | None,
        within: Duration | None,
        terms: TermsOf,
        now: float | None,
        asks: bool,
    ) -> Arrival:
        """The same, called for each of many: names of arguments would cost a tenth of the time."""
        if isinstance(value, Record):
            if key is not None or timestamp is not None:
                raise InvalidRecord("key and timestamp: give them in the Record or as arguments, not both")
            key, value, timestamp = value
            seconds = check_timestamp(timestamp)
        else:
            key = fresh_key() if key is None else key
            seconds = self.seconds(now) if timestamp is None else check_timestamp(timestamp)
        name, key, payload = check_key(timeline, "timeline key"), check_key(key, "record key"), self._sealer.seal(value)
        if seconds == 0:
            payload = mark_timestamp(payload, seconds)
        own = None if within is None else to_millis(check_within(within))
        return _new(Arrival, (name, key, payload, seconds, own, terms(name), asks))

    def arrivals(
        self,
        records: Iterable[object],
        *,
        within: Duration | None,
        terms: TermsOf,
        now: float | None,
        asks: bool = False,
    ) -> list[Arrival]:
        """Pairs of timeline and record for the store. Raises InvalidRecord with the number of the wrong one."""
        arrivals: list[Arrival] = []
        for place, item in enumerate(records):
            try:
                if type(item) is tuple and len(item) == 2:  # the usual case
                    timeline, value = item
                    arrivals.append(self._arrival(timeline, value, None, None, within, terms, now, asks))
                    continue
                timeline, value, key, timestamp, own = _parts(item)
                given = within if own is None else own
                arrivals.append(self._arrival(timeline, value, key, timestamp, given, terms, now, asks))
            except LargeValue as large:
                arrivals.append(self._allowed_of_many(large, place, item, within, terms, now, asks))
            except InvalidRecord as error:
                raise InvalidRecord(f"record {place}: {error}") from error
        return arrivals

    def _allowed_of_many(
        self, large: LargeValue, place: int, item: object, within: Duration | None, terms: TermsOf, *rest: Any
    ) -> Arrival:
        timeline, value, key, timestamp, own = _parts(item)
        given = within if own is None else own
        try:
            return self._allowed(large, timeline, value, key, timestamp, given, terms, *rest)
        except InvalidRecord as error:
            raise InvalidRecord(f"record {place}: {error}") from error

    def checked(
        self, records: Iterable[object], *, terms: TermsOf, now: float | None
    ) -> Iterator[Arrival | InvalidRecord]:
        """Records for the store, and in the place of each wrong one what is wrong with it."""
        for item in records:
            try:
                given = *_parts(item), terms, now, True
                try:
                    yield self._arrival(*given)
                except LargeValue as large:
                    yield self._allowed(large, *given)
            except InvalidRecord as error:
                yield error

    def millis(self, now: float | None) -> Millis | None:
        """The caller's time, else the engine's clock, else None: then the store's clock counts."""
        if now is not None:
            return to_millis(check_time("now", now))
        return None if self.clock is None else to_millis(check_time("clock", self.clock()))

    def seconds(self, now: float | None) -> float:
        """The caller's time, else the engine's clock, else this machine's."""
        if now is not None:
            return check_time("now", now)
        return wall_clock() if self.clock is None else check_time("clock", self.clock())


def check_time(name: str, value: object) -> float:
    """The time as a float. Raises ConfigError with its name unless it is a number of seconds."""
    if not is_time(value):
        raise ConfigError(f"{name}: {shortened(value)} is not a number of seconds from {-FARTHEST:g} to {FARTHEST:g}")
    return float(value)  # type: ignore[arg-type]  # is_time says so


def check_limit(name: str, limit: object) -> None:
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"{name}: {shortened(limit)} is not a whole number ≥ 1")


def check_text(name: str, value: object) -> str:
    """The text itself. Raises ConfigError with its name unless it is a string that can be encoded."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise ConfigError(f"{name}: {shortened(value)} is not a string of valid characters")


def _parts(item: object) -> tuple[Any, Any, Any, Any, Any]:
    """What an `Addition` says; a pair is its timeline and its value."""
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1], None, None, None
    if isinstance(item, Addition):
        return item
    raise InvalidRecord(f"{shortened(item)} is not a pair of timeline and record")
