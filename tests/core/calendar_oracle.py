"""A second opinion on windows: slow, made from lists of minutes and from `whenever`, and without our own code.

`Rule` describes one rule of a window twice: as the call that makes our window, and as minutes of local days. `Oracle`
lists what follows from that for some weeks. `drawn` makes random ones for tests.
"""

import calendar
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, reduce
from hashlib import blake2b

from hypothesis import strategies as st
from whenever import Instant, PlainDateTime, RepeatedTime, SkippedTime

from digestif import ConfigError, Window

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # the clock changes by half an hour
    "Asia/Kolkata",
    "America/Sao_Paulo",  # changed at midnight
    "Pacific/Apia",  # left out a day
]
DAY = 86_400_000
MINUTES = 1440
EPOCH = date(1970, 1, 1)
BEGIN, END = (round(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000) for year in (2000, 2041))
NAMES = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

Spans = list[tuple[int, int]]


@lru_cache(maxsize=100_000)
def instant(zone: str, minute: int) -> int:
    """Milliseconds of a local minute since 1970: the end of a gap, the first of two."""
    on = EPOCH + timedelta(days=minute // MINUTES)
    local = PlainDateTime(on.year, on.month, on.day, minute % MINUTES // 60, minute % 60)
    try:
        found = local.assume_tz(zone, disambiguation="raise")
    except RepeatedTime:
        found = local.assume_tz(zone, disambiguation="earlier")
    except SkippedTime:
        change = local.assume_tz(zone, disambiguation="earlier").next_transition()
        assert change is not None
        found = change
    return int(found.timestamp(unit="millisecond"))


@lru_cache
def clock_changes(zone: str) -> list[int]:
    """All of the years 2000 to 2040."""
    found: list[int] = []
    at = Instant.from_timestamp(BEGIN, unit="millisecond").to_tz(zone)
    while (change := at.next_transition()) is not None and change.timestamp(unit="millisecond") < END:
        found.append(int(change.timestamp(unit="millisecond")))
        at = change
    return found


@dataclass(frozen=True)
class Rule:
    """One rule: how it is written, and what it means."""

    make: Callable[..., Window]
    arguments: tuple[str | int, ...]
    zone: str
    minutes_on: Callable[[date], list[int]] | None = None  # times of a day
    spans_on: Callable[[date], Spans] | None = None  # hours that begin on a day, in minutes from its midnight
    closed: bool = False  # these are the hours in which nothing leaves
    jitter: int = 0
    urgent: bool = False

    @property
    def window(self) -> Window:
        return self.make(*self.arguments, tz=self.zone, jitter=self.jitter, urgent=self.urgent)


@dataclass
class Oracle:
    """What the rules mean from `since` to `until`."""

    rules: list[Rule]
    timeline: str
    since: int
    until: int
    times: list[int] = field(init=False)
    spans: Spans = field(init=False)

    def __post_init__(self) -> None:
        hours = [self._spans(rule) for rule in self.rules if rule.spans_on]
        spans = reduce(_both, hours) if hours else [(self.since, self.until)]
        self.spans = [span for span in spans if span[1] > self.since and span[0] < self.until]
        times = sorted({time for rule in self.rules if rule.minutes_on for time in self._times(rule)})
        self.times = [time for time in times if self.is_inside(time) and self.since <= time < self.until]

    @property
    def has_times(self) -> bool:
        return any(rule.minutes_on for rule in self.rules)

    def is_inside(self, at: int) -> bool:
        return any(start <= at < end for start, end in self.spans)

    def next_hours(self, at: int) -> int | None:
        return next((max(at, start) for start, end in self.spans if at < end), None)

    def first(self, at: int, last: int | None) -> int | None:
        if not self.has_times:
            return self.next_hours(at)
        return next((time for time in self.times if time >= at and (last is None or time > last)), None)

    def _days(self) -> Iterable[int]:
        return range(self.since // DAY - 9, self.until // DAY + 2)

    def _offset(self, rule: Rule) -> int:
        share = int.from_bytes(blake2b(self.timeline.encode(), digest_size=8).digest(), "big")
        return share * rule.jitter * 1000 // 2**64

    def _times(self, rule: Rule) -> list[int]:
        assert rule.minutes_on
        return [
            instant(rule.zone, day * MINUTES + minute) + self._offset(rule)
            for day in self._days()
            for minute in rule.minutes_on(EPOCH + timedelta(days=day))
        ]

    def _spans(self, rule: Rule) -> Spans:
        assert rule.spans_on
        days = list(self._days())
        begin = days[0] * MINUTES
        is_open = bytearray([rule.closed]) * (len(days) * MINUTES)
        for day in days:
            for start, end in rule.spans_on(EPOCH + timedelta(days=day)):
                first, last = day * MINUTES + start - begin, min(day * MINUTES + end - begin, len(is_open))
                is_open[first:last] = bytes([not rule.closed]) * (last - first)
        spans = []
        start = is_open.find(1)
        while start >= 0:
            end = is_open.find(0, start)
            end = len(is_open) if end < 0 else end
            is_begin = start > 0  # not the edge of what is looked at
            late = self._offset(rule) if is_begin else 0
            spans.append((instant(rule.zone, begin + start) + late, instant(rule.zone, begin + end)))
            start = is_open.find(1, end)
        return [(start, end) for start, end in spans if start < end]


def _both(left: Spans, right: Spans) -> Spans:
    common = [(max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right]
    return sorted((start, end) for start, end in common if start < end)


# Random rules

minutes_of_day = st.integers(0, MINUTES - 1) | st.sampled_from([0, 60, 90, 120, 125, 150, 180, 1439])
weekdays = st.sets(st.integers(0, 6), min_size=1)
jitters = st.sampled_from([0, 0, 1, 600, 3600])


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def days_text(days: set[int]) -> str:
    return ",".join(NAMES[day] for day in sorted(days))


@st.composite
def daily_rules(draw: st.DrawFn, zone: str) -> Rule:
    minutes = draw(st.sets(minutes_of_day, min_size=1, max_size=3))
    texts = tuple(clock(minute) for minute in minutes)
    return Rule(Window.daily, texts, zone, lambda _: sorted(minutes), jitter=draw(jitters), urgent=draw(st.booleans()))


@st.composite
def weekly_rules(draw: st.DrawFn, zone: str) -> Rule:
    chosen = draw(st.lists(st.tuples(weekdays, minutes_of_day), min_size=1, max_size=3))
    texts = tuple(f"{days_text(days)} {clock(minute)}" for days, minute in chosen)
    return Rule(
        Window.weekly,
        texts,
        zone,
        lambda on: sorted({minute for days, minute in chosen if on.weekday() in days}),
        jitter=draw(jitters),
    )


@st.composite
def monthly_rules(draw: st.DrawFn, zone: str) -> Rule:
    day = draw(st.integers(1, 31) | st.just(-1))
    minute = draw(minutes_of_day)

    def minutes_on(on: date) -> list[int]:
        last = calendar.monthrange(on.year, on.month)[1]
        return [minute] if on.day == (last if day == -1 else min(day, last)) else []

    return Rule(Window.monthly, (day, clock(minute)), zone, minutes_on, jitter=draw(jitters))


@st.composite
def cron_rules(draw: st.DrawFn, zone: str) -> Rule:
    minutes = draw(st.sets(st.integers(0, 59), min_size=1, max_size=3))
    hours = draw(st.sets(st.integers(0, 23) | st.integers(0, 3), min_size=1, max_size=4))
    days = draw(st.none() | st.sets(st.integers(1, 31), min_size=1, max_size=6))
    months = draw(st.none() | st.none() | st.sets(st.integers(1, 12), min_size=8))
    on_weekdays = draw(st.none() | weekdays)
    weekday_numbers = None if on_weekdays is None else {(day + 1) % 7 for day in on_weekdays}  # 0 is Sunday

    def minutes_on(on: date) -> list[int]:
        matches = [on.day in days] if days else []
        matches += [on.weekday() in on_weekdays] if on_weekdays else []
        if (months and on.month not in months) or (matches and not any(matches)):
            return []
        return sorted(hour * 60 + minute for hour in hours for minute in minutes)

    fields = [minutes, hours, days, months, weekday_numbers]
    text = " ".join("*" if numbers is None else ",".join(map(str, sorted(numbers))) for numbers in fields)
    return Rule(Window.cron, (text,), zone, minutes_on, jitter=draw(jitters))


@st.composite
def hours_rules(draw: st.DrawFn, zone: str) -> Rule:
    closed = draw(st.booleans())
    spans = draw(st.lists(st.tuples(st.none() | weekdays, minutes_of_day, minutes_of_day), min_size=1, max_size=3))
    spans = [(days, start, end if end != start else (start + 60) % MINUTES) for days, start, end in spans]
    texts = tuple(
        f"{'' if days is None else days_text(days)} {clock(start)}-{clock(MINUTES if end == 0 else end)}".strip()
        for days, start, end in spans
    )

    def spans_on(on: date) -> Spans:
        today = [(start, end) for days, start, end in spans if days is None or on.weekday() in days]
        return [(start, end if end > start else end + MINUTES) for start, end in today]

    make = Window.quiet if closed else Window.hours
    return Rule(make, texts, zone, spans_on=spans_on, closed=closed, jitter=draw(st.sampled_from([0, 0, 600])))


RULES = [daily_rules, weekly_rules, monthly_rules, cron_rules, hours_rules]


@st.composite
def rules(draw: st.DrawFn, counts: tuple[int, int]) -> list[Rule]:
    """So many rules; not all of them can be combined."""
    kinds = st.sampled_from([*RULES, hours_rules])
    zones = st.sampled_from(ZONES)
    zone = draw(zones)
    return [draw(draw(kinds)(draw(st.just(zone) | zones))) for _ in range(draw(st.integers(*counts)))]


@st.composite
def instants(draw: st.DrawFn, zone: str) -> int:
    """Any, but often near a change of the clock."""
    changes = clock_changes(zone)
    is_near = draw(st.integers(0, 3)) > 0
    if changes and is_near:
        near = st.integers(-120, 120).map(lambda minutes: minutes * 60_000)
        return draw(st.sampled_from(changes)) + draw(near | st.integers(-2 * DAY, 2 * DAY))
    return draw(st.integers(BEGIN, END))


def combined(chosen: list[Rule]) -> Window | None:
    """The window of the rules, combined at once: two of them alone might never open. None if all never do."""
    try:
        return Window(tuple(dict.fromkeys(rule for one in chosen for rule in one.window.rules)))
    except ConfigError as error:
        if "never open" in str(error):
            return None
        raise


def around(numbers: list[int], now: int) -> list[int]:
    """From the last one at or before now."""
    return numbers[max(bisect_right(numbers, now) - 1, 0) :]


def from_on(numbers: list[int], at: int) -> list[int]:
    return numbers[bisect_left(numbers, at) :]
