"""Connections for reading, each used by one thread at a time."""

import sqlite3
import threading
from collections.abc import Callable
from typing import TypeVar

from digestif.stores.gate import holding
from digestif.stores.sqlite.connection import Connection

T = TypeVar("T")


class _Reader:
    """A connection once it is needed, and the thread that uses it."""

    def __init__(self, thread: int) -> None:
        self.connection: Connection | None = None
        self.thread: int | None = thread
        self.is_stale = False  # its file is not the one at the path any more

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class Readers:
    """As many connections as threads have read at once."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._changing = threading.RLock()
        self._readers: list[_Reader] = []

    def through(self, call: Callable[[Connection], T]) -> T:
        """Run the call with a connection that no other thread uses meanwhile; one that failed is not used again."""
        reader = None
        try:
            reader = holding(self._changing, self._take)
            if reader.connection is None:
                reader.connection = self._connect()
            answer = call(reader.connection)
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
        holding(self._changing, lambda: self._give_back(reader))
        return answer

    def _take(self) -> _Reader:
        me = threading.get_ident()
        for reader in self._readers:
            if reader.thread in (None, me):  # this thread reads once at a time: an interrupted call has left it behind
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
        """Close every connection; those in use when their threads are done."""
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
