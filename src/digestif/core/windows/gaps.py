"""Judges a window when it is made, over fixed years: whether it opens at all, and how long it stays closed at most.

The years lie ahead: zones had other offsets in the past, but today's rules go on.
"""

from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from digestif.core.times import Millis
from digestif.core.windows.occurrences import YEAR, Occurrences
from digestif.core.windows.recurrence import Hours, Times, Weekly, longest_closed
from digestif.core.windows.rule import EVERYTHING, Rule, occurrences
from digestif.core.windows.zones import DAY_MINUTES, EPOCH, MINUTE, longest_repeat, zone_of

BEGIN_DAY, END_DAY = ((datetime(year, 1, 1, tzinfo=UTC) - EPOCH).days for year in (2028, 2110))
BEGIN_TIME = BEGIN_DAY * DAY_MINUTES * MINUTE
HOUR = 3_600_000
ANY_REPEAT = 2 * HOUR  # no clock is set back by more today; for zones that only a callable knows
STEPS = 200  # of a walk through the calendar: many months of daily openings, many years of monthly ones
DAYS = 500  # of a rule alone: more than a year of daily times, forty of monthly ones


@lru_cache(maxsize=1024)
def longest_gap(rules: tuple[Rule, ...]) -> Millis | None:
    """An upper bound of the time from one opening to the next; None if the window never opens."""
    judged = tuple(replace(rule, tz="UTC") if callable(rule.tz) else rule for rule in rules)
    alone = [_gap_of(rule) for rule in judged]
    if None in alone:
        return None
    gaps = [gap for gap in alone if gap is not None]
    if len(rules) > 1:
        if any(_never_opens(judged, share) for share in _shares(rules, 16)):
            return None
        together = [_gap_together(judged, gaps, share) for share in _shares(rules, 1)]
        if None in together:
            return None
        gaps = [max(gap for gap in together if gap is not None)]
    repeats = [ANY_REPEAT if callable(rule.tz) else longest_repeat(zone_of(rule.tz)) for rule in rules]
    return gaps[0] + max(repeats) if gaps[0] else 0


@lru_cache(maxsize=1024)
def shortest_hours(rules: tuple[Rule, ...]) -> Millis | None:
    """How long the window is open at least, for the timeline with the most jitter; None if no hours bind it."""
    closing = [rule for rule in rules if isinstance(rule.recurs, Hours) and not rule.recurs.is_always]
    hours = _together(tuple(replace(rule, tz="UTC") if callable(rule.tz) else rule for rule in closing), EVERYTHING)
    lengths: list[Millis] = []
    span = hours.first_span(BEGIN_TIME) if closing else None
    while span is not None and len(lengths) < STEPS:
        lengths.append(span.end - span.start)
        span = hours.first_span(span.end)
    return min(lengths, default=None)


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
    for _ in range(15 if isinstance(times, Weekly) else DAYS):
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


def _shares(rules: tuple[Rule, ...], steps: int) -> list[int]:
    """Shares of the jitter, from the least to the largest."""
    return [EVERYTHING * step // steps for step in range(steps + 1)] if any(rule.jitter for rule in rules) else [0]


def _never_opens(rules: tuple[Rule, ...], share: int) -> bool:
    both = _together(rules, share)
    return (both.first_time(BEGIN_TIME) if both.times else both.first_span(BEGIN_TIME)) is None


def _together(rules: tuple[Rule, ...], share: int) -> Occurrences:
    both = occurrences(rules, tuple(str(rule.tz) for rule in rules), share)
    years = 2 if all(rule.is_weekly for rule in rules) else 41  # until everything has come that ever will
    return replace(both, search=years * YEAR)


def _gap_together(rules: tuple[Rule, ...], gaps: list[Millis], share: int) -> Millis | None:
    both = _together(rules, share)
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
        if later is None or later > BEGIN_TIME + both.search:
            break
        if later - time > longest and both.first_time(later - longest) == later:
            before = both.last_time(middle, within=longest)
            longest = later - (time if before is None else before)
        time = later
    return longest
