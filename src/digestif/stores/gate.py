"""Entrances to what many threads share: one that can be shut for all, one that lets each thread in once."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from digestif.errors import StoreUnavailable

T = TypeVar("T")


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

    def shut(self) -> None:
        """Let nobody in any more, and wait until all others have left."""
        with self._mutex:
            while self._is_shut:
                self._changed.wait()
            self._is_shut = True
            try:
                while self._others():
                    self._changed.wait()
            except BaseException:  # an interrupt: whoever gives up waiting leaves the gate as it was
                self._is_shut = False
                self._changed.notify_all()
                raise

    def open(self) -> None:
        """Let everybody in again."""
        with self._mutex:
            self._is_shut = False
            self._changed.notify_all()

    def _others(self) -> set[int]:
        """An exception from a signal may have hit a thread on its way out; it must not be waited for."""
        return self._inside & sys._current_frames().keys() - {threading.get_ident()}
