"""Builds of this package whose schemas have other numbers, processes that run them, and the content of stores."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

import digestif
from digestif.stores.postgres import migrations
from digestif.stores.redis.layout import SCHEMA as REDIS
from digestif.stores.sqlite.connections import SCHEMA as SQLITE
from digestif.testing.servers import ClusterServers, RedisServer
from tests.servers import empty_cluster, empty_server
from tests.stores.postgres.servers import empty_database

PACKAGE = Path(digestif.__file__).parent
PROGRAM = Path(__file__).with_name("process.py")
POSTGRES = max(migrations._numbers())
COLUMN = "ALTER TABLE record ADD COLUMN colour {};\n"  # which an older process neither reads nor writes


def build(folder: Path, *, newer_by: int, oldest_by: int = 0) -> Path:
    """Copy the package, with versions raised by one number and the oldest that may still write by another."""
    shutil.copytree(PACKAGE, folder / "digestif", ignore=shutil.ignore_patterns("__pycache__"))
    stores = folder / "digestif" / "stores"
    for path, schema in {"sqlite/connections.py": SQLITE, "redis/layout.py": REDIS}.items():
        raised = f"Schema(version={schema.version + newer_by}, oldest={schema.oldest + oldest_by})"
        _replace(stores / path, f"Schema(version={schema.version}, oldest={schema.oldest})", raised)
    lua = stores / "redis/lua/include/layout.lua"
    _replace(lua, f"VERSION = {REDIS.version} ", f"VERSION = {REDIS.version + newer_by} ")
    oldest = migrations.OLDEST
    _replace(stores / "postgres/migrations/__init__.py", f"\nOLDEST = {oldest} ", f"\nOLDEST = {oldest + oldest_by} ")
    for step in range(1, newer_by + 1):
        column = COLUMN.format("text").replace("colour", f"colour_{step}")
        (stores / "postgres/migrations" / f"{POSTGRES + step:04}.sql").write_text(column)
        (stores / "sqlite/migrations" / f"{SQLITE.version + step:04}.sql").write_text(column.replace("text", "TEXT"))
    return folder


class Fault(NamedTuple):
    """A change of one text in one file of `stores`, by which a process that is too old would go on."""

    says: str
    file: str
    old: str
    new: str
    places: tuple[str, ...]  # the stores where it has to be found
    act: str = "add_one"  # the action that finds it

    def plant(self, folder: Path) -> Path:
        """Copy the package, with this fault."""
        shutil.copytree(PACKAGE, folder / "digestif", ignore=shutil.ignore_patterns("__pycache__"))
        _replace(folder / "digestif" / "stores" / self.file, self.old, self.new)
        return folder


FAULTS = [
    Fault(
        says="no transaction of SQLite looks at the oldest version that may write",
        file="sqlite/connections.py",
        old="        if oldest > SCHEMA.version:\n",
        new="        if oldest < 0:\n",
        places=("sqlite",),
    ),
    Fault(
        says="a transaction of PostgreSQL locks no table that says who may write",
        file="postgres/database.py",
        old='    return f"; {_ADMISSION.format(namespace.writers)}"\n',
        new='    return ""\n',
        places=("postgres",),
        act="add_two",
    ),
    Fault(
        says="a single add to PostgreSQL does not name the table that says who may write",
        file="postgres/statements.sql",
        old="    EXISTS (SELECT FROM {schema}.{writers}),\n",
        new="    true,\n",
        places=("postgres",),
    ),
    Fault(
        says="an add inside the caller's transaction does not name the table that says who may write",
        file="postgres/statements.sql",
        old="WHERE (SELECT count(*) FROM {schema}.{writers}) >= 0\n",
        new="",
        places=("postgres",),
        act="add_inside",
    ),
    Fault(
        says="a script goes on however far the oldest version that may write was raised",
        file="redis/lua/include/layout.lua",
        old="    if raised_to > VERSION or raised_to < tonumber(known_oldest) then\n",
        new="    if raised_to < tonumber(known_oldest) then\n",
        places=("valkey", "cluster"),
    ),
]


def _replace(path: Path, before: str, after: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(before) == 1, (path, before)
    path.write_text(text.replace(before, after), "utf-8")


class Refusal(Exception):
    """What a process said instead of an answer."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class Process:
    """A process with a build of its own. Methods are those of `process.py`."""

    def __init__(self, dsn: str, package: Path = PACKAGE.parent) -> None:
        environment = {**os.environ, "PYTHONPATH": str(package)}
        command = [sys.executable, str(PROGRAM), dsn]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline().strip() == str(package / "digestif" / "__init__.py")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments: self._ask(name, *arguments)

    def _ask(self, *request: Any) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        answer = json.loads(self._child.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise Refusal(answer["error"], answer["text"])
        return answer

    def end(self) -> None:
        self._child.kill()
        self._child.communicate()


class Place(NamedTuple):
    """A store: its DSN, all that is in it, and whether a release waits for `digestif migrate`."""

    kind: str
    dsn: str
    content: Callable[[], Any]
    version: int
    waits: bool = False


@contextmanager
def sqlite(scratch: Path) -> Iterator[Place]:
    path = scratch / "digests.sqlite3"

    def content() -> Any:
        with closing(sqlite3.connect(path)) as connection:
            return [*connection.iterdump(), connection.execute("PRAGMA user_version").fetchone()]

    yield Place("sqlite", f"sqlite:///{path}", content, SQLITE.version)


@contextmanager
def postgres(scratch: Path) -> Iterator[Place]:
    with empty_database() as url:

        def content() -> Any:
            with psycopg.connect(url) as connection:
                tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'digestif'").fetchall()
                rows = sql.SQL("SELECT t::text FROM digestif.{} AS t ORDER BY 1")
                return {name: connection.execute(rows.format(sql.Identifier(name))).fetchall() for (name,) in tables}

        yield Place("postgres", url, content, POSTGRES, waits=True)


@contextmanager
def valkey(scratch: Path) -> Iterator[Place]:
    server = empty_server()
    yield Place("redis", server.url, lambda: _keys([server]), REDIS.version)


@contextmanager
def cluster(scratch: Path) -> Iterator[Place]:
    servers: ClusterServers = empty_cluster()
    yield Place("redis", servers.url, lambda: _keys(servers.primaries()), REDIS.version)


def _keys(servers: list[RedisServer]) -> dict[bytes, bytes]:
    found = {}
    for server in servers:
        with server.client() as client:
            found.update({key: client.dump(key) for key in client.keys("*")})
    return found


PLACES: tuple[Callable[[Path], AbstractContextManager[Place]], ...] = (sqlite, postgres, valkey, cluster)
