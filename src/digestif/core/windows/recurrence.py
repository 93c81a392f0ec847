"""What recurs in local time: times of a day, a week, a month or a cron expression, and hours of the week.

Local times are minutes since 1970, in no zone: 1970-01-01 00:00 is 0.
"""

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from typing import Protocol

from cronsim import CronSim, CronSimError

from digestif.core.texts import did_you_mean, shortened
from digestif.core.windows.zones import DAY_MINUTES, EPOCH
from digestif.errors import ConfigError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEK_MINUTES = 7 * DAY_MINUTES
MONDAY = -3 * DAY_MINUTES  # the Monday before 1970 began
LAST_DAY = -1  # of a month

_FULL_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EPOCH_DAY = EPOCH.toordinal()
_ONE_DAY = timedelta(days=1)


class Times(Protocol):
    """Single moments."""

    def day(self, day: int) -> int | None:
        """The first day with a moment, from this one on; None if none comes within 100 years."""

    def minutes(self, day: int) -> Sequence[int]:
        """The moments of such a day, as minutes, rising."""


def next_time(times: Times, minute: int) -> int | None:
    """The first moment at or after a local time."""
    today, minute_of_day = divmod(minute, DAY_MINUTES)
    day = times.day(today)
    if day == today:
        minutes = times.minutes(day)
        place = bisect_left(minutes, minute_of_day)
        if place < len(minutes):
            return day * DAY_MINUTES + minutes[place]
        day = times.day(today + 1)
    return None if day is None else day * DAY_MINUTES + times.minutes(day)[0]


@dataclass(frozen=True, slots=True)
class Weekly:
    """Times of each day of the week, Monday first."""

    by_weekday: tuple[tuple[int, ...], ...]

    def day(self, day: int) -> int | None:
        return next(later for later in range(day, day + 8) if self.by_weekday[(later + 3) % 7])

    def minutes(self, day: int) -> Sequence[int]:
        return self.by_weekday[(day + 3) % 7]


@dataclass(frozen=True, slots=True)
class Monthly:
    """Times of one day of each month: in shorter months, of the last day."""

    day_of_month: int
    times: tuple[int, ...]

    def day(self, day: int) -> int | None:
        today = _date(day)
        year, month = today.year, today.month
        if self._in(year, month) < today:
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return _day(self._in(year, month))

    def _in(self, year: int, month: int) -> date:
        length = monthrange(year, month)[1]
        return date(year, month, length if self.day_of_month == LAST_DAY else min(self.day_of_month, length))

    def minutes(self, day: int) -> Sequence[int]:  # noqa: ARG002  # the same on each
        return self.times


@dataclass(frozen=True, slots=True)
class Cron:
    """The times of a cron expression; cronsim reads it and knows its days."""

    expression: str
    times: tuple[int, ...]
    matcher: CronSim = field(compare=False, repr=False)

    @property
    def is_weekly(self) -> bool:
        """True if all weeks are the same."""
        _, _, day, month, weekday = self.expression.split()
        return day == month == "*" and not set(weekday) & {"#", "L"}

    def day(self, day: int) -> int | None:
        needle = _date(day)
        end = needle.year + 100
        while needle.year < end:
            if needle.month not in self.matcher.months:
                needle = (needle.replace(day=1) + timedelta(days=32)).replace(day=1)
            elif self.matcher.match_day(needle):
                return _day(needle)
            else:
                needle += _ONE_DAY
        return None

    def minutes(self, day: int) -> Sequence[int]:  # noqa: ARG002  # the same on each
        return self.times


@dataclass(frozen=True, slots=True)
class Hours:
    """Spans of the week in minutes from Monday 00:00, rising and apart. The last one may reach into the next week."""

    spans: tuple[tuple[int, int], ...]
    is_always: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_always", sum(end - start for start, end in self.spans) == WEEK_MINUTES)

    def ending_after(self, minute: int) -> Iterator[tuple[int, int]]:
        """Spans that end after a local time, in local time, without end."""
        week = (minute - MONDAY) // WEEK_MINUTES * WEEK_MINUTES + MONDAY - WEEK_MINUTES
        while True:
            for start, end in self.spans:
                if week + end > minute:
                    yield week + start, week + end
            week += WEEK_MINUTES


