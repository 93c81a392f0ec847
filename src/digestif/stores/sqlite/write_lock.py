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
from typing import NamedTuple, TypeVar

from digestif.errors import StoreUnavailable
from digestif.stores.gate import holding
from digestif.stores.sqlite.side_files import beside, open_side_file

try:
    import fcntl
except ImportError:  # not a POSIX system: SQLite's own locking has to do
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

_REPLACEMENTS = 100  # of the side file by other processes, before a call gives up


class _Access(NamedTuple):
    """The owner, group and mode of the side file."""

    owner: int
    group: int
    mode: int


class WriteLock:
    """The lock beside a database file. One thread at a time may use it."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._database = path
        self._path = beside(path, "-lock")
        self._timeout = timeout
        self._name = str(self._path)
        self._file: int | None = None
        self._identity = (0, 0)  # device and inode of the open side file
        self._helper: _Helper | None = None
        self._wait: _Wait | None = None  # under way, or given up
        self._is_stale = False

    def exists(self) -> bool:
        return os.path.lexists(self._path)

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
        raise self._restless()

    def _take_open_file(self) -> None:
        if self._file is None:
            self._file = self._opened()
            found = os.fstat(self._file)
            self._identity = found.st_dev, found.st_ino
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait = _Wait(self._file)
            self._wait, self._file = wait, None  # the helper owns the file until it holds the lock
            holding(wait.present, lambda: self._wait_for_helper(wait))

    def _is_in_place(self) -> bool:
        try:
            found = os.stat(self._name)  # noqa: PTH116 -- at every commit, and faster than Path.stat
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def _restless(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._path}: another program keeps replacing it; nothing was changed")

    def _opened(self) -> int:
        """Open the side file, or make it."""
        for _ in range(_REPLACEMENTS):
            with suppress(FileNotFoundError):
                file = open_side_file(self._path)
                try:
                    if self._is_right(os.fstat(file)) or not self._removed(file):
                        return file
                except BaseException:
                    os.close(file)
                    raise
                os.close(file)
            with suppress(FileExistsError):
                return self._made()
        raise self._restless()

    def _is_right(self, found: os.stat_result) -> bool:
        """True if the users who may open the side file are those who may write the database, or can't be changed."""
        wanted, me = self._wanted(), os.geteuid()
        if wanted is None or me not in (0, found.st_uid):
            return True
        return stat.S_IMODE(found.st_mode) == wanted.mode and (me != 0 or found.st_uid == wanted.owner)

    def _removed(self, file: int) -> bool:
        """Remove a side file that the wrong users may open: only a new file is changed. False while it is in use."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._path.unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def _made(self) -> int:
        """Make the side file. Others than those who may write the database could hold the lock for ever."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        wanted = self._wanted()
        if wanted is not None:
            with suppress(OSError):  # the group is not one of this user's
                os.fchmod(file, wanted.mode)
                os.fchown(file, wanted.owner if os.geteuid() == 0 else -1, wanted.group)
        return file

    def _wanted(self) -> "_Access | None":
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
