"""Connections to a SQLite file: one for writing, several for reading, and SQLite's errors as ours."""

import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from digestif.errors import ConfigError, DigestifError, Overloaded, StoreError, StoreUnavailable
from digestif.stores.calls import holding
from digestif.stores.schema import Schema, too_old
from digestif.stores.sqlfile import load_statements
from digestif.stores.sqlite.side_files import NotOurs, beside, refuse_foreign

P = ParamSpec("P")
T = TypeVar("T")

SQL = load_statements("digestif.stores.sqlite", "statements.sql")
SCHEMA = Schema(version=10, oldest=10)
FIRST_WITH_TWO_NUMBERS = 9  # before, `user_version` was the version, and no other could be opened
APPLICATION = 0x44494745  # "DIGE", in the header of the file
_CACHE_KIBIBYTES = 16 * 1024
_LOG_PAGES = 4000  # 16 MiB before a checkpoint: pages that many commits change are written back once (a quarter faster)
_OLDEST_SQLITE = (3, 37, 0)  # STRICT tables


class NeedsUpgrade(ConfigError):
    """The file is of an older release, and was opened for reading only."""


class Changed(sqlite3.OperationalError):
    """What was read may be wrong: a process has written to the file, and there was no log when it was opened."""


class Connection(sqlite3.Connection):
    """A connection that knows which file it has open.

    A transaction is `with connection:` around `begin`. C code then commits it or rolls it back in one step, which no
    signal handler can interrupt, and no generator keeps it open while a traceback refers to that generator.
    """

    name = ""  # of the file, for errors
    file: tuple[int, int] | None = None
    still: "State | None" = None  # of the file when it was opened, if it is read without a log
    is_empty = False  # without any tables

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._results: list[sqlite3.Cursor] = []  # those that may be half read

    def open_result(self) -> sqlite3.Cursor:
        """Return a cursor whose result may be left half read: `close_results` closes it."""
        cursor = self.cursor()
        self._results.append(cursor)  # an interrupt before this finds it unused
        return cursor

    def close_results(self) -> None:
        """Close half-read results: they pin an old state of the data, and keep a commit from ending."""
        for cursor in self._results:
            cursor.close()
        self._results.clear()

    def begin(self, statement: str) -> None:
        """Begin a transaction. StoreError if the schema of the file does not let this release write any more."""
        self.begin_any(statement)
        oldest = self.oldest()
        if oldest > SCHEMA.version:
            raise StoreError(too_old(self.name, oldest=oldest, version=SCHEMA.version))

    def begin_any(self, statement: str) -> None:
        """Begin a transaction on any schema, after clearing what a call left behind that was interrupted twice."""
        self.close_results()
        if self.in_transaction:
            self.rollback()
        self.execute(statement)

    def oldest(self) -> int:
        """Return the oldest version that may write the file. A migration can't change it during a transaction."""
        oldest: int = self.execute("PRAGMA user_version").fetchone()[0]
        return oldest


