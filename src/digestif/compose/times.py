"""Times as text, in the reader's time zone and on a clock of 12 or 24 hours."""

from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from digestif.errors import ConfigError

Hours = Literal[12, 24]

# Not from strftime, which follows the locale of this machine.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Times:
    """Formats times, given in seconds since 1970, for one reader."""

    def __init__(self, zone: str, hours: Hours) -> None:
        self.zone = zone
        self.hours = hours
        try:
            self._zone = ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise ConfigError(f"zone: {zone!r} is not an IANA time zone such as Europe/Berlin") from None
        if hours not in (12, 24):
            raise ConfigError(f"hours: {hours!r} is not 12 or 24")

    def clock(self, at: float) -> str:
        """The time of day."""
        local = self._local(at)
        return self._clock(local) if local else _far(at)

    def moment(self, at: float) -> str:
        """The day and the time of day."""
        local = self._local(at)
        return f"{_day(local)}, {self._clock(local)}" if local else _far(at)

    def window(self, first: float, last: float) -> str:
        """Two times as a span, with the day written once if it is the same."""
        start, end = self._local(first), self._local(last)
        if start is None or end is None or start.date() != end.date():
            return _span(self.moment(first), self.moment(last))
        return f"{_day(start)}, {_span(self._clock(start), self._clock(end))}"

    def span(self, first: float, last: float, *, dated: bool) -> str:
        """Two times as a short span, with dates only if `dated`."""
        start = self._local(first)
        end = start if last == first else self._local(last)
        if start is None or end is None:
            return _span(self.moment(first), self.moment(last))
        begins = self._clock(start)
        ends = begins if start is end else self._clock(end)
        if not dated:
            return _span(begins, ends)
        if start.date() == end.date():
            return f"{_date(start)} {_span(begins, ends)}"
        return f"{_date(start)} {begins} – {_date(end)} {ends}"

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
        return f"{local.hour % 12 or 12}:{local.minute:02} {'am' if local.hour < 12 else 'pm'}"


def _date(local: datetime) -> str:
    return f"{local.day} {_MONTHS[local.month - 1]}"


def _day(local: datetime) -> str:
    return f"{_DAYS[local.weekday()]} {_date(local)} {local.year}"


def _far(at: float) -> str:
    return f"second {at:.6g}"


def _span(start: str, end: str) -> str:
    return start if start == end else f"{start} – {end}"
