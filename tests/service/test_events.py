"""The stream of events: from the store's truth, whichever process did the work."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from digestif import Digests
from digestif.service.api import events
from digestif.service.api.events import QUEUE
from digestif.service.api.events import Client as Listener
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
    with Digests(path) as digests:
        digests.add(timeline, 1)
        digests.flush(timeline)
        with digests.digest(timeline) as digest:
            return digest.id


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


def test_there_are_signs_of_life(there: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.1)
    with listening(there) as response:
        until(response, "channels")

        assert response.readline() == b": still here\n"


def test_a_client_that_does_not_keep_up_is_dropped() -> None:
    async def flood() -> list[bytes | None]:
        listener = Listener(None)
        listener.give([b"event"] * (QUEUE + 5))
        return [listener.queue.get_nowait() for _ in range(listener.queue.qsize())]

    received = asyncio.run(flood())

    assert len(received) == QUEUE
    assert received[-1] is None


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
