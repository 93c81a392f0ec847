"""Space reserved for ending digests: on a full disk the store refuses adds, and everything else still has room.

Other programs may take the last byte of a disk at any time, so the reserve must be allocated ahead:

- free pages in the file, which SQLite uses before it lets the file grow. An add must leave enough of them;
- blocks of the disk under every page of the file, so that a checkpoint of the log never needs new ones;
- a log (`-wal`) of some length. When it is full, a checkpoint lets it begin anew. SQLite removes it with the last
  connection; a second name (`-reserve`) keeps its blocks until the file is opened again. A plain file of that length
  would do for one opening only: as the log it goes with the last connection, and a full disk has no space for another.

The reserve is a quarter of the file as free pages, and a log as long as the file, since a transaction can't change more
pages than there are; each within bounds.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from fcntl import F_GETFL, fcntl
from pathlib import Path

from digestif.clock import monotonic
from digestif.stores.sqlite.connections import Connection, is_full
from digestif.stores.sqlite.side_files import beside, is_at, open_side_file

MEBIBYTE = 1 << 20
LEAST_PAGES = 256  # enough for a full history and some dead letters
LOG_HEADER = 32  # bytes
FRAME_HEADER = 24  # bytes before each page in the log
AHEAD_PAGES = 64  # pages beyond the end of the file that get their blocks in the same call
INDEX_BYTES = 10 * 4096  # more than SQLite needs for its index of the log (`-shm`) when it opens a file
CHECK_SECONDS = 0.25  # between two checks of the free space on the disk

_FILL = """
INSERT INTO record (arrival, batch, namespace, key, timestamp, expires, payload)
VALUES (-1, -1, -1, '', 0, 0, zeroblob(?))
"""
_EMPTY = "DELETE FROM record WHERE arrival = -1"


class NoRoom(Exception):
    """The remaining space is reserved for ending digests."""


class Reserve:
    """The reserve of one database file, for one writer at a time; a database in memory (None) has none.

    `most` bytes is the upper bound for the log's length, and half of it that for free pages; 0 turns the reserve off.
    """

    def __init__(self, file: Path | None, *, most: int) -> None:
        path = self._path = Path() if file is None else file
        self._log = beside(path, "-wal")
        self._kept = beside(path, "-reserve")
        self._most = most if file is not None and hasattr(os, "posix_fallocate") else 0
        self._page = 4096  # bytes
        self._file: int | None = None  # SQLite's own descriptor of the file
        self._identity: tuple[int, int] | None = None
        self._wanted = LEAST_PAGES  # to be kept free
        self._check_at = 0.0
        self._is_tight = False  # the disk has little space left

    # Opening

    def before_opening(self) -> None:
        """Give SQLite the log that was kept, if it has none, blanked: its old content must not count as a log."""
        if self._most and not os.path.lexists(self._log) and _size(self._path):
            with suppress(OSError), self._opened(self._kept) as kept:
                if _is_like(os.fstat(kept), self._path.stat()):
                    _blank(kept, most=self._most)
                    os.link(self._kept, self._log)

    def give_way(self) -> bool:
        """Free a little space that SQLite needs to open the file. False if the log is in use, or too short."""
        with suppress(OSError), self._opened(self._kept) as log:
            left = os.fstat(log).st_size - INDEX_BYTES
            if left > 0 and os.pread(log, LOG_HEADER, 0) == bytes(LOG_HEADER):
                os.ftruncate(log, left)
                return True
        return False

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        """Open a file that has no names but those of the log. A log that was moved aside after a crash has another."""
        file = open_side_file(path, self._log, self._kept)
        try:
            yield file
        finally:
            os.close(file)

    def after_opening(self, writer: Connection) -> None:
        """Measure and fill the reserve. If the disk has too little space, adds are refused later."""
        if self._most:
            self._identity = writer.file
            self._page = _value(writer, "PRAGMA page_size")
            self._file = _descriptor(writer.file)
            self._check_at = 0.0
            with suppress(OSError):
                self._fill_holes()
                self._lengthen_log(self._count(writer), share=1)

    def _fill_holes(self) -> None:
        """Allocate missing blocks: files of older releases have pages without, freed before they were first written."""
        found = self._stat()
        if self._file is not None and found is not None and found.st_blocks * 512 < found.st_size:
            self._allocate(self._file, 0, found.st_size)

    # Writing

    def keep(self, writer: Connection, *, share: float) -> None:
        """Before a COMMIT: make sure that this share of the reserve is left. Raises an error if it is not."""
        if not self._most:
            return
        if share and monotonic() >= self._check_at:
            self._check_disk(writer, share)
        free = _value(writer, "PRAGMA freelist_count")
        if free < self._wanted:  # otherwise the file has not grown
            self._make_room(writer, free, share)

    def _check_disk(self, writer: Connection, share: float) -> None:
        self._lengthen_log(self._count(writer), share)
        left = os.statvfs(self._path.parent)
        self._is_tight = left.f_bavail * left.f_frsize < self._most
        self._check_at = monotonic() + CHECK_SECONDS

    def _make_room(self, writer: Connection, free: int, share: float) -> None:
        pages = self._count(writer)
        if free < self._wanted * share:
            _free(writer, (self._wanted + self._wanted // 4) * self._page)
            pages = self._count(writer)
            self._lengthen_log(pages, share)
        try:
            self._get_blocks(pages)
        except OSError:
            if share:  # ending a digest may go on, as long as the log lasts
                raise

    def _count(self, writer: Connection) -> int:
        pages = _value(writer, "PRAGMA page_count")
        self._wanted = min(max(LEAST_PAGES, pages // 4), self._most // 2 // self._page)
        return pages

    def _get_blocks(self, pages: int) -> None:
        """Allocate blocks under all pages. The next checkpoint frees those beyond the last page."""
        found = self._stat()
        if self._file is not None and found is not None and found.st_size < pages * self._page:
            missing = pages * self._page - found.st_size
            try:
                self._allocate(self._file, found.st_size, missing + AHEAD_PAGES * self._page)
            except OSError:
                self._allocate(self._file, found.st_size, missing)

    def _stat(self) -> os.stat_result | None:
        """Stat the file by a descriptor that is open for writing; None if there is none."""
        for _ in range(2):
            if self._file is None:
                return None
            with suppress(OSError):
                found = os.fstat(self._file)
                if (found.st_dev, found.st_ino) == self._identity:
                    return found
            self._file = _descriptor(self._identity)  # the application has closed that descriptor, which was its own
        return None

    def _allocate(self, file: int, start: int, size: int) -> None:
        """Allocate blocks. OSError if the disk is full. A file system that can't allocate ahead gets no reserve."""
        try:
            os.posix_fallocate(file, start, size)
        except OSError as error:
            if is_full(error):
                raise
            self._most = 0

    # The log

    def _lengthen_log(self, pages: int, share: float) -> None:
        """Bring the log to its length, and give it its second name. OSError if it has less than this share."""
        wanted = min(LOG_HEADER + (pages + self._wanted) * (self._page + FRAME_HEADER), self._most)
        try:
            found = self._log.lstat()
        except FileNotFoundError:  # another program has changed the journal mode
            return
        if found.st_size < wanted:
            try:
                with self._opened(self._log) as log:
                    self._allocate(log, found.st_size, wanted - found.st_size)
            except OSError:
                if found.st_size < wanted * share:
                    raise
        with suppress(OSError):  # a file system without links, or a folder where others' files may not be removed
            if not is_at(self._kept, found):
                self._kept.unlink(missing_ok=True)
                os.link(self._log, self._kept)

    def restart_log(self) -> bool:
        """Let the log begin anew; False if a reader still needs its content."""
        return self._most > 0 and self._checkpoint(patience=1.0)[0] == 0

    def refuse_near_the_end_of_the_log(self, *, share: float) -> None:
        """NoRoom if a reader keeps the log from beginning anew, little of it is left, and the disk is full."""
        if self._is_tight and share:
            busy, used = self._checkpoint(patience=0.0)
            if busy and used * (self._page + FRAME_HEADER) > _size(self._log) * (1 - share / 2):
                raise NoRoom

    def _checkpoint(self, *, patience: float) -> tuple[int, int]:
        """Checkpoint on a connection of its own, since `timeout` is set per connection."""
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=rw", uri=True, timeout=patience)) as connection:
            busy, used, _ = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        return busy, used


