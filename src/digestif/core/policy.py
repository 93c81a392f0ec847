"""Policy: when a timeline is delivered, and how much it keeps."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from digestif.core import policy_text
from digestif.core.backoff import Exponential, Intervals, Retry
from digestif.core.durations import seconds_of, written_duration
from digestif.core.options import check_names, refuse_misspelt
from digestif.core.terms import FIRST_DELAY, GIVEN, INCREMENT, MAXIMUM, Openings, Terms
from digestif.core.texts import reason_of, shortened
from digestif.core.times import LONGEST, Duration, Millis, in_seconds, is_duration, to_millis, to_seconds
from digestif.core.windows import Window, ZoneRule
from digestif.errors import ConfigError

Backoff = Callable[[int], float] | Callable[[int], timedelta]
T = TypeVar("T")

DAY = 86_400.0
MOST = 10**15  # of records, bytes and attempts: every store can count so far
MOST_COOL_DOWNS = 256
WEEK = 7 * DAY  # the ttl that was not given is this very object: with a window it grows

_GIVEN = {FIRST_DELAY: "first_delay", INCREMENT: "increment_delay", MAXIMUM: "maximum_delay"}


def refuse_unknown(cls: type[T]) -> type[T]:
    """Let a dataclass answer an unknown or unnamed option with a ConfigError that says what to write."""
    init = cls.__init__

    @wraps(init)
    def checked(self: Any, *unnamed: object, **options: Any) -> None:
        if unnamed:
            parse = f"; {cls.__name__}.parse reads a text" if hasattr(cls, "parse") else ""
            raise ConfigError(f"{cls.__name__}: {shortened(unnamed[0])} is no option; give options by name{parse}")
        check_options(cls, options)
        init(self, **options)

    cls.__init__ = checked  # type: ignore[method-assign]
    return cls


def check_options(cls: type, options: Iterable[str]) -> None:
    """Raises ConfigError for an option that is not a field of the dataclass, with the one that may be meant."""
    check_names(options, [f.name for f in fields(cls)], of=cls.__name__)


@refuse_unknown
@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When a timeline is delivered, and how much it keeps. Durations in seconds; a timedelta is taken as well.

    Options, with their defaults:

    - first_delay=0: wait before the first delivery of an idle timeline
    - minimum_delay=300: cool-down after a delivery
    - increment_delay=30: each record added while waiting moves the due time by this much …
    - maximum_delay=1800: … but never past this, counted from the last delivery
    - quiet=None: instead of increments: this much silence, at most maximum_delay after the first record
    - backoff=None: a function from iteration to cool-down, instead of minimum_delay and increments
    - max_records=None: this many pending records make the timeline due at once
    - capacity=10_000: the newest records are kept, the rest is dropped and counted
    - max_bytes=33_554_432: of a digest, as stored: the newest records are kept, at least one, the rest is dropped
    - ttl=604_800: pending records older than this expire and are counted; longer with a window that opens rarely
    - attempts=8: then the digest is buried as a dead letter
    - retry=Retry(): the wait after a failed attempt
    - lapses=3: leases that lapse while the digest is tried alone; then it is buried
    - give_up_after=None: how long a digest is tried from its first failed attempt on; None: half of ttl
    - redelivery="merge": a digest that failed comes again with newer records; "same": exactly as it was
    - window=None: the times or hours at which a digest may leave, a Window
    """

    first_delay: float = 0
    minimum_delay: float = 300
    increment_delay: float = 30
    maximum_delay: float = 1800
    quiet: float | None = None
    backoff: Backoff | None = None
    max_records: int | None = None
    capacity: int | None = 10_000
    max_bytes: int | None = 32 << 20
    ttl: float | None = WEEK
    attempts: int = 8
    retry: Retry = field(default_factory=Retry)
    lapses: int = 3
    give_up_after: float | None = None
    redelivery: Literal["merge", "same"] = "merge"
    window: Window | None = None

    if TYPE_CHECKING:  # a timedelta is kept as its seconds

        def __init__(
            self,
            *,
            first_delay: Duration = ...,
            minimum_delay: Duration = ...,
            increment_delay: Duration = ...,
            maximum_delay: Duration = ...,
            quiet: Duration | None = ...,
            backoff: Backoff | None = ...,
            max_records: int | None = ...,
            capacity: int | None = ...,
            max_bytes: int | None = ...,
            ttl: Duration | None = ...,
            attempts: int = ...,
            retry: Retry = ...,
            lapses: int = ...,
            give_up_after: Duration | None = ...,
            redelivery: Literal["merge", "same"] = ...,
            window: Window | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("first_delay", "minimum_delay", "increment_delay", "maximum_delay"):
            object.__setattr__(self, name, self._delay(name))
        for name in ("quiet", "ttl", "give_up_after"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._delay(name))
        for name in ("max_records", "capacity", "max_bytes"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name))
        _check_count("attempts", self.attempts)
        _check_count("lapses", self.lapses)
        self._check_choices()
        if self.ttl is WEEK:
            object.__setattr__(self, "ttl", self.default_ttl)
        self._check_order()

    def _delay(self, name: str) -> float:
        """The seconds of a field. The error for a text such as 5m names `Policy.parse`."""
        value = getattr(self, name)
        try:
            return check_delay(name, value)
        except ConfigError as error:
            if not isinstance(value, str) or (seconds := seconds_of(value)) is None:
                raise
            text = f"{policy_text.name_of(name)}={value.strip()}"
            raise ConfigError(f'{error}; write {seconds:g}, or Policy.parse("{text}")') from None

    def _check_choices(self) -> None:
        if self.window is not None and not isinstance(self.window, Window):
            raise ConfigError(
                f'window: {shortened(self.window)} is not a Window such as Window.daily("09:00", tz="UTC")'
                + ("; Window.parse reads a text" if isinstance(self.window, str) else "")
            )
        if self.redelivery not in ("merge", "same"):
            raise ConfigError(f'redelivery: {shortened(self.redelivery)} is neither "merge" nor "same"')
        if not isinstance(self.retry, Retry):
            raise ConfigError(f"retry: {shortened(self.retry)} is not a Retry")
        if self.backoff is not None and not callable(self.backoff):
            raise ConfigError(f"backoff: {shortened(self.backoff)} is not a callable from iteration to seconds")

    def _check_order(self) -> None:
        if self.minimum_delay > self.maximum_delay and self.backoff is None:
            raise ConfigError(
                f"minimum_delay: {self.minimum_delay:g} is more than maximum_delay {self.maximum_delay:g}; "
                f"make that at least {self.minimum_delay:g}"
            )
        if self.quiet is not None and self.quiet > self.maximum_delay:
            raise ConfigError(f"quiet: {self.quiet:g} is more than maximum_delay {self.maximum_delay:g}")
        if not self.allows(self.longest_delay):
            longest = self.longest_wait
            raise ConfigError(
                f"ttl: {self.ttl:g} is less than 2 × {longest:g}, the longest wait of this policy: "
                f"records could expire while they wait; make it at least {written_duration(math.ceil(2 * longest))}"
            )

    @property
    def default_ttl(self) -> float:
        """The ttl if none is given: a week, longer if the window opens so rarely that records could expire."""
        if self.window is None:
            return WEEK
        return max(WEEK, float(math.ceil(2.1 * self.longest_wait)))

    @property
    def patience(self) -> float:
        """How long a digest is tried, from its first failed attempt on, in seconds."""
        if self.give_up_after is not None:
            return self.give_up_after
        return (WEEK if self.ttl is None else self.ttl) / 2

    @property
    def longest_delay(self) -> float:
        """The longest of the delays, in seconds."""
        cool_down = self.minimum_delay if self.backoff is None else _longest(self.backoff)
        return max(self.first_delay, cool_down, self.maximum_delay)

    @property
    def longest_wait(self) -> float:
        """The longest time that this policy lets a record wait, in seconds: for its delays, then for the window."""
        return self._wait(self.longest_delay)

    def allows(self, delay: float) -> bool:
        """True if records can wait for this delay, in seconds, and then for the window: at most half the ttl."""
        return self.ttl is None or self.ttl >= 2 * self._wait(delay)

    @property
    def longest_allowed(self) -> float:
        """The longest delay that the ttl allows, in seconds: half of it, less the longest wait for the window."""
        return math.inf if self.ttl is None else self.ttl / 2 - self._wait(0)

    def _wait(self, delay: float) -> float:
        return delay + (0 if self.window is None else self.window.longest_gap)

    def terms(
        self,
        *,
        first_delay: Duration | None = None,
        increment_delay: Duration | None = None,
        maximum_delay: Duration | None = None,
    ) -> Terms:
        """The numbers for one add: the call's own delays come before the policy's."""
        first = None if first_delay is None else check_delay("first_delay", first_delay)
        increment = None if increment_delay is None else check_delay("increment_delay", increment_delay)
        maximum = None if maximum_delay is None else check_delay("maximum_delay", maximum_delay)
        given = {"first_delay": first, "increment_delay": increment, "maximum_delay": maximum}
        return Terms(
            first_delay=to_millis(self.first_delay if first is None else first),
            increment=self._increment(increment, maximum),
            maximum=to_millis(self.maximum_delay if maximum is None else maximum),
            quiet=None if self.quiet is None else to_millis(self.quiet),
            max_records=self.max_records,
            capacity=self.capacity,
            ttl=None if self.ttl is None else to_millis(self.ttl),
            given=sum(bit for bit, name in _GIVEN.items() if given[name] is not None),
        )

    def _increment(self, increment_delay: float | None, maximum_delay: float | None) -> Millis | None:
        if increment_delay is not None:
            return to_millis(increment_delay)
        if self.backoff is None:
            return to_millis(self.increment_delay)
        return None if maximum_delay is None else 0

    def openings(self, timeline: str, now: Millis, *, far: bool = False) -> Openings | None:
        """The openings of the window that an add or an ending may need, or as many as can be kept if `far`.

        None without a window.
        """
        if self.window is None:
            return None
        near = self.window.openings(timeline, now, reach=to_millis(self.longest_delay))
        if not far:
            return near
        return max(near, self.window.openings(timeline, now, reach=None), key=lambda found: len(found.numbers))

    def in_zone(self, zone: str) -> "Policy":
        """The same policy, its window in another zone."""
        if self.window is None:
            return self
        ttl = WEEK if self.ttl == self.default_ttl else self.ttl
        return replace(self, window=self.window.in_zone(zone), ttl=ttl)

    def zone_of(self, timeline: str) -> str | None:
        """The zone in which its window is meant; None without a window, or if a user's function fails."""
        try:
            return None if self.window is None else self.window.zone_of(timeline)
        except ConfigError:  # `add` tells of it
            return None

    def cool_down(self, iteration: int) -> Millis:
        """The wait after the digest of this iteration; at most half the ttl, so that records do not expire in it."""
        if self.backoff is None:
            return to_millis(self.minimum_delay)
        delay = _checked_backoff(self.backoff, iteration)
        return to_millis(min(delay, self.longest_allowed))

    def cool_downs(self) -> tuple[Millis, ...]:
        """The cool-downs by iteration, as far as they differ: the last one also holds for all later iterations."""
        if self.backoff is None:
            return (self.cool_down(0),)
        if isinstance(self.backoff, Exponential):
            last = self.backoff.limit
        elif isinstance(self.backoff, Intervals):
            last = max(self.backoff.steps, default=-1) + 1
        else:
            raise ConfigError(f"backoff: {shortened(self.backoff)} can't be listed; use Exponential or Intervals")
        if last >= MOST_COOL_DOWNS:
            raise ConfigError(f"backoff: {last} iterations are too many to be listed; at most {MOST_COOL_DOWNS - 1}")
        return tuple(self.cool_down(iteration) for iteration in range(last + 1))

    # As text

    @classmethod
    def parse(cls, text: str) -> "Policy":
        """The policy that a text describes: "minimum=5m,maximum=30m", "daily@09:00 Europe/Berlin,capacity=50"."""
        return cls(**policy_text.read_options(text))

    def __str__(self) -> str:
        """The text that `parse` reads. ConfigError if the policy holds a callable."""
        return policy_text.written(self)

    # Presets

    @classmethod
    def immediate(cls, **options: Any) -> "Policy":
        """Deliver at once, always: no cool-down, no increments."""
        return cls(**{**policy_text.IMMEDIATE, **options})

    @classmethod
    def debounce(cls, quiet: Duration, maximum: Duration, **options: Any) -> "Policy":
        """Deliver after `quiet` seconds of silence, at the latest `maximum` after the first record."""
        return cls(**{**policy_text.debounce(quiet, maximum), **options})

    @classmethod
    def hourly(cls, **options: Any) -> "Policy":
        """The first at once, then at most one digest an hour."""
        return cls(**{**policy_text.HOURLY, **options})

    @classmethod
    @refuse_misspelt
    def daily(cls, *times: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False, **options: Any) -> "Policy":
        """One digest a day at "09:00" of the zone, or at several times; no delays."""
        return cls.immediate(**{"window": Window.daily(*times, tz=tz, jitter=jitter, urgent=urgent), **options})

    @classmethod
    @refuse_misspelt
    def weekly(cls, *times: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False, **options: Any) -> "Policy":
        """One digest a week at "mon 08:30" of the zone, or at several times; no delays."""
        return cls.immediate(**{"window": Window.weekly(*times, tz=tz, jitter=jitter, urgent=urgent), **options})

    @classmethod
    @refuse_misspelt
    def quiet_hours(
        cls, *spans: str, tz: ZoneRule, jitter: Duration = 0, urgent: bool = False, **options: Any
    ) -> "Policy":
        """The default delays, but nothing leaves from "22:00-07:00" of the zone."""
        return cls(**{"window": Window.quiet(*spans, tz=tz, jitter=jitter, urgent=urgent), **options})

    @classmethod
    def stepped(cls, strategy: Backoff, **options: Any) -> "Policy":
        """A backoff per iteration: the first wait is the strategy's iteration 0."""
        return cls(**{"first_delay": _checked_backoff(strategy, 0), "backoff": strategy, **options})


