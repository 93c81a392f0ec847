"""Adds inside the caller's transaction: a record exists if and only if the caller commits, and no call waits for it."""

import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from digestif import ConfigError, Digests, Record, Worker
from tests.worker.workers import working

ROOT = Path(__file__).parents[3]


def test_a_record_is_there_when_the_caller_has_committed(digests: Digests, url: str) -> None:
    with psycopg.connect(url) as connection:
        assert digests.add("t", 1, connection=connection) is False
        assert digests.ledger().accepted == 0
        connection.commit()

    assert [record.value for record in digests.peek("t")] == [1]
    assert (digests.timeline("t").state, digests.ledger().accepted) == ("ready", 1)
    assert digests.verify()


def test_of_a_rollback_no_trace_is_left(digests: Digests, url: str) -> None:
    with psycopg.connect(url) as connection:
        digests.add("t", 1, connection=connection)
        connection.rollback()

    assert digests.timeline("t").state == "idle"
    assert digests.ledger().accepted == 0
    assert set(digests.store.footprint().values()) == {0}


@pytest.mark.parametrize("many", [False, True])
def test_a_later_version_that_is_added_directly_comes_after_one_that_was_committed(
    digests: Digests, url: str, many: bool
) -> None:
    with psycopg.connect(url) as connection:
        digests.add("t", "first", key="k", connection=connection)
        connection.commit()
        if many:
            digests.add_many([("t", Record("k", "second", 0.0)), ("other", 1)])
        else:
            digests.add("t", "second", key="k")

    assert [record.value for record in digests.peek("t")] == ["second"]


def test_deadline_and_expiry_count_from_the_add(digests: Digests, url: str) -> None:
    """However late it is folded in."""
    with psycopg.connect(url) as connection:
        digests.add("t", 1, within=100, connection=connection)
        connection.execute("UPDATE digestif.inbox SET added = added - 60_000".replace("_", ""))
        connection.commit()
        [before] = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone() or (0,)

    slot = digests.store.inspect("t")

    assert slot.deadline is not None
    assert slot.expires is not None
    assert slot.deadline / 1000 == pytest.approx(float(before) + 40, abs=2)
    assert slot.expires / 1000 == pytest.approx(float(before) - 60 + 7 * 86400, abs=2)


def test_a_connection_may_have_cursors_of_another_kind(digests: Digests, url: str) -> None:
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
        digests.add("t", 1, connection=connection)
        connection.commit()

    assert digests.ledger().accepted == 1


def test_many_records_are_there_or_none_is(digests: Digests, url: str) -> None:
    records = [(f"t{number % 3}", number) for number in range(2500)]
    with psycopg.connect(url) as connection:
        assert digests.add_many(records, connection=connection) == [False] * 2500
        connection.rollback()
        assert digests.ledger().accepted == 0
        digests.add_many(records, connection=connection)
        connection.commit()

    assert digests.ledger().pending == 2500
    assert digests.verify()


def test_records_keep_the_order_in_which_they_were_added(digests: Digests, url: str) -> None:
    with psycopg.connect(url) as connection:
        for version in range(3):
            digests.add("t", version, key="same", timestamp=0, connection=connection)
        connection.commit()

    assert [record.value for record in digests.peek("t")] == [2]
    assert digests.ledger().superseded == 2


def test_a_transaction_that_stays_open_keeps_nobody_waiting(digests: Digests, url: str) -> None:
    digests.add("t", 0)
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        for connection, timelines in ((one, ("t", "u")), (other, ("u", "t"))):
            for timeline in timelines:
                digests.add(timeline, "late", connection=connection)
        digests.add("t", 1)  # to wait for a lock would end in an error
        with digests.digest("t") as digest:
            assert len(digest) == 2
        one.commit()
        other.commit()

    assert digests.timeline("t").pending == 2
    assert digests.timeline("u").pending == 2
    assert digests.verify()


