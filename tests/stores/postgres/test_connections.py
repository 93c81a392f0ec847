"""A server that can't be reached, or refuses us: the error gives the reason, and comes soon if waiting is useless."""

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from digestif import Digests, StoreUnavailable
from digestif.clock import monotonic
from digestif.stores.postgres import PostgresStore
from digestif.testing.postgres import PostgresServer
from digestif.testing.processes import becomes_true

pytestmark = pytest.mark.long

SOON = 2  # seconds


@pytest.fixture
def nobody() -> Iterator[str]:
    """The URL of a server that is not there."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        yield f"postgresql://digestif@127.0.0.1:{place.getsockname()[1]}/digestif?timeout=1"


def refusal(url: str) -> tuple[str, float]:
    """Return the error, and the seconds until it came."""
    began = monotonic()
    with pytest.raises(StoreUnavailable) as refused, Digests(url) as digests:
        digests.ledger()
    return str(refused.value), monotonic() - began


def test_a_missing_database_is_told_at_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    said, took = refusal(f"{url}_nowhere")

    assert '_nowhere" does not exist' in said
    assert took < SOON
    assert caplog.record_tuples == []


def test_an_unknown_user_is_told_at_once(url: str) -> None:
    said, took = refusal(url.replace("//", "//ghost:secret@").replace("secret@digestif@", "secret@"))

    assert 'role "ghost" does not exist' in said
    assert "secret" not in said
    assert took < SOON


def test_a_wrong_password_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with PostgresServer(fsync=False) as server:
        server.sql("ALTER ROLE digestif PASSWORD 'right'")
        [(rules,)] = server.sql("SHOW hba_file")
        Path(rules).write_text("host all all 127.0.0.1/32 scram-sha-256\n", "utf-8")
        server.sql("SELECT pg_reload_conf()")

        said, took = refusal(server.url.replace("digestif@", "digestif:wrong@"))

    assert "password authentication failed" in said
    assert took < SOON
    assert caplog.record_tuples == []


def test_a_server_that_is_not_there_is_waited_for_and_then_told(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    said, took = refusal(nobody)

    assert "refused" in said
    assert 1 <= took < 1 + SOON
    assert caplog.record_tuples == []


def test_a_name_of_no_server_is_told(nobody: str) -> None:
    said, _ = refusal(nobody.replace("127.0.0.1", "nowhere.invalid"))

    assert "nowhere.invalid" in said


@pytest.mark.parametrize("act", [PostgresStore.migrate, lambda store: store.durability], ids=["migrate", "durability"])
def test_whatever_is_asked_first_tells_the_reason(url: str, act: object) -> None:
    store = PostgresStore(f"{url}_nowhere")
    try:
        with pytest.raises(StoreUnavailable, match="does not exist"):
            act(store)  # type: ignore[operator]
    finally:
        store.close()


def test_a_database_that_goes_away_later_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "psycopg.pool")
    with PostgresServer(fsync=False) as server, Digests(server.new_database("fleeting")) as digests:
        digests.add("t", 1)
        server.drop_database("fleeting")
        with pytest.raises(StoreUnavailable, match='"fleeting" does not exist'):
            digests.ledger()


def test_a_server_without_a_free_connection_is_waited_for() -> None:
    with PostgresServer(fsync=False, max_connections=4, superuser_reserved_connections=0) as server:
        others = [psycopg.connect(server.url) for _ in range(4)]
        store = PostgresStore(server.url, timeout=1)
        began = monotonic()
        with pytest.raises(StoreUnavailable, match="too many clients"):
            store.ledger()
        assert monotonic() - began >= 1
        for other in others:
            other.close()

        assert store.ledger().accepted == 0
        store.close()


def test_a_store_that_was_closed_refuses(url: str) -> None:
    digests = Digests(url)
    digests.add("t", 1)
    digests.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        digests.add("t", 2)
    with pytest.raises(StoreUnavailable, match="closed"):
        digests.ledger()


def test_a_store_that_is_disconnected_keeps_no_thread(url: str) -> None:
    before = set(threading.enumerate())
    with Digests(url) as digests:
        digests.add("t", 1)

    assert becomes_true(lambda: set(threading.enumerate()) <= before)
