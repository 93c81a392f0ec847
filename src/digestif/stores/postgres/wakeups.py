"""Wake-ups through NOTIFY: the server sends them when a transaction that made a timeline ready commits."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg

from digestif.clock import monotonic
from digestif.errors import DigestifError
from digestif.stores.base import Wakeups

SLICE_SECONDS = 0.25  # between two checks whether the wait was closed
RETRY_SECONDS = 1.0  # between two tries to replace a lost connection


class NotifyWakeups(Wakeups):
    """Listens on a connection of its own."""

    def __init__(self, connect: Callable[[], "psycopg.Connection[Any]"]) -> None:
        super().__init__()
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = None
        self._waiting = threading.Lock()  # held by the thread that uses the connection
        self._is_open()

    def wait(self, timeout: float) -> bool:
        with self._waiting:
            hinted = self._wait(timeout)
            if self._closed.is_set():
                self._disconnect()
            return hinted

    def close(self) -> None:
        super().close()
        if self._waiting.acquire(blocking=False):  # otherwise the waiting thread notices, and disconnects
            try:
                self._disconnect()
            finally:
                self._waiting.release()

    def _wait(self, timeout: float) -> bool:
        end = monotonic() + timeout
        while not self._closed.is_set():
            left = end - monotonic()
            if left <= 0:
                return False
            was_lost = self._connection is None
            if not self._is_open():
                self._closed.wait(min(left, RETRY_SECONDS))
            elif was_lost or self._is_hinted(min(left, SLICE_SECONDS)):
                return not self._closed.is_set()  # a wake-up may have been missed while it was lost
        return False

    def _is_open(self) -> bool:
        try:
            if self._connection is None:
                self._connection = self._connect()
        except (psycopg.Error, DigestifError):  # calls of the store raise the reason
            return False
        return True

    def _is_hinted(self, seconds: float) -> bool:
        assert self._connection is not None
        try:
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error:
            self._disconnect()
            return False

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
