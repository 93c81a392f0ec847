"""What comes in from callers: times, delays and records, checked and put into the store's terms."""

from collections.abc import Callable, Iterable
from typing import Any

from digestif.clock import wall_clock
from digestif.core.policy import Terms
from digestif.core.records import Record, check_record_key, check_timeline, check_timestamp, check_within
from digestif.core.texts import shortened
from digestif.core.times import FARTHEST, Millis, is_time, to_millis
from digestif.errors import ConfigError, InvalidRecord
from digestif.ids import fresh_key
from digestif.intake.policies import Policies
from digestif.stores.base import Arrival
from digestif.stores.codec import Sealer, mark_timestamp

TermsOf = Callable[[str], Terms]  # by timeline


class Intake:
    """Checks and encodes with the policies, the codec and the clock of an engine."""

    def __init__(self, policies: Policies, sealer: Sealer, clock: Callable[[], float] | None) -> None:
        self.clock = clock
        self._policies = policies
        self._sealer = sealer

    def terms(self, first_delay: float | None, increment_delay: float | None, maximum_delay: float | None) -> TermsOf:
        """The numbers for one add, by timeline: the call's own delays, else those of the policy that holds."""
        if first_delay is None and increment_delay is None and maximum_delay is None:
            return self._policies.terms
        delays = {"first_delay": first_delay, "increment_delay": increment_delay, "maximum_delay": maximum_delay}
        self._policies.default.terms(**delays)  # wrong ones are refused before anything else
        return lambda timeline: self._policies.of(timeline).terms(**delays)

    def arrival(
        self,
        timeline: str,
        value: Any,
        key: str | None = None,
        timestamp: float | None = None,
        *,
        within: float | None,
        terms: TermsOf,
        now: float | None,
    ) -> Arrival:
        """A record that is ready for the store; InvalidRecord says what is wrong with it."""
        if isinstance(value, Record):
            if key is not None or timestamp is not None:
                raise InvalidRecord("key and timestamp: give them in the Record or as arguments, not both")
            key, value, timestamp = value
        else:
            key = fresh_key() if key is None else key
            timestamp = self.seconds(now) if timestamp is None else timestamp
        seconds = check_timestamp(timestamp)
        return Arrival(
            name := check_timeline(timeline),
            check_record_key(key),
            mark_timestamp(self._sealer.seal(value), seconds),
            seconds,
            None if within is None else to_millis(check_within(within)),
            terms(name),
        )

    def arrivals(
        self, records: Iterable[object], *, within: float | None, terms: TermsOf, now: float | None
    ) -> list[Arrival]:
        """Pairs of timeline and record that are ready for the store; an error says which one is wrong."""
        arrivals: list[Arrival] = []
        for place, item in enumerate(records):
            timeline, value = _pair(item, place)
            try:
                arrivals.append(self.arrival(timeline, value, within=within, terms=terms, now=now))
            except InvalidRecord as error:
                raise InvalidRecord(f"record {place}: {error}") from error
        return arrivals

    def millis(self, now: float | None) -> Millis | None:
        """The time that the caller or the clock gives; None leaves it to the store."""
        if now is not None:
            return to_millis(check_time("now", now))
        return None if self.clock is None else to_millis(check_time("clock", self.clock()))

    def seconds(self, now: float | None) -> float:
        """The time that the caller, the clock or else this machine gives."""
        if now is not None:
            return check_time("now", now)
        return wall_clock() if self.clock is None else check_time("clock", self.clock())


def check_time(name: str, value: object) -> float:
    """Refuse a time that is not a number of seconds, by its name."""
    if not is_time(value):
        raise ConfigError(f"{name}: {shortened(value)} is not a number of seconds from {-FARTHEST:g} to {FARTHEST:g}")
    return float(value)  # type: ignore[arg-type]  # is_time says so


def check_limit(name: str, limit: object) -> None:
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"{name}: {shortened(limit)} is not a whole number ≥ 1")


def check_text(name: str, value: object) -> str:
    """Refuse what is not a string of valid characters, by its name."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise ConfigError(f"{name}: {shortened(value)} is not a string of valid characters")


def _pair(item: object, place: int) -> tuple[Any, Any]:
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    raise InvalidRecord(f"record {place}: {shortened(item)} is not a pair of timeline and record")
