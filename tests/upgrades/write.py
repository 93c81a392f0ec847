"""Write a store of each kind as this release leaves it: `python -m tests.upgrades.write tests/upgrades 0.1.0`.

Makes a folder with the release's name, and in it

    digests.sqlite3   a SQLite file
    dump.sql          a PostgreSQL schema, as statements
    appendonly.aof    a log of plain commands that Redis 7 and Valkey load
    expected.json     what is seen in each of them
"""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from digestif import Digests
from digestif.stores.redis.documents import DOCUMENT_KINDS
from digestif.stores.redis.keys import LETTER_KINDS, PARTITION_KINDS, TIMELINE_KINDS
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import RedisServer, becomes_true
from tests.upgrades.population import (
    EVERYTHING,
    INBOX,
    KEPT,
    MAIL,
    ORDER,
    PARTITIONS,
    STOPS,
    begin_move,
    fill,
    kept_in,
    seen_in,
    serve,
    spend,
)

Writer = Callable[[Path], AbstractContextManager[str]]  # a place to fill, which then becomes a file

# Redis 7 loads no RDB of a newer Valkey, and knows no newer commands.
PLAIN = {b"SELECT", b"HMSET", b"ZADD"}
KINDS = {*PARTITION_KINDS, *TIMELINE_KINDS, *LETTER_KINDS, *DOCUMENT_KINDS, "meta", "notes"} - {
    "wake"
}  # that is a channel, not a key


def write(folder: Path) -> None:
    """Write all stores, and what is seen in them: in each, and in each namespace with everything, the same."""
    folder.mkdir(parents=True)
    expected, *others = [seen for store in WRITERS for seen in _written(store, folder)]
    assert all(seen == expected for seen in others)
    text = json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "expected.json").write_text(f"{text}\n", "utf-8")


def _written(store: Writer, folder: Path) -> list[dict[str, Any]]:
    with store(folder) as dsn:
        for namespace in EVERYTHING:
            partitions = f"?partitions={PARTITIONS.get(namespace, 1)}" if dsn.startswith("redis") else ""
            with Digests(f"{dsn}{partitions}", namespace=namespace) as digests:
                fill(digests)
        with Digests(dsn, namespace=MAIL) as digests:
            spend(digests)
        for stop in STOPS:
            with Digests(dsn, namespace=f"from-{stop}") as source, Digests(dsn, namespace=f"to-{stop}") as target:
                begin_move(source, target, stop=stop)
        with Digests(dsn, namespace=KEPT) as digests:
            serve(digests)
        return [{**seen_in(dsn, namespace), "kept": kept_in(dsn)} for namespace in EVERYTHING]


# SQLite


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    path = folder / "digests.sqlite3"
    yield f"sqlite:///{path}"
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        empty = [table for table in tables if not connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()]
        connection.execute("VACUUM")  # without the room that is kept for a full disk
    assert not empty, empty
    for other in folder.glob("digests.sqlite3-*"):  # the lock; the log went with the last connection
        other.unlink()


# PostgreSQL


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    with PostgresServer(fsync=False) as server:
        url = server.new_database("old")
        yield url
        _put_into_inbox(url)
        with psycopg.connect(url) as connection:
            tables = connection.execute("SELECT relname FROM pg_stat_user_tables").fetchall()
            counts = {name: connection.execute(f"SELECT FROM digestif.{name}".encode()).rowcount for (name,) in tables}
        empty = {name for name, rows in counts.items() if not rows and not name.startswith("writers_")}
        assert not empty, empty
        options = ["--inserts", "--no-owner", "--no-privileges", "--schema=digestif"]
        command = [str(server.binaries / "pg_dump"), *options, url]
        dump = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    (folder / "dump.sql").write_text(_statements(dump), "utf-8")


def _put_into_inbox(url: str) -> None:
    """The last act: the next call would fold it in."""
    with psycopg.connect(url) as connection, Digests(url, namespace=INBOX) as digests:
        digests.add("calm", ORDER, first_delay=60, connection=connection)
        digests.add("urgent", ORDER, first_delay=60, within=30, connection=connection)


def _statements(dump: str) -> str:
    """Without what only psql knows, and settings that only this version of the server has."""
    lines = [line for line in dump.splitlines() if not re.match(r"SET |SELECT pg_catalog.set_config|\\|--|$", line)]
    return "\n".join([*lines, ""])


# Redis and Valkey


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    with RedisServer(appendonly=True, aof_use_rdb_preamble=False) as server:
        yield server.url
        kinds = {key.partition("}:")[2].partition(":")[0] for key in server.cli("KEYS", "*")}
        assert kinds == KINDS, kinds ^ KINDS
        server.cli("BGREWRITEAOF")
        assert becomes_true(lambda: server.cli("INFO", "persistence")["aof_rewrite_in_progress"] == 0)
        [log] = server.directory.glob("appendonlydir/*.base.aof")
        shutil.copy(log, folder / "appendonly.aof")
    commands = set(re.findall(rb"\*\d+\r\n\$\d+\r\n([A-Za-z]+)\r\n", (folder / "appendonly.aof").read_bytes()))
    assert commands == PLAIN, commands


WRITERS: tuple[Writer, ...] = (_sqlite, _postgres, _redis)

if __name__ == "__main__":
    write(Path(sys.argv[1]) / sys.argv[2])
