"""How long to wait before the next try. Not by redis-py, which draws from the generator that applications seed."""

from digestif.ids import chance

_FIRST, _MOST = 0.02, 1.0  # seconds
_DOUBLINGS = 10


def backoff(failures: int) -> float:
    """Random seconds, up to twice as many after each failure in a row."""
    return chance() * min(_MOST, _FIRST * 2.0 ** min(failures, _DOUBLINGS))
