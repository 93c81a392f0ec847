"""The schema of a PostgreSQL store: how it is created, and upgraded from another release."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest
from psycopg import sql

from digestif import ConfigError, Digests, Policy, Record, StoreError, StoreUnavailable
from digestif.stores.base import Completion
from digestif.stores.postgres import PostgresStore, database, migrations, single_add
from digestif.stores.postgres.migrations import FOLDER, Upgrade
from digestif.testing.servers import becomes_true
from tests.stores.postgres.releases import (
    current_version,
    next_release,
    user_without_rights,
    written_by_a_newer_release,
)


def add(url: str, **options: Any) -> bool:
    with Digests(url, **options) as digests:
        return digests.add("t", 1)


def migrate(url: str, **options: Any) -> Upgrade:
    store = PostgresStore(url, **options)
    try:
        return store.migrate()
    finally:
        store.close()


def execute(url: str, statement: str | sql.Composed) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode() if isinstance(statement, str) else statement)
        return cursor.fetchall() if cursor.description else []


def versions(url: str) -> list[int]:
    return [number for (number,) in execute(url, "SELECT number FROM digestif.migration ORDER BY number")]


# Which version


def test_an_empty_schema_gets_its_tables_on_first_use(url: str) -> None:
    assert add(url)

    assert versions(url) == list(range(1, current_version() + 1))


def test_tables_of_an_older_release_are_refused_until_somebody_migrates(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(url)
    older = current_version()
    newer = next_release(tmp_path, monkeypatch)

    for _ in range(2):
        with pytest.raises(ConfigError) as refused:
            add(url)
    assert str(refused.value) == (
        f"store: the schema 'digestif' has version {older}, this release needs {newer}; run `digestif migrate STORE`"
    )
    assert max(versions(url)) == older

    assert migrate(url).numbers == (newer,)
    with Digests(url) as digests:
        assert digests.ledger().pending == 1
    assert max(versions(url)) == newer


def test_tables_of_a_newer_release_are_left_alone(url: str) -> None:
    add(url)
    written_by_a_newer_release(url)

    for attempt in (add, migrate):
        with pytest.raises(ConfigError, match=r"version \d+ or later, and this process has version \d+\. .* Upgrade"):
            attempt(url)


def test_several_migrations_are_applied_in_order(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(url)
    older = current_version()
    next_release(tmp_path, monkeypatch, "CREATE TABLE one (a int);", "ALTER TABLE one RENAME TO two;")

    assert migrate(url).numbers == (older + 1, older + 2)
    assert migrate(url).numbers == ()


def test_a_migration_that_fails_leaves_everything_as_it_was(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(url)
    older = versions(url)
    next_release(tmp_path, monkeypatch, "CREATE TABLE one (a int);", "SELECT 1 / 0;")

    with pytest.raises(StoreError, match="division by zero"):
        migrate(url)

    assert versions(url) == older
    assert execute(url, "SELECT to_regclass('digestif.one')") == [(None,)]


def test_of_many_who_migrate_at_once_one_does_it(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(url)
    newer = next_release(tmp_path, monkeypatch)
    together = Barrier(6)

    def migrate_with_others(_: int) -> tuple[int, ...]:
        together.wait(timeout=30)
        return migrate(url).numbers

    with ThreadPoolExecutor(6) as pool:
        applied = sorted(pool.map(migrate_with_others, range(6)))

    assert applied == [(), (), (), (), (), (newer,)]


def test_of_many_who_find_an_empty_schema_one_makes_the_tables(url: str) -> None:
    together = Barrier(6)

    def add_with_others(_: int) -> bool:
        together.wait(timeout=30)
        return add(url)

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(add_with_others, range(6))).count(True) == 1


# Who may write


BLOCKED = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.mark.parametrize("batch", [["t"], ["t", "u"]], ids=["single", "several"])
def test_a_release_that_stops_older_processes_waits_for_their_transactions(
    url: str, monkeypatch: pytest.MonkeyPatch, batch: list[str]
) -> None:
    """The number is not raised between the look at it and the commit."""
    is_waiting = threading.Event()
    committed = database.commit

    def commit(*given: Any) -> None:
        is_waiting.set()
        assert becomes_true(lambda: bool(execute(url, BLOCKED)))
        committed(*given)

    with Digests(url) as digests, ThreadPoolExecutor(1) as pool:
        digests.add("t", 1)
        for module in (database, single_add):
            monkeypatch.setattr(module, "commit", commit)
        adding = pool.submit(digests.add_many, [(timeline, 2) for timeline in batch])
        assert is_waiting.wait(10)
        written_by_a_newer_release(url)

        assert len(adding.result()) == len(batch)
        with pytest.raises(StoreError, match="Upgrade this process"):
            digests.add("t", 3)


def test_a_release_that_stops_older_processes_waits_for_a_transaction_of_the_caller(url: str) -> None:
    with Digests(url) as digests, ThreadPoolExecutor(1) as pool, psycopg.connect(url) as mine:
        digests.add("t", 1, connection=mine)
        raising = pool.submit(written_by_a_newer_release, url)
        assert becomes_true(lambda: bool(execute(url, BLOCKED)))
        mine.commit()
        raising.result()

        with pytest.raises(StoreError, match="Upgrade this process"):
            digests.add("t", 2, connection=mine)

    assert execute(url, "SELECT count(*) FROM digestif.inbox") == [(1,)]


# From an older release


def test_a_store_of_version_2_goes_on_after_the_migration_with_all_that_it_had(url: str) -> None:
    def seen(digests: Digests) -> list[Any]:
        views = list(digests.timelines())
        return [digests.ledger(), views, [[record.value for record in digests.peek(view.key)] for view in views]]

    with Digests(url, policy=Policy(minimum_delay=0)) as digests, Digests(url, namespace="other") as other:
        digests.add_many([("open", 1), ("ready", 2), ("ready", 3), ("waiting", 4)])
        lease = digests.store.open("open", token="t", lease=60_000, now=None)
        with digests.digest("waiting", 0):
            pass
        other.add("ready", "other's")
        before, others = seen(digests), seen(other)
    execute(url, TO_VERSION_2)

    assert migrate(url).numbers == tuple(range(3, current_version() + 1))

    with Digests(url, policy=Policy(minimum_delay=0)) as digests, Digests(url, namespace="other") as other:
        assert seen(digests) == before
        assert seen(other) == others
        assert digests.verify()
        digests.add("ready", 5)
        digests.add_many([("ready", 6), ("fresh", 7)])
        assert digests.store.complete([Completion(lease, 0)], now=None) == [True]
        with digests.digest("ready", 0) as digest:
            assert sorted(record.value for record in digest) == [2, 3, 5, 6]
        assert digests.delete("fresh")
        assert digests.verify()
        assert other.verify()


def test_what_is_just_being_added_is_there_after_the_migration(url: str) -> None:
    add(url)
    execute(url, TO_VERSION_2)

    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as older:
        older.execute("INSERT INTO digestif.timeline (namespace, key, slot) VALUES (1, 'late', '{}')")
        migrating = pool.submit(migrate, url)
        assert becomes_true(lambda: bool(execute(url, BLOCKED)))
        older.commit()
        migrating.result()

    names = execute(url, "SELECT key FROM digestif.timeline_name ORDER BY key")
    assert [bytes(name) for (name,) in names] == [b"late", b"t"]


TO_VERSION_2 = """
    SET search_path TO digestif;
    DROP TABLE timeline_name;
    DROP TABLE document;
    DROP TABLE removal;
    DROP TABLE writers_11;
    DROP INDEX history_latest, history_by_name;
    ALTER TABLE history DROP COLUMN ring;
    ALTER TABLE ledger DROP COLUMN declined, DROP COLUMN lost, DROP COLUMN digests;
    ALTER TABLE namespace DROP COLUMN moving;
    ALTER TABLE timeline DROP COLUMN version, ADD PRIMARY KEY (id), ADD UNIQUE (namespace, key);
    DELETE FROM migration WHERE number > 2
