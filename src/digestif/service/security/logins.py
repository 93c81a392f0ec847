"""A limit on failed log-ins: for each address, and for all of them together.

It bounds what a flood costs, and shuts out no right token: those have 256 random bits and can't be guessed, and behind
a proxy a flood comes from the address of everybody.
"""

from collections import OrderedDict
from collections.abc import Callable

from digestif.clock import monotonic

WINDOW = 60.0  # seconds in which failures are counted
PER_ADDRESS = 10
OVERALL = 100
ADDRESSES = 1_000  # remembered at once


class LogInLimit:
    """Counts failed log-ins. After too many of them the next wrong token has to wait until the window ends."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._ends = 0.0
        self._overall = 0
        self._failures: OrderedDict[str, int] = OrderedDict()

    def wait(self, address: str) -> float:
        """Seconds until a wrong token from this address is looked at again; 0 if it is now."""
        self._renew()
        if self._overall < OVERALL and self._failures.get(address, 0) < PER_ADDRESS:
            return 0.0
        return self._ends - self._clock()

    def failed(self, address: str) -> None:
        self._renew()
        self._overall += 1
        self._failures[address] = self._failures.get(address, 0) + 1
        self._failures.move_to_end(address)
        while len(self._failures) > ADDRESSES:
            self._failures.popitem(last=False)

    def _renew(self) -> None:
        now = self._clock()
        if now >= self._ends:
            self._ends, self._overall = now + WINDOW, 0
            self._failures.clear()
