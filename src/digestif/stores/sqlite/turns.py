"""Turns: processes that write to one file queue up at a lock on a side file.

SQLite's own waiting is a sleep that grows, so a busy process can keep the others out for seconds; `flock` wakes
whoever waits as soon as the lock is free.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

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
        self._helper: _Helper | None = None
        self._is_stale = False

    def exists(self) -> bool:
        return self._path.exists()

    def remove(self) -> None:
        """Take the side file away that was made for a file which turned out to be none of ours."""
        self.close()
        self._path.unlink(missing_ok=True)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock. StoreUnavailable if it can't be had in time."""
        if fcntl is None:
            yield
            return
        try:
            self._take()
            yield
        finally:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _take(self) -> None:
        if self._is_stale:
            self.close()
            self._is_stale = False
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        file = self._file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait = _Wait(file)
            taken = False
            try:
                taken = self._help().takes(wait, timeout=self._timeout)
            finally:  # a signal handler may raise: then, too, nobody must be left with the lock
                if not taken and wait.give_up():
                    self._file = self._helper = None  # left to each other
            if not taken:
                raise StoreUnavailable(
                    f"{self._path}: another process has been writing for {self._timeout:g} s; is it stopped?"
                ) from None

    def renew(self) -> None:
        """Open the side file anew at the next turn: the one that is open may have been removed."""
        self._is_stale = True

    def _help(self) -> "_Helper":
        if self._helper is None:
            self._helper = _Helper()
        return self._helper

    def close(self) -> None:
        """Let go of the file; it is opened again when needed. Not during a turn."""
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.stop()
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class _Helper:
    """A thread that blocks in `flock` for others, because `flock` knows no time limit."""

    def __init__(self) -> None:
        self._waits: SimpleQueue[_Wait | None] = SimpleQueue()
        threading.Thread(target=self._serve, name="digestif-turns", daemon=True).start()

    def takes(self, wait: "_Wait", *, timeout: float) -> bool:
        """True if the lock was had in time."""
        self._waits.put(wait)
        return wait.ends_within(timeout)

    def stop(self) -> None:
        self._waits.put(None)

    def _serve(self) -> None:
        while (wait := self._waits.get()) is not None:
            if not wait.block():
                return


class _Wait:
    """One wait for the lock, which its caller may give up."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._taken = threading.Event()
        self._decision = threading.Lock()
        self._given_up = False

    def ends_within(self, timeout: float) -> bool:
        return self._taken.wait(timeout)

    def give_up(self) -> bool:
        """True if the helper keeps the file, to let go of the lock once it has it; False if it has it already."""
        with self._decision:
            self._given_up = not self._taken.is_set()
            return self._given_up

    def block(self) -> bool:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._decision:
            if self._given_up:
                fcntl.flock(self._file, fcntl.LOCK_UN)  # a fork may have copied the file: closing alone would not do
                os.close(self._file)
                return False
            self._taken.set()
            return True
