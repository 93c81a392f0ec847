"""The attempts that run in this process: a lapse speaks against a digest only if it was the only one."""

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from digestif.attempts.attempt import Attempt


class Running:
    """The attempts of a process that have not ended. References are weak: a forgotten attempt never ends."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._lock = threading.Lock()
        self._attempts: WeakSet[Attempt] = WeakSet()
        self._alone: WeakSet[Attempt] = WeakSet()  # those whose leases say so

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not len(self._attempts)

    def add(self, attempt: "Attempt") -> list["Attempt"]:
        """Note that an attempt begins. If there are several now, the answer is those whose leases say "alone"."""
        with self._lock:
            self._attempts.add(attempt)
            if attempt.is_alone:
                self._alone.add(attempt)
            if not self._alone or len(self._attempts) == 1:
                return []
            return [each for each in self._alone if each.is_alone]

    def remove(self, attempt: "Attempt") -> None:
        with self._lock:
            self._attempts.discard(attempt)
            self._alone.discard(attempt)


RUNNING = Running()
os.register_at_fork(after_in_child=RUNNING.clear)
