"""Entrances to what many threads share. None of them is left shut by an exception out of a signal handler.

Such an exception may come after any call of a C function, at the start of any Python function and at the end of a
loop's round; CPython looks for signals nowhere else. So a function that is written in Python, and with it every
generator and `__exit__`, may end before it has done anything. What must be undone for sure is undone by one call of a C
function, or by one assignment, which is the first thing in a `finally` or `except`. That is why calls are passed in
here and there are no context managers.
"""

import sys
import threading
from collections.abc import Callable
from time import sleep
from typing import Protocol, TypeVar

from digestif.errors import StoreUnavailable

T = TypeVar("T")

_LOOK_AGAIN_SECONDS = 0.001


class OwnedLock(Protocol):
    """A `threading.RLock`: it knows its owner, and refuses to be released by another thread."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


def holding(lock: OwnedLock, call: Callable[[], T]) -> T:
    """Run the call with the lock held.

    `with lock:` would do the same, but for Python 3.14.0 to 3.14.3, where a signal may come between entering and
    holding it.
    """
    try:
        lock.acquire()
        return call()
    finally:
        try:  # noqa: SIM105  # contextlib.suppress is written in Python
            lock.release()
        except RuntimeError:  # interrupted before it was had
            pass


class Turnstile:
    """Lets each thread in once.

    A finalizer or a signal handler may call the store while the same thread is inside a call. To wait for that
    call would be to wait for itself, and to go on would be to see half of it.
    """

    def __init__(self) -> None:
        self._inside: set[int] = set()  # threads

    def has_me(self) -> bool:
        """True if this thread is inside. Ask before taking any lock."""
        return threading.get_ident() in self._inside

    def through(self, call: Callable[[], T]) -> T:
        """Run the call. StoreUnavailable if this thread is inside already."""
        if self.has_me():
            raise StoreUnavailable("the store was called from inside one of its own calls, by a finalizer or a signal")
        me = threading.get_ident()
        try:
            self._inside.add(me)
            return call()
        finally:
            self._inside.discard(me)


class Gate:
    """Many threads may be inside at once; a thread that shuts the gate waits until the others have left."""

    def __init__(self) -> None:
        self._door = threading.RLock()  # held for a moment by each thread that enters, and by the one that shuts it
        self._inside: set[int] = set()  # threads

    def through(self, call: Callable[[], T]) -> T:
        """Run the call inside; waits while the gate is shut. A thread can be inside once."""
        me = threading.get_ident()
        try:
            holding(self._door, lambda: self._inside.add(me))
            return call()
        finally:
            self._inside.discard(me)

    def alone(self, call: Callable[[], T]) -> T:
        """Run the call while no other thread is inside."""
        return holding(self._door, lambda: self._wait_and(call))

    def _wait_and(self, call: Callable[[], T]) -> T:
        self._wait_for_others()
        return call()

    def shut(self) -> None:
        """Let no thread in any more, and wait until all others have left."""
        try:
            self._door.acquire()
            self._wait_for_others()
        except BaseException:  # a thread that gives up waiting leaves the gate as it was
            try:  # noqa: SIM105  # as above
                self._door.release()
            except RuntimeError:  # interrupted before it was had
                pass
            raise

    def open(self) -> None:
        """Let threads in again. Does nothing unless this thread has shut the gate."""
        try:
            while True:
                self._door.release()
        except RuntimeError:  # not, or no longer, its owner
            pass

    def _wait_for_others(self) -> None:
        """Look again and again: this is rare and short, and a thread that leaves has nothing to do for it."""
        while self._others():
            sleep(_LOOK_AGAIN_SECONDS)

    def _others(self) -> set[int]:
        """Threads inside that are still alive."""
        return self._inside & sys._current_frames().keys() - {threading.get_ident()}
