"""Probes and metrics."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from digestif import AsyncDigests
from digestif.client import Client as DigestifClient
from digestif.errors import Overloaded
from digestif.service import waits
from digestif.service.api import idempotency
from digestif.service.service import Service
from tests.service.harness import Client, serving
from tests.service.outages import outage_of
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


def test_metrics_follow_the_engine(client: Client, service: Service) -> None:
    client.add("t", 1)
    before = client.get("/metrics")

    service.replace(service.settings, AsyncDigests("memory://"))
    after = client.get("/metrics").body

    assert before.headers["content-type"].startswith("text/plain")
    assert b'digestif_records_accepted_total{namespace="d"} 1.0' in before.body
    assert b'digestif_records_accepted_total{namespace="d"} 0.0' in after
