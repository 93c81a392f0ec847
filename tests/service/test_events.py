"""The stream of events: from the store's truth, whichever process did the work."""

import asyncio
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from digestif import Digests
from digestif.core.records import HistoryEntry
from digestif.service.api import digest_feed, events
from digestif.service.api.digest_feed import number_of
from digestif.service.api.events import QUEUE, Event
from digestif.service.api.events import Client as Listener
from digestif.service.service import Service
from digestif.service.settings import Limits
from tests.service.harness import Client, serving, settings_with, token_of

pytestmark = pytest.mark.long


class Heard(NamedTuple):
    """One event."""

    name: str
    data: Any
    id: str | None


@contextmanager
def listening(client: Client, query: str = "", last: str | None = None) -> Iterator[HTTPResponse]:
    connection = client.connect()
    headers = {} if last is None else {"Last-Event-ID": last}
    known = {} if client.token is None else {"Authorization": f"Bearer {client.token}"}
    connection.request("GET", f"/v1/events{query}", headers={**headers, **known})
    response = connection.getresponse()
    try:
        yield response
    finally:
        response.close()
        connection.close()


def heard(response: HTTPResponse) -> Iterator[Heard]:
    """The events as they come."""
    fields: dict[str, str] = {}
    while line := response.readline().decode():
        name, _, value = line.rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "event" in fields:
            yield Heard(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}
        else:
            fields = {}


def until(response: HTTPResponse, name: str) -> Heard:
    return next(event for event in heard(response) if event.name == name)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'digests.db'}"


@pytest.fixture
def there(path: str) -> Iterator[Client]:
    with serving(path) as (client, _):
        yield client


def deliver(path: str, timeline: str) -> str:
    """Add to a timeline and deliver it through another engine, as another process does; the digest's id."""
    [digest] = deliver_all(path, [timeline])
    return digest


def deliver_all(path: str, timelines: Iterable[str]) -> list[str]:
    with Digests(path) as digests:
        return [_deliver(digests, timeline) for timeline in timelines]


def _deliver(digests: Digests, timeline: str) -> str:
    digests.add(timeline, 1)
    digests.flush(timeline)
    with digests.digest(timeline) as digest:
        return digest.id


@contextmanager
def between_two_looks(service: Service) -> Iterator[None]:
    """The history is read before the block or after it."""
    store, over = service.digests.store, threading.Event()
    plain = store.history

    def history(timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        assert over.wait(20)
        return plain(timeline, limit=limit, prefix=prefix)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "history", history)
        try:
            yield
        finally:
            over.set()


def test_a_client_hears_first_how_things_stand(there: Client) -> None:
    with listening(there, "?timeline=t") as response:
        assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
        events_ = heard(response)
        first = [next(events_) for _ in range(4)]

    assert [event.name for event in first] == ["ledger", "backlog", "channels", "timeline"]
    assert (first[0].data["accepted"], first[3].data["state"]) == (0, "idle")


def test_what_another_process_delivers_is_heard(there: Client, path: str) -> None:
    with listening(there) as response:
        until(response, "channels")
        digest = deliver(path, "t")

        event = until(response, "digest")
        ledger = until(response, "ledger")

    assert (event.data["id"], event.data["outcome"]) == (digest, "delivered")
    assert ledger.data["delivered"] == 1


def test_a_named_timeline_is_heard_when_it_changes(there: Client) -> None:
    with listening(there, "?timeline=a%2Fb") as response:
        until(response, "timeline")
        there.add("a/b", 1)

        assert until(response, "timeline").data["pending"] == 1


def test_a_client_that_comes_back_hears_what_it_missed(there: Client, path: str) -> None:
    with listening(there) as response:
        until(response, "channels")
        deliver(path, "a")
        last = until(response, "digest").id
    missed = [deliver(path, "b"), deliver(path, "c")]

    with listening(there, last=last) as response:
        events_ = heard(response)
        first = [next(events_) for _ in range(2)]

    assert [(event.name, event.data["id"]) for event in first] == [("digest", digest) for digest in missed]


def test_every_digest_is_heard_however_many_end_between_two_looks(path: str) -> None:
    with serving(path) as (client, service), listening(client) as response:
        until(response, "channels")
        with between_two_looks(service):
            ended = deliver_all(path, map(str, range(150)))

        events_ = (event for event in heard(response) if event.name == "digest")

        assert [next(events_).data["id"] for _ in ended] == ended


def test_digests_that_are_left_when_timelines_are_deleted_are_not_heard_again(there: Client, path: str) -> None:
    deliver_all(path, map(str, range(110)))
    with listening(there) as response:
        until(response, "channels")
        deliver(path, "before")
        until(response, "digest")

        with Digests(path) as digests:
            for timeline in range(90, 110):
                digests.delete(str(timeline))
        deliver(path, "after")

        assert until(response, "digest").data["timeline"] == "after"


