"""The files beside a database file: opened without following links, and only if they have no name elsewhere.

The owner of a folder can put anything at these names: a link to a file of another user, a pipe, a folder. So a name is
never checked before it is opened; the open file is.
"""

import errno
import os
import stat
from pathlib import Path

_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
SQLITE_FILES = ("-wal", "-shm", "-journal")


class NotOurs(OSError):
    """At the name is a link, something that is no regular file, or a file that has a name elsewhere."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "is a link, or no regular file with one name; remove it", str(path))


def open_side_file(path: Path, *others: Path) -> int:
    """Open a regular file whose only names are `path` and those of `others` that it has. Raise NotOurs for any other.

    SQLite refuses links by itself. A pipe does not make this wait.
    """
    try:
        file = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise NotOurs(path) from error
        raise
    try:
        if not is_ours(os.fstat(file), path, *others):
            raise NotOurs(path)
    except BaseException:
        os.close(file)
        raise
    return file


def is_ours(found: os.stat_result, *names: Path) -> bool:
    """True for a regular file that has no names but these."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= sum(is_at(name, found) for name in names)


def is_at(name: Path, found: os.stat_result) -> bool:
    """True if this is the name of the file, and no link to it."""
    try:
        return os.path.samestat(name.lstat(), found)
    except FileNotFoundError:
        return False


def refuse_foreign(database: Path) -> None:
    """Raise NotOurs if SQLite would open something else than a database, or a log, an index or a journal of its own.

    SQLite opens these files itself and follows no links, but a hard link or a pipe is noticed only here, by name.
    """
    if database.exists() and not database.is_file():
        raise NotOurs(database)
    reserve = beside(database, "-reserve")
    for path in (beside(database, side) for side in SQLITE_FILES):
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        if not is_ours(found, path, reserve):
            raise NotOurs(path)


def beside(database: Path, side: str) -> Path:
    return database.parent / (database.name + side)
