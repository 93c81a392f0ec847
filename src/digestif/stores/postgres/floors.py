"""Where a search for what is due may begin, while the server may not clear away what is dead.

An old transaction, whoever holds it open, keeps every version of a row and its place in each index. A search from the
start of an order then walks over all that was due before: 100,000 dead places take 50 ms. So a search that was slow
notes the lowest time that was alive, and those that follow begin there. What is placed below it meanwhile (a timeline
that waited long and is let go on) is found by the next search from the start.
"""

from collections.abc import Sequence
from typing import NamedTuple

from digestif.clock import monotonic
from digestif.core.times import Millis

SLOW_SECONDS = 0.005
SHARE = 0.002  # of the time may go into searches from the start
LONGEST_SECONDS = 30.0
MARGIN: Millis = 1000  # who computed a time may take this long to commit it
START: Millis = -(2**62)


class Floors(NamedTuple):
    """The lowest time that is worth a look, in each order."""

    waiting: Millis = START
    ready: Millis = START
    until: Millis = START


class Search:
    """Searches of one store, and what they learned. Threads share it."""

    def __init__(self) -> None:
        self._floors = Floors()
        self._end = 0.0  # of the floors' time, by the monotonic clock

    def floors(self) -> Floors:
        return self._floors if monotonic() < self._end else Floors()

    def learn(
        self, floors: Floors, found: Sequence[tuple[int, Millis]], *, full: bool, now: Millis, took: float
    ) -> None:
        """A search from these floors found these times, each with the number of its order, the lowest first."""
        if floors == Floors():
            if took < SLOW_SECONDS:
                self._end = 0.0
                return
            self._end = monotonic() + min(took / SHARE, LONGEST_SECONDS)
        beyond = min(found[-1][1], now) if full else now
        lowest = [min((at for order, at in found if order == each), default=beyond) for each in range(3)]
        self._floors = Floors(*(min(at, now) - MARGIN for at in lowest))
