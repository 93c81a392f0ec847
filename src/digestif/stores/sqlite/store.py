"""The SQLite store: one writer per process with group commit, readers beside it, processes taking turns by `flock`."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from digestif.clock import wall_clock
from digestif.core.policy import check_delay
from digestif.core.texts import shortened
from digestif.core.times import is_duration
from digestif.errors import ConfigError, StoreError
from digestif.stores.base import Durability, Wakeups
from digestif.stores.calls import Calls
from digestif.stores.fork import watch
from digestif.stores.registry import check_namespace
from digestif.stores.rows import Rows, RowStore
from digestif.stores.sqlite.connections import Connection, Database, Readers, translated
from digestif.stores.sqlite.rows import SqliteRows
from digestif.stores.sqlite.wakeups import FileWakeups
from digestif.stores.sqlite.writer import Writer

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
        reserve: float = 16,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        check_namespace(namespace)
        if synchronous not in _DURABILITY:
            raise ConfigError(f'synchronous: {synchronous!r} is neither "full" nor "normal"')
        check_delay("timeout", timeout)
        if not is_duration(reserve):
            raise ConfigError(f"reserve: {shortened(reserve)} is not a number of mebibytes ≥ 0")
        if path is not None and "\0" in os.fspath(path):
            raise ConfigError("store: the path has a NUL character")
        file = None if path is None else Path(path).resolve()  # side files lie beside the file, not beside a link to it
        self.namespace = namespace
        self.clock = clock
        self.durability = Durability.NOTHING if file is None else _DURABILITY[synchronous]
        self._database = Database(file, namespace, synchronous=synchronous, timeout=timeout)
        self._calls = Calls(self._database.name)
        self._readers = Readers(self._connect_reader)
        self._writer = Writer(
            self._database, self._readers, timeout=timeout, reserve=reserve, note_damage=self.damages.note
        )
        self._open_first()
        watch(self)

    def _open_first(self) -> None:
        try:
            self._writer.open()
        except (sqlite3.Error, OSError) as error:
            raise translated(error, self._database.name) from error

    def _connect_reader(self) -> Connection:
        return self._database.connect_reader()

    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1, share: float = 0.0) -> T:
        try:
            return self._calls.run(self._writer.write, unit, weight, share)
        finally:
            self.damages.report_noted()

    def _read(self, unit: Callable[[Rows], T], *, pending: bool = True) -> T:
        if self._database.path is None:
            return self._write(unit)  # a database in memory has one connection, for one thread at a time
        if self._writer.connection is None:  # after a fork: a reader would open the file with a log without a reserve
            with suppress(StoreError):
                self._write(lambda _: None)
        return self._read_beside_writers(unit)

    def _read_beside_writers(self, unit: Callable[[Rows], T]) -> T:
        try:
            return self._calls.run(self._read_one_state, unit)
        except (sqlite3.Error, OSError) as error:
            raise translated(error, self._database.name) from error
        finally:
            self.damages.report_noted()

    def _read_one_state(self, unit: Callable[[Rows], T]) -> T:
        return self._readers.through(self._read_with, unit)

    def _read_with(self, reader: Connection, unit: Callable[[Rows], T]) -> T:
        with reader:
            try:
                reader.begin("BEGIN")
                return unit(SqliteRows(reader, self._database.number, self.damages.note))
            finally:
                reader.close_results()

    def listen(self) -> Wakeups:
        path = self._database.path
        return super().listen() if path is None else self._hints.listen(FileWakeups(path))

    def products(self) -> Mapping[str, str]:
        return {"SQLite": sqlite3.sqlite_version}

    # Closing and forks

    def close(self) -> None:
        """Wait for calls that are under way, and close everything. Later calls are refused."""
        self._calls.close(self._disconnect)

    def _disconnect(self) -> None:
        self._readers.close()
        self._writer.close()

    def before_fork(self) -> None:
        """Close the file: SQLite's record of its locks would be copied into the child, and be wrong there."""
        if self._calls.pause() and self._database.path is not None:
            self._disconnect()

    def after_fork(self, *, in_child: bool) -> None:
        """Let calls in again; they reconnect when needed. In the child, other threads and their locks are gone."""
        if in_child:
            self._calls.forget_threads()
            self._readers.forget_threads()
            self._writer.forget_threads()
        else:
            self._calls.resume()
