"""The SQLite store: one writer per process with group commit, readers beside it, processes in turn by `flock`."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from digestif.clock import wall_clock
from digestif.core.policy import check_delay
from digestif.errors import ConfigError, DigestifError, StoreError, StoreUnavailable
from digestif.stores.base import PAGE_RECORDS, Durability, Wakeups
from digestif.stores.damage import Unreadable
from digestif.stores.dsn import check_namespace
from digestif.stores.forking import watch
from digestif.stores.gate import Gate, Turnstile
from digestif.stores.group import GroupCommit, Job
from digestif.stores.rows import Rows, RowStore
from digestif.stores.sqlite.connection import Connection, Database, translated
from digestif.stores.sqlite.rows import SQL, SqliteRows
from digestif.stores.sqlite.turns import Turns
from digestif.stores.sqlite.wakeups import FileWakeups

T = TypeVar("T")

_DURABILITY = {"full": Durability.POWER_LOSS, "normal": Durability.PROCESS_KILL}


class SQLiteStore(RowStore):
    """Timelines in a SQLite file that many threads and processes may use at once; in memory without a path."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        namespace: str = "d",
        synchronous: str = "full",
        timeout: float = 30,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        check_namespace(namespace)
        if synchronous not in _DURABILITY:
            raise ConfigError(f'synchronous: {synchronous!r} is neither "full" nor "normal"')
        check_delay("timeout", timeout)
        if path is not None and "\0" in os.fspath(path):
            raise ConfigError("store: the path has a NUL character")
        file = None if path is None else Path(path).absolute()  # the folder may change, the file must not
        self.namespace = namespace
        self.clock = clock
        self.durability = Durability.NOTHING if file is None else _DURABILITY[synchronous]
        self._database = Database(file, synchronous=synchronous, timeout=timeout)
        self._turns = None if file is None else Turns(file, timeout=timeout)
        self._closed = False
        self._is_still = False  # for a fork
        self._number = 0  # of the namespace
        self._writer: Connection | None = None
        self._file: tuple[int, int] | None = None  # which the writer has open
        self._readers: list[Connection] = []
        self._renew()
        self._open_first()
        watch(self)

    def _open_first(self) -> None:
        """Look at the file; one that is refused is left as it was, without a lock beside it."""
        is_new = self._turns is not None and not self._turns.exists()
        try:
            with translated(self._database.name), self._turn():
                self._connect()
        except (ConfigError, StoreError):
            if is_new and self._turns is not None:
                self._turns.remove()
            raise

    def _renew(self) -> None:
        self._turnstile = Turnstile()
        self._gate = Gate()
        self._group: GroupCommit[Rows] = GroupCommit(self._commit, limit=PAGE_RECORDS)

    # Writing

    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1) -> T:
        try:
            return self._turnstile.through(lambda: self._group.submit(unit, weight=weight))
        finally:
            self.damages.tell()

    def _commit(self, jobs: Sequence[Job[Rows]]) -> None:
        """Run the jobs in one transaction, the leader's first."""
        try:
            with translated(self._database.name), self._gate.inside(), self._turn():
                self._transact(jobs)
        except _Spoiled as fault:
            fault.job.fail(fault.error)
            others = [job for job in jobs if job is not fault.job]
            if others:
                self._commit(others)
        except DigestifError as error:
            for job in jobs:
                job.fail(error)

    def _transact(self, jobs: Sequence[Job[Rows]]) -> None:
        writer = self._connect()
        rows = SqliteRows(writer, self._number, self.damages.note)
        with writer.transaction("BEGIN IMMEDIATE"):
            for job in jobs:
                rows.budget = PAGE_RECORDS
                _run(job, rows)
            rows.flush()

    def _turn(self) -> AbstractContextManager[None]:
        self._refuse_if_closed()
        return nullcontext() if self._turns is None else self._turns.turn()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self._database.name}: this store is closed")

    def _connect(self) -> Connection:
        self._refuse_if_closed()
        if self._writer is None:
            self._writer = self._database.connect(self._find_namespace)
            self._file = self._database.identity()
        elif self._database.identity() != self._file:
            self._lose_file()
        return self._writer

    def _lose_file(self) -> None:
        """What is written to a file that is no longer there would be lost: start anew with the next call."""
        self._close_connections()
        if self._turns is not None:
            self._turns.renew()
        raise StoreUnavailable(f"{self._database.name}: was removed or replaced; nothing was changed, try again")

    def _find_namespace(self, writer: Connection) -> None:
        with writer.transaction("BEGIN IMMEDIATE"):
            writer.execute(SQL.add_namespace, (self.namespace,))
            self._number = writer.execute(SQL.namespace, (self.namespace,)).fetchone()[0]

    # Reading

    def _read(self, unit: Callable[[Rows], T]) -> T:
        if self._turns is None:
            return self._write(unit)  # in memory there is one connection, for one thread at a time
        try:
            return self._turnstile.through(lambda: self._read_one_state(unit))
        finally:
            self.damages.tell()

    def _read_one_state(self, unit: Callable[[Rows], T]) -> T:
        with translated(self._database.name), self._gate.inside(), self._reading() as reader:
            return unit(SqliteRows(reader, self._number, self.damages.note))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the data; one that failed is not used again."""
        self._refuse_if_closed()
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = self._database.connect_reader()
        try:
            with reader.transaction("BEGIN"):
                yield reader
        except BaseException:
            reader.close()
            raise
        self._readers.append(reader)

    def listen(self) -> Wakeups:
        path = self._database.path
        return super().listen() if path is None else self._hints.listen(FileWakeups(path))

    # Letting go

    def disconnect(self) -> None:
        """Wait for what is under way and close everything; what comes later is refused."""
        self._turnstile.through(self._shut_down)

    def _shut_down(self) -> None:
        self._gate.shut()
        try:
            self._closed = True
            self._close_everything()
        finally:
            self._gate.open()

    def _close_connections(self) -> None:
        writer, self._writer = self._writer, None
        readers, self._readers = self._readers, []
        for connection in [*readers, writer]:
            if connection is not None:
                connection.close()

    def _close_everything(self) -> None:
        self._close_connections()
        if self._turns is not None:
            self._turns.close()

    def before_fork(self) -> None:
        """Close the file: SQLite's notes about locks would be copied into the child, and be wrong there."""
        self._is_still = not self._turnstile.has_me()
        if self._is_still:
            self._gate.shut()
            if self._turns is not None:
                self._close_everything()

    def after_fork(self, *, in_child: bool) -> None:
        """Go on; connections are opened again when needed. The child's other threads, and their locks, are gone."""
        if in_child:
            self._renew()
        elif self._is_still:
            self._gate.open()


class _Spoiled(Exception):
    """A fault in one job, before the commit: it must not take the others along."""

    def __init__(self, job: Job[Rows], error: Exception) -> None:
        super().__init__(error)
        self.job = job
        self.error = error


def _run(job: Job[Rows], rows: Rows) -> None:
    job.error = None
    try:
        job.result = job.unit(rows)
    except Unreadable as error:  # met in the middle of things
        raise _Spoiled(job, error) from error
    except DigestifError as error:  # raised before anything was changed
        job.fail(error)
    except sqlite3.Error:
        raise
    except Exception as error:
        raise _Spoiled(job, error) from error