class Database:
    """A namespace in a file, or in memory if `path` is None: opens connections and creates tables on first use."""

    def __init__(self, path: Path | None, namespace: str, *, synchronous: str, timeout: float) -> None:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise ConfigError(f"store: SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed")
        self.name = ":memory:" if path is None else str(path)
        self.path = path
        self.number = 0  # of the namespace
        self._namespace = namespace
        self._synchronous = synchronous
        self._timeout = timeout
        self._was_open = False

    def identity(self) -> tuple[int, int] | None:
        """Return device and inode of the file that is at the path now."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def refuse_read_only(self) -> None:
        """Raise StoreUnavailable for a read-only file: SQLite would leave read-only side files behind for good."""
        path = self.path
        if path is None or not path.exists():
            return
        if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise StoreUnavailable(f"{path}: can't be written; check the permissions of file and folder")

    def connect(self, *, make_room: Callable[[], bool]) -> Connection:
        """Open the file for writing, create or upgrade its tables, and find the namespace.

        Raises ConfigError if this release can't use the file. On a full disk, calls `make_room` until SQLite finds
        space for its index of the log, or until `make_room` returns False.
        """
        self._create()
        return self._open(self._prepare, make_room)

    def _create(self) -> None:
        """Create a file that no other user may read. SQLite gives its side files the mode of the file."""
        if self.path is not None and not self.path.exists():
            with suppress(FileExistsError):  # another process was quicker
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def connect_reader(self) -> Connection:
        """Open the file, which exists, for reading only."""
        return self._open(lambda connection: connection.execute("PRAGMA query_only = 1"), lambda: False)

    def connect_without_traces(self) -> Connection:
        """Open the file for reading only, and let SQLite make no file beside it.

        Without a log no process is writing, and SQLite reads the file alone. As soon as there is one, `refuse_changed`
        raises Changed. Raises ConfigError if this release can't read the file, NeedsUpgrade if it could after a
        migration.
        """
        if self.path is None or not self.path.exists():
            raise StoreUnavailable(f"{self.name}: there is no such file to read")
        still = None if _has_log(self.path) else _state(self.path)
        access = "mode=ro" if still is None else "mode=ro&immutable=1"
        try:
            connection = self._open(self._check_schema, lambda: False, access=access)
        except sqlite3.Error:
            self.refuse_changed(still)
            raise
        connection.still = still
        return connection

    def refuse_changed(self, still: "State | None") -> None:
        """Raise Changed if a process began to write to a file that was opened without a log."""
        if still is not None and self.path is not None and (_has_log(self.path) or _state(self.path) != still):
            raise Changed

    def _check_schema(self, connection: Connection) -> None:
        found = self._schema(connection)
        if found is not None:
            self._refuse_schema(found)
            if found.version < SCHEMA.version:
                raise NeedsUpgrade(f"store: {self.name} is of an older release; open it for writing once")
        connection.is_empty = found is None

    def _open(
        self, prepare: Callable[[Connection], object], make_room: Callable[[], bool], *, access: str = "mode=rw"
    ) -> Connection:
        if self.path is not None:
            refuse_foreign(self.path)
        if access == "mode=rw":
            self.refuse_read_only()
        connection = sqlite3.connect(
            self.name if self.path is None else f"{self.path.as_uri()}?{access}",
            uri=self.path is not None,
            timeout=self._timeout,
            isolation_level=None,  # we begin transactions ourselves
            check_same_thread=False,
            cached_statements=256,
            factory=Connection,
        )
        connection.name = self.name
        try:
            self._touch(connection, make_room)
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            connection.execute("PRAGMA temp_store = MEMORY")  # write nothing to another disk, which may be full
            prepare(connection)
            connection.file = self.identity()
        except BaseException:
            connection.close()
            raise
        return connection

    def _touch(self, connection: Connection, make_room: Callable[[], bool]) -> None:
        """Make SQLite open its files. Other programs may take the room that was made, so this tries again."""
        while True:
            try:
                connection.execute("PRAGMA schema_version")
                return
            except sqlite3.Error as error:
                if not is_full(error) or not make_room():
                    raise

    def _prepare(self, connection: Connection) -> None:
        with connection:
            connection.begin_any("BEGIN")
            found = self._schema(connection)
        if self.path is not None and (found is None or found.admits(SCHEMA.version)):
            connection.execute("PRAGMA journal_mode = WAL")  # a copy made by VACUUM INTO has another one
        if found is None or 0 < found.version < SCHEMA.version:
            with connection:
                connection.begin_any("BEGIN IMMEDIATE")
                found = self._upgrade(connection, self._schema(connection))  # another process may have been quicker
        self._refuse_schema(found)
        self._was_open = True
        with connection:
            connection.begin("BEGIN IMMEDIATE")
            connection.execute(SQL.add_namespace, (self._namespace,))
            self.find_namespace(connection)

    def find_namespace(self, connection: Connection) -> None:
        """Read the number of the namespace; 0 if it was never written."""
        found = None if connection.is_empty else connection.execute(SQL.namespace, (self._namespace,)).fetchone()
        self.number = 0 if found is None else found[0]

    def _refuse_schema(self, found: Schema) -> None:
        if not found.admits(SCHEMA.version):
            refusal = too_old(self.name, oldest=found.oldest, version=SCHEMA.version)
            raise StoreError(refusal) if self._was_open else ConfigError(f"store: {refusal}")
        if found.version < 1:
            raise ConfigError(f"store: {self.name} has schema {found.version}; no release has written that")

    def _schema(self, connection: Connection) -> Schema | None:
        """Return the numbers of the file; None if it is empty."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application == APPLICATION:
            oldest = connection.oldest()
            if not FIRST_WITH_TWO_NUMBERS <= oldest <= SCHEMA.version:
                return Schema(oldest, oldest)
            version: int = connection.execute("SELECT max(version) FROM schema").fetchone()[0]
            return Schema(version, oldest)
        if application or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None:
            raise ConfigError(f"store: {self.name} is a database of another program; choose another path")
        return None

    def _upgrade(self, connection: Connection, found: Schema | None) -> Schema:
        """Apply the missing migrations, in the order of their numbers, and note both numbers of this release."""
        before = found or Schema(0, 0)
        if before.version >= SCHEMA.version:
            return before
        for number in range(before.version + 1, SCHEMA.version + 1):
            for statement in _migration(number).split(";\n"):
                connection.execute(statement)
        oldest = max(before.oldest, SCHEMA.oldest)
        connection.execute("UPDATE schema SET version = ?", (SCHEMA.version,))
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {oldest}")
        return Schema(SCHEMA.version, oldest)


