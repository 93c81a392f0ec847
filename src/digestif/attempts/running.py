"""How many attempts run in this process: a lapse speaks against a digest only if it was the only one."""

import os
import threading


class Running:
    """The attempts of a process, by number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def is_none(self) -> bool:
        return self._count == 0

    def add(self, count: int) -> None:
        with self._lock:
            self._count = max(0, self._count + count)  # one that was begun before a fork may end after it


RUNNING = Running()
os.register_at_fork(after_in_child=RUNNING.forget)