"""


# Made anew under a running process


def acts(digests: Digests) -> dict[str, Callable[[], object]]:
    return {
        "add": lambda: digests.add("t", "mine"),
        "add_many": lambda: digests.add_many([("t", "mine"), ("u", "mine")]),
        "ledger": digests.ledger,
        "claim": lambda: digests.store.claim(0, 1, token="c", lease=1000, now=None),
        "delete": lambda: digests.delete("t"),
    }


@pytest.mark.parametrize("act", ["add", "add_many", "ledger", "claim", "delete"])
def test_tables_that_were_made_anew_are_found_and_no_namespace_is_taken_for_another(url: str, act: str) -> None:
    with Digests(url, namespace="mine") as mine:
        for _ in range(8):  # until its statements are prepared
            mine.add("t", "before")
            mine.ledger()
        execute(url, "DROP SCHEMA digestif CASCADE")
        with Digests(url, namespace="other") as other:
            other.add("t", "other's")
            other.add("t", "other's")

            acts(mine)[act]()

            assert [record.value for record in other.peek("t")] == ["other's"] * 2
            assert other.timeline("t").state == "ready"
            assert other.verify()
        mine.add("t", "after")
        assert {record.value for record in mine.peek("t")} <= {"mine", "after"}
        assert mine.verify()


def test_tables_that_were_dropped_are_made_again_by_the_call_after_the_one_that_failed(url: str) -> None:
    with Digests(url) as digests:
        digests.add("t", "before")
        execute(url, "DROP SCHEMA digestif CASCADE")

        with pytest.raises(StoreError, match="does not exist"):
            digests.add("t", "lost")
        digests.add("t", "after")

        assert [record.value for record in digests.peek("t")] == ["after"]
        assert digests.verify()


# By hand


def test_the_script_leaves_what_migrating_leaves(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def apply_by_hand() -> None:
        store = PostgresStore(url, schema="by_hand")
        execute(url, store.migrate(dry_run=True).script)
        assert store.migrate(dry_run=True).script == ""
        store.close()

    apply_by_hand()
    migrate(url, schema="by_us")
    assert shape_of(url, "by_hand") == shape_of(url, "by_us")

    next_release(tmp_path, monkeypatch)
    apply_by_hand()
    migrate(url, schema="by_us")
    assert shape_of(url, "by_hand") == shape_of(url, "by_us")

    assert add(f"{url}?schema=by_hand")


def test_each_migration_ends_where_the_next_statement_of_a_script_may_begin() -> None:
    files = [file for file in FOLDER.iterdir() if file.name.endswith(".sql")]

    assert [file.name for file in files if not file.read_text("utf-8").endswith(";\n")] == []


def shape_of(url: str, schema: str) -> list[tuple[Any, ...]]:
    columns = f"""
        SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
        WHERE table_schema = '{schema}' ORDER BY 1, ordinal_position"""
    indexes = f"SELECT replace(indexdef, '{schema}.', '') FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY 1"
    return [*execute(url, columns), *execute(url, indexes), *execute(url, f"SELECT number FROM {schema}.migration")]


# Rights


@pytest.mark.parametrize("before", ["SELECT 1", "CREATE SCHEMA digestif"], ids=["no schema", "another's schema"])
def test_a_user_who_may_not_make_tables_hears_what_to_grant(url: str, before: str) -> None:
    execute(url, before)
    with user_without_rights(url) as theirs:
        with pytest.raises(StoreUnavailable, match="`digestif migrate --sql STORE`") as refused:
            add(theirs)
        [grant] = re.findall(r"GRANT [^,;]+, .*?(?=, or)|GRANT [^,]+(?=, or)", str(refused.value))

        execute(url, grant)

        assert add(theirs)


def test_a_user_needs_no_right_on_the_database_if_the_schema_is_theirs(url: str) -> None:
    with user_without_rights(url) as theirs:
        execute(url, sql.SQL("CREATE SCHEMA digestif AUTHORIZATION {}").format(sql.Identifier(user_of(theirs))))

        assert add(theirs)


def test_tables_of_an_administrator_serve_a_user_who_was_granted_what_the_refusal_names(url: str) -> None:
    migrate(url)
    with user_without_rights(url) as theirs:
        with pytest.raises(StoreUnavailable, match="the tables are another user's") as refused:
            add(theirs)
        rights = re.findall(r"(?:needs |, |and )((?:USAGE|SELECT)[A-Z, ]* \"digestif\")", str(refused.value))
        assert len(rights) == 3
        for right in rights:
            execute(url, sql.SQL(f"GRANT {right} TO {{}}").format(sql.Identifier(user_of(theirs))))

        assert add(theirs)
        with Digests(theirs) as digests:
            with digests.digest("t", 0) as digest:
                assert [record.value for record in digest] == [1]
            assert digests.delete("t")
            assert digests.verify()


def test_a_user_who_may_only_use_the_tables_may_not_migrate_them(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(url)
    next_release(tmp_path, monkeypatch)
    with user_without_rights(url) as theirs:
        user = sql.Identifier(user_of(theirs))
        execute(url, sql.SQL("GRANT USAGE, CREATE ON SCHEMA digestif TO {}").format(user))
        execute(url, sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA digestif TO {}").format(user))

        with pytest.raises(StoreUnavailable, match=r"must be owner of .*; the tables are another user's"):
            migrate(theirs)


TO_VERSION_9 = """
    SET search_path TO digestif;
    DROP TABLE writers_11;
    DROP INDEX history_latest, history_by_name;
    ALTER TABLE history DROP COLUMN ring;
    ALTER TABLE removal DROP COLUMN ring;
    ALTER TABLE document DROP COLUMN ring;
    CREATE INDEX history_number ON history (namespace, number);
    CREATE INDEX history_timeline ON history (namespace, timeline, number);
    CREATE INDEX removal_number ON removal (namespace, number);
    DELETE FROM migration WHERE number > 9
