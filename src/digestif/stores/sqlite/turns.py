"""Turns: processes that write to one file queue up at a lock on a side file.

SQLite's own waiting is a sleep that grows, so a busy process can keep the others out for seconds; `flock` wakes
whoever waits as soon as the lock is free.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: SQLite's own locking has to do
    fcntl = None  # type: ignore[assignment]


class Turns:
    """The lock beside a database file."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path.with_name(path.name + "-lock")
        self._timeout = timeout
        self._file: int | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock."""
        file = self._open()
        if file is None:
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def _open(self) -> int | None:
        if self._file is None and fcntl is not None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        return self._file

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
