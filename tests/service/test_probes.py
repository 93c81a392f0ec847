"""Probes and metrics."""

import threading

import pytest

from digestif import AsyncDigests
from digestif.service import waits
from digestif.service.service import Service
from tests.service.harness import Client


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


def test_metrics_follow_the_engine(client: Client, service: Service) -> None:
    client.add("t", 1)
    before = client.get("/metrics")

    service.replace(service.settings, AsyncDigests("memory://"))
    after = client.get("/metrics").body

    assert before.headers["content-type"].startswith("text/plain")
    assert b'digestif_records_accepted_total{namespace="d"} 1.0' in before.body
    assert b'digestif_records_accepted_total{namespace="d"} 0.0' in after
