"""Faults that once were made, or easily could be, by subject; and which nets must find each.

To add one, write what goes wrong, name the function, and write what it does instead. It takes the sound function first,
then the same parameters: change what the sound one is given, or what it answers. A constant gets a `wrong_value`. A
decision in the middle of a function gets a name of its own first. `./dev test tests/nets/test_faults.py` says whether a
fault fits its function, and `./dev test torture/test_nets.py -k "words and it and says"` whether the nets find it.
"""

from tests.nets.faults import (
    accounts,
    attempts,
    clocks,
    moves,
    origin,
    outages,
    overrides,
    requeues,
    suspects,
    timelines,
    windows,
)
from tests.nets.planting import FAULTS

__all__ = [
    "FAULTS",
    "accounts",
    "attempts",
    "clocks",
    "moves",
    "origin",
    "outages",
    "overrides",
    "requeues",
    "suspects",
    "timelines",
    "windows",
]
