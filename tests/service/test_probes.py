"""Probes and metrics."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from digestif import AsyncDigests, Digests
from digestif.client import Client as DigestifClient
from digestif.errors import Overloaded
from digestif.service import waits
from digestif.service.api import idempotency
from digestif.service.connection import Connection
from digestif.service.service import Service
from digestif.testing.postgres import PostgresServer
from tests.service.harness import Client, served, serving, settings_with
from tests.service.outages import outage_of
from tests.stores.postgres.releases import user_without_rights
from tests.worker.workers import becomes


def test_a_process_that_answers_is_healthy_and_ready(client: Client) -> None:
    assert client.get("/healthz").json() == {"healthy": True}
    assert client.get("/readyz").json() == {"ready": True}


def test_a_store_that_hangs_is_not_ready_and_holds_up_one_thread_only(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, goes_on = [], threading.Event()

    def hang() -> None:
        calls.append(1)
        goes_on.wait(20)

    monkeypatch.setattr(service.digests.store, "reach", hang)
    monkeypatch.setattr(waits, "READY_WITHIN", 0.1)

    replies = [client.get("/readyz") for _ in range(10)]
    goes_on.set()

    assert {reply.status for reply in replies} == {503}
    assert len(calls) == 1
    assert client.get("/healthz").status == 200


def test_however_many_probe_the_store_writes_once_a_second(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, writes = service.digests.store.keep, []

    def noted(*args: Any, **options: Any) -> bool:
        writes.append(args)
        return keep(*args, **options)

    monkeypatch.setattr(service.digests.store, "keep", noted)
    monkeypatch.setattr(waits, "PROBED_AGAIN", 60.0)

    assert {client.get("/readyz").status for _ in range(20)} == {200}
    assert len(writes) == 1


def test_a_store_that_refuses_to_grow_is_ready(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, and says so to those who add: a probe that failed would take what is still possible away, too."""

    def full(*_: Any, **__: Any) -> bool:
        raise Overloaded("the disk is full")

    monkeypatch.setattr(service.digests.store, "keep", full)

    assert client.get("/readyz").status == 200


def test_a_file_that_another_program_has_locked_is_not_ready_though_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "READY_WITHIN", 0.2)
    monkeypatch.setattr(waits, "PROBED_AGAIN", 0.0)
    file = tmp_path / "digestif.db"
    with serving(f"sqlite:///{file}") as (client, _), closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        locked = client.get("/readyz"), client.get("/v1/ledger"), client.get("/healthz")
        other.execute("COMMIT")

        assert [reply.status for reply in locked] == [503, 200, 200]
        assert locked[0].headers["retry-after"] == "2"
        assert becomes(lambda: client.get("/readyz").status == 200)


