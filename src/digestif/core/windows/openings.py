"""Keeps the next openings of a window at hand, because every add asks for them.

One entry per zone serves all timelines until time moves past the next opening. With jitter an entry holds the openings
as the rules say them, and each timeline's are computed from these.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from digestif.core.terms import Openings
from digestif.core.times import Millis, to_millis
from digestif.core.windows.occurrences import YEAR, Occurrences, Span
from digestif.core.windows.recurrence import Hours
from digestif.core.windows.rule import EVERYTHING, Rule, Zones, binding_rules, occurrences
from digestif.core.windows.zones import DAY, LATEST

FEWEST = 4  # times, or spans
MOST = 32
STORED = 8  # numbers, for a week of a daily window: each read of the timeline decodes them
MOST_RAW = 64  # of one rule; if there are more, each timeline's openings are searched anew
MOST_ZONES = 1000


Spans: TypeAlias = Sequence[tuple[Millis, Millis]]  # plain tuples: a Span takes three times as long to make


class Raw(NamedTuple):
    """All that the rules say, without jitter, in the order of the rules: complete from `since` to `until`."""

    times: tuple[tuple[Millis, ...], ...]
    spans: tuple[Spans, ...]
    common: Spans  # inside all of these
    since: Millis
    until: Millis


class Entry(NamedTuple):
    """What is known from `begin` until `end`, about all openings up to `end` + `reach`."""

    begin: Millis
    end: Millis
    reach: Millis
    openings: Openings | None = None  # of every timeline, if there is no jitter
    raw: Raw | None = None


class OpeningsCache:
    """The openings of one window, by zone. Safe in threads: entries are never changed, only replaced."""

    __slots__ = ("_entries", "_gap", "_hours_jitter", "_is_hours", "_rules", "_times_jitter", "_urgent", "is_shared")

    def __init__(self, rules: Sequence[Rule], *, urgent: bool, gap: Millis) -> None:
        self._rules = rules
        self._urgent = urgent
        self._gap = 2 * gap + YEAR  # how far back the last opening may lie, also in years when clocks had other rules
        self._is_hours = all(isinstance(rule.recurs, Hours) for rule in rules)
        binding = [(rule.recurs, to_millis(rule.jitter)) for rule in binding_rules(rules)]
        self._times_jitter = [jitter for recurs, jitter in binding if not isinstance(recurs, Hours)]
        self._hours_jitter = [
            0 if recurs.is_always else jitter for recurs, jitter in binding if isinstance(recurs, Hours)
        ]
        self.is_shared = not any(self._times_jitter) and not any(self._hours_jitter)  # by timelines in the same zone
        self._entries: dict[Zones, Entry] = {}

    def get(self, zones: Zones, share: int, now: Millis, reach: Millis) -> Openings:
        """The openings at a share of the jitter; without jitter, the same object until the next opening."""
        entry = self._entries.get(zones)
        if entry is None or not entry.begin <= now < entry.end or reach > entry.reach:
            entry = self._renew(zones, now, reach if entry is None else max(reach, entry.reach))
        if entry.openings is not None:
            return entry.openings
        if entry.raw is not None:
            numbers = self._shifted(entry.raw, share, now)
            if self._suffice(numbers, now, now + reach):
                return self._openings(numbers)
        return self._openings(self._searched(occurrences(self._rules, zones, share), now, now + reach))

    def _suffice(self, numbers: Sequence[Millis], now: Millis, until: Millis) -> bool:
        """False if a share between the least and the largest leaves too few times inside the hours."""
        if self._is_hours:
            return len(numbers) >= 2 * FEWEST and (numbers[-1] > until or len(numbers) == 2 * MOST)
        return len(numbers) >= FEWEST and numbers[0] <= now and (numbers[-1] >= until or len(numbers) == MOST)

    def _renew(self, zones: Zones, now: Millis, reach: Millis) -> Entry:
        found = occurrences(self._rules, zones, 0)
        begin, end = self._current(found, now)
        if self.is_shared:
            openings = self._openings(self._searched(found, now, end + reach))
            entry = Entry(begin, end, reach, openings=openings)
        else:
            entry = Entry(now, end, reach, raw=self._raw(zones, now, end, reach))
        if len(self._entries) >= MOST_ZONES:
            self._entries = {}
        self._entries[zones] = entry
        return entry

    def _current(self, found: Occurrences, now: Millis) -> tuple[Millis, Millis]:
        """From when until when the answer is the same as now."""
        if self._is_hours:
            span = found.first_span(now)
            return (min(now, span.start), span.end) if span is not None else (now, now + DAY)
        last = found.last_time(now, within=self._gap)
        later = found.first_time(now + 1)
        return now if last is None else last, now + DAY if later is None else later

    def _openings(self, numbers: Iterable[Millis]) -> Openings:
        return Openings(tuple(numbers), self._is_hours, self._urgent)

    # Searching the calendar

    def most(self, zones: Zones, share: int, now: Millis) -> Openings:
        """As many openings as are stored with an override."""
        return self._openings(islice(self._searched(occurrences(self._rules, zones, share), now, LATEST), STORED))

    def _searched(self, found: Occurrences, now: Millis, until: Millis) -> Iterator[Millis]:
        if self._is_hours:
            return chain.from_iterable(_spans(found, now, until))
        last = found.last_time(now, within=self._gap)
        return _times(found, now if last is None else last, until)

    def _raw(self, zones: Zones, now: Millis, end: Millis, reach: Millis) -> Raw | None:
        """Enough for every share of the jitter, judged by the least and the largest."""
        both = [occurrences(self._rules, zones, share) for share in (0, EVERYTHING)]
        since = min([now, *(self._since(found, now) for found in both)])
        until = max([now, *(number for found in both for number in self._searched(found, end, end + reach))])
        plain = both[0]
        times = [
            _within(replace(plain, times=(rule,), hours=()), since - jitter, until)
            for rule, jitter in zip(plain.times, self._times_jitter, strict=True)
        ]
        spans = [_spans_within(replace(plain, times=(), hours=(rule,)), since, until) for rule in plain.hours]
        if any(len(known) > MOST_RAW for known in chain(times, spans)):
            return None
        return Raw(tuple(times), tuple(spans), reduce(_common, spans) if spans else (), since, until)

    def _since(self, found: Occurrences, now: Millis) -> Millis:
        last = None if self._is_hours else found.last_time(now, within=self._gap)
        return now if last is None else last

    # Applying jitter

    def _shifted(self, raw: Raw, share: int, now: Millis) -> Sequence[Millis]:
        if self._is_hours:
            spans = [span for span in self._shifted_spans(raw, share) if span[1] > now]
            return tuple(chain.from_iterable(spans[:MOST]))
        if len(raw.times) == 1 and not raw.spans:  # the usual case, and so the fast one
            offset = self._times_jitter[0] * share >> 64
            known = raw.times[0]
            first = max(bisect_right(known, now - offset) - 1, 0)
            return tuple([time + offset for time in known[first : first + MOST]])
        shifted: set[Millis] = set()
        for known, jitter in zip(raw.times, self._times_jitter, strict=True):
            offset = jitter * share >> 64
            shifted.update([time + offset for time in known])
        times = sorted(time for time in shifted if raw.since <= time <= raw.until)
        inside = _inside(times, self._shifted_spans(raw, share)) if raw.spans else times
        return tuple(inside[max(bisect_right(inside, now) - 1, 0) :][:MOST])

    def _shifted_spans(self, raw: Raw, share: int) -> Spans:
        if not any(self._hours_jitter):
            return raw.common
        late = []
        for known, jitter in zip(raw.spans, self._hours_jitter, strict=True):
            offset = jitter * share >> 64
            late.append([(start + offset, end) for start, end in known if start + offset < end])
        return reduce(_common, late)


def _times(found: Occurrences, since: Millis, until: Millis) -> Iterator[Millis]:
    time = found.first_time(since)
    for count in range(MOST):
        if time is None:
            return
        yield time
        if count + 1 >= FEWEST and time >= until:
            return
        time = found.first_time(time + 1)


def _spans(found: Occurrences, since: Millis, until: Millis) -> Iterator[Span]:
    span = found.first_span(since)
    for count in range(MOST):
        if span is None:
            return
        yield span
        if count + 1 >= FEWEST and span.end > until:
            return
        span = found.first_span(span.end)


def _within(found: Occurrences, since: Millis, until: Millis) -> tuple[Millis, ...]:
    """All times from `since` to `until`, or more than MOST_RAW."""
    times: list[Millis] = []
    time = found.first_time(since)
    while time is not None and time <= until and len(times) <= MOST_RAW:
        times.append(time)
        time = found.first_time(time + 1)
    return tuple(times)


def _spans_within(found: Occurrences, since: Millis, until: Millis) -> Spans:
    spans: list[tuple[Millis, Millis]] = []
    span = found.first_span(since)
    while span is not None and span.start <= until and len(spans) <= MOST_RAW:
        spans.append((span.start, span.end))
        span = found.first_span(span.end)
    return tuple(spans)


def _common(left: Spans, right: Spans) -> Spans:
    """What lies inside spans of both."""
    both = [(max(a[0], b[0]), min(a[1], b[1])) for a in left for b in right]
    return sorted((start, end) for start, end in both if start < end)


def _inside(times: Sequence[Millis], spans: Spans) -> list[Millis]:
    starts = [start for start, _ in spans]
    inside = []
    for time in times:
        place = bisect_right(starts, time) - 1
        if place >= 0 and time < spans[place][1]:
            inside.append(time)
    return inside
