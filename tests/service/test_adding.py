"""Adding records over HTTP."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from digestif.service.service import Service
from digestif.service.settings import Limits
from tests.service.harness import Client, segment, serving, settings_with


def test_an_added_record_is_in_the_store_when_the_answer_comes(client: Client) -> None:
    reply = client.add("mail:ada", {"title": "Build 7 failed"}, key="build-7")

    assert (reply.status, reply.json()["key"], reply.json()["ready"]) == (202, "build-7", True)
    assert isinstance(reply.json()["due"], float)
    [record] = client.get("/v1/timelines/mail:ada/records").json()["records"]
    assert (record["key"], record["value"]) == ("build-7", {"title": "Build 7 failed"})


def test_a_record_keeps_its_timestamp_and_gets_a_key_if_it_has_none(client: Client) -> None:
    key = client.add("t", 1, timestamp=5.25).json()["key"]

    [record] = client.get("/v1/timelines/t/records").json()["records"]
    assert (record["key"], record["timestamp"]) == (key, 5.25)


MANY = [{"timeline": "a", "value": 1, "key": "one"}, {"timeline": "b", "value": 2, "within": 5}]


def test_many_records_are_added_as_an_array(client: Client) -> None:
    reply = client.post("/v1/records", MANY)

    assert (reply.status, reply.json()["accepted"]) == (202, 2)
    assert [result["ready"] for result in reply.json()["results"]] == [True, True]
    assert reply.json()["results"][0]["key"] == "one"


def test_many_records_are_added_as_lines(client: Client) -> None:
    body = "\n".join(json.dumps(item) for item in MANY).encode() + b"\n"

    reply = client.post("/v1/records", body, headers={"Content-Type": "application/x-ndjson"})

    assert (reply.status, reply.json()["accepted"]) == (202, 2)


def test_of_many_records_the_valid_ones_are_accepted_and_the_others_have_a_problem(client: Client) -> None:
    reply = client.post("/v1/records", [*MANY, {"timeline": "", "value": 3}])

    assert (reply.status, reply.json()["accepted"]) == (207, 2)
    problem = reply.json()["results"][2]["problem"]
    assert (problem["status"], "timeline key" in problem["detail"]) == (422, True)


def test_if_none_of_many_is_valid_the_answer_is_422_and_still_says_why_for_each(client: Client) -> None:
    reply = client.post("/v1/records", [{"timeline": "", "value": 3}])

    assert (reply.status, reply.json()["accepted"], len(reply.json()["results"])) == (422, 0, 1)


def test_more_records_than_allowed_are_refused_before_any_is_accepted() -> None:
    with serving(settings=settings_with(limits=Limits(items=1))) as (client, _):
        reply = client.post("/v1/records", MANY)

        assert reply.status == 413
        assert client.get("/v1/timelines").json()["timelines"] == []


HOSTILE = ["a/b", "..", ".", "%2F", "a?b", "a#b", "🚂", "\0", "k" * 512, " two  spaces ", "a\nb", "records", "é" * 256]


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_keys_of_timelines_and_records_go_through_unchanged(client: Client, key: str) -> None:
    assert client.add(key, 1, key=key).status == 202

    assert client.get(f"/v1/timelines/{segment(key)}").json()["key"] == key
    [record] = client.get(f"/v1/timelines/{segment(key)}/records").json()["records"]
    assert record["key"] == key
    [sighting] = client.get(f"/v1/timelines/{segment(key)}/trace/{segment(key)}").json()["sightings"]
    assert sighting["fate"] == "pending"
    assert client.get(f"/v1/timelines/{segment(key)}/explain").json()["timeline"] == key


def test_what_became_of_a_record_is_also_said_in_words(client: Client) -> None:
    client.add("t", 1, key="a")
    client.send("DELETE", "/v1/timelines/t/records/a")

    [sighting] = client.get("/v1/timelines/t/trace/a").json()["sightings"]

    assert (sighting["fate"], sighting["certain"]) == ("retracted", True)
    assert sighting["text"].startswith("retracted, 20")
    assert client.get("/v1/timelines/t/trace/never").json()["sightings"] == []


@pytest.mark.parametrize("key", ["", "k" * 513])
def test_a_key_that_no_timeline_can_have_is_refused(client: Client, key: str) -> None:
    assert client.add(key, 1).status == 422


def test_the_number_of_timelines_can_be_limited() -> None:
    with serving(settings=settings_with(limits=Limits(timelines=2))) as (client, _):
        statuses = [client.add(timeline, 1).status for timeline in ("a", "b", "c", "a")]

    assert statuses == [202, 202, 507, 202]


def test_records_for_new_timelines_that_come_at_once_stay_within_the_limit() -> None:
    with serving(settings=settings_with(limits=Limits(timelines=10))) as (client, _):
        client.post("/v1/records", [{"timeline": f"old-{number}", "value": 1} for number in range(5)])
        with ThreadPoolExecutor(16) as threads:
            replies = threads.map(lambda number: client.add(f"new-{number}", 1), range(16))

        assert sorted(reply.status for reply in replies) == [202] * 5 + [507] * 11
        assert client.get("/v1/status").json()["backlog"]["timelines"] == 10


@contextmanager
def held_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Adding waits in the store: events that say that it has begun, and that it may go on."""
    begun, goes_on = threading.Event(), threading.Event()
    add = service.digests.store.add

    def slow(*args: object, **options: object) -> object:
        begun.set()
        assert goes_on.wait(20)
        return add(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(service.digests.store, "add", slow)
    try:
        yield begun, goes_on
    finally:
        goes_on.set()


def test_records_for_known_timelines_that_are_under_way_take_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are counted as new ones while they are under way: a new timeline waits for them and is not refused."""
    with serving(settings=settings_with(limits=Limits(timelines=10))) as (client, service):
        client.post("/v1/records", [{"timeline": f"old-{number}", "value": 1} for number in range(5)])
        with held_up(service, monkeypatch) as (begun, go_on), ThreadPoolExecutor(2) as threads:
            old = threads.submit(client.post, "/v1/records", [{"timeline": f"old-{n}", "value": 2} for n in range(5)])
            assert begun.wait(20)
            new = threads.submit(client.add, "new", 1)
            go_on.set()

            assert (old.result().status, new.result().status) == (202, 202)


def test_requests_for_one_new_timeline_that_come_at_once_need_the_room_of_one() -> None:
    with serving(settings=settings_with(limits=Limits(timelines=1))) as (client, _), ThreadPoolExecutor(8) as threads:
        replies = threads.map(lambda number: client.add("new", number), range(8))

        assert [reply.status for reply in replies] == [202] * 8


def test_what_was_refused_leaves_its_room_to_others() -> None:
    with serving(settings=settings_with(limits=Limits(timelines=2))) as (client, _):
        refused = [client.add(str(number), 1, within=-1).status for number in range(5)]
        statuses = [client.add(timeline, 1).status for timeline in ("a", "b", "c")]

    assert (refused, statuses) == ([422] * 5, [202, 202, 507])


def test_a_timeline_named_null_is_found(client: Client) -> None:
    client.add("null", 1)

    assert client.get("/v1/timelines?prefix=null").json()["timelines"][0]["key"] == "null"
    assert client.get("/v1/timelines?state=null").status == 422


def test_the_depth_of_values_can_be_limited() -> None:
    with serving(settings=settings_with(limits=Limits(depth=2))) as (client, _):
        statuses = [client.add("t", value).status for value in ([[1]], [[[1]]])]
        many = [client.post("/v1/records", [{"timeline": "t", "value": value}]).status for value in ([[1]], [[[1]]])]

    assert statuses == many == [202, 422]


def test_a_value_of_a_mebibyte_is_accepted_if_the_namespace_allows_it(client: Client, service: Service) -> None:
    value = "x" * ((1 << 20) - 2)
    refused = client.add("t", value)
    assert (refused.status, "value_bytes" in refused.json()["detail"]) == (422, True)

    service.digests.store.raise_value_bytes(1 << 20)

    assert client.add("t", value).status == 202
    assert client.post("/v1/records", [{"timeline": "t", "value": value}] * 2).json()["accepted"] == 2
