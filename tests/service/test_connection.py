"""A connection of the HTTP server: which bytes are a request, in which order answers go out, and when it ends."""

import asyncio
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn

from digestif import AsyncDigests
from digestif.service.app import application
from digestif.service.connection import MOST_AHEAD, SMALL_SLICE, Connection
from digestif.service.exchange import Exchange
from digestif.service.server import uvicorn_config
from digestif.service.service import Service
from tests.service.harness import TIMEOUT, Client, served, serving, settings_with, token_of
from tests.service.test_guards import raw

pytestmark = pytest.mark.long

BODY = b'{"value": 1}'


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving() as (client, _):
        yield client


def post(timeline: str, body: bytes = BODY, more: bytes = b"") -> bytes:
    head = f"POST /v1/timelines/{timeline}/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def statuses(answers: bytes) -> list[bytes]:
    return [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]]


def test_requests_sent_ahead_are_answered_in_their_order(client: Client) -> None:
    ahead = [post("a", BODY if number % 3 else b"{") for number in range(5 * MOST_AHEAD)]

    answers = raw(client, b"".join(ahead) + LAST)

    expected = [b"202" if number % 3 else b"400" for number in range(5 * MOST_AHEAD)]
    assert statuses(answers) == [*expected, b"200"]
    assert client.get("/v1/timelines/a").json()["pending"] == expected.count(b"202")


def test_few_requests_wait_for_their_turn_however_many_are_sent_at_once() -> None:
    request = b"GET / HTTP/1.1\r\n\r\n"
    under_way, most = 0, 0

    class Counting(Connection):
        def on_headers_complete(self) -> None:
            nonlocal under_way, most
            super().on_headers_complete()
            under_way += 1
            most = max(most, under_way)

        def ended(self, exchange: Exchange) -> None:
            nonlocal under_way
            under_way -= 1
            super().ended(exchange)

    with served(Service(settings_with(), AsyncDigests("memory://")), http=Counting) as client:
        answers = raw(client, request * 5_000, LAST)

    assert statuses(answers) == [b"421"] * 5_000 + [b"200"]
    assert most <= MOST_AHEAD + SMALL_SLICE // len(request) + 2


def test_a_head_is_not_too_long_because_of_what_came_before_it(client: Client) -> None:
    answers = raw(client, post("n", b" " * 100_000 + BODY) + LAST[:10], LAST[10:])

    assert statuses(answers) == [b"202", b"200"]


def test_a_client_that_sends_no_more_gets_its_answers(tmp_path: Path) -> None:
    file = tmp_path / "digestif.db"
    with serving(f"sqlite:///{file}") as (client, _), closing(sqlite3.connect(file, isolation_level=None)) as other:
        assert client.add("i", 1).status == 202
        other.execute("BEGIN IMMEDIATE")  # adds have to wait
        with socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection:
            connection.sendall(post("i") + post("i") + post("i")[:-1])
            connection.shutdown(socket.SHUT_WR)
            client.get("/healthz")  # by then the server knows
            other.execute("ROLLBACK")
            answers = b"".join(iter(lambda: connection.recv(65536), b""))

        assert statuses(answers) == [b"202", b"202"]
        assert client.get("/v1/timelines/i").json()["pending"] == 3


def test_a_client_of_a_stream_that_sends_no_more_has_left(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=5) as connection:
        connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


