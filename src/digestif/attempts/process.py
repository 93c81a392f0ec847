"""The attempts that run in this process: a lapse speaks against a group of suspects only if nothing ran beside it."""

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from digestif.attempts.attempt import Attempt


class Group:
    """A group of suspects that are tried beside each other. The leases of its attempts have its size."""


class Running:
    """The attempts of a process that have not ended. References are weak: a forgotten attempt never ends."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._lock = threading.Lock()
        self._attempts: WeakSet[Attempt] = WeakSet()
        self._group: Group | None = None  # to which all attempts belong

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not len(self._attempts)

    def add(self, attempt: "Attempt") -> list["Attempt"]:
        """Note that an attempt begins. Return attempts that are in a group, and now run beside something else.

        Their group is gone: the size in their leases has to be cleared.
        """
        with self._lock:
            self._attempts.add(attempt)
            if attempt.group is not None and len(self._attempts) == 1:
                self._group = attempt.group
            if attempt.group is self._group:
                return []
            self._group = None
            disturbed = [each for each in self._attempts if each.group is not None]
            for each in disturbed:
                each.group = None
            return disturbed

    def remove(self, attempt: "Attempt") -> None:
        with self._lock:
            self._attempts.discard(attempt)


RUNNING = Running()
os.register_at_fork(after_in_child=RUNNING.clear)
