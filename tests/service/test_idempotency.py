"""`Idempotency-Key`: what is sent twice is done once."""

import threading

import pytest

from digestif.service.api import idempotency
from digestif.service.service import Service
from tests.service.harness import Client, Reply, serving, settings_with, token_of

ADD = "/v1/timelines/t/records"
MANY = [{"timeline": "t", "value": 1}, {"timeline": "t", "value": 2, "key": "own"}, {"timeline": "", "value": 3}]


def send(client: Client, path: str, body: object, key: str = "k") -> Reply:
    return client.post(path, body, headers={"Idempotency-Key": key})


@pytest.mark.parametrize(("path", "body", "status"), [(ADD, {"value": 1}, 202), ("/v1/records", MANY, 207)])
def test_a_repeated_request_gets_the_first_answer_and_does_nothing(
    client: Client, path: str, body: object, status: int
) -> None:
    first = send(client, path, body)
    accepted = client.get("/v1/ledger").json()["accepted"]

    again = send(client, path, body)

    assert (again.status, again.body) == (first.status, first.body) == (status, first.body)
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert client.get("/v1/ledger").json()["accepted"] == accepted


def test_another_request_with_the_same_key_is_refused(client: Client) -> None:
    send(client, ADD, {"value": 1})

    assert send(client, ADD, {"value": 2}).status == 422
    assert send(client, "/v1/timelines/u/records", {"value": 1}).status == 422
    assert send(client, ADD, {"value": 2}, key="another").status == 202


def test_two_tokens_may_use_the_same_key() -> None:
    (ada, one), (bob, two) = token_of("ada"), token_of("bob")
    with serving(settings=settings_with(one, two)) as (client, _):
        assert send(client.by(ada), ADD, {"value": 1}).status == 202
        assert send(client.by(bob), ADD, {"value": 2}).status == 202


def test_a_request_that_was_refused_may_be_repeated_in_a_better_form(client: Client) -> None:
    assert send(client, ADD, {"value": 1, "within": -1}).status == 422

    assert send(client, ADD, {"value": 1}).status == 202


def test_many_records_of_which_none_was_accepted_may_be_repeated_in_a_better_form(client: Client) -> None:
    assert send(client, "/v1/records", [{"timeline": "", "value": 1}]).status == 422
    assert send(client, "/v1/records", [{"timeline": "t", "value": 1}]).status == 202


@pytest.mark.parametrize("key", ["", "k" * 256, "two words", "tab\there", "é"])
def test_a_key_has_1_to_255_visible_characters(client: Client, key: str) -> None:
    assert send(client, ADD, {"value": 1}, key).status == 400


def test_of_two_that_come_at_once_the_second_waits(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    add = service.digests.store.add

    def slow(*args: object, **options: object) -> object:
        begun.set()
        assert goes_on.wait(20)
        return add(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(service.digests.store, "add", slow)
    first = threading.Thread(target=send, args=(client, ADD, {"value": 1}))
    first.start()
    assert begun.wait(20)

    second = send(client, ADD, {"value": 1})
    goes_on.set()
    first.join()

    assert (second.status, second.headers["retry-after"]) == (409, "1")
    assert send(client, ADD, {"value": 1}).status == 202


def test_a_process_that_died_leaves_no_duplicate_behind(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had added, but not kept its answer: the repeated request replaces what is pending."""
    monkeypatch.setattr(idempotency, "ABANDONED", 0)
    with monkeypatch.context() as dying:
        dying.setattr(idempotency, "_keep_answer", lambda *_: None)
        first = send(client, "/v1/records", MANY)

    again = send(client, "/v1/records", MANY)

    assert [each.get("key") for each in again.json()["results"]] == [
        each.get("key") for each in first.json()["results"]
    ]
    assert client.get("/v1/timelines/t/records").json()["total"] == 2
