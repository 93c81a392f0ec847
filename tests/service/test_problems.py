"""Errors of the engine and of the service, as callers see them."""

import logging

import pytest

from digestif import errors
from digestif.errors import DigestifError, Overloaded, StoreUnavailable
from digestif.service.api.problems import problem_of
from digestif.service.service import Service
from tests.service.harness import Client, settings_with, token_of

OF_CLIENTS = {errors.AccessDenied}


def every_error() -> list[type[DigestifError]]:
    known = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DigestifError)]
    return [kind for kind in known if kind is not DigestifError and kind not in OF_CLIENTS]


@pytest.mark.parametrize("kind", every_error())
def test_every_error_of_the_engine_has_a_status(kind: type[DigestifError]) -> None:
    assert problem_of(kind("because")).status in (409, 422, 503, 507)


def fail_with(service: Service, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def ledger() -> None:
        raise error

    monkeypatch.setattr(service.digests.store, "ledger", ledger)


def test_a_store_that_is_gone_is_503_with_a_time_to_wait_and_without_its_address(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(service, StoreUnavailable("redis://user:secret@10.0.0.5 is down"), monkeypatch)

    reply = client.get("/v1/ledger")

    assert (reply.status, "retry-after" in reply.headers) == (503, True)
    assert b"secret" not in reply.body


def test_a_store_that_refuses_to_grow_is_507(client: Client, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(service, Overloaded("full"), monkeypatch)

    assert client.get("/v1/ledger").status == 507


def test_an_unexpected_error_is_logged_and_the_caller_gets_only_its_number(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail_with(service, RuntimeError("the password is hunter2"), monkeypatch)

    with caplog.at_level(logging.ERROR):
        reply = client.get("/v1/ledger")

    assert reply.status == 500
    assert b"hunter2" not in reply.body
    number = reply.json()["detail"].split()[-1]
    assert number in caplog.text


def test_an_unknown_path_and_a_wrong_method_are_problems(client: Client) -> None:
    assert client.get("/v1/nothing").status == 404
    wrong = client.send("PATCH", "/v1/timelines/t")
    assert (wrong.status, wrong.headers["allow"]) == (405, "DELETE, GET, HEAD")


def test_a_wrong_parameter_is_named(client: Client) -> None:
    for query, name in (
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("state=odd", "state"),
        ("limit=1&limit=2", "limit"),
    ):
        reply = client.get(f"/v1/timelines?{query}")

        assert reply.status == 422
        assert name in reply.json()["errors"][0]["path"]
    assert client.get("/v1/timelines?lmit=5").status == 422
    assert client.get("/v1/timelines?prefix=%ff").status == 400


def test_tokens_and_keys_of_requests_are_in_no_log(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    text, token = token_of("ada")
    service.replace(settings_with(token), service.digests)
    fail_with(service, RuntimeError("broken"), monkeypatch)
    secrets = {"Authorization": "Bearer dgf_wrong", "Idempotency-Key": "only-mine", "Cookie": "session=crumbs"}

    with caplog.at_level(logging.DEBUG):
        client.by(text).get("/v1/ledger?after=hidden")
        client.by(text).get("/v1/ledger")
        client.post("/v1/timelines/t/records", b'{"value":"private"', headers=secrets)
        client.by(text).post("/v1/timelines/t/records", {"value": "private"}, headers={"Idempotency-Key": "only-mine"})

    assert "broken" in caplog.text
    assert not [word for word in (text, "dgf_wrong", "only-mine", "crumbs", "private") if word in caplog.text]
