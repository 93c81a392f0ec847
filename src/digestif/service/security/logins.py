"""A limit on failed log-ins: for each address, and for all of them together."""

from collections import OrderedDict
from collections.abc import Callable

from digestif.clock import monotonic

WINDOW = 60.0  # seconds in which failures are counted
PER_ADDRESS = 10
OVERALL = 100
ADDRESSES = 1_000  # remembered at once


class LogInLimit:
    """Counts failed log-ins. After too many of them an address has to wait until the window ends."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._ends = 0.0
        self._overall = 0
        self._failures: OrderedDict[str, int] = OrderedDict()

    def wait(self, address: str) -> float:
        """Seconds until this address may try again; 0 if it may now."""
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