def _has_log(path: Path) -> bool:
    """True if a process has the database open, or was killed before it could close it."""
    return any(os.path.lexists(beside(path, side)) for side in ("-wal", "-journal"))


State = tuple[int, ...]


def _state(path: Path) -> State:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _migration(number: int) -> str:
    return files("digestif.stores.sqlite").joinpath("migrations", f"{number:04}.sql").read_text("utf-8")


class _Reader:
    """A connection, opened when it is needed, and the thread that uses it."""

    def __init__(self, thread: int) -> None:
        self.connection: Connection | None = None
        self.thread: int | None = thread
        self.is_stale = False  # its file is not the one at the path any more

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class Readers:
    """A pool of connections for reading: as many as threads have read at once."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self.forget_threads()

    def forget_threads(self) -> None:
        """Begin with a new lock and no connections: after a fork, the child uses none of those of its parent."""
        self._changing = threading.RLock()
        self._readers: list[_Reader] = []

    def through(self, call: Callable[Concatenate[Connection, P], T], *args: P.args, **options: P.kwargs) -> T:
        """Run the call with a connection that no other thread uses meanwhile. A connection that fails is closed."""
        reader = None
        try:
            reader = holding(self._changing, self._take)
            if reader.connection is None:
                reader.connection = self._connect()
            answer = call(reader.connection, *args, **options)
        except sqlite3.Error:
            if reader is not None:
                failed, reader.connection, reader.thread = reader.connection, None, None
                if failed is not None:
                    failed.close()
            raise
        except BaseException:
            if reader is not None:
                reader.thread = None
            raise
        holding(self._changing, self._give_back, reader)
        return answer

    def _take(self) -> _Reader:
        me = threading.get_ident()
        for reader in self._readers:
            if reader.thread in (None, me):  # a thread reads once at a time: its own reader is left from an interrupt
                reader.thread = me
                return reader
        reader = _Reader(me)
        self._readers.append(reader)
        return reader

    def _give_back(self, reader: _Reader) -> None:
        if reader.is_stale:
            reader.close()
        reader.thread = None

    def renew(self) -> None:
        """Close every connection: idle ones now, those in use when their threads give them back."""
        holding(self._changing, self._renew)

    def _renew(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.is_stale = True
            if reader.thread is None:
                reader.close()

    def close(self) -> None:
        """Close every connection. No thread may be reading."""
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.close()


def is_full(error: sqlite3.Error | OSError) -> bool:
    """True if the disk is full, or a quota or size limit is reached."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    full = sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE
    return getattr(error, "sqlite_errorcode", 0) in full


def full(name: str) -> Overloaded:
    return Overloaded(f"{name}: the disk is full; nothing was changed, free some space and try again")


def translated(error: sqlite3.Error | OSError, name: str) -> DigestifError:
    """Return our error for one of SQLite or the system: what is wrong, with which file, and what to do."""
    if isinstance(error, NotOurs):
        return StoreUnavailable(f"{error.filename}: {error.strerror}, or check the path")
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