"""
READING = ["USAGE ON SCHEMA digestif", "SELECT ON ALL TABLES IN SCHEMA digestif"]
USING = [
    "USAGE ON SCHEMA digestif",
    "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA digestif",
    "USAGE, SELECT ON ALL SEQUENCES IN SCHEMA digestif",
]
ADDING_INSIDE = ["USAGE ON SCHEMA digestif", "INSERT ON digestif.inbox"]


def read(_: str, theirs: str) -> None:
    with Digests(theirs) as digests:
        digests.ledger()


def add_inside(url: str, theirs: str) -> None:
    """Add inside a transaction of theirs, with an engine that has the rights of the owner."""
    with Digests(url) as digests, psycopg.connect(theirs) as caller:
        digests.add("t", 2, connection=caller)


@pytest.mark.parametrize(
    ("rights", "act"),
    [
        (READING, read),
        (USING, lambda _, theirs: add(theirs)),
        (ADDING_INSIDE, add_inside),
    ],
    ids=["reading", "using", "adding inside"],
)
@pytest.mark.parametrize("is_raised", [False, True], ids=["migrated", "and fenced"])
def test_rights_from_before_the_table_of_the_writers_are_enough_after_it_is_made(
    url: str,
    rights: list[str],
    act: Callable[[str, str], object],
    is_raised: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add(url)
    execute(url, TO_VERSION_9)
    with user_without_rights(url) as theirs:
        for right in rights:
            execute(url, sql.SQL(f"GRANT {right} TO {{}}").format(sql.Identifier(user_of(theirs))))

        migrate(url)
        if is_raised:
            monkeypatch.setattr(migrations, "OLDEST", next_release(tmp_path, monkeypatch))
            migrate(url)

        act(url, theirs)


def user_of(url: str) -> str:
    return psycopg.conninfo.conninfo_to_dict(url)["user"]  # type: ignore[return-value]


# Neighbours


@pytest.mark.parametrize("table", ["record", "migration"])
def test_tables_of_others_in_the_schema_are_left_alone(url: str, table: str) -> None:
    execute(url, f"CREATE TABLE public.{table} (mine text)")

    with pytest.raises(ConfigError, match=r"the schema 'public' has tables that are not digestif's.*\?schema=…"):
        add(f"{url}?schema=public")

    assert execute(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [(table,)]


@pytest.mark.parametrize(
    "table",
    [
        "migration (number text)",
        "migration (number int)",
        "migration (id int)",
        "timeline (a int)",
        "record (number int)",
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_tables_of_others_are_told_as_such_before_anything_is_done(url: str, table: str, dry_run: bool) -> None:
    execute(url, f"CREATE SCHEMA digestif; CREATE TABLE digestif.{table}")
    if "(number int)" in table:
        execute(url, f"INSERT INTO digestif.{table.partition(' ')[0]} VALUES (2)")

    with pytest.raises(ConfigError, match="has tables that are not digestif's"):
        migrate(url) if not dry_run else examine(url)
    with pytest.raises(ConfigError, match="has tables that are not digestif's"):
        add(url)


def examine(url: str) -> Upgrade:
    store = PostgresStore(url)
    try:
        return store.migrate(dry_run=True)
    finally:
        store.close()


def test_tables_of_others_that_are_not_in_the_way_do_not_matter(url: str) -> None:
    execute(url, "CREATE TABLE public.orders (mine text)")

    assert add(f"{url}?schema=public")


# Sequences


def test_sequences_that_lag_behind_their_tables_are_refused_until_somebody_migrates(url: str) -> None:
    """As after logical replication, which copies no sequences: numbers given twice would mix timelines up."""
    for number in range(3):
        with Digests(url) as digests:
            digests.add_many([(f"old {timeline}", Record(str(number), "old", 0.0)) for timeline in range(3)])
    for (name,) in execute(url, "SELECT sequencename FROM pg_sequences WHERE schemaname = 'digestif'"):
        execute(url, f'ALTER SEQUENCE digestif."{name}" RESTART WITH 1')

    with pytest.raises(ConfigError, match=r"are behind its tables.*run `digestif migrate STORE`"):
        add(url)
    migrate(url)

    with Digests(url) as digests:
        digests.add_many([(f"new {timeline}", Record(str(timeline), "new", 0.0)) for timeline in range(3)])
        for timeline in digests.timelines():
            assert {record.value for record in digests.peek(timeline.key)} == {timeline.key[:3]}
        assert digests.verify()