def test_a_store_that_may_only_be_read_answers_slow_reads_and_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A role of PostgreSQL with the rights to read; a lock keeps its request waiting until the store was probed."""
    monkeypatch.setattr(waits, "READY_WITHIN", 1.0)
    monkeypatch.setattr(waits, "GIVEN_UP_AFTER", 1.0)
    monkeypatch.setattr(waits, "PROBED_AGAIN", 0.0)
    monkeypatch.setattr(waits, "LOOKED_EVERY", 0.01)
    with (
        PostgresServer(fsync=False) as server,
        readers_of(server.url) as theirs,
        serving(theirs) as (client, service),
        psycopg.connect(server.url) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        not_ready = [client.get("/readyz").status for _ in range(3)]
        reach, probed = service.digests.store.reach, threading.Semaphore(0)

        def noted() -> None:
            reach()
            probed.release()

        monkeypatch.setattr(service.digests.store, "reach", noted)
        other.execute("LOCK TABLE digestif.ledger")
        reading = threads.submit(client.get, "/v1/ledger")
        began = time.monotonic()
        while time.monotonic() < began + 2 * waits.GIVEN_UP_AFTER:
            assert probed.acquire(timeout=5)
        other.rollback()

        assert (not_ready, reading.result().status) == ([503] * 3, 200)
        assert client.add("t", 1).status == 503
    [logged] = [record.getMessage() for record in caplog.records if record.name == waits.__name__]
    assert logged.startswith("the store takes no writes: ")
    assert "permission denied" in logged


@contextmanager
def readers_of(url: str) -> Iterator[str]:
    """The URL of a user with the rights to read a store in which there is a record."""
    with Digests(url) as digests:
        digests.add("t", 1)
    with user_without_rights(url) as theirs, psycopg.connect(url, autocommit=True) as administrator:
        user = sql.Identifier(str(conninfo_to_dict(theirs)["user"]))
        administrator.execute(sql.SQL("GRANT USAGE ON SCHEMA digestif TO {}").format(user))
        administrator.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA digestif TO {}").format(user))
        yield theirs


def test_24_adds_of_the_client_through_a_lock_are_24_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All limits are shortened; the lock lasts longer than a process may be silent about a key."""
    monkeypatch.setattr(waits, "READY_WITHIN", 0.1)
    monkeypatch.setattr(waits, "GIVEN_UP_AFTER", 0.2)
    monkeypatch.setattr(idempotency, "ABANDONED", 300)
    monkeypatch.setattr(idempotency, "RENEWED_EVERY", 0.1)
    with (
        outage_of("sqlite", tmp_path) as outage,
        serving(outage.store) as (client, _),
        DigestifClient(client.url, patience=60) as digests,
        ThreadPoolExecutor(24) as threads,
    ):
        outage.begin()
        adding = [threads.submit(digests.add, f"u{number % 6}", number) for number in range(24)]
        time.sleep(1.5)
        refused = client.add("t", 1)
        outage.end()
        for each in adding:
            each.result()

        assert refused.status == 503
        ledger = client.get("/v1/ledger").json()
        assert (ledger["accepted"], ledger["superseded"], ledger["pending"]) == (24, 0, 24)


class OwnLoop(Connection):
    """Tells its event loop."""

    loop: ClassVar[asyncio.AbstractEventLoop]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        OwnLoop.loop = self._loop


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_busy_event_loop_is_not_taken_for_a_silent_store(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """The store is slow with a request, and the event loop keeps its answer to the probe from coming in time."""
    monkeypatch.setattr(waits, "READY_WITHIN", 0.5)
    monkeypatch.setattr(waits, "GIVEN_UP_AFTER", 0.7)
    monkeypatch.setattr(waits, "LOOKED_EVERY", 0.05)
    service = Service(settings_with(), AsyncDigests("memory://"))
    store = service.digests.store
    goes_on, probing, was_kept = threading.Event(), threading.Event(), threading.Event()

    def slowly(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        assert goes_on.wait(20)
        return call(*args, **options)

    def reach() -> None:
        probing.set()
        assert was_kept.wait(20)
        time.sleep(0.1)

    def keep_loop() -> None:
        time.sleep(1.5)
        was_kept.set()

    monkeypatch.setattr(store, "add", partial(slowly, store.add))
    monkeypatch.setattr(store, "ledger", partial(slowly, store.ledger))
    monkeypatch.setattr(store, "reach", reach)
    with served(service, http=OwnLoop) as client, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.get, "/v1/ledger") if method == "GET" else threads.submit(client.add, "t", 1)
        assert probing.wait(20)
        OwnLoop.loop.call_soon_threadsafe(keep_loop)
        assert was_kept.wait(20)
        time.sleep(0.3)  # while the service looks some times
        goes_on.set()

        assert asked.result().status in (200, 202)


def test_metrics_follow_the_engine(client: Client, service: Service) -> None:
    client.add("t", 1)
    before = client.get("/metrics")

    service.replace(service.settings, AsyncDigests("memory://"))
    after = client.get("/metrics").body

    assert before.headers["content-type"].startswith("text/plain")
    assert b'digestif_records_accepted_total{namespace="d"} 1.0' in before.body
    assert b'digestif_records_accepted_total{namespace="d"} 0.0' in after
