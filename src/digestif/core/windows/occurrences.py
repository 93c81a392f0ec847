"""The instants at which the rules of a window, each in its zone, let a digest leave. Milliseconds."""

from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from digestif.core.times import Millis
from digestif.core.windows.recurrence import Hours, Times, next_time
from digestif.core.windows.zones import DAY_MINUTES, EARLIEST, LATEST, MINUTE, instant, wall

YEAR_MINUTES = 366 * DAY_MINUTES
YEAR = YEAR_MINUTES * MINUTE


class Span(NamedTuple):
    """From the first instant inside to the first one outside."""

    start: Millis
    end: Millis


@dataclass(frozen=True, slots=True)
class TimesIn:
    """Times in a zone, each `offset` later than the rule says."""

    times: Times
    zone: ZoneInfo
    offset: Millis

    def first(self, at: Millis) -> Millis | None:
        """The first of them at or after an instant."""
        at -= self.offset
        if at > LATEST:
            return None
        minute: int | None = wall(self.zone, at - 1) // MINUTE
        while minute is not None and (minute := next_time(self.times, minute + 1)) is not None:
            found = instant(self.zone, minute)
            if found >= at:  # not the second time that the clock shows a repeated hour
                return found + self.offset
        return None


@dataclass(frozen=True, slots=True)
class HoursIn:
    """Hours in a zone; each span begins `offset` later than the rule says."""

    hours: Hours
    zone: ZoneInfo
    offset: Millis

    def first(self, at: Millis) -> Span | None:
        """The span that contains an instant, else the next one. It may be empty, or begin after its end."""
        if at > LATEST:
            return None
        late = 0 if self.hours.is_always else self.offset
        now = wall(self.zone, at) // MINUTE
        for start, end in self.hours.ending_after(now):
            if start > now + YEAR_MINUTES:
                return None
            span = Span(instant(self.zone, start) + late, instant(self.zone, end))
            if span.end > at:
                return span
        return None


@dataclass(frozen=True, slots=True)
class Occurrences:
    """All rules together: times of any rule that lie inside the hours of all rules."""

    times: tuple[TimesIn, ...]
    hours: tuple[HoursIn, ...]
    search: Millis  # how far ahead: what does not come in this time never comes

    def first_time(self, at: Millis) -> Millis | None:
        """The first time at or after an instant."""
        at = max(at, EARLIEST)
        end = at + self.search
        while at <= end:
            times = [time for rule in self.times if (time := rule.first(at)) is not None]
            if not times or not self.hours:
                return min(times, default=None)
            time = min(times)
            span = self.first_span(time)
            if span is None or span.start <= time:
                return None if span is None else time
            at = span.start
        return None

    def first_span(self, at: Millis) -> Span | None:
        """The span inside all hours that contains an instant, else the next one."""
        at = max(at, EARLIEST)
        end = at + self.search
        while at <= end:
            spans = [rule.first(at) for rule in self.hours]
            if None in spans:
                return None
            start = max(span.start for span in spans if span)
            until = min(span.end for span in spans if span)
            if start < until:
                return Span(start, until)
            at = start
        return None

    def last_time(self, at: Millis, *, within: Millis) -> Millis | None:
        """The last time at or before an instant; None if it lies further back than `within`."""
        found = self.first_time(at - within)
        if found is None or found > at:
            return None
        back = MINUTE
        while back < within and ((nearer := self.first_time(at - back)) is None or nearer > at):
            back *= 4
        found = found if back >= within else self.first_time(at - back)
        assert found is not None  # it was seen just now
        while (later := self.first_time(found + 1)) is not None and later <= at:
            found = later
        return found
