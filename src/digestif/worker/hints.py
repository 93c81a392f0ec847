"""Where an idle worker looks next: hints name partitions, and from time to time it looks at all of them."""

from collections.abc import Callable

from digestif.clock import monotonic
from digestif.stores.base import Wakeups


class Hints:
    """Waits for hints between two claims. What becomes due without a hint is found every `poll` seconds."""

    def __init__(self, wakeups: Wakeups, *, poll: float, clock: Callable[[], float] = monotonic) -> None:
        self._wakeups = wakeups
        self._poll = poll
        self._clock = clock
        self._named: frozenset[int] | None = None  # by the last hints
        self._looked_at = 0.0  # the last claim from all partitions ended

    def wait(self) -> frozenset[int] | None:
        """Wait, and return the partitions to claim from then; None: all of them."""
        if self._named is None:
            self._looked_at = self._clock()
        look_at = self._looked_at + self._poll
        named = self._wakeups.wait_where(max(0.0, look_at - self._clock()))
        self._named = None if self._clock() >= look_at else named
        return self._named
