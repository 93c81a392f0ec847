"""What is stored is pinned with the numbers of the schemas: a field that is added, removed or changed needs a decision.

A process of an older version rewrites slots, digests, overrides, dead letters and removals whole, without the fields
that it does not know. If one of these tests fails, read "A stored field" in CONTRIBUTING.md, raise the numbers that
have to be raised in each store, and only then change what is pinned here.
"""

import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from digestif import Digests, Policy
from digestif.core.machine import Push, Slot, Unfinished
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.removals import Removals
from digestif.core.terms import Openings, Override, Terms
from digestif.stores.postgres import PostgresStore, migrations
from digestif.stores.redis import encoding, layout
from digestif.stores.redis.client.scripts import load_include
from digestif.stores.schema import Schema
from digestif.stores.sqlite import connections
from tests.servers import empty_server
from tests.stores.postgres.servers import empty_database

PINNED = {
    Slot: """
        state at since last iteration paused pending dropped batch first deadline expires rule was placed token until
        group alone:bool digest parked by_delays passes override push heavy
    """,
    Unfinished: """
        id batch records opened dropped revision attempt lapses lapses_alone largest fresh frozen unknown tried deciding
        settled weighed heavy merging replayed served left_out
    """,
    Push: "by maximum silence",
    Override: "text since terms cool_downs cadence zone off",
    Terms: "first_delay increment maximum quiet max_records capacity ttl openings given",
    Openings: "numbers hours urgent",
    Removals: "retracted expired first_expired last_expired",
    DeadLetter: """
        id timeline revision attempts lapses reason records dropped opened buried served traceback unknown
    """,
    HistoryEntry: """
        id timeline outcome revision attempts records dropped opened ended reason keys receipt left_out
    """,
    encoding.StoredLetter: """
        id timeline revision attempts lapses reason records dropped opened buried number served traceback unknown
    """,
    encoding.StoredEntry: """
        number id timeline outcome revision attempts records dropped opened ended reason keys receipt left_out
    """,
}
# Tables whose rows older processes write; the types are the store's own.
COLUMNS = {
    "timeline": "id namespace key waiting ready since until paused_until expires slot",
    "record": "arrival batch namespace key timestamp deadline expires payload",
    "letter": "number namespace id timeline batch body",
    "history": "namespace place number timeline body ring",
    "removal": "number namespace timeline body ring",
    "document": "number namespace collection key timeline at expires body ring",
}
POSTGRES_ALONE = {"timeline": {"version"}}


def test_the_fields_that_are_stored_are_those_of_these_numbers() -> None:
    numbers = {
        "SQLite": connections.SCHEMA,
        "PostgreSQL": Schema(migrations.latest(), migrations.OLDEST),
        "Redis": layout.SCHEMA,
    }

    assert numbers == {"SQLite": Schema(10, 10), "PostgreSQL": Schema(11, 11), "Redis": Schema(4, 4)}
    assert {kind.__name__: _names(kind) for kind in PINNED} == {
        kind.__name__: [name.partition(":")[0] for name in text.split()] for kind, text in PINNED.items()
    }


def test_a_field_whose_type_is_pinned_has_that_type() -> None:
    """Another type is another meaning: an older process would take it for damage, or misread it."""
    for kind, text in PINNED.items():
        for name, _, wanted in (each.partition(":") for each in text.split() if ":" in each):
            assert kind.__annotations__[name].__name__ == wanted, name


def test_scripts_know_the_version_of_the_schema() -> None:
    assert f"local VERSION = {layout.SCHEMA.version} -- " in load_include("layout.lua")


def test_the_columns_of_sqlite_are_those_of_these_numbers(tmp_path: Path) -> None:
    with sqlite3.connect(":memory:") as database:
        for number in range(1, connections.SCHEMA.version + 1):
            database.executescript(connections._migration(number))
        found = {table: _columns(database.execute(f"PRAGMA table_info({table})"), 1) for table in COLUMNS}
    database.close()

    assert found == {table: set(names.split()) for table, names in COLUMNS.items()}


@pytest.mark.long
def test_the_columns_of_postgresql_are_those_of_these_numbers() -> None:
    query = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'digestif' AND table_name = %s"
    with empty_database() as url:
        store = PostgresStore(url)
        store.migrate()
        store.close()
        with psycopg.connect(url) as connection:
            found = {table: _columns(connection.execute(query, (table,)), 0) for table in COLUMNS}

    assert found == {table: set(names.split()) | POSTGRES_ALONE.get(table, set()) for table, names in COLUMNS.items()}


def test_scripts_carry_a_field_of_a_slot_that_they_do_not_know() -> None:
    """From the first record to the end of a delivery; what an import or a repair writes does not have it."""
    server = empty_server()
    with Digests(server.url, policy=Policy(minimum_delay=0)) as digests, server.client() as client:
        digests.add("t", 1)
        stored = client.hget("{d:0}:t:t", "")
        slot = msgspec.msgpack.decode(stored[encoding.head_size(stored) :])
        client.hset("{d:0}:t:t", "", stored[: encoding.head_size(stored)] + msgspec.msgpack.encode({**slot, "hue": 7}))

        digests.add("t", 2)
        with pytest.raises(KeyError), digests.digest("t"):
            raise KeyError
        with digests.digest("t"):
            digests.add("t", 3)
        after = client.hget("{d:0}:t:t", "")

    assert msgspec.msgpack.decode(after[encoding.head_size(after) :])["hue"] == 7


def _names(kind: Any) -> list[str]:
    if issubclass(kind, msgspec.Struct):
        return [field.name for field in msgspec.structs.fields(kind)]
    return [field.name for field in fields(kind)]


def _columns(rows: Any, place: int) -> set[str]:
    return {row[place] for row in rows}