@pytest.mark.parametrize("times", [1, 200])  # less than the server holds for a client that does not read, and more
def test_a_client_that_does_not_read_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    monkeypatch.setattr(Connection, "read_seconds", 0.3)
    lost = threading.Event()

    class Telling(Connection):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            super().connection_made(transport)

        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            lost.set()

    service = Service(settings_with(), AsyncDigests("memory://"))
    page = b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(service, http=Telling) as client, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.settimeout(TIMEOUT)
        connection.connect(("127.0.0.1", client.port))
        connection.sendall(page * (times - 1) + page.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

        assert lost.wait(10)


def test_a_request_may_come_byte_by_byte(client: Client) -> None:
    answers = raw(client, *[bytes([byte]) for byte in post("b") + LAST])

    assert statuses(answers) == [b"202", b"200"]


def test_nonsense_behind_a_request_does_not_take_the_place_of_its_answer(client: Client) -> None:
    answers = raw(client, post("c") + b"NONSENSE\r\n\r\n")

    assert statuses(answers) == [b"202"]
    assert b"connection: close" in answers


def test_the_rest_of_a_body_that_was_refused_is_not_taken_for_a_request() -> None:
    text, token = token_of("t")
    with serving(settings=settings_with(token)) as (client, _):
        smuggled = post("d", more=f"Authorization: Bearer {text}\r\n".encode())
        outer = post("d", smuggled * 1000)
        head, body = outer[: outer.index(b"POST", 1)], outer[outer.index(b"POST", 1) :]
        answers = raw(client, head, *[body[start : start + 10_000] for start in range(0, len(body), 10_000)], LAST)

        assert statuses(answers) == [b"401"]
        assert b"connection: close" in answers
        assert client.by(text).get("/v1/timelines/d").json()["pending"] == 0


def test_a_header_behind_the_body_comes_too_late() -> None:
    text, token = token_of("t")
    with serving(settings=settings_with(token)) as (client, _):
        head = b"POST /v1/timelines/e/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        body = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
        trailer = f"Authorization: Bearer {text}\r\n\r\n".encode()

        answers = raw(client, head + b"Transfer-Encoding: chunked\r\n\r\n" + body + trailer + LAST)

        assert statuses(answers) == [b"401", b"200"]


def test_a_client_that_asks_before_it_sends_a_body_is_told_to_go_on(client: Client) -> None:
    request = post("f", more=b"Expect: 100-continue\r\n")
    refused = request.replace(b"application/json", b"text/plain")

    with socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection:
        connection.sendall(request[: -len(BODY)])
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(BODY)
        assert connection.recv(1000).startswith(b"HTTP/1.1 202 ")
        connection.sendall(refused[: -len(BODY)])
        assert connection.recv(1000).startswith(b"HTTP/1.1 415 ")
        assert connection.recv(1) == b""  # it need not send the body, so what it sends next could be either


def test_an_upgrade_is_not_spoken_here(client: Client) -> None:
    upgrade = b"Connection: upgrade\r\nUpgrade: h2c\r\n"

    without_body = raw(client, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n")
    with_body = raw(client, post("g", more=upgrade))  # which the parser would not find

    assert statuses(without_body) == [b"200"]
    assert statuses(with_body) == [b"400"]
    assert b"without Upgrade" in with_body


def test_a_client_of_http_1_0_is_answered_once(client: Client) -> None:
    answers = raw(client, b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")

    assert statuses(answers) == [b"200"]
    assert b"connection: close" in answers


def test_a_stream_for_a_client_of_http_1_0_has_no_chunks(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection:
        connection.sendall(b"GET /v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b"event: backlog" not in answer:
            answer += connection.recv(65536)

    head, _, events = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert events.startswith(b"event: ")


@pytest.mark.parametrize("path", ["/healthz", "/docs"])  # answered in one piece, and in parts
def test_a_head_has_the_length_of_the_answer_and_not_the_answer(client: Client, path: str) -> None:
    whole = client.get(path)
    head = raw(client, f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    assert head.endswith(b"\r\n\r\n")
    assert f"content-length: {len(whole.body)}\r\n".encode() in head


def test_an_address_may_name_the_host_too(client: Client) -> None:
    answers = raw(client, LAST.replace(b"/healthz", b"http://localhost/healthz?x=1"))

    assert statuses(answers) == [b"200"]


def test_a_client_that_reads_no_answers_is_sent_no_more_of_them(client: Client) -> None:
    request = b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=2) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pytest.raises(TimeoutError):  # the server no longer reads either
            while True:
                connection.sendall(request * 1000)
        assert client.get("/healthz").status == 200


def test_an_idle_connection_is_closed_after_a_while_and_a_busy_one_is_not() -> None:
    with served(Service(settings_with(), AsyncDigests("memory://")), timeout_keep_alive=3) as client:
        connection = client.connect()
        for _ in range(6):  # longer than the wait, each pause shorter
            assert client.get("/healthz", connection=connection).status == 200
            time.sleep(0.7)
        started = time.monotonic()
        assert connection.sock.recv(1) == b""
        assert time.monotonic() - started < 9
        connection.close()


def test_a_stop_waits_for_no_body_and_refuses_its_request() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    service = Service(settings_with(), AsyncDigests("memory://"))
    server = uvicorn.Server(uvicorn_config(application(service), timeout_graceful_shutdown=15))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    with listener, socket.create_connection(listener.getsockname(), timeout=TIMEOUT) as connection:
        connection.sendall(post("h")[:-1])
        Client(listener.getsockname()[1]).get("/healthz")  # by then it has the other request, too
        started = time.monotonic()
        server.should_exit = True

        assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")
        thread.join(TIMEOUT)
        assert time.monotonic() - started < 5


def test_a_transfer_coding_that_is_not_known_is_refused(client: Client) -> None:
    head = b"POST /v1/timelines/z/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)

    assert statuses(raw(client, head + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + body)) == [b"501"]