def check_delay(name: str, value: object) -> float:
    """A delay in seconds, of a number or a timedelta. ConfigError, with the option's name, unless from 0 to LONGEST."""
    seconds: float = in_seconds(value)
    if not is_duration(seconds):
        raise ConfigError(f"{name}: {shortened(value)} is not a number of seconds from 0 to {LONGEST:g}")
    return seconds


def given_delays(terms: Terms) -> dict[str, float]:
    """The delays that a call gave itself, by their names, in seconds."""
    return {_GIVEN[bit]: to_seconds(getattr(terms, name)) for bit, name in GIVEN.items() if terms.given & bit}


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}: {shortened(value)} is not a whole number ≥ 1")
    if value > MOST:
        raise ConfigError(f"{name}: {shortened(value)} is more than {MOST:,}; leave it None where that is allowed")


def _longest(backoff: Backoff) -> float:
    """The longest delay of a strategy that declares it; the delays of others are cut in `cool_down`."""
    return float(check_delay("backoff.longest", getattr(backoff, "longest", 0.0)))


def _checked_backoff(backoff: Backoff, iteration: int) -> float:
    try:
        delay: object = in_seconds(backoff(iteration))
    except Exception as error:
        raise ConfigError(f"backoff: fails for iteration {iteration}: {reason_of(error)}") from error
    if isinstance(delay, int | float) and LONGEST < delay < math.inf:
        delay = LONGEST
    if not is_duration(delay):
        raise ConfigError(f"backoff: gives {shortened(delay)} for iteration {iteration}, not a number of seconds ≥ 0")
    return float(delay)  # type: ignore[arg-type]  # is_duration says so
