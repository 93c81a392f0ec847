"""Time: integer milliseconds inside, seconds as float at the public border."""

import math
from typing import TypeAlias

Millis: TypeAlias = int


def to_millis(seconds: float) -> Millis:
    """Round to the nearest millisecond."""
    return round(seconds * 1000)


def to_seconds(millis: Millis) -> float:
    return millis / 1000


def is_duration(value: object) -> bool:
    """True for a finite number that is not negative and not a boolean."""
    return is_number(value) and value >= 0  # type: ignore[operator]  # is_number says it compares


def is_number(value: object) -> bool:
    """True for a finite int or float that is not a boolean."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False
