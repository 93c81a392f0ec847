"""Rates: how many requests a caller may make in a second."""

from collections import OrderedDict

from digestif.clock import monotonic

MOST_CALLERS = 10_000
COUNTED_BYTES = 64 << 10  # of a body that count as one more request


class Rates:
    """A bucket for each caller: it holds one second's requests, and fills up at the rate."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._room = max(1.0, rate)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str, now: float | None = None) -> float:
        """Count a request. 0 if it may be made now, otherwise the seconds until one may."""
        if not self._rate:
            return 0.0
        moment = monotonic() if now is None else now
        left, at = self._buckets.pop(caller, (self._room, moment))
        left = min(self._room, left + (moment - at) * self._rate)
        is_admitted = left >= 1
        self._buckets[caller] = (left - 1 if is_admitted else left, moment)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if is_admitted else (1 - left) / self._rate

    def charge_body(self, caller: str, size: int) -> None:
        """Count the body of a request that was made: a long one is paid for before the next request."""
        if self._rate and caller in self._buckets:
            left, at = self._buckets[caller]
            self._buckets[caller] = (left - size // COUNTED_BYTES, at)
