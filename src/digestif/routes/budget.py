"""Budgets: how many messages a recipient may get in a time. What does not fit waits, and gathers more."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from digestif.clock import monotonic
from digestif.core.policy import check_delay
from digestif.core.texts import shortened
from digestif.errors import ConfigError

_KNOWN = 10_000  # recipients, before those are forgotten who have spent nothing lately


@dataclass(frozen=True, slots=True)
class Budget:
    """At most so many messages in any so many seconds, for each recipient."""

    messages: int
    per: float  # seconds

    def __post_init__(self) -> None:
        if type(self.messages) is not int or self.messages < 1:
            raise ConfigError(f"budget: {shortened(self.messages)} is not a whole number of messages ≥ 1")
        check_delay("budget", self.per)


class Spending:
    """What recipients have spent in this process: when each got their last messages."""

    def __init__(self, budget: Budget, clock: Callable[[], float] = monotonic) -> None:
        self._budget = budget
        self._clock = clock
        self._sent: dict[str, deque[float]] = {}
        self._lock = Lock()
        self._many = _KNOWN

    def spend(self, recipient: str) -> float:
        """Take one message out of the budget: 0, or the seconds after which there is room, with nothing taken."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            sent = self._sent.setdefault(recipient, deque(maxlen=self._budget.messages))
            if len(sent) == self._budget.messages and sent[0] + self._budget.per > now:
                return sent[0] + self._budget.per - now
            sent.append(now)
        return 0.0

    def give_back(self, recipient: str) -> None:
        """It was not sent after all."""
        with self._lock:
            if self._sent.get(recipient):
                self._sent[recipient].pop()

    def _forget(self, now: float) -> None:
        if len(self._sent) >= self._many:
            recent = {name: sent for name, sent in self._sent.items() if sent and sent[-1] + self._budget.per > now}
            self._sent = recent
            self._many = max(_KNOWN, 2 * len(recent))  # so that each is looked at twice at most
