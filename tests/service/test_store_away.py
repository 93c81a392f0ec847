"""A store that is away: requests are not held up for as long as the store itself tries."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from digestif.errors import StoreUnavailable
from digestif.service import waits
from digestif.service.service import Service
from digestif.testing.servers import RedisServer
from tests.service.harness import Client, serving
from tests.worker.workers import becomes

pytestmark = pytest.mark.long

ADD = "/v1/timelines/t/records"
KEY = {"Idempotency-Key": "k"}
PATIENCE = 10.0  # seconds, of the store


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def client(server: RedisServer) -> Iterator[Client]:
    with serving(f"{server.url}?patience={PATIENCE:g}") as (client, _):
        client.add("t", 0)
        yield client


@pytest.mark.parametrize("path", ["/v1/ledger", ADD, "/v1/records", "/timelines"])
def test_a_store_that_does_not_answer_is_503_long_before_the_store_gives_up(
    server: RedisServer, client: Client, path: str
) -> None:
    body = {ADD: {"value": 1}, "/v1/records": [{"timeline": "t", "value": 1}]}.get(path)
    client.get("/timelines")
    server.freeze()
    began = time.monotonic()

    reply = client.get(path) if body is None else client.post(path, body)

    assert time.monotonic() - began < PATIENCE / 2
    assert (reply.status, int(reply.headers["retry-after"]) <= 3) == (503, True)
    assert b"may have been done or not" in reply.body
    server.thaw()


def test_a_request_that_was_given_up_goes_on_and_its_repetition_gets_its_answer(
    server: RedisServer, client: Client
) -> None:
    server.freeze()
    assert client.post(ADD, {"value": 1}, headers=KEY).status == 503
    server.thaw()

    repeat(client)
    ledger = client.get("/v1/ledger").json()
    assert (ledger["accepted"], ledger["superseded"]) == (2, 0)


def repeat(client: Client) -> None:
    """Repeat the request with the key, until the store is known to be back and the first is no longer under way."""
    for _ in range(200):
        status = client.post(ADD, {"value": 1}, headers=KEY).status
        if status not in (409, 503):
            assert status == 202
            return
        time.sleep(0.1)
    raise AssertionError("the first request does not end")


class SlowAdd:
    """A store whose add goes on when it is allowed to."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self._add = service.digests.store.add
        self.begun, self.goes_on = threading.Event(), threading.Event()
        monkeypatch.setattr(service.digests.store, "add", self)
        monkeypatch.setattr(waits, "GIVEN_UP_AFTER", 0.0)
        monkeypatch.setattr(waits, "LOOKED_EVERY", 0.01)

    def __call__(self, *args: Any, **options: Any) -> object:
        self.begun.set()
        assert self.goes_on.wait(20)
        return self._add(*args, **options)


def away() -> None:
    raise StoreUnavailable("gone")


def test_a_store_that_is_slow_but_answers_has_the_time_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (client, service):
        slow, probes = SlowAdd(service, monkeypatch), []

        def reach() -> None:
            probes.append(1)
            if len(probes) == 3:
                slow.goes_on.set()

        monkeypatch.setattr(service.digests.store, "reach", reach)

        assert client.add("t", 1).status == 202
        assert len(probes) >= 3


def test_what_was_given_up_goes_on_and_a_repetition_gets_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (client, service):
        slow = SlowAdd(service, monkeypatch)
        with monkeypatch.context() as gone:
            gone.setattr(service.digests.store, "reach", away)
            assert client.post(ADD, {"value": 1}, headers=KEY).status == 503

        assert becomes(lambda: client.post(ADD, {"value": 1}, headers=KEY).status == 409)
        slow.goes_on.set()
        repeat(client)

        assert client.post(ADD, {"value": 1}, headers=KEY).headers["idempotent-replayed"] == "true"
        assert client.get("/v1/ledger").json()["accepted"] == 1


def test_a_change_that_was_given_up_is_in_the_audit_log_if_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (client, service):
        client.add("t", 1)
        deleted, goes_on = service.digests.store.delete, threading.Event()

        def slowly(*args: Any, **options: Any) -> bool:
            assert goes_on.wait(20)
            return deleted(*args, **options)

        monkeypatch.setattr(service.digests.store, "delete", slowly)
        monkeypatch.setattr(waits, "LOOKED_EVERY", 0.01)
        with monkeypatch.context() as gone:
            gone.setattr(waits, "GIVEN_UP_AFTER", 0.0)  # only here: the reads below may wait for the store
            gone.setattr(service.digests.store, "reach", away)
            assert client.send("DELETE", "/v1/timelines/t").status == 503
        goes_on.set()

        assert becomes(lambda: bool(client.get("/v1/audit").json()["entries"]))
        [entry] = client.get("/v1/audit").json()["entries"]
        assert (entry["what"], entry["timeline"]) == ("delete", "t")


def test_what_waits_behind_other_adds_is_not_added_after_it_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (client, service), ThreadPoolExecutor() as threads:
        slow = SlowAdd(service, monkeypatch)
        with monkeypatch.context() as gone:
            gone.setattr(service.digests.store, "reach", away)
            first = threads.submit(client.add, "t", 0)
            assert slow.begun.wait(20)
            others = list(threads.map(lambda value: client.add("t", value).status, range(4)))
            assert [first.result().status, *others] == [503] * 5
        slow.goes_on.set()

        assert becomes(lambda: client.add("t", 5).status == 202)
        assert client.get("/v1/ledger").json()["accepted"] == 2
