"""What goes wrong between client and service: nothing is lost, nothing is added twice, and errors say what to do."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif import (
    AccessDenied,
    ConfigError,
    Digests,
    InvalidRecord,
    InvalidState,
    Overloaded,
    Secret,
    StoreUnavailable,
)
from digestif.client import Client
from digestif.service.service import Service
from digestif.service.settings import Limits, Scope
from digestif.testing.servers import free_port
from tests.client.conftest import Make, Verbs
from tests.service.harness import serving, settings_with, token_of
from tests.service.programs import Program, port_of

pytestmark = pytest.mark.long

TOKEN = "dgf_this-is-a-secret"

Script = Callable[[bytes], bytes | None]  # from a request to what is sent back; None: the connection ends


@contextmanager
def answering(*answers: Script) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers one request after the other as it is told, and the requests that it got."""
    seen: list[bytes] = []

    def serve() -> None:
        for answer in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # fewer requests came than were expected at most
            with connection:
                seen.append(whole_request(connection))
                reply = answer(seen[-1])
                connection.sendall(reply or b"")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def whole_request(connection: socket.socket) -> bytes:
    connection.settimeout(20)
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    length = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def reply(status: str, body: bytes, *headers: str, kind: str = "application/json") -> Script:
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return lambda _: "\r\n".join(head).encode() + b"\r\n\r\n" + body


def lost(_: bytes) -> None:
    return None


ACCEPTED = reply("202 Accepted", b'{"key":"k","ready":true,"due":null}')


def header(request: bytes, name: bytes) -> bytes:
    return next(x for x in request.split(b"\r\n") if x.lower().startswith(name.lower() + b":"))


def test_a_record_whose_answer_was_lost_is_sent_again_under_the_same_key(make: Make) -> None:
    with answering(lost, ACCEPTED) as (url, seen):
        assert make(url, patience=10).add("t", 1) is True

    first, second = seen
    assert first.partition(b"\r\n\r\n")[2] == second.partition(b"\r\n\r\n")[2]
    assert header(first, b"Idempotency-Key") == header(second, b"Idempotency-Key")


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "409 Conflict"])
def test_a_call_that_is_put_off_is_made_again_when_the_service_says(make: Make, status: str) -> None:
    with answering(reply(status, b"{}", "Retry-After: 0"), ACCEPTED) as (url, seen):
        assert make(url, patience=10).add("t", 1) is True

    assert len(seen) == 2


def test_a_call_is_not_made_again_past_the_patience(make: Make) -> None:
    refused = reply("429 Too Many Requests", b'{"detail":"slower"}', "Retry-After: 60")
    with answering(refused) as (url, _), pytest.raises(Overloaded, match="slower"):
        make(url, patience=1).add("t", 1)


def test_a_change_whose_answer_was_lost_is_not_made_again(make: Make) -> None:
    with (
        answering(lost, reply("200 OK", b'{"changed":true}')) as (url, seen),
        pytest.raises(StoreUnavailable, match="may have been done"),
    ):
        make(url, patience=10).delete("t")

    assert len(seen) == 1


def test_a_change_that_a_503_leaves_open_is_not_made_again(make: Make) -> None:
    """It may have been done, and deleting again would delete what was accepted in between."""
    open_end = reply("503 Service Unavailable", b"{}", "Retry-After: 0")
    with (
        answering(open_end, reply("200 OK", b'{"changed":true}')) as (url, seen),
        pytest.raises(StoreUnavailable),
    ):
        make(url, patience=10).delete("t")

    assert len(seen) == 1


