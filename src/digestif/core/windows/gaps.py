"""Judges a window when it is made, over fixed years: whether it opens at all, and how long it stays closed at most."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from digestif.core.times import Millis
from digestif.core.windows.occurrences import Occurrences
from digestif.core.windows.recurrence import Cron, Hours, Monthly, Times, longest_closed
from digestif.core.windows.rule import EVERYTHING, Rule, occurrences
from digestif.core.windows.zones import DAY_MINUTES, EPOCH, MINUTE, longest_repeat, zone_of

BEGIN_DAY, END_DAY = ((datetime(year, 1, 1, tzinfo=UTC) - EPOCH).days for year in (2000, 2110))
BEGIN_TIME = BEGIN_DAY * DAY_MINUTES * MINUTE
HOUR = 3_600_000
YEAR = 366 * 24 * HOUR
ANY_REPEAT = 2 * HOUR  # no clock is set back by more today; for zones that only a callable knows
STEPS = 300  # of a walk through the calendar: about a year of daily openings, 25 years of monthly ones
DAYS = 1500


@lru_cache(maxsize=1024)
def longest_gap(rules: tuple[Rule, ...]) -> Millis | None:
    """An upper bound of the time from one opening to the next; None if the window never opens."""
    judged = tuple(replace(rule, tz="UTC") if callable(rule.tz) else rule for rule in rules)
    alone = [_gap_of(rule) for rule in judged]
    if None in alone:
        return None
    gaps = [gap for gap in alone if gap is not None]
    if len(rules) > 1:
        together = [_gap_together(judged, gaps, share) for share in _shares(rules)]
        if None in together:
            return None
        gaps = [max(gap for gap in together if gap is not None)]
    repeats = [ANY_REPEAT if callable(rule.tz) else longest_repeat(zone_of(rule.tz)) for rule in rules]
    return gaps[0] + max(repeats) if gaps[0] else 0


def _gap_of(rule: Rule) -> Millis | None:
    """The longest gap of one rule on a clock that is never changed."""
    if isinstance(rule.recurs, Hours):
        minutes = longest_closed(rule.recurs, jitter=rule.offset(EVERYTHING))
        return None if minutes is None else round(minutes * MINUTE)
    return _gap_of_days(rule.recurs)


def _gap_of_days(times: Times) -> Millis | None:
    """Day by day: a day may have a thousand times, but most days have the same."""
    longest, last, seen = -1, None, None
    following = BEGIN_DAY
    for _ in range(DAYS if isinstance(times, Cron | Monthly) else 15):
        day = times.day(following)
        if day is None or day >= END_DAY:
            break
        following = day + 1
        minutes = times.minutes(day)
        if minutes is not seen:
            longest = max(longest, *(later - earlier for earlier, later in pairwise(minutes)), -1)
            seen = minutes
        if last is not None:
            longest = max(longest, day * DAY_MINUTES + minutes[0] - last)
        last = day * DAY_MINUTES + minutes[-1]
    return None if longest < 0 else longest * MINUTE


def _shares(rules: tuple[Rule, ...]) -> list[int]:
    """Of the jitter: the least and the largest."""
    return [0, EVERYTHING] if any(rule.jitter for rule in rules) else [0]


def _gap_together(rules: tuple[Rule, ...], gaps: list[Millis], share: int) -> Millis | None:
    both = occurrences(rules, tuple(str(rule.tz) for rule in rules), share)
    rare = any(isinstance(rule.recurs, Cron | Monthly) for rule in rules)
    both = replace(both, search=(41 if rare else 2) * YEAR)
    closed = [gap for rule, gap in zip(rules, gaps, strict=True) if isinstance(rule.recurs, Hours)]
    if not both.times:
        return _gap_of_spans(both)
    between = min(gap for rule, gap in zip(rules, gaps, strict=True) if not isinstance(rule.recurs, Hours))
    return _gap_of_times(both, max([between, *closed])) if both.hours else between


def _gap_of_spans(both: Occurrences) -> Millis | None:
    span = both.first_span(BEGIN_TIME)
    longest = 0
    for _ in range(STEPS):
        if span is None:
            return None
        later = both.first_span(span.end)
        if later is not None:
            longest = max(longest, later.start - span.end)
        span = later
    return longest


def _gap_of_times(both: Occurrences, longest: Millis) -> Millis | None:
    """Walk in strides of half the longest gap found so far: a longer one can't hide between two of them."""
    longest = max(longest, HOUR)
    time = both.first_time(BEGIN_TIME)
    for _ in range(STEPS):
        if time is None:
            return None
        middle = time + longest // 2
        later = both.first_time(middle)
        if later is None or later >= END_DAY * DAY_MINUTES * MINUTE:
            break
        if later - time > longest:
            before = both.last_time(middle, within=longest)
            longest = max(longest, later - (time if before is None else before))
        time = later
    return longest
