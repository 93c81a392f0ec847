"""The clocks: the one module that reads the time."""

import time


def wall_clock() -> float:
    """Seconds since the epoch."""
    return time.time()


def monotonic() -> float:
    """Seconds of a clock that is never set back, for measuring durations."""
    return time.monotonic()
