"""`Idempotency-Key`: what is sent twice is done once."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from digestif import AsyncDigests
from digestif.errors import StoreUnavailable
from digestif.service.api import idempotency
from digestif.service.api.records import key_of
from digestif.service.api.requests import Answer
from digestif.service.service import Service
from digestif.stores.documents import Document
from digestif.stores.registry import open_store
from tests.service.harness import Client, Reply, served, serving, settings_with, token_of

ADD = "/v1/timelines/t/records"
FORGOTTEN_AFTER = 86_401  # seconds
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


@contextmanager
def sending_slowly(client: Client, service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A request is under way in the block, and ends after it."""
    begun, goes_on = threading.Event(), threading.Event()
    add = service.digests.store.add

    def slow(*args: object, **options: object) -> object:
        begun.set()
        assert goes_on.wait(20)
        return add(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(service.digests.store, "add", slow)
    first = threading.Thread(target=send, args=(client, ADD, {"value": 1}))
    first.start()
    try:
        assert begun.wait(20)
        yield
    finally:
        goes_on.set()
        first.join()


def test_of_two_that_come_at_once_the_second_waits(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sending_slowly(client, service, monkeypatch):
        second = send(client, ADD, {"value": 1})

    assert (second.status, second.headers["retry-after"]) == (409, "1")
    assert send(client, ADD, {"value": 1}).status == 202


def pass_time(service: Service, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    time = service.digests.store.time
    monkeypatch.setattr(service.digests.store, "time", lambda partition: time(partition) + int(seconds * 1000))


@contextmanager
def neighbour(service: Service) -> Iterator[Client]:
    """A second service on the same store, which knows nothing of what is under way in the first."""
    with served(Service(service.settings, AsyncDigests(service.digests.store))) as client:
        yield client


def test_the_second_waits_for_the_first_however_long_that_takes(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in another process, since the first renews its reservation."""
    renew, renewed = idempotency.Reservation.renew, threading.Semaphore(0)

    def noted(own: idempotency.Reservation) -> bool:
        found = renew(own)
        renewed.release()
        return found

    monkeypatch.setattr(idempotency.Reservation, "renew", noted)
    monkeypatch.setattr(idempotency, "RENEWED_EVERY", 0.1)
    with sending_slowly(client, service, monkeypatch), neighbour(service) as other:
        pass_time(service, monkeypatch, 100)
        assert renewed.acquire(timeout=20)
        assert renewed.acquire(timeout=20)  # it has begun after the time had passed

        assert send(client, ADD, {"value": 1}).status == 409
        assert send(other, ADD, {"value": 1}).status == 409

    again = send(client, ADD, {"value": 1})
    assert (again.status, again.headers["idempotent-replayed"]) == (202, "true")


def test_a_key_is_known_in_its_process_even_if_its_reservation_looks_abandoned(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that could not be written took no renewal, either."""
    with sending_slowly(client, service, monkeypatch):
        pass_time(service, monkeypatch, 100)

        assert send(client, ADD, {"value": 1}).status == 409
        assert send(client, ADD, {"value": 2}).status == 422

    assert send(client, ADD, {"value": 1}).headers["idempotent-replayed"] == "true"
    assert client.get("/v1/ledger").json()["accepted"] == 1


def test_an_answer_is_not_kept_over_that_of_a_request_that_took_the_reservation_over(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sending_slowly(client, service, monkeypatch), neighbour(service) as other:
        pass_time(service, monkeypatch, 100)
        with monkeypatch.context() as quick:
            quick.setattr(service.digests.store, "add", type(service.digests.store).add.__get__(service.digests.store))
            taken_over = send(other, ADD, {"value": 1})

    again = send(client, ADD, {"value": 1})
    assert (taken_over.status, again.body) == (202, taken_over.body)
    assert client.get("/v1/timelines/t/records").json()["total"] == 1


def test_a_client_has_the_patience_to_wait_for_a_process_that_died(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(idempotency.Reservation, "keep_answer", lambda *_: None)
        send(client, ADD, {"value": 1})

    pass_time(service, monkeypatch, 5)
    assert send(client, ADD, {"value": 1}).status == 409
    pass_time(service, monkeypatch, 6)
    assert send(client, ADD, {"value": 1}).status == 202


def test_a_process_that_died_leaves_no_duplicate_behind(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had added, but not kept its answer: the repeated request replaces what is pending."""
    monkeypatch.setattr(idempotency, "ABANDONED", 0)
    with monkeypatch.context() as dying:
        dying.setattr(idempotency.Reservation, "keep_answer", lambda *_: None)
        first = send(client, "/v1/records", MANY)

    again = send(client, "/v1/records", MANY)

    assert [each.get("key") for each in again.json()["results"]] == [
        each.get("key") for each in first.json()["results"]
    ]
    assert client.get("/v1/timelines/t/records").json()["total"] == 2


def test_a_key_that_was_forgotten_replaces_no_record_of_its_first_use(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = send(client, ADD, {"value": 1}).json()
    pass_time(service, monkeypatch, FORGOTTEN_AFTER)

    second = send(client, ADD, {"value": 2}).json()

    assert first["key"] != second["key"]
    assert {each["value"] for each in client.get(ADD).json()["records"]} == {1, 2}
    assert client.get("/v1/ledger").json()["superseded"] == 0


def test_a_reservation_without_a_seed_gives_record_keys_that_derive_from_token_and_key(
    client: Client, service: Service
) -> None:
    """Older versions derived them so: their process may have added the records before it died."""
    asked = sha256(ADD.encode() + b"\0" + json.dumps({"value": 1}).encode()).hexdigest()
    name = sha256(b"local\0k").hexdigest()
    store = service.digests.store
    at = store.time(0) - idempotency.ABANDONED
    body = msgspec.msgpack.encode({"request": asked, "at": at, "status": None, "body": b""})
    store.keep(idempotency.COLLECTION, Document(name, body), bounds=idempotency.BOUNDS, now=at)

    assert send(client, ADD, {"value": 1}).json()["key"] == key_of("local\0k", 0)
    assert send(client, ADD, {"value": 1}).headers["idempotent-replayed"] == "true"


def fail_after(service: Service, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the store take records and lose its answer."""
    add = service.digests.store.add

    def lost(*args: object, **options: object) -> object:
        add(*args, **options)  # type: ignore[arg-type]
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(service.digests.store, "add", lost)
    return monkeypatch


def test_a_request_whose_outcome_is_not_known_may_be_repeated_at_once_and_leaves_no_duplicate(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        fail_after(service, failing)
        assert send(client, ADD, {"value": 1}).status == 503

    assert send(client, ADD, {"value": 1}).status == 202
    ledger = client.get("/v1/ledger").json()
    assert (ledger["accepted"], ledger["superseded"], ledger["pending"]) == (2, 1, 1)


def test_a_request_whose_outcome_is_not_known_keeps_its_key_from_others(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        fail_after(service, failing)
        send(client, ADD, {"value": 1})

    assert send(client, ADD, {"value": 2}).status == 422


def test_of_two_that_repeat_an_abandoned_request_at_once_one_takes_it_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://")
    first = idempotency._reserve(store, "name", "asked").kept
    idempotency.Reservation(store, "name", first).abandon()
    both = threading.Barrier(2, timeout=10)
    plain = store.kept
    found: list[bool] = []

    def kept(collection: str, key: str, *, now: int | None) -> Document | None:
        earlier = plain(collection, key, now=now)
        both.wait()  # until the other has read it, too
        return earlier

    monkeypatch.setattr(store, "kept", kept)
    threads = [
        threading.Thread(target=lambda: found.append(idempotency._reserve(store, "name", "asked").is_own))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found) == [False, True]


class SlowKeep:
    """A store whose first `keep` is committed and answered only 20 seconds later, by a clock that nothing waits for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.store = open_store("memory://")
        self._keep, self._meanwhile = self.store.keep, meanwhile
        self._seconds, began = 0.0, self.store.time(0)
        monkeypatch.setattr(idempotency, "monotonic", lambda: self._seconds)
        monkeypatch.setattr(self.store, "time", lambda _: began + int(self._seconds * 1000))

    def reserve(self) -> idempotency.Found:
        return idempotency._reserve(self.store, "name", "asked")

    def hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the next `keep` take its time."""

        def keep(*args: Any, **options: Any) -> bool:
            monkeypatch.setattr(self.store, "keep", self._keep)
            kept = self._keep(*args, **options)
            self._seconds += 20
            self._meanwhile()
            return kept

        monkeypatch.setattr(self.store, "keep", keep)

    def wait(self, seconds: float) -> None:
        self._seconds += seconds

    def age(self) -> int:
        """Of the reservation, in milliseconds."""
        found = self.store.kept(idempotency.COLLECTION, "name", now=None)
        assert found is not None
        return self.store.time(0) - found.at


def test_a_reservation_whose_commit_took_long_is_renewed_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = SlowKeep(monkeypatch)
    slow.hang(monkeypatch)

    assert slow.reserve().is_own
    assert slow.age() == 0


def test_a_reservation_that_was_taken_over_while_its_commit_was_waited_for_adds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others: list[idempotency.Found] = []
    slow = SlowKeep(monkeypatch, meanwhile=lambda: others.append(slow.reserve()))
    slow.hang(monkeypatch)

    assert (slow.reserve().is_own, [other.is_own for other in others]) == (False, [True])


def test_a_request_that_waited_for_the_store_takes_no_reservation_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the first could not renew it, either."""
    slow = SlowKeep(monkeypatch)
    slow.reserve()
    slow.wait(15)
    slow.hang(monkeypatch)

    assert not slow.reserve().is_own
    assert slow.reserve().is_own  # it had its time


def test_a_clock_that_was_set_back_does_not_keep_a_key_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowKeep(monkeypatch)
    slow.reserve()
    slow.wait(-3600)

    assert slow.reserve().is_own


def test_an_answer_is_kept_though_the_renewal_before_it_got_none(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://")
    own = idempotency.Reservation(store, "name", idempotency._reserve(store, "name", "asked").kept)
    idempotency.Reservation(store, "name", own.kept)._replace(replace(own.kept, at=1))  # `own` does not know of it

    own.keep_answer(Answer(202, b"{}"))

    assert idempotency._reserve(store, "name", "asked").kept.body == b"{}"


def test_a_request_that_is_refused_at_last_leaves_the_answer_of_one_that_took_its_reservation_over() -> None:
    store = open_store("memory://")
    first = idempotency.Reservation(store, "name", idempotency._reserve(store, "name", "asked").kept)
    idempotency.Reservation(store, "name", first.kept).abandon()  # as if the first process had been silent for long
    second = idempotency.Reservation(store, "name", idempotency._reserve(store, "name", "asked").kept)

    first.forget()
    assert not idempotency._reserve(store, "name", "asked").is_own
    second.keep_answer(Answer(202, b"{}"))
    first.forget()

    assert idempotency._reserve(store, "name", "asked").kept.body == b"{}"


def test_a_reservation_is_forgotten_though_the_renewal_before_got_no_answer() -> None:
    store = open_store("memory://")
    own = idempotency.Reservation(store, "name", idempotency._reserve(store, "name", "asked").kept)
    idempotency.Reservation(store, "name", own.kept)._replace(replace(own.kept, at=1))  # `own` does not know of it

    own.forget()

    assert idempotency._reserve(store, "name", "another").is_own