def test_a_worker_that_waits_hears_of_the_commit(digests: Digests, url: str) -> None:
    delivered = threading.Event()
    digests.handler("*")(lambda digest: delivered.set())
    worker = Worker(digests, poll=30)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        with psycopg.connect(url) as connection:
            digests.add("t", 1, connection=connection)
            assert not delivered.wait(0.3)
            connection.commit()

        assert delivered.wait(5)
    finally:
        worker.stop()
        thread.join()


def test_sqlalchemy_brings_its_connection_or_its_session(digests: Digests, url: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        digests.add("t", "by connection", connection=connection)
    with Session(engine) as session:
        digests.add("t", "by session", connection=session)
        session.commit()
    with Session(engine) as session:
        digests.add("t", "never", connection=session)
        session.rollback()
    engine.dispose()

    assert {record.value for record in digests.peek("t")} == {"by connection", "by session"}


def test_a_connection_of_sqlalchemy_that_has_begun_nothing_commits_the_add(digests: Digests, url: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        digests.add("t", "alone", connection=connection)
        connection.commit()
        connection.execute(sqlalchemy.text("SELECT 1"))
        connection.commit()
        digests.add("t", "last", connection=connection)
        connection.commit()
        digests.add("t", "never", connection=connection)
        connection.rollback()
    engine.dispose()

    assert {record.value for record in digests.peek("t")} == {"alone", "last"}


HOSTILE = "\\ \\\\ \" ' \\x41 \\047 { } , ü \U0001f600"


@pytest.mark.parametrize("where", ["the caller's connection", "the database"])
def test_settings_of_a_connection_do_not_change_what_is_stored(url: str, where: str) -> None:
    """Where strings have escapes, what is sent as text may be read as something else."""
    if where == "the database":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET standard_conforming_strings TO off")
    options = "-c standard_conforming_strings=off -c bytea_output=escape -c client_encoding=latin1"
    with Digests(url) as digests, psycopg.connect(url, options=options) as connection:
        digests.add(HOSTILE, HOSTILE, key=f"1{HOSTILE}")
        digests.add(HOSTILE, HOSTILE, key=f"2{HOSTILE}", timestamp=0.1, within=60, connection=connection)
        digests.add_many([(HOSTILE, Record(f"3{HOSTILE}", HOSTILE, -1.5))] * 2, connection=connection)
        connection.commit()

        assert {record.key: record.value for record in digests.peek(HOSTILE)} == {
            f"{number}{HOSTILE}": HOSTILE for number in (1, 2, 3)
        }
        assert digests.verify()


def test_a_transaction_that_tells_nobody_may_be_prepared(url: str) -> None:
    """PostgreSQL prepares no transaction that has sent a NOTIFY."""
    with Digests(f"{url}?notify=no") as digests, psycopg.connect(url) as connection:
        connection.tpc_begin("one")
        digests.add("t", 1, connection=connection)
        connection.tpc_prepare()
        assert digests.ledger().accepted == 0
        connection.tpc_commit()

        assert [record.value for record in digests.peek("t")] == [1]
        assert digests.verify()


def test_a_transaction_that_is_prepared_and_rolled_back_leaves_no_trace(url: str) -> None:
    with Digests(f"{url}?notify=no") as digests, psycopg.connect(url) as connection:
        connection.tpc_begin("two")
        digests.add("t", 1, connection=connection)
        connection.tpc_prepare()
        connection.tpc_rollback()

        assert digests.ledger().accepted == 0


def test_a_worker_finds_what_nobody_was_told_of(url: str) -> None:
    delivered = threading.Event()
    with Digests(f"{url}?notify=no") as digests, psycopg.connect(url) as connection:
        digests.handler("*")(lambda digest: delivered.set())
        with working(digests, poll=0.05):
            connection.tpc_begin("three")
            digests.add("t", 1, connection=connection)
            connection.tpc_prepare()
            connection.tpc_commit()

            assert delivered.wait(5)


def test_another_store_refuses() -> None:
    with pytest.raises(ConfigError, match="only a PostgreSQL store"):
        Digests("memory://").add("t", 1, connection=object())


def test_django_brings_its_connection(url: str) -> None:
    command = [sys.executable, "-m", "tests.stores.postgres.django_add", url]

    account = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert account == "['kept']\n"
