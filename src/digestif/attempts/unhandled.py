"""Timelines without a handler: each is put off for longer every time, and they are reported once a minute."""

from collections.abc import Callable

from digestif.clock import monotonic
from digestif.core.times import Millis
from digestif.events.attempts import Unhandled
from digestif.events.base import Events

LONGEST: Millis = 60_000  # for which a timeline is put off: a second at first, then twice as long each time
REMEMBERED = 10_000  # timelines
REPORT_SECONDS = 60.0


class UnhandledTimelines:
    """Counts how often this worker has claimed each timeline without having a handler for it."""

    def __init__(self, events: Events, *, clock: Callable[[], float] = monotonic) -> None:
        self._events = events
        self._clock = clock
        self._times: dict[str, int] = {}
        self._unreported = 0
        self._report_at = 0.0

    def delay(self, timeline: str) -> Millis:
        """Count a claim of a timeline, and return how long to put it off, so that another worker gets it soon."""
        if len(self._times) >= REMEMBERED:
            self._times.clear()
        times = self._times.get(timeline, 0)
        self._times[timeline] = times + 1
        self._report(timeline)
        return min(1000 << min(times, 16), LONGEST)

    def _report(self, timeline: str) -> None:
        self._unreported += 1
        now = self._clock()
        if now >= self._report_at:
            self._events.emit(Unhandled(timeline=timeline, timelines=self._unreported))
            self._unreported, self._report_at = 0, now + REPORT_SECONDS
