"""Time: integer milliseconds inside, seconds as float at the public border."""

import math
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeAlias

Millis: TypeAlias = int
Duration: TypeAlias = float | timedelta  # as callers give it: seconds, or a timedelta
Instant: TypeAlias = float | datetime  # as callers give it: seconds since the epoch, or an aware datetime

DAY = 86_400  # seconds
LONGEST = 1e10  # seconds, about 317 years: durations
FARTHEST = 1e12  # seconds from the epoch, either way: times
CLOCK_MARGIN: Millis = 600_000  # by which clocks may differ: what is off by less than this rights itself
MILLISECONDS_FROM = 1e11  # seconds, in the year 5138: a timestamp from here on was meant in milliseconds


def to_millis(seconds: float) -> Millis:
    """Round to the nearest millisecond."""
    return round(seconds * 1000)


def to_seconds(millis: Millis) -> float:
    return millis / 1000


def is_past(time: float, *, now: float, longest: float) -> bool:
    """True for a stored time that has come, or that lies further ahead than the longest interval of its kind.

    Such a time was written before the clock was set back: waiting for it would stop things for as long. All three in
    seconds, or all in milliseconds.
    """
    return not now < time <= now + longest


def datetime_of(seconds: float) -> datetime:
    """A time in UTC. Raises ValueError where the calendar ends."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{seconds!r} seconds since 1970 are in none of the years 1 to 9999") from None


def instant_text(seconds: float) -> str:
    """A time for people, in UTC."""
    return instant_in(seconds, UTC)


def instant_in(seconds: float, zone: tzinfo) -> str:
    """A time for people, in a zone; the number itself where the calendar ends."""
    try:
        return datetime.fromtimestamp(seconds, zone).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # the clock of a test may give any time
        return f"{seconds:.3f}"


def clock_in(seconds: float, zone: tzinfo, *, now: float) -> str:
    """A time for people with the name of its zone, and with its date unless it comes within a day of `now`."""
    try:
        moment = datetime.fromtimestamp(seconds, zone)
    except (ValueError, OverflowError, OSError):
        return instant_in(seconds, zone)
    day = "" if 0 <= seconds - now < DAY else f"{moment:%a %Y-%m-%d} "
    return f"{day}{moment:{'%H:%M:%S' if moment.second else '%H:%M'}} {zone}"


def in_seconds(duration: Any) -> Any:
    """A timedelta as its seconds, a whole number if it is one; anything else as it is, for a check that follows."""
    if not isinstance(duration, timedelta):
        return duration
    seconds = duration.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def is_duration(value: object) -> bool:
    """True for a number of seconds from 0 to LONGEST that is not a boolean."""
    return is_number(value) and 0 <= value <= LONGEST  # type: ignore[operator]  # is_number says it compares


def is_lease(value: object) -> bool:
    """True for a duration of at least one millisecond, rounded."""
    return is_duration(value) and to_millis(value) > 0  # type: ignore[arg-type]  # is_duration says it is a number


def is_time(value: object) -> bool:
    """True for a number of seconds since the epoch, at most FARTHEST from it."""
    return is_number(value) and abs(value) <= FARTHEST  # type: ignore[arg-type]  # is_number says it is a number


def is_number(value: object) -> bool:
    """True for a finite int or float that is not a boolean."""
    if type(value) is float:  # the usual case
        return math.isfinite(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False
