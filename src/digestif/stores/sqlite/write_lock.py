"""A lock on a side file, by which processes that write to one database take turns.

SQLite waits for a lock by sleeping, longer each time, so that a busy process can keep others out for seconds. `flock`
wakes a waiting process as soon as the lock is free.
"""

import os
import stat
import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, ParamSpec, TypeVar

from digestif.errors import StoreUnavailable
from digestif.stores.calls import holding
from digestif.stores.sqlite.side_files import beside, open_side_file

try:
    import fcntl
except ImportError:  # not a POSIX system: only SQLite's own locking is left
    fcntl = None  # type: ignore[assignment]

P = ParamSpec("P")
T = TypeVar("T")

_REPLACEMENTS = 100  # of the side file by other processes, after which a call gives up


class _Access(NamedTuple):
    """The owner, group and mode that the side file should have."""

    owner: int
    group: int
    mode: int


class WriteLock:
    """The lock beside a database file. Only one thread at a time may use it. A database in memory needs none."""

    def __init__(self, database: Path | None, *, timeout: float) -> None:
        self._is_needed = database is not None and fcntl is not None
        self._database = database or Path()
        self._path = beside(self._database, "-lock")
        self._timeout = timeout
        self._name = str(self._path)
        self._file: int | None = None
        self._identity = (0, 0)  # device and inode of the open side file
        self._helper: _Helper | None = None
        self._wait: _Wait | None = None  # the wait that is under way, or was given up
        self._is_stale = False

    def exists(self) -> bool:
        return self._is_needed and os.path.lexists(self._path)

    def remove(self) -> None:
        """Remove the side file, because the database beside it is not Digestif's."""
        self.close()
        if self._is_needed:
            with suppress(OSError):  # a read-only file system refuses even if there is no such file
                self._path.unlink(missing_ok=True)

    def run_locked(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Run the call while this process holds the lock. Raises StoreUnavailable if the lock is not free in time."""
        if not self._is_needed:
            return call(*args, **options)
        try:
            self._take()
            return call(*args, **options)
        finally:  # also after an interrupt: one call of C, see calls.py
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _take(self) -> None:
        """Take the lock of the file that is at the path: another process may replace it while this one waits."""
        if self._is_stale:
            self.close()
            self._is_stale = False
        self._leave_wait()
        for _ in range(_REPLACEMENTS):
            self._take_open_file()
            if self._is_in_place():
                return
            self.close()
        raise self._keeps_changing()

    def _take_open_file(self) -> None:
        if self._file is None:
            self._file = self._open()
            found = os.fstat(self._file)
            self._identity = found.st_dev, found.st_ino
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait = _Wait(self._file)
            self._wait, self._file = wait, None  # the helper owns the file until it holds the lock
            holding(wait.attended, self._wait_for_helper, wait)

    def _is_in_place(self) -> bool:
        """Return True if the open side file is the one at the path."""
        try:
            found = os.stat(self._name)  # noqa: PTH116 -- at every commit, and faster than Path.stat
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def _keeps_changing(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._path}: another program keeps replacing it; nothing was changed")

    def _open(self) -> int:
        """Open the side file, and make it if there is none."""
        for _ in range(_REPLACEMENTS):
            with suppress(FileNotFoundError):
                file = open_side_file(self._path)
                try:
                    if self._is_right(os.fstat(file)) or not self._remove_wrong(file):
                        return file
                except BaseException:
                    os.close(file)
                    raise
                os.close(file)
            with suppress(FileExistsError):
                return self._make()
        raise self._keeps_changing()

    def _is_right(self, found: os.stat_result) -> bool:
        """Return True if the users who may open the side file are those who may write the database.

        Also return True if this process may not change that.
        """
        wanted, me = self._wanted_access(), os.geteuid()
        if wanted is None or me not in (0, found.st_uid):
            return True
        return stat.S_IMODE(found.st_mode) == wanted.mode and (me != 0 or found.st_uid == wanted.owner)

    def _remove_wrong(self, file: int) -> bool:
        """Remove a side file that the wrong users may open, since only a new one can get the right mode.

        Return False if the file is in use.
        """
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path.unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def _make(self) -> int:
        """Make the side file for users who may write the database: any other could hold the lock for ever."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        wanted = self._wanted_access()
        if wanted is not None:
            with suppress(OSError):  # the group is not one of this user's
                os.fchmod(file, wanted.mode)
                os.fchown(file, wanted.owner if os.geteuid() == 0 else -1, wanted.group)
        return file

    def _wanted_access(self) -> "_Access | None":
        """Return who may open the side file; None if there is no database yet."""
        try:
            database = self._database.stat()
        except OSError:
            return None
        mode = stat.S_IRUSR | stat.S_IWUSR
        mode |= stat.S_IRGRP | stat.S_IWGRP if database.st_mode & stat.S_IWGRP else 0
        mode |= stat.S_IROTH | stat.S_IWOTH if database.st_mode & stat.S_IWOTH else 0
        return _Access(database.st_uid, database.st_gid, mode)

    def _wait_for_helper(self, wait: "_Wait") -> None:
        if self._helper is None:
            self._helper = _Helper()
        self._helper.serve(wait)
        if not wait.acquired.acquire(timeout=self._timeout):
            raise StoreUnavailable(
                f"{self._path}: another process has been writing for {self._timeout:g} s; is it stopped?"
            )
        wait.is_taken, self._file, self._wait = True, wait.file, None

    def _leave_wait(self) -> None:
        """Abandon a wait that was given up. Its helper releases the lock once it gets it."""
        if self._wait is None:
            return
        if self._helper is None:
            self._helper = _Helper()
        self._helper.serve(self._wait)  # perhaps again: an interrupt may have come before the first time
        self._helper = self._wait = None

    def renew(self) -> None:
        """Open the side file again at the next call: the open one may have been removed."""
        self._is_stale = True

    def close(self) -> None:
        """Close the side file until it is needed again. The lock must not be held."""
        self._leave_wait()
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.stop()
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class _Wait:
    """A wait for the lock, which its thread may give up."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.attended = threading.RLock()  # held by the waiting thread until it gives up, or has the lock
        self.acquired = threading.Lock()  # released once the helper has the lock
        self.acquired.acquire()
        self.is_taken = False  # the waiting thread took the lock over, and will release it


class _Helper:
    """A thread that blocks in `flock` on behalf of other threads, because `flock` has no timeout."""

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
        """Wait for the lock; release it if the waiting thread has given up. Return False to end the helper."""
        fcntl.flock(wait.file, fcntl.LOCK_EX)
        wait.acquired.release()
        with wait.attended:  # no signal handler runs in this thread
            is_taken = wait.is_taken
        return is_taken or self._give_back(wait)

    def _give_back(self, wait: _Wait) -> bool:
        fcntl.flock(wait.file, fcntl.LOCK_UN)  # a fork may have copied the file: closing alone would not do
        os.close(wait.file)
        return False
