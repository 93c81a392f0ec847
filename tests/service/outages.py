"""Stores that stop answering and come back: a SQLite file that another program locks, servers that are stopped."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import RedisServer

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""


class Outage(NamedTuple):
    """A store, and how it goes away and comes back."""

    store: str
    begin: Callable[[], object]
    end: Callable[[], object]


class LockedFile:
    """Another program that locks a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._program: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(self._path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._program.stdout is not None
        assert self._program.stdout.readline() == "locked\n"

    def end(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.communicate(timeout=60)


@contextmanager
def outage_of(kind: str, folder: Path) -> Iterator[Outage]:
    """An outage of a store that no other test uses."""
    if kind == "sqlite":
        locked = LockedFile(folder / "digestif.db")
        outage = Outage(f"sqlite:///{folder}/digestif.db", locked.begin, locked.end)
        try:
            yield outage
        finally:
            outage.end()
        return
    with PostgresServer(fsync=False) if kind == "postgres" else RedisServer() as server:
        outage = Outage(server.url, server.freeze, server.thaw)
        try:
            yield outage
        finally:
            outage.end()
