"""A SQLite file that is only read: nothing is made beside it, and nothing in it is changed."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from digestif.errors import StoreUnavailable
from digestif.stores.rows import Rows
from digestif.stores.sqlite.connections import Changed, Connection
from digestif.stores.sqlite.store import SQLiteStore

T = TypeVar("T")

_TRIES = 20  # to read a file that short-lived programs keep changing


class ReadOnlySQLiteStore(SQLiteStore):
    """Timelines in a SQLite file, for commands that look at them. Calls that write raise StoreUnavailable.

    If processes have the file open, SQLite reads their log and uses their index of it. Otherwise it reads the file
    alone, and what was read is discarded if the file has changed.
    """

    def _open_first(self) -> None:
        self._read(lambda _: None)

    def _connect_reader(self) -> Connection:
        return self._database.connect_without_traces()

    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1, share: float = 0.0) -> T:
        raise StoreUnavailable(f"{self._database.name}: is open for reading only")

    def _read(self, unit: Callable[[Rows], T], *, pending: bool = True) -> T:
        return self._read_beside_writers(unit)

    def _read_one_state(self, unit: Callable[[Rows], T]) -> T:
        for _ in range(_TRIES):
            with suppress(Changed):
                return super()._read_one_state(unit)
        raise StoreUnavailable(f"{self._database.name}: other programs keep changing it; try again")

    def _read_with(self, reader: Connection, unit: Callable[[Rows], T]) -> T:
        try:
            return self._read_known(reader, unit)
        except sqlite3.Error:
            self._database.refuse_changed(reader.still)
            raise

    def _read_known(self, reader: Connection, unit: Callable[[Rows], T]) -> T:
        """Read the namespace; one that was never written reads as that of an empty store."""
        self._database.refuse_changed(reader.still)
        if not self._database.number:
            self._database.find_namespace(reader)
        answer = super()._read_with(reader, unit) if self._database.number else self._read_nothing(unit)
        self._database.refuse_changed(reader.still)
        return answer

    def _read_nothing(self, unit: Callable[[Rows], T]) -> T:
        empty = SQLiteStore(None, namespace=self.namespace)
        try:
            return empty._read(unit)
        finally:
            empty.close()
