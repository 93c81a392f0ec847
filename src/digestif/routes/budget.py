"""Budgets: how many messages a recipient may get in a time. What does not fit waits, and gathers more."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from digestif.clock import monotonic
from digestif.core.policy import check_delay
from digestif.core.texts import shortened
from digestif.errors import ConfigError

_KNOWN = 10_000  # recipients, before those are forgotten whose budget is whole again


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many messages in so many seconds, for each recipient."""

    messages: int
    per: float  # seconds

    def __post_init__(self) -> None:
        if type(self.messages) is not int or self.messages < 1:
            raise ConfigError(f"budget: {shortened(self.messages)} is not a whole number of messages ≥ 1")
        check_delay("budget", self.per)


class Spending:
    """What recipients have spent, in this process. A bucket that refills evenly, kept as one number for each."""

    def __init__(self, budget: Budget, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._burst = budget.per
        self._cost = budget.per / budget.messages  # seconds that a message takes up
        self._full: dict[str, float] = {}  # when the budget is whole again
        self._lock = Lock()

    def wait(self, recipient: str) -> float:
        """Take one message out of the budget: 0, or the seconds after which there is room, with nothing taken."""
        now = self._clock()
        with self._lock:
            full = max(self._full.get(recipient, now), now)
            late = full + self._cost - (now + self._burst)
            if late > 1e-9:
                return late
            self._forget(now)
            self._full[recipient] = full + self._cost
        return 0.0

    def _forget(self, now: float) -> None:
        if len(self._full) >= _KNOWN:
            self._full = {name: full for name, full in self._full.items() if full > now}
