"""Calls of a store by many threads: an exception from a signal handler leaves no lock held and no call half entered.

CPython runs signal handlers after a call of a C function, at the start of a Python function, and at the end of each
round of a loop. So any Python function, also a generator or `__exit__`, may end before it has done anything. Cleanup
that must happen is one call of a C function, or one assignment, and comes first in a `finally` or `except`. Locks are
acquired inside the `try`: if that was interrupted, releasing raises RuntimeError.
"""

import sys
import threading
from _thread import RLock
from collections.abc import Callable
from time import sleep
from typing import ParamSpec, TypeVar

from digestif.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AGAIN_SECONDS = 0.001


def holding(lock: RLock, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Run the call with the lock held.

    The same as `with lock:`, except in Python 3.14.0 to 3.14.3, where a signal may come between the start of the `with`
    statement and the lock.
    """
    try:
        lock.acquire()
        return call(*args, **options)
    finally:
        try:  # noqa: SIM105  # contextlib.suppress is written in Python
            lock.release()
        except RuntimeError:  # interrupted before it was acquired
            pass


class Calls:
    """The calls under way, at most one in each thread.

    A finalizer or a signal handler may call the store while its own thread is inside a call. Waiting would never end,
    and the data may be half changed: the second call is refused.
    """

    def __init__(self, name: str) -> None:
        self._name = name  # of the store
        self._is_closed = False
        self.forget_threads()

    def forget_threads(self) -> None:
        """Begin with a new lock: after a fork, the child has no other threads."""
        self._inside: set[int] = set()  # the ids of threads inside a call
        self._door = threading.RLock()  # held by a thread while it enters, or keeps others from entering

    def run(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Run a call beside those of other threads. Raises StoreUnavailable inside another call, or after `close`."""
        me = self._require_outside()
        try:
            holding(self._door, self._enter, me)
            return call(*args, **options)
        finally:
            self._inside.discard(me)

    def _enter(self, me: int) -> None:
        if self._is_closed:
            raise StoreUnavailable(f"{self._name}: this store is closed")
        self._inside.add(me)

    def close(self, call: Callable[[], None]) -> None:
        """Let no further call begin, wait for the calls under way, and run a last one."""
        self._require_outside()
        holding(self._door, self._close, call)

    def _close(self, call: Callable[[], None]) -> None:
        self._wait_for_others()
        self._is_closed = True
        call()

    def pause(self) -> bool:
        """Let no call begin until `resume`, and wait for the calls under way.

        Return False, and do nothing, if this thread is inside a call.
        """
        if threading.get_ident() in self._inside:
            return False
        try:
            self._door.acquire()
            self._wait_for_others()
        except BaseException:  # interrupted: let calls begin again
            try:  # noqa: SIM105  # as above
                self._door.release()
            except RuntimeError:  # interrupted before it was acquired
                pass
            raise
        return True

    def resume(self) -> None:
        """Let calls begin again. Does nothing unless this thread has paused them."""
        try:
            while True:
                self._door.release()
        except RuntimeError:  # not, or no longer, its owner
            pass

    def _require_outside(self) -> int:
        """Return this thread's id.

        Raises StoreUnavailable if the thread is inside a call: it must not wait for a lock then.
        """
        me = threading.get_ident()
        if me in self._inside:
            raise StoreUnavailable("the store was called from inside one of its own calls, by a finalizer or a signal")
        return me

    def _wait_for_others(self) -> None:
        """Wait by polling: waits are rare and short, and threads that leave need not signal anything."""
        while self._others():
            sleep(_LOOK_AGAIN_SECONDS)

    def _others(self) -> set[int]:
        """Return the ids of other threads inside a call that are still alive."""
        return self._inside & sys._current_frames().keys() - {threading.get_ident()}
