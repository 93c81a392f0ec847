"""Stores with many timelines and dead letters, and counters of what a server reads for one request."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from digestif import Digests, Policy
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import RedisServer

PAGE = 1_000
POLICY = Policy(first_delay=86_400, attempts=1)  # nothing becomes due meanwhile
READS_NOTHING = frozenset({"info", "select", "hello", "ping", "time", "eval", "evalsha", "fcall", "script", "client"})

Reads = Callable[[], int]  # rows, keys or steps since the start


def fill(dsn: str, *, timelines: int, letters: int) -> None:
    """Put in so many timelines that wait, and dead letters of other timelines."""
    logging.getLogger("digestif").setLevel(logging.CRITICAL)
    with Digests(dsn, policy=POLICY) as digests:
        names = iter([f"dead:{number:06}" for number in range(letters)])
        while page := list(islice(names, PAGE)):
            digests.add_many([(name, {"n": 1}) for name in page], first_delay=0)
            for name in page:
                bury(digests, name)
        waiting = iter(range(timelines))
        while numbers := list(islice(waiting, PAGE)):
            digests.add_many([(f"mail:{number:07}", {"n": number}) for number in numbers])


def bury(digests: Digests, timeline: str) -> None:
    try:
        with digests.digest(timeline):
            raise RuntimeError("no such mailbox")
    except RuntimeError:
        pass


# What is read: rows on PostgreSQL, commands on Redis, steps of the virtual machine on SQLite


class SqliteFiles:
    """The steps of the virtual machine are counted: some for each row that is read, and some for each statement."""

    counts_rows = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps = 0

    def dsn(self, name: str) -> str:
        return f"sqlite:///{self._folder}/{name}.db"

    def close(self) -> None:
        pass

    def _step(self) -> int:
        self._steps += 1
        return 0

    @contextmanager
    def counting(self, name: str) -> Iterator[Reads]:
        """Connections that are made meanwhile count."""
        connect = sqlite3.connect

        def counted(*args: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **options)
            connection.set_progress_handler(self._step, 1)
            return connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite3, "connect", counted)
            yield lambda: self._steps


class RedisServers:
    """Commands are counted, also those inside of scripts."""

    counts_rows = True

    def __init__(self, _: Path) -> None:
        self._servers: dict[str, RedisServer] = {}

    def dsn(self, name: str) -> str:
        self._servers[name] = RedisServer().start()
        return self._servers[name].url

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    @contextmanager
    def counting(self, name: str) -> Iterator[Reads]:
        client = self._servers[name].client()

        def calls() -> int:
            stats = client.info("commandstats").items()
            counts = {name.removeprefix("cmdstat_").partition("|")[0]: each["calls"] for name, each in stats}
            return sum(count for command, count in counts.items() if command not in READS_NOTHING)

        yield calls
        client.close()


class PostgresDatabases:
    """Entries that are read from indexes are counted, and rows of tables that are read without one."""

    counts_rows = True

    def __init__(self, _: Path) -> None:
        self._server = PostgresServer(fsync=False).start()

    def dsn(self, name: str) -> str:
        return self._server.new_database(name)

    def close(self) -> None:
        self._server.close()

    @contextmanager
    def counting(self, name: str) -> Iterator[Reads]:
        self._server.sql("VACUUM ANALYZE", database=name)

        def rows() -> int:
            sleep(1.5)  # an idle connection reports what it read after a second
            return int(self._server.sql(READ_ROWS, database=name)[0][0])

        yield rows


READ_ROWS = """SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables)
    + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes)"""

STORES: dict[str, Callable[[Path], Any]] = {"sqlite": SqliteFiles, "redis": RedisServers, "postgres": PostgresDatabases}


def seconds(call: Callable[[], object]) -> float:
    began = monotonic()
    call()
    return monotonic() - began