def test_a_service_that_is_not_there_is_unavailable(make: Make) -> None:
    with pytest.raises(StoreUnavailable, match="nothing was sent"):
        make(f"http://127.0.0.1:{free_port()}", patience=0.2).add("t", 1)


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        ("400 Bad Request", "", InvalidRecord),
        ("401 Unauthorized", "", AccessDenied),
        ("403 Forbidden", "", AccessDenied),
        ("409 Conflict", "", InvalidState),
        ("413 Content Too Large", "", InvalidRecord),
        ("421 Misdirected Request", "", ConfigError),
        ("422 Unprocessable Content", "urn:digestif:error:ConfigError", ConfigError),
        ("500 Internal Server Error", "", StoreUnavailable),
        ("507 Insufficient Storage", "", Overloaded),
    ],
)
def test_each_problem_is_an_error_of_the_tree(make: Make, status: str, kind: str, error: type[Exception]) -> None:
    body = f'{{"type":"{kind}","detail":"said so","errors":[{{"path":"$.x","detail":"wrong"}}]}}'.encode()
    refused = reply(status, body, kind="application/problem+json")
    with answering(refused) as (url, _), pytest.raises(error, match=r"said so; \$\.x: wrong"):
        make(url, TOKEN, patience=0.1).add("t", 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply("200 OK", b"<html>Welcome</html>", kind="text/html"), "no answer of a digestif service"),
        (reply("404 Not Found", b"<html>Nothing</html>", kind="text/html"), "answered with 404"),
        (reply("302 Found", b"", "Location: https://elsewhere.example/"), "elsewhere.example"),
    ],
)
def test_an_answer_of_something_else_is_told(make: Make, answer: Script, words: str) -> None:
    with answering(answer) as (url, _), pytest.raises(ConfigError, match=words):
        make(url, patience=0.1).preference("t")


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("ftp://localhost", None),
        ("localhost:8321", None),
        ("http://localhost:99999", None),
        (f"http://ada:{TOKEN}@localhost", None),
        ("http://localhost/?x", None),
        ("http://localhost", f"{TOKEN}\r\nX: y"),
        ("http://localhost", ""),
    ],
)
def test_a_wrong_address_or_token_is_refused_without_showing_it(make: Make, url: str, token: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        make(url, token)

    assert TOKEN not in str(refused.value)


def test_no_error_and_no_text_shows_the_token(make: Make) -> None:
    client = make(f"http://127.0.0.1:{free_port()}", Secret(TOKEN), patience=0)

    with pytest.raises(StoreUnavailable) as raised:
        client.add("t", 1)

    assert TOKEN not in f"{raised.value!r} {client.client!r}"


@pytest.mark.parametrize("record", [("", 1), ("x" * 513, 1), ("t", b"bytes"), ("t", float("nan")), ("\ud800", 1), "t"])
def test_what_the_engine_refuses_is_refused_before_anything_is_sent(client: Verbs, record: Any) -> None:
    with pytest.raises(InvalidRecord, match="record 1: "):
        client.add_many([("t", 1), record])

    assert client.ledger().accepted == 0


def test_what_the_service_refuses_among_many_is_named(make: Make) -> None:
    text, token = token_of("team", Scope.INGEST, prefix="team:")
    with serving(settings=settings_with(token)) as (http, _):
        client = make(http.url, text)
        assert client.add_many([("team:a", 1)]) == [True]
        with pytest.raises(AccessDenied, match="team:"):
            client.add_many([("team:a", 1), ("other", 2)])
        with pytest.raises(AccessDenied, match="read"):
            client.timeline("team:a")
        with pytest.raises(AccessDenied, match="token"):
            make(http.url, "dgf_unknown").add("team:a", 1)


def test_a_limit_of_the_service_is_waited_for(make: Make) -> None:
    settings = settings_with(limits=Limits(rate=2))
    with serving(settings=settings) as (http, service):
        client = make(http.url, patience=20)
        for number in range(4):
            client.add("t", number)
        assert service.digests.sync.ledger().accepted == 4


def test_threads_share_a_client_and_its_connections(running: tuple[str, str, Service]) -> None:
    url, token, service = running
    with Client(url, token) as client:
        threads = [threading.Thread(target=lambda: [client.add("t", number) for number in range(20)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(client._idle) <= 8
        assert service.digests.sync.ledger().accepted == 160


def test_a_service_that_is_killed_loses_nothing_and_gets_nothing_twice(make: Make, tmp_path: Path) -> None:
    port = free_port()
    arguments = ("serve", "--listen", f"127.0.0.1:{port}", "--no-worker")
    client, added = make(f"http://127.0.0.1:{port}", patience=90), Adding()
    with Program(*arguments, folder=tmp_path) as first:
        port_of(first)
        thread = threading.Thread(target=added.run, args=(client, 60))
        thread.start()
        assert added.some.wait(60)
        first.process.kill()
        first.wait()
    with Program(*arguments, folder=tmp_path) as second:
        port_of(second)
        thread.join(100)

    with Digests(f"sqlite:///{tmp_path}/digestif.db") as digests:
        ledger = digests.ledger()
        assert sorted(record.key for record in digests.peek("t")) == sorted(added.keys)
        assert (len(added.keys), ledger.pending, bool(digests.verify())) == (60, 60, True)


class Adding:
    """Adds records, and says when it has begun."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.some = threading.Event()

    def run(self, client: Verbs, count: int) -> None:
        for number in range(count):
            self.keys.append(client.accept("t", number).key)
            if number == 10:
                self.some.set()


def test_events_go_on_after_a_lost_connection(make: Make) -> None:
    def event(name: str, data: str, number: str = "") -> bytes:
        return f"{number and f'id: {number}'}\nevent: {name}\ndata: {data}\n\n".lstrip().encode()

    streams = [
        reply("200 OK", event("novel", "1", "7-a") + event("novel", "2")[:-4], kind="text/event-stream"),
        reply("503 Service Unavailable", b"{}"),
        reply("200 OK", b": hello\n\n" + event("novel", "3", "8-b"), kind="text/event-stream"),
    ]
    with answering(*streams) as (url, seen):
        events = make(url, patience=20).events()
        found = [next(events), next(events)]
        events.close()

    assert found == [("novel", 1, "7-a"), ("novel", 3, "8-b")]
    assert header(seen[1], b"Last-Event-ID") == header(seen[2], b"Last-Event-ID") == b"Last-Event-ID: 7-a"


def test_a_stream_resumes_where_the_service_said_though_no_event_has_come(make: Make) -> None:
    streams = [
        reply("200 OK", b"id: 7-a\n\n", kind="text/event-stream"),
        reply("200 OK", b"event: novel\ndata: 1\n\n", kind="text/event-stream"),
    ]
    with answering(*streams) as (url, seen):
        events = make(url, patience=20).events()
        found = next(events)
        events.close()

    assert found == ("novel", 1, None)
    assert header(seen[1], b"Last-Event-ID") == b"Last-Event-ID: 7-a"


def test_a_stream_that_is_refused_ends_with_an_error(make: Make) -> None:
    body = b'{"detail":"no"}'
    refused = reply("403 Forbidden", body, kind="application/problem+json")
    with answering(refused) as (url, _), pytest.raises(AccessDenied):
        next(make(url, patience=20).events())
