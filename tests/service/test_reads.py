"""What is read for an answer or a page is bounded, and a large answer leaves the event loop to others."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from digestif import AsyncDigests, Digests, Policy, Record
from digestif.service.api import large_answers
from digestif.service.excerpts import ANSWER_BYTES, PREVIEW_BYTES
from digestif.service.service import Service
from digestif.stores.base import HISTORY_KEYS
from digestif.stores.memory import MemoryStore
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import Client, served, serving, settings_with, token_of
from tests.service.old_values import TEXTS, AsIs
from tests.service.pauses import MOST, measured

RECORDS = 100
PATHS = (
    "/v1/timelines/t/records?limit=100",
    "/v1/timelines/t/records?limit=1",
    "/v1/timelines/t/preview",
    "/v1/timelines/t/explain",
    "/v1/timelines/t/trace/k1",
    "/timeline?key=t",
    "/timeline/preview?key=t",
)


@contextmanager
def holding(text: bytes, *, dead: bool = False, count: int = RECORDS) -> Iterator[tuple[Client, str]]:
    """A service whose timeline `t`, or a dead letter, has large values; and the id of the letter."""
    store = MemoryStore()
    engine = Digests(store, policy=Policy(attempts=1), codec=AsIs())
    engine.add_many([("t", Record(f"k{number}", text, number)) for number in range(count)])
    letter = _buried(engine) if dead else ""
    digests = AsyncDigests(store)
    digests.route("t", channel="terminal://")
    with served(Service(settings_with(), digests)) as client:
        yield client, letter


def _buried(engine: Digests) -> str:
    engine.handler("t")(lambda _: 1 / 0)
    engine.deliver("t")
    return engine.dead_letters()[0].id


KINDS = ["lists", *(pytest.param(kind, marks=pytest.mark.long) for kind in TEXTS if kind != "lists")]


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_value_keeps_the_event_loop_when_its_timeline_is_read(kind: str) -> None:
    with measured() as pauses, holding(TEXTS[kind]) as (client, _):
        answers = {path: client.get(path) for path in PATHS}

    assert {path: reply.status for path, reply in answers.items() if reply.status not in (200, 413)} == {}
    assert pauses.longest < MOST, pauses


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_value_keeps_the_event_loop_when_a_dead_letter_is_read(kind: str) -> None:
    with measured() as pauses, holding(TEXTS[kind], dead=True) as (client, letter):
        answers = [client.get(f"/v1/dead-letters/{letter}"), client.get(f"/dead-letter?id={letter}")]

    assert [reply.status for reply in answers] == [200, 200]
    assert pauses.longest < MOST, pauses


@contextmanager
def within(most: int) -> Iterator[None]:
    """Check that no more bytes are allocated."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", ["/v1/timelines/t/records?limit=1", "/timeline?key=t", "/v1/timelines/t/preview"])
def test_values_that_would_become_many_objects_take_little_memory_to_be_shown(path: str) -> None:
    with holding(TEXTS["lists"]) as (client, _), within(6 * ANSWER_BYTES):
        client.get(path)


def test_a_record_of_a_dead_letter_is_shown_without_the_memory_of_all() -> None:
    with holding(TEXTS["lists"], dead=True) as (client, letter), within(4 * ANSWER_BYTES):
        found = client.get(f"/v1/dead-letters/{letter}?limit=1").json()

    assert [record["key"] for record in found["contents"]] == [f"k{RECORDS - 1}"]
    assert found["letter"]["records"] == RECORDS


def test_an_answer_shows_the_newest_records_that_fit_and_counts_all() -> None:
    with holding(TEXTS["text"]) as (client, _):
        reply = client.get("/v1/timelines/t/records?limit=100")

    found = reply.json()
    assert ANSWER_BYTES - 2 * len(TEXTS["text"]) < len(reply.body) <= ANSWER_BYTES + 100
    assert [record["key"] for record in found["records"]] == [
        f"k{RECORDS - 1 - n}" for n in range(len(found["records"]))
    ]
    assert found["records"][0]["value"] == json.loads(TEXTS["text"])
    assert found["total"] == RECORDS


def test_a_single_record_is_shown_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("digestif.service.excerpts.ANSWER_BYTES", 10)
    with holding(TEXTS["text"]) as (client, _):
        found = client.get("/v1/timelines/t/records").json()

    assert len(found["records"]) == 1
    assert found["total"] == RECORDS


