"""Turns: processes that write to one file queue up at a lock on a side file.

SQLite's own waiting is a sleep that grows, so a busy process can keep the others out for seconds; `flock` wakes
whoever waits as soon as the lock is free.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from digestif.errors import StoreUnavailable

try:
    import fcntl
except ImportError:  # not a POSIX system: SQLite's own locking has to do
    fcntl = None  # type: ignore[assignment]


class Turns:
    """The lock beside a database file. One thread at a time may use it."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path.with_name(path.name + "-lock")
        self._timeout = timeout
        self._file: int | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock. StoreUnavailable if it can't be had in time."""
        if fcntl is None:
            yield
            return
        file = self._take()
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def _take(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        file = self._file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _Wait(file).succeeds_within(self._timeout):
                self._file = None  # left to the thread that still waits for it
                raise StoreUnavailable(
                    f"{self._path}: another process has been writing for {self._timeout:g} s; is it stopped?"
                ) from None
        return file

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class _Wait:
    """A blocking `flock` in a thread of its own, because it knows no time limit."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._taken = threading.Event()
        self._decision = threading.Lock()
        self._given_up = False

    def succeeds_within(self, timeout: float) -> bool:
        threading.Thread(target=self._block, name="digestif-turn", daemon=True).start()
        if self._taken.wait(timeout):
            return True
        with self._decision:
            self._given_up = not self._taken.is_set()
            return not self._given_up

    def _block(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._decision:
            if self._given_up:
                os.close(self._file)  # and with it the lock
            else:
                self._taken.set()
