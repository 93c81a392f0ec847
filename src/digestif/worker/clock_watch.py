"""Notices that the clock was set back, by one that is never set."""

from collections.abc import Callable

from digestif.clock import monotonic
from digestif.core.times import CLOCK_MARGIN, Millis, to_millis


class ClockWatch:
    """Compares two clocks from time to time."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._ahead: Millis | None = None  # by how much the clock is ahead of the one that is never set

    def was_set_back(self, now: Millis) -> bool:
        """True if the clock was set back by more than CLOCK_MARGIN since the last call."""
        before, self._ahead = self._ahead, now - to_millis(self._clock())
        return before is not None and before - self._ahead > CLOCK_MARGIN
