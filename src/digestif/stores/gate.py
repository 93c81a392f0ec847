"""Locks for many threads that no exception out of a signal handler leaves locked.

CPython runs signal handlers after a call of a C function, at the start of a Python function, and at the end of a loop's
round. So a Python function, and with it every generator and `__exit__`, may end before it has done anything. What must
be undone in any case is undone by one call of a C function or one assignment, which comes first in a `finally` or
`except`. That is why these take the protected code as a callable, and are no context managers.
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
    """A `threading.RLock`: a thread that does not own it can't release it."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


def holding(lock: OwnedLock, call: Callable[[], T]) -> T:
    """Run the call with the lock held.

    `with lock:` would be the same, except in Python 3.14.0 to 3.14.3, where a signal may come between the start of the
    `with` statement and the lock.
    """
    try:
        lock.acquire()
        return call()
    finally:
        try:  # noqa: SIM105  # contextlib.suppress is written in Python
            lock.release()
        except RuntimeError:  # interrupted before it was acquired
            pass


class Turnstile:
    """Refuses a thread that is inside already.

    A finalizer or a signal handler may call the store while its thread is inside a call. It can't wait for that call,
    which is its own, and must not see it half done.
    """

    def __init__(self) -> None:
        self._inside: set[int] = set()  # threads

    def has_me(self) -> bool:
        """True if this thread is inside. Call it before acquiring any lock."""
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
    """Many threads may be inside at once; a thread that shuts the gate waits until all others have left."""

    def __init__(self) -> None:
        self._door = threading.RLock()  # held for a moment by each thread that enters, and by the one that shuts it
        self._inside: set[int] = set()  # threads

    def through(self, call: Callable[[], T]) -> T:
        """Run the call inside, after waiting while the gate is shut. A thread must not be inside twice."""
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
        except BaseException:  # interrupted: leave the gate as it was
            try:  # noqa: SIM105  # as above
                self._door.release()
            except RuntimeError:  # interrupted before it was acquired
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
        """Poll: waits are rare and short, and so threads that leave need not signal anything."""
        while self._others():
            sleep(_LOOK_AGAIN_SECONDS)

    def _others(self) -> set[int]:
        """Threads inside that are still alive."""
        return self._inside & sys._current_frames().keys() - {threading.get_ident()}
