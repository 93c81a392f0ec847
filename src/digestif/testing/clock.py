"""A clock for tests, which moves only on request."""

from digestif.core.times import Duration, in_seconds


class FakeClock:
    """Seconds that pass only on request. Give it to `Digests(…, clock=…)`."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start

    def __call__(self) -> float:
        return self._now

    def __repr__(self) -> str:
        return f"FakeClock({self._now!r})"

    def advance(self, seconds: Duration) -> float:
        """Let time pass, by seconds or a timedelta; gives the new time."""
        return self.set(self._now + float(in_seconds(seconds)))

    def set(self, seconds: float) -> float:
        """Set the time, earlier or later; gives it back."""
        self._now = seconds
        return seconds