def test_streams_end_if_more_digests_have_ended_than_the_history_holds_and_clients_resume(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (events, digest_feed):
        monkeypatch.setattr(module, "HISTORY_LIMIT", 20)
    with serving(path) as (client, service):
        with listening(client) as response:
            until(response, "channels")
            with between_two_looks(service):
                ended = deliver_all(path, map(str, range(30)))
            lines = response.read().decode().splitlines()  # to the end

        last = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")][-1]
        with listening(client, last=last) as response:
            events_ = heard(response)
            assert [next(events_).data["id"] for _ in range(20)] == ended[10:]
            assert next(events_).name == "ledger"


def test_a_client_that_comes_back_while_another_listens_hears_all_that_it_missed_once(path: str) -> None:
    first = deliver(path, "first")
    with serving(path) as (client, service), listening(client) as other:
        until(other, "channels")
        number = next(number_of(each) for each in service.digests.store.history(None, limit=1) if each.id == first)
        ended = deliver_all(path, map(str, range(150)))

        with listening(client, last=number) as response:
            events_ = (event for event in heard(response) if event.name == "digest")
            assert [next(events_).data["id"] for _ in ended] == ended
            last = deliver(path, "last")
            assert next(events_).data["id"] == last


def test_a_client_that_comes_back_after_its_last_timeline_was_deleted_hears_only_what_it_missed(
    there: Client, path: str
) -> None:
    deliver_all(path, "abc")
    with listening(there) as response:
        until(response, "channels")
        deliver(path, "deleted")
        last = until(response, "digest").id
    missed = deliver(path, "missed")
    with Digests(path) as digests:
        digests.delete("deleted")

    with listening(there, last=last) as response:
        events_ = heard(response)
        first = [next(events_) for _ in range(2)]

    assert (first[0].data["id"], first[1].name) == (missed, "ledger")


def test_there_are_signs_of_life(there: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.1)
    with listening(there) as response:
        until(response, "channels")

        assert b": still here\n" in [response.readline() for _ in range(3)]


def test_the_stream_of_a_client_that_does_not_keep_up_ends_behind_the_events_before() -> None:
    """It resumes behind the last one that it got: none before that may be missing."""
    flood = [Event(b"%d" % number) for number in range(QUEUE + 5)]

    async def received() -> list[Event | None]:
        listener = Listener("ada")
        listener.give(flood)
        listener.give(flood)
        return [listener.queue.get_nowait() for _ in range(listener.queue.qsize())]

    assert asyncio.run(received()) == [*flood[:QUEUE], None]


def test_a_stream_ends_when_its_token_is_removed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.05)
    (text, ada), (_, bob) = token_of("ada"), token_of("bob")
    with serving(path, settings_with(ada, bob)) as (client, service), listening(client.by(text)) as response:
        until(response, "channels")

        service.replace(settings_with(bob), service.digests)

        assert list(heard(response)) == []  # and it ends: otherwise this would wait for ever


def test_a_stream_goes_on_when_the_settings_change_elsewhere(path: str) -> None:
    (text, ada), (_, bob) = token_of("ada"), token_of("bob")
    with serving(path, settings_with(ada, bob)) as (client, service), listening(client.by(text)) as response:
        until(response, "channels")

        service.replace(settings_with(ada), service.digests)
        deliver(path, "t")

        assert until(response, "digest").data["timeline"] == "t"


@pytest.mark.parametrize("place", ["/v1/events", "/live"])
def test_who_asks_for_the_head_of_a_stream_only_does_not_listen(there: Client, place: str) -> None:
    connection = there.connect()

    head = there.send("HEAD", place, connection=connection)
    after = there.get("/healthz", connection=connection)  # on the same connection: the answer before has ended
    connection.close()

    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert after.status == 200


def test_only_so_many_clients_may_listen() -> None:
    with serving(settings=settings_with(limits=Limits(streams=1))) as (client, _), listening(client) as response:
        until(response, "channels")

        assert client.get("/v1/events").status == 429


def test_streams_end_when_the_service_stops(path: str) -> None:
    with serving(path) as (client, _), listening(client) as response:
        until(response, "channels")
        # Leaving the block stops the server, which must not wait for this client: the harness would complain.


def test_without_listeners_the_store_is_not_read(path: str) -> None:
    with serving(path) as (client, service):
        with listening(client) as response:
            until(response, "channels")
        hub = service.part(events.Hub)
        for _ in range(100):
            if not len(hub):
                break
            client.get("/healthz")

        assert hub._poller is None
