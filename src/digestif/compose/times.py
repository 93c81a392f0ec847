"""Times as text, in the reader's time zone and on a clock of 12 or 24 hours."""

from datetime import datetime
from typing import Literal

from digestif.compose.wording import ENGLISH, Wording
from digestif.core.texts import shortened
from digestif.core.windows.zones import find_zone
from digestif.errors import ConfigError

Hours = Literal[12, 24]


class Times:
    """Formats times, given in seconds since 1970, for one reader.

    The words are those of a wording: strftime would follow the locale of this machine.
    """

    def __init__(self, zone: str, hours: Hours, wording: Wording = ENGLISH) -> None:
        self.zone = zone
        self.hours = hours
        self.wording = wording
        found = find_zone(zone)
        if found is None:
            raise ConfigError(f"zone: {shortened(zone)} is not an IANA time zone such as Europe/Berlin")
        self._zone = found
        if hours not in (12, 24):
            raise ConfigError(f"hours: {hours!r} is not 12 or 24")

    def clock(self, at: float) -> str:
        """The time of day."""
        local = self._local(at)
        return self._clock(local) if local else self._far(at)

    def time_of_day(self, hour: int, minute: int) -> str:
        """A time on no day in particular; 24:00 is midnight."""
        return self._clock(datetime(2000, 1, 1, hour % 24, minute))  # noqa: DTZ001  # no instant

    def moment(self, at: float) -> str:
        """The day and the time of day."""
        local = self._local(at)
        return self._moment(local, self._clock(local)) if local else self._far(at)

    def window(self, first: float, last: float) -> str:
        """Two times as a span, with the day written once if it is the same."""
        start, end = self._local(first), self._local(last)
        if start is None or end is None or start.date() != end.date():
            return self._span(self.moment(first), self.moment(last))
        return self._moment(start, self._span(self._clock(start), self._clock(end)))

    def span(self, first: float, last: float, *, dated: bool) -> str:
        """Two times as a short span, with dates only if `dated`."""
        start = self._local(first)
        end = start if last == first else self._local(last)
        if start is None or end is None:
            return self._span(self.moment(first), self.moment(last))
        begins = self._clock(start)
        ends = begins if start is end else self._clock(end)
        if not dated:
            return self._span(begins, ends)
        if start.date() == end.date():
            return self._short_moment(start, self._span(begins, ends))
        return self._span(self._short_moment(start, begins), self._short_moment(end, ends))

    def same_day(self, first: float, last: float) -> bool:
        """Whether both times are on the same day in the reader's zone."""
        start, end = self._local(first), self._local(last)
        return start is not None and end is not None and start.date() == end.date()

    def _local(self, at: float) -> datetime | None:
        try:
            return datetime.fromtimestamp(at, self._zone)
        except (OverflowError, ValueError, OSError):  # records may have any timestamp
            return None

    def _clock(self, local: datetime) -> str:
        if self.hours == 24:
            return local.time().isoformat("minutes")
        half = self.wording.am if local.hour < 12 else self.wording.pm  # noon
        return self.wording.clock.format(hour=local.hour % 12 or 12, minute=f"{local.minute:02}", half=half)

    def _moment(self, local: datetime, time: str) -> str:
        words = self.wording
        weekday, month = words.days[local.weekday()], words.months[local.month - 1]
        date = words.full_date.format(weekday=weekday, day=local.day, month=month, year=local.year)
        return words.moment.format(date=date, time=time)

    def _short_moment(self, local: datetime, time: str) -> str:
        words = self.wording
        date = words.date.format(day=local.day, month=words.months[local.month - 1])
        return words.short_moment.format(date=date, time=time)

    def _span(self, first: str, last: str) -> str:
        return first if first == last else self.wording.span.format(first=first, last=last)

    def _far(self, at: float) -> str:
        return self.wording.far.format(second=f"{at:.6g}")
