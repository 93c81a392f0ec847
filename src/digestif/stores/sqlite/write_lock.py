"""A lock on a side file: processes that write to one database take turns by it.

While SQLite waits for a lock it sleeps, longer each time, so a busy process can keep the others out for seconds;
`flock` wakes a waiting process as soon as the lock is free.
"""

import os
import stat
import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from digestif.errors import StoreUnavailable
from digestif.stores.gate import holding

try:
    import fcntl
except ImportError:  # not a POSIX system: SQLite's own locking has to do
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")


class WriteLock:
    """The lock beside a database file. One thread at a time may use it."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._database = path
        self._path = path.with_name(path.name + "-lock")
        self._timeout = timeout
        self._file: int | None = None
        self._helper: _Helper | None = None
        self._wait: _Wait | None = None  # under way, or given up
        self._is_stale = False

    def exists(self) -> bool:
        return self._path.exists()

    def remove(self) -> None:
        """Remove the side file, after its database turned out to be none of ours."""
        self.close()
        with suppress(OSError):  # a file system that may only be read refuses even if there is no such file
            self._path.unlink(missing_ok=True)

    def through(self, call: Callable[[], T]) -> T:
        """Run the call while no other process does. StoreUnavailable if the lock is not free in time."""
        if fcntl is None:
            return call()
        try:
            self._take()
            return call()
        finally:  # whatever interrupts: one call of C, see gate.py
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _take(self) -> None:
        if self._is_stale:
            self.close()
            self._is_stale = False
        self._leave_wait()
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            self._shut_out_readers(self._file)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait = _Wait(self._file)
            self._wait, self._file = wait, None  # the helper owns the file until it holds the lock
            holding(wait.present, lambda: self._wait_for_helper(wait))

    def _shut_out_readers(self, file: int) -> None:
        """Let only users open the side file who may write the database: others could hold the lock for ever."""
        with suppress(OSError):  # the database does not exist yet, or the side file is another user's
            database, lock = self._database.stat(), os.fstat(file)
            mode = stat.S_IRUSR | stat.S_IWUSR
            mode |= stat.S_IRGRP | stat.S_IWGRP if database.st_mode & stat.S_IWGRP else 0
            mode |= stat.S_IROTH | stat.S_IWOTH if database.st_mode & stat.S_IWOTH else 0
            if stat.S_IMODE(lock.st_mode) != mode:
                os.fchmod(file, mode)
            if (lock.st_uid, lock.st_gid) != (database.st_uid, database.st_gid):
                os.fchown(file, database.st_uid if os.geteuid() == 0 else -1, database.st_gid)

    def _wait_for_helper(self, wait: "_Wait") -> None:
        if self._helper is None:
            self._helper = _Helper()
        self._helper.serve(wait)
        if not wait.had.acquire(timeout=self._timeout):
            raise StoreUnavailable(
                f"{self._path}: another process has been writing for {self._timeout:g} s; is it stopped?"
            )
        wait.is_taken, self._file, self._wait = True, wait.file, None

    def _leave_wait(self) -> None:
        """Leave a wait that was given up to its helper, which gives the lock back when it gets it."""
        if self._wait is None:
            return
        if self._helper is None:
            self._helper = _Helper()
        self._helper.serve(self._wait)  # again, if an interrupt came before that
        self._helper = self._wait = None

    def renew(self) -> None:
        """Open the side file anew at the next call: the open one may have been removed."""
        self._is_stale = True

    def close(self) -> None:
        """Close the side file; it is opened again when needed. Not while the lock is held."""
        self._leave_wait()
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.stop()
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class _Wait:
    """One wait for the lock, which its thread may give up."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.present = threading.RLock()  # its thread holds it while it waits
        self.had = threading.Lock()  # released when the helper has the lock
        self.had.acquire()
        self.is_taken = False  # its thread took the lock over, and gives it back


class _Helper:
    """A thread that blocks in `flock` for others, because `flock` has no timeout."""

    def __init__(self) -> None:
        self._waits: SimpleQueue[_Wait | None] = SimpleQueue()
        self._is_started = False

    def serve(self, wait: _Wait) -> None:
        self._waits.put(wait)
        if not self._is_started:
            self._is_started = True
            start_new_thread(self._run, ())  # one call of C; an interrupt could lose a threading.Thread half started

    def stop(self) -> None:
        self._waits.put(None)

    def _run(self) -> None:
        while (wait := self._waits.get()) is not None:
            if not self._hand_over(wait):
                return

    def _hand_over(self, wait: _Wait) -> bool:
        """Wait for the lock; give it back if the waiting thread has gone. False ends the helper."""
        fcntl.flock(wait.file, fcntl.LOCK_EX)
        wait.had.release()
        return holding(wait.present, lambda: wait.is_taken) or self._give_back(wait)

    def _give_back(self, wait: _Wait) -> bool:
        fcntl.flock(wait.file, fcntl.LOCK_UN)  # a fork may have copied the file: closing alone would not do
        os.close(wait.file)
        return False