def _date(day: int) -> date:
    return date.fromordinal(day + _EPOCH_DAY)


def _day(date: date) -> int:
    return date.toordinal() - _EPOCH_DAY


# Reading what people write. Each answers a canonical form: equal rules are written alike.


def daily(specs: Sequence[object]) -> tuple[str, Weekly]:
    """From "09:00"."""
    minutes = tuple(sorted({time_of_day("daily", spec) for spec in some("daily", specs, "09:00")}))
    return "+".join(map(clock, minutes)), Weekly((minutes,) * 7)


def weekly(specs: Sequence[object]) -> tuple[str, Weekly]:
    """From "mon 08:30" or "mon-fri 08:30"."""
    found = set()
    for spec in some("weekly", specs, "mon 08:30"):
        days, blank, time = spec.strip().rpartition(" ")
        if not blank:
            raise ConfigError(f'weekly: {shortened(spec)} is not days and a time such as "mon 08:30"')
        found |= {(day, time_of_day("weekly", time)) for day in days_of_week("weekly", days)}
    by_weekday = tuple(tuple(sorted(time for on, time in found if on == day)) for day in range(7))
    times = sorted({(min(on for on, other in found if other == time), time) for _, time in found})
    texts = [
        f"{written_days({on for on, other in found if other == time}) or 'mon-sun'} {clock(time)}" for _, time in times
    ]
    return "+".join(texts), Weekly(by_weekday)


def monthly(day: object, specs: Sequence[object]) -> tuple[str, Monthly]:
    """From a day of the month, -1 for the last, and "08:00"."""
    if type(day) is not int or not (1 <= day <= 31 or day == LAST_DAY):
        raise ConfigError(f"monthly: {shortened(day)} is not a day of the month from 1 to 31, or -1 for the last")
    minutes = tuple(sorted({time_of_day("monthly", spec) for spec in some("monthly", specs, "08:00")}))
    name = "last" if day == LAST_DAY else str(day)
    return f"{name} {'+'.join(map(clock, minutes))}", Monthly(day, minutes)


def cron(expression: object) -> tuple[str, Cron]:
    """From five fields: minute, hour, day of month, month, day of week."""
    example = 'such as "*/20 8-18 * * 1-5": minute, hour, day of month, month, day of week'
    if not isinstance(expression, str) or len(expression.split()) != 5:
        raise ConfigError(f"cron: {shortened(expression)} is not an expression of five fields {example}")
    text = " ".join(expression.upper().split())
    try:
        matcher = CronSim(text, EPOCH.replace(tzinfo=None))
    except (CronSimError, AssertionError, TypeError, ValueError) as error:
        reason = str(error) or "it can't be read"
        raise ConfigError(f"cron: {shortened(expression)}: {reason}; write it {example}") from None
    times = tuple(sorted(hour * 60 + minute for hour in matcher.hours for minute in matcher.minutes))
    return text, Cron(text, times, matcher)


def hours(specs: Sequence[object]) -> tuple[str, Hours]:
    """From "08:00-18:00" or "mon-fri 08:00-18:00"."""
    text, spans = _spans("hours", specs)
    return text, Hours(merged(spans))


def quiet(specs: Sequence[object]) -> tuple[str, Hours]:
    """The hours outside of these."""
    text, spans = _spans("quiet", specs)
    closed = merged(spans)
    if Hours(closed).is_always:
        raise ConfigError(f"quiet: {text} is the whole week: the window would never open")
    after = [*closed[1:], (closed[0][0] + WEEK_MINUTES, 0)]
    return text, Hours(merged([(end, start) for (_, end), (start, _) in zip(closed, after, strict=True)]))


def _spans(kind: str, specs: Sequence[object]) -> tuple[str, list[tuple[int, int]]]:
    found = set()
    for spec in some(kind, specs, "mon-fri 08:00-18:00"):
        days, _, span = spec.strip().rpartition(" ")
        start, dash, end = span.partition("-")
        if not dash:
            raise ConfigError(f'{kind}: {shortened(spec)} is not a span such as "08:00-18:00" or "sat 10:00-12:00"')
        bounds = time_of_day(kind, start), time_of_day(kind, end, at_most=DAY_MINUTES)
        if bounds[0] == bounds[1]:
            raise ConfigError(f'{kind}: {shortened(spec)} is empty; "00:00-24:00" is a whole day')
        found |= {(day, *bounds) for day in days_of_week(kind, days)}
    pairs = sorted({(min(on for on, *other in found if other == [*pair]), *pair) for _, *pair in found})
    texts = []
    for _, start_time, end_time in pairs:
        days = written_days({on for on, *other in found if other == [start_time, end_time]})
        texts.append(f"{days} {clock(start_time)}-{clock(end_time)}".strip())
    starts = [(day * DAY_MINUTES, start, end if end > start else end + DAY_MINUTES) for day, start, end in found]
    return "+".join(texts), [(midnight + start, midnight + end) for midnight, start, end in starts]


