"""The wall clock: the one place that reads it."""

import time


def wall_clock() -> float:
    """Seconds since the epoch."""
    return time.time()


def monotonic() -> float:
    """Seconds of a clock that never steps, for measuring how long something took."""
    return time.monotonic()
