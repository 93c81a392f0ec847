"""Timelines without a handler: put off for longer and longer, and told once a minute."""

from digestif.clock import monotonic
from digestif.core.times import Millis
from digestif.events.attempts import Unhandled
from digestif.events.base import Events

LONGEST: Millis = 60_000  # that they are put off; first a second, then twice that
REMEMBERED = 10_000
TELL_SECONDS = 60.0


class UnhandledTimelines:
    """How often timelines came for which no handler is registered. Another worker may have one."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._times: dict[str, int] = {}
        self._since_told = 0
        self._tell_at = 0.0

    def delay(self, timeline: str) -> Millis:
        """How long to put off a timeline, so that another worker gets at it soon."""
        if len(self._times) >= REMEMBERED:
            self._times.clear()
        times = self._times.get(timeline, 0)
        self._times[timeline] = times + 1
        self._tell(timeline)
        return min(1000 << min(times, 16), LONGEST)

    def _tell(self, timeline: str) -> None:
        self._since_told += 1
        now = monotonic()
        if now >= self._tell_at:
            self._events.emit(Unhandled(timeline=timeline, timelines=self._since_told))
            self._since_told, self._tell_at = 0, now + TELL_SECONDS