def merged(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Spans of a week as `Hours` has them: rising, apart, each beginning in the week. A whole week is seven days."""
    cut = sorted(part for start, end in spans for part in _in_week(start, end))
    joined: list[tuple[int, int]] = []
    for start, end in cut:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    if joined == [(0, WEEK_MINUTES)]:
        return tuple((day * DAY_MINUTES, (day + 1) * DAY_MINUTES) for day in range(7))
    if len(joined) > 1 and joined[0][0] == 0 and joined[-1][1] == WEEK_MINUTES:
        joined[-1] = joined[-1][0], WEEK_MINUTES + joined.pop(0)[1]
    return tuple(joined)


def _in_week(start: int, end: int) -> list[tuple[int, int]]:
    start, end = start % WEEK_MINUTES, start % WEEK_MINUTES + end - start
    if end <= WEEK_MINUTES:
        return [(start, end)]
    return [(start, WEEK_MINUTES), (0, end - WEEK_MINUTES)]


def longest_closed(hours: Hours, *, jitter: int) -> float | None:
    """Minutes from the end of a span to the next begin if each begins `jitter` ms later; None if nothing is left."""
    if hours.is_always:
        return 0
    late = jitter / 60_000
    open_spans = [(start + late, end) for start, end in hours.spans if start + late < end]
    if not open_spans:
        return None
    again = [*open_spans, (open_spans[0][0] + WEEK_MINUTES, 0)]
    return max(start - end for (_, end), (start, _) in pairwise(again))


def some(kind: str, specs: Sequence[object], example: str) -> list[str]:
    """The specs, if there are any and all are texts."""
    texts = [spec for spec in specs if isinstance(spec, str)]
    for spec in specs:
        if not isinstance(spec, str):
            raise ConfigError(f'{kind}: {shortened(spec)} is not a text such as "{example}"')
    if not texts:
        raise ConfigError(f'{kind}: give at least one, such as "{example}"')
    return texts


def time_of_day(kind: str, text: str, *, at_most: int = DAY_MINUTES - 1) -> int:
    """Minutes of "09:00"."""
    hour, _, minute = text.strip().partition(":")
    if len(hour) in (1, 2) and len(minute) == 2 and (hour + minute).isdecimal() and (hour + minute).isascii():
        minutes = int(hour) * 60 + int(minute)
        if int(minute) < 60 and minutes <= at_most:
            return minutes
    raise ConfigError(f'{kind}: {shortened(text)} is not a time of day such as "09:00"')


def clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def days_of_week(kind: str, text: str) -> set[int]:
    """Numbers of "mon", "mon-fri", "sat,sun" or "fri-mon"; all seven of an empty text."""
    if not text.strip():
        return set(range(7))
    found: set[int] = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        start = _day_of_week(kind, first)
        end = _day_of_week(kind, last) if "-" in item else start
        found |= {day % 7 for day in range(start, end + (7 if end < start else 0) + 1)}
    return found


def _day_of_week(kind: str, text: str) -> int:
    name = text.strip().lower()
    for names in (DAYS, _FULL_NAMES):
        if name in names:
            return names.index(name)
    raise ConfigError(f"{kind}: {shortened(text.strip())} is not a day of the week{did_you_mean(name, list(DAYS))}")


def written_days(days: set[int]) -> str:
    """ "mon-fri", "sat,sun"; an empty text for all seven."""
    if len(days) == 7:
        return ""
    runs: list[list[int]] = []
    for day in sorted(days):
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(
        f"{DAYS[run[0]]}-{DAYS[run[-1]]}" if len(run) > 2 else ",".join(DAYS[day] for day in run) for run in runs
    )
