"""A gate around what many threads share, so that it can be closed, or the process forked, while nobody is inside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Many threads may be inside at once; whoever shuts the gate waits until they have left."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # entered by itself: a signal can't come between taking and holding it
        self._changed = threading.Condition(self._mutex)
        self._inside: set[int] = set()  # threads
        self._is_shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be inside; waits while the gate is shut. A thread can be inside once."""
        me = threading.get_ident()
        try:
            with self._mutex:
                while self._is_shut:
                    self._changed.wait()
                self._inside.add(me)
            yield
        finally:
            with self._mutex:
                self._inside.discard(me)
                if self._is_shut:
                    self._changed.notify_all()

    def shut(self) -> bool:
        """Let nobody in any more, and wait until all have left. False from inside: nobody can wait for oneself."""
        with self._mutex:
            if threading.get_ident() in self._inside:
                return False
            while self._is_shut:
                self._changed.wait()
            self._is_shut = True
            while self._inside:
                self._changed.wait()
            return True

    def open(self) -> None:
        """Let everybody in again."""
        with self._mutex:
            self._is_shut = False
            self._changed.notify_all()