def _free(writer: Connection, size: int) -> None:
    """Make sure that the file has so many free bytes, by inserting and deleting a blob of that size.

    The log gets all of these pages. Nothing in them has to be wiped, even where SQLite was built to wipe.
    """
    wipes = _value(writer, "PRAGMA secure_delete")
    try:
        writer.execute("PRAGMA secure_delete = FAST")
        writer.execute(_FILL, (size,))
        writer.execute(_EMPTY)
    finally:
        writer.execute(f"PRAGMA secure_delete = {wipes}")


def _value(writer: Connection, statement: str) -> int:
    value: int = writer.execute(statement).fetchone()[0]
    return value


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_like(log: os.stat_result, database: os.stat_result) -> bool:
    """True if the log has the owner, group and mode of the database, as SQLite would make it."""
    return (log.st_uid, log.st_gid, log.st_mode) == (database.st_uid, database.st_gid, database.st_mode)


def _blank(log: int, *, most: int) -> None:
    """Make an empty log of an old one, and sync it: a power cut must not bring the old one back."""
    os.ftruncate(log, min(os.fstat(log).st_size, most))
    os.pwrite(log, bytes(LOG_HEADER), 0)
    os.fsync(log)


def _descriptor(identity: tuple[int, int] | None) -> int | None:
    """Return a descriptor that SQLite has of the file.

    Closing one of our own would give up all locks of this process on the file. SQLite knows this, and closes none of
    its own as long as a connection is open.
    """
    with suppress(OSError):  # not on Linux
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                found, mode = entry.stat(), fcntl(int(entry.name), F_GETFL) & os.O_ACCMODE
                if (found.st_dev, found.st_ino) == identity and mode == os.O_RDWR:
                    return int(entry.name)
    return None
