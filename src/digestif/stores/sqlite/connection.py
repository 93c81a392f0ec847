"""Connections to a SQLite file: how they are opened, checked, and how their errors are told."""

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from digestif.errors import ConfigError, DigestifError, Overloaded, StoreError, StoreUnavailable

SCHEMA = 2
APPLICATION = 0x44494745  # "DIGE", in the header of the file
_CACHE_KIBIBYTES = 16 * 1024
_LOG_PAGES = 4000  # 16 MiB before a checkpoint: pages that many commits change are written back once (a quarter faster)
_OLDEST_SQLITE = (3, 37, 0)  # STRICT tables


class Connection(sqlite3.Connection):
    """A connection, and which file it has open.

    A transaction is `with connection:` around `begin`. Its end is then written in C: it is committed or rolled back in
    one step, which no signal handler can interrupt, and no generator keeps it open that a traceback still refers to.
    """

    file: tuple[int, int] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._results: list[sqlite3.Cursor] = []  # those that may be half read

    def result(self) -> sqlite3.Cursor:
        """A cursor whose result may be left half read: `let_go` closes it."""
        cursor = self.cursor()
        self._results.append(cursor)  # an interrupt before this finds it unused
        return cursor

    def let_go(self) -> None:
        """Close half-read results: they keep the connection at an old state of the data, and a commit from ending."""
        for cursor in self._results:
            cursor.close()
        self._results.clear()

    def begin(self, statement: str) -> None:
        """Begin a transaction. One that was interrupted twice may have left results and even itself behind."""
        self.let_go()
        if self.in_transaction:
            self.rollback()
        self.execute(statement)


class Database:
    """A file, or memory for None; opens connections to it and makes its tables on first use."""

    def __init__(self, path: Path | None, *, synchronous: str, timeout: float) -> None:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise ConfigError(f"store: SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed")
        self.name = ":memory:" if path is None else str(path)
        self.path = path
        self._synchronous = synchronous
        self._timeout = timeout

    def identity(self) -> tuple[int, int] | None:
        """Which file there is at the path now."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def refuse_read_only(self) -> None:
        """Don't let SQLite open a file that can't be written: it would leave read-only side files behind, for good."""
        path = self.path
        if path is None or not path.exists():
            return
        if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise StoreUnavailable(f"{path}: can't be written; check the permissions of file and folder")

    def connect(self, first: Callable[[Connection], None], *, make_room: Callable[[], bool]) -> Connection:
        """Open the file for writing, make its tables if it is new, and do something first.

        Raises ConfigError if the file is not one that this release can use. On a full disk `make_room` is called until
        SQLite has found space for its index of the log, or it answers False.
        """

        def prepare(connection: Connection) -> None:
            self._prepare(connection)
            first(connection)

        self._create()
        return self._open(prepare, make_room)

    def _create(self) -> None:
        """Make a file that no other user may read. SQLite gives its side files the mode of the file."""
        if self.path is not None and not self.path.exists():
            with suppress(FileExistsError):  # another process was quicker
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def connect_reader(self) -> Connection:
        """Open the file, which exists, for reading only."""
        return self._open(lambda connection: connection.execute("PRAGMA query_only = 1"), lambda: False)

    def _open(self, prepare: Callable[[Connection], object], make_room: Callable[[], bool]) -> Connection:
        self.refuse_read_only()
        connection = sqlite3.connect(
            self.name if self.path is None else f"{self.path.as_uri()}?mode=rw",
            uri=self.path is not None,
            timeout=self._timeout,
            isolation_level=None,  # transactions are begun by us
            check_same_thread=False,
            cached_statements=256,
            factory=Connection,
        )
        try:
            self._look(connection, make_room)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            connection.execute("PRAGMA temp_store = MEMORY")  # nothing is written elsewhere, where a disk may be full
            prepare(connection)
            connection.file = self.identity()
        except BaseException:
            connection.close()
            raise
        return connection

    def _look(self, connection: Connection, make_room: Callable[[], bool]) -> None:
        """Let SQLite look at the file for the first time. Others may be quicker to take what room was made."""
        while True:
            try:
                connection.execute("PRAGMA schema_version")
                return
            except sqlite3.Error as error:
                if not is_full(error) or not make_room():
                    raise

    def _prepare(self, connection: Connection) -> None:
        with connection:
            connection.begin("BEGIN")
            version = self._version(connection)
        if self.path is not None and (version or 0) <= SCHEMA:
            connection.execute("PRAGMA journal_mode = WAL")  # a copy made by VACUUM INTO has another one
        if version is None or 0 < version < SCHEMA:
            with connection:
                connection.begin("BEGIN IMMEDIATE")
                self._upgrade(connection, self._version(connection) or 0)  # somebody may have been quicker
                version = self._version(connection)
        if version != SCHEMA:
            advice = "upgrade digestif to open it" if (version or 0) > SCHEMA else "no release has written that"
            raise ConfigError(f"store: {self.name} has schema {version}, this release knows {SCHEMA}; {advice}")

    def _version(self, connection: Connection) -> int | None:
        """The schema of the file; None if it is empty."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application == APPLICATION:
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
            return version
        if application or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None:
            raise ConfigError(f"store: {self.name} is a database of another program; choose another path")
        return None

    def _upgrade(self, connection: Connection, version: int) -> None:
        """Apply what is missing, in the order of the numbers."""
        for number in range(version + 1, SCHEMA + 1):
            for statement in _migration(number).split(";\n"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {max(version, SCHEMA)}")


def _migration(number: int) -> str:
    return files("digestif.stores.sqlite").joinpath("migrations", f"{number:04}.sql").read_text("utf-8")


def is_full(error: sqlite3.Error | OSError) -> bool:
    """True if a disk, a quota or a limit has no more to give."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    full = sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE
    return getattr(error, "sqlite_errorcode", 0) in full


def full(name: str) -> Overloaded:
    return Overloaded(f"{name}: the disk is full; nothing was changed, free some space and try again")


def translated(error: sqlite3.Error | OSError, name: str) -> DigestifError:
    """Tell an error in our words: what is wrong, with which file, and what to do."""
    if isinstance(error, OSError):
        return StoreUnavailable(f"{name}: {error.strerror or error}; check the folder and its permissions")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
    if code == sqlite3.SQLITE_FULL:
        return full(name)
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(f"{name}: can't be written ({error}); check the permissions of file and folder")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreUnavailable(f"{name}: another program keeps it locked ({error}); try again")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
        return StoreUnavailable(f"{name}: {error}; check the disk, the path and its permissions")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreError(f"{name}: {error}; it is damaged or not a SQLite file: restore it or choose another path")
    return StoreError(f"{name}: {error}")