def test_values_read_back_as_they_came_in(client: Client) -> None:
    values: list[object] = [None, True, 0, -0.5, 1e300, 2**63, 'ü\u2028\U0001f600"\\<', [], {}, {"a": [1, {"b": None}]}]
    for number, value in enumerate(values):
        client.add("t", value, key=f"k{number}", timestamp=number)

    found = client.get("/v1/timelines/t/records").json()

    assert [record["value"] for record in reversed(found["records"])] == values
    assert found["total"] == len(values)


@pytest.mark.parametrize("damage", [b'{"a":', b'"\xff"', b"", b'"\\ud800"'])
def test_records_that_can_not_be_read_are_left_out_and_not_counted(damage: bytes) -> None:
    store = MemoryStore()
    engine = Digests(store, codec=AsIs())
    engine.add_many([("t", Record("broken", damage, 1)), ("t", Record("sound", b"1", 2))])
    with served(Service(settings_with(), AsyncDigests(store))) as client:
        found = client.get("/v1/timelines/t/records").json()
        page = client.get("/timeline?key=t")

    assert [record["key"] for record in found["records"]] == ["sound"]
    assert found["total"] == 1
    assert page.status == 200


def test_compressed_values_count_as_they_are_shown() -> None:
    """A few bytes may stand for megabytes."""
    store = MemoryStore()
    engine = Digests(store, codec="zstd")
    engine.add_many([("t", Record(f"k{number}", "a" * (1 << 20), number)) for number in range(20)])
    with served(Service(settings_with(), AsyncDigests(store, codec="zstd"))) as client:
        reply = client.get("/v1/timelines/t/records?limit=100")

    assert len(reply.json()["records"]) == ANSWER_BYTES // (1 << 20) - 1
    assert reply.json()["total"] == 20


@pytest.mark.parametrize(("value", "shown"), [("a" * 5000, "a" * 399 + "…"), ([[]] * 5000, "[[],[],")])
def test_a_page_shows_the_beginning_of_a_long_value(client: Client, value: object, shown: str) -> None:
    client.add("t", value)

    assert shown in Visitor(client).page("/timeline?key=t")


def test_too_much_for_a_preview_is_refused_by_the_api_and_on_the_page() -> None:
    with holding(TEXTS["lists"], count=PREVIEW_BYTES // (20 * len(TEXTS["lists"]))) as (client, _):
        answers = [client.get("/v1/timelines/t/preview"), client.get("/timeline/preview?key=t")]

    assert [reply.status for reply in answers] == [413, 413]


def test_a_history_of_many_long_keys_does_not_keep_the_event_loop() -> None:
    store = MemoryStore()
    engine = Digests(store, policy=Policy(minimum_delay=0))
    engine.handler("*")(lambda _: None)
    for number in range(400):
        engine.add_many([(f"t{number}", Record(f"{key:0255}", 1, key)) for key in range(HISTORY_KEYS)])
        engine.deliver(f"t{number}")
    with measured() as pauses, served(Service(settings_with(), AsyncDigests(store))) as client:
        found = client.get("/v1/digests?limit=500")
        page = client.get("/timeline?key=t1")
        stream = client.connect()
        stream.request("GET", "/v1/events", headers={"Last-Event-ID": "0.000-"})
        events = stream.getresponse()
        for _ in range(400):
            _next_digest(events.readline)
        stream.close()

    assert len(found.json()["digests"]) == 400
    assert len(found.body) > 10_000_000
    assert page.status == 200
    assert pauses.longest < MOST, pauses


def _next_digest(readline: Callable[[], bytes]) -> None:
    while not readline().startswith(b"event: digest"):
        pass


def test_a_client_that_does_not_read_its_large_answers_gets_no_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_answers, "SHARE_BYTES", 3 * ANSWER_BYTES)
    monkeypatch.setattr(large_answers, "MOST_BYTES", 4 * ANSWER_BYTES)
    (greedy, one), (modest, other) = token_of("greedy"), token_of("modest")
    path = "/v1/timelines/t/records?limit=100"
    with serving(settings=settings_with(one, other), codec=AsIs()) as (client, service):
        service.digests.sync.add_many([("t", Record(f"k{number}", TEXTS["text"], number)) for number in range(40)])
        waiting = [client.connect() for _ in range(3)]
        for connection in waiting:
            connection.request("GET", path, headers={"Authorization": f"Bearer {greedy}"})
            assert connection.sock.recv(20) == b"HTTP/1.1 200 OK\r\ndat"

        assert client.by(greedy).get(path).status == 503
        assert client.by(greedy).get(path).headers["retry-after"] == "5"
        assert client.by(greedy).get("/v1/timelines/t").status == 200
        assert client.by(modest).get(path).status == 200

        waiting.pop().close()
        assert any(client.by(greedy).get(path).status == 200 for _ in range(100))
        for connection in waiting:
            connection.close()
