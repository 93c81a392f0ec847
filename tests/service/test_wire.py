"""What one client on the wire may cost others: seconds of the event loop (fact 89), memory, and places."""

import gc
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import thread_time
from typing import Any
from urllib.parse import urlsplit

import pytest

from digestif import AsyncDigests
from digestif.service.connection import (
    AHEAD_BYTES,
    CHUNK_BYTES,
    HEAD_BYTES,
    HEADER_COST,
    MOST_READ,
    PARSE_SECONDS,
    SLICE,
    SMALL_CHUNKS,
    Connection,
)
from digestif.service.exchange import Exchange
from digestif.service.service import Service
from tests.service.harness import TIMEOUT, Client, Reply, served, settings_with
from tests.service.pauses import MOST, measured
from tests.service.test_guards import raw

pytestmark = pytest.mark.long

HEAD = b"POST /v1/timelines/t/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'{"value": 1}'
FIRST = b"%x\r\n%b\r\n" % (len(BODY), BODY)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def service() -> Service:
    return Service(settings_with(), AsyncDigests("memory://"))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(service()) as client:
        yield client


@contextmanager
def connected(client: Client) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", client.port), timeout=TIMEOUT) as connection:
        yield connection


def status_of(answer: bytes) -> bytes:
    return answer[9:12]


ENDLESS = {
    "a trailer": (CHUNKED + FIRST + b"0\r\nX: ", b"y" * 1000),
    "trailers": (CHUNKED + FIRST + b"0\r\n", b"X: y\r\n" * 100),
    "the name of a trailer": (CHUNKED + FIRST + b"0\r\n", b"y" * 1000),
    "an extension of a chunk": (CHUNKED + b"5;", b"y" * 1000),
    "the size of a chunk": (CHUNKED, b"0" * 1000),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_what_has_no_end_behind_a_head_is_refused_like_a_long_head(client: Client, part: str) -> None:
    start, again = ENDLESS[part]

    answer = raw(client, start, endless=again)

    assert status_of(answer) in (b"431", b"400")  # a name or a number may be too long for the parser itself
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer


def test_trailers_that_come_byte_by_byte_keep_the_loop_for_a_moment_only() -> None:
    with measured() as pauses, served(service()) as client, connected(client) as connection:
        connection.sendall(CHUNKED + FIRST + b"0\r\nX: " + b"y" * (HEAD_BYTES - 100))
        for _ in range(100):
            connection.sendall(b"y")
        connection.sendall(b"\r\n\r\n")

        assert status_of(connection.recv(1000)) == b"202"
    assert pauses.longest < MOST, pauses


def test_a_body_in_chunks_has_time_and_room_for_ordinary_trailers(client: Client) -> None:
    with connected(client) as connection:
        for _ in range(2):
            connection.sendall(CHUNKED + FIRST + b"0\r\nDigest: abc\r\n\r\n")
            assert status_of(connection.recv(1000)) == b"202"


def in_chunks(body: bytes, size: int) -> bytes:
    parts = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_a_large_body_in_chunks_of_one_byte_is_refused() -> None:
    body = b'{"value": "' + b"x" * 100_000 + b'"}'
    with measured() as pauses, served(service()) as client:
        answer = raw(client, CHUNKED + in_chunks(body, 1))
        fine = raw(client, CHUNKED.replace(b"Host", b"Connection: close\r\nHost") + in_chunks(body, 20))

    assert (status_of(answer), status_of(fine)) == (b"400", b"202")
    assert pauses.longest < MOST, pauses


def test_a_large_chunk_does_not_make_up_for_tiny_ones_behind_it() -> None:
    large, tiny = b"%x\r\n%b\r\n" % (4_000_000, b" " * 4_000_000), b"1\r\n \r\n"
    with measured() as pauses, served(service()) as client:
        answer = raw(client, CHUNKED + large + tiny * 5_000)

    assert status_of(answer) == b"400"
    assert b"chunks of the body" in answer
    assert pauses.longest < MOST, pauses


@pytest.mark.parametrize("sent", [1, 7, 23, 1_000, 100_000])  # bytes at a time
def test_a_body_in_chunks_of_the_smallest_size_is_accepted_however_it_is_cut(client: Client, sent: int) -> None:
    body = b'{"value": "' + b"x" * 16 * (SMALL_CHUNKS + 500 if sent > 1 else 1) + b'"}' + b" " * 3
    wire = CHUNKED.replace(b"Host", b"Connection: close\r\nHost") + in_chunks(body, CHUNK_BYTES)

    answer = raw(client, *[wire[start : start + sent] for start in range(0, len(wire), sent)])

    assert len(body) % CHUNK_BYTES == 0
    assert status_of(answer) == b"202"


def test_what_one_connection_sends_is_parsed_in_turns_with_others() -> None:
    """Requests of 64 KiB come in one read, and each slice of them takes part of the time."""
    slices: list[Connection] = []

    class Slow(Connection):
        def _parse(self, data: bytes) -> None:
            slices.append(self)
            end = thread_time() + PARSE_SECONDS
            while thread_time() < end:
                pass
            super()._parse(data)

    body = b'{"value": 1}' + b" " * 400_000
    wire = HEAD.replace(b"Host", b"Connection: close\r\nHost") + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with measured() as pauses, served(service(), http=Slow) as client:
        assert status_of(raw(client, wire)) == b"202"

    assert len(slices) > 400_000 // SLICE
    assert pauses.longest < 4 * PARSE_SECONDS, pauses


def test_a_small_body_may_come_in_chunks_of_one_byte(client: Client) -> None:
    with connected(client) as connection:
        connection.sendall(CHUNKED + in_chunks(BODY, 1))

        assert status_of(connection.recv(1000)) == b"202"


def test_as_many_requests_as_can_be_sent_ahead_keep_the_loop_for_a_moment_only() -> None:
    with measured() as pauses, served(service()) as client:
        answers = raw(client, b"GET / HTTP/1.1\r\n\r\n" * 5_000, HEALTH.replace(b"Host", b"Connection: close\r\nHost"))

    assert answers.count(b"HTTP/1.1 421") == 5_000
    assert pauses.longest < MOST, pauses


HEADS = {
    "headers": (b"/", b"a:\r\n" * 7_000),
    "cookies": (b"/", b"Cookie: %b\r\n" % b";".join(b"a%x" % number for number in range(5_000))),
    "a cookie in quotes": (b"/login", b'Cookie: a="%b"\r\n' % (rb"\\" * 15_900)),
    "a query": (b"/timelines?" + b"&".join(b"a%x" % number for number in range(5_000)), b""),
    "a path": (b"/v1/timelines/" + b"%41" * 10_000, b""),
}


@pytest.mark.parametrize("part", HEADS)
def test_a_head_of_the_greatest_length_keeps_the_loop_for_a_moment_only(part: str) -> None:
    path, headers = HEADS[part]
    with measured() as pauses, served(service()) as client:
        for page in ("/", "/login", "/timelines", "/healthz"):  # templates are compiled once
            client.get(page)
        pauses.longest = 0.0
        assert raw(client, b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%b\r\n" % (path, headers))

    assert pauses.longest < MOST, pauses


def test_an_answer_before_the_end_of_the_body_closes_the_connection_and_still_arrives(client: Client) -> None:
    head = HEAD.replace(b"application/json", b"text/plain") + b"Content-Length: 4000000\r\n\r\n"

    with connected(client) as connection:
        connection.sendall(head)
        for _ in range(40):  # it does not look at the answer before it has sent nearly all
            connection.sendall(b"x" * 50_000)
            time.sleep(0.001)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert status_of(answer) == b"415"
    assert b"connection: close" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_client_that_never_stops_sending_a_refused_body_is_left_within_a_moment(client: Client) -> None:
    began = time.monotonic()

    raw(client, HEAD.replace(b"application/json", b"text/plain") + b"Content-Length: 9\r\n\r\n", endless=b"x" * 1000)

    assert time.monotonic() - began < 10


LARGE = b'{"value": "' + b"x" * 20_000 + b'"}'
AHEAD = {
    "bodies": HEAD + b"Content-Length: %d\r\n\r\n" % len(LARGE) + LARGE,
    "heads": HEAD + b"Content-Length: %d\r\nX: %b\r\n\r\n" % (len(BODY), b"y" * 30_000) + BODY,
    "headers": HEAD + b"Content-Length: %d\r\n%b\r\n" % (len(BODY), b"x:y\r\n" * 90) + BODY,
}


@pytest.mark.parametrize("part", AHEAD)
def test_few_bytes_wait_for_their_turn_however_many_are_sent(part: str) -> None:
    most = 0

    class Ahead(Connection):
        def _parse(self, data: bytes) -> None:
            nonlocal most
            super()._parse(data)
            waiting = list(self._exchanges)[1:]
            headers = [header for exchange in waiting for header in exchange.scope["headers"]]
            heads = sum(HEADER_COST + len(name) + len(value) for name, value in headers)
            most = max(most, heads + sum(exchange.received for exchange in waiting) + len(self._unparsed))

    with served(service(), http=Ahead) as client:
        answers = raw(client, AHEAD[part] * 50 + HEALTH.replace(b"Host", b"Connection: close\r\nHost"))

    assert answers.count(b"HTTP/1.1 202") == 50
    assert 0 < most <= AHEAD_BYTES + HEAD_BYTES + MOST_READ + 2 * SLICE


# memory


@pytest.mark.parametrize(
    "path", ["/healthz", "/v1/timelines", "/docs", "/", "/timelines", "/timeline?key=a", "/nowhere"]
)
def test_a_request_and_its_connection_are_not_left_to_the_garbage_collector(client: Client, path: str) -> None:
    """Heads of 32 KiB would stay in memory until it runs."""

    def ask() -> None:
        raw(client, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        raw(client, HEALTH[:-4] + b"\r\nX: " + b"y" * 2 * HEAD_BYTES)

    ask()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        ask()
        gc.collect()
        assert not [each for each in gc.garbage if isinstance(each, (Connection, Exchange))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("path", ["/login?%d", "/%d%%F0%%9F%%98%%80/", "/static/%d", "/v1/timelines?after=%d"])
def test_the_addresses_of_requests_stay_in_no_cache(client: Client, path: str) -> None:
    """128 of them would be 30 MB: a character that needs four bytes makes all others as large."""
    urlsplit.cache_clear()  # type: ignore[attr-defined]
    for number in range(3):
        client.get(path % number)

    assert urlsplit.cache_info().currsize < 3  # type: ignore[attr-defined]


def unfinished(size: int) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % (size + 1) + b" " * size


@pytest.fixture
def large() -> Iterator[Client]:
    """A service with room for a MiB of bodies."""
    with served(service(), bodies=1 << 20) as client:
        yield client


def test_bodies_beyond_the_memory_for_them_are_refused_and_small_ones_are_not(large: Client) -> None:
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(connected(large)).sendall(unfinished(450_000))
        assert large.add("t", "x" * 100).status == 202  # by then the server has read the others
        refused = add_padded(large, 300_000)

        assert refused.status == 503
        assert refused.headers["retry-after"] == "1"
        assert large.add("t", "x" * 20_000).status == 202
        assert large.get("/healthz").status == 200
    assert becomes_accepted(large, 300_000)


def test_the_slowest_body_makes_room(large: Client) -> None:
    with connected(large) as slow:
        slow.sendall(unfinished(900_000))
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until and not select.select([slow], [], [], 0.05)[0]:
            status = add_padded(large, 300_000).status

        assert status_of(slow.recv(1000)) == b"503"
        assert status == 202


def test_the_memory_of_a_request_is_free_when_it_is_answered(large: Client) -> None:
    with connected(large) as connection:
        for _ in range(5):
            connection.sendall(unfinished(600_000) + b"1")
            assert status_of(connection.recv(1000)) == b"422"


def add_padded(client: Client, size: int) -> Reply:
    return client.post("/v1/timelines/t/records", BODY + b" " * size)


def becomes_accepted(client: Client, size: int) -> bool:
    """True if a body is accepted within some seconds."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if add_padded(client, size).status == 202:
            return True
        time.sleep(0.05)
    return False


# places

WAITING = {
    "idle": b"",
    "between requests": HEALTH,
    "in a head": HEALTH[:-4],
    "in a body": HEAD + b"Content-Length: 5\r\n\r\n1",
    "in trailers": CHUNKED + FIRST + b"0\r\nX: ",
}


@pytest.mark.parametrize("where", WAITING)
def test_a_newcomer_takes_the_place_of_a_connection_that_waits(where: str) -> None:
    with served(service(), limit_concurrency=5) as client, ExitStack() as held:
        before = [held.enter_context(connected(client)) for _ in range(5)]
        for connection in before:
            connection.sendall(WAITING[where])
        if where == "between requests":
            assert [status_of(connection.recv(1000)) for connection in before] == [b"200"] * 5

        assert [client.get("/healthz").status for _ in range(8)] == [200] * 8
        with suppress(ConnectionResetError):  # if the last bytes were not read
            assert before[0].recv(1000) == b""


def test_a_connection_at_work_keeps_its_place_and_others_are_refused() -> None:
    engine = service()
    goes_on, begun = threading.Event(), threading.Semaphore(0)
    add = engine.digests.store.add

    def slowly(*args: Any, **options: Any) -> object:
        begun.release()
        assert goes_on.wait(TIMEOUT)
        return add(*args, **options)

    engine.digests.store.add = slowly  # type: ignore[method-assign, assignment]
    with served(engine, limit_concurrency=1) as client, connected(client) as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
        assert begun.acquire(timeout=TIMEOUT)
        refused = raw(client)
        goes_on.set()

        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"application/problem+json" in refused
        assert b"retry-after: 1" in refused
        assert status_of(connection.recv(1000)) == b"202"


def test_a_client_that_does_not_read_loses_its_place() -> None:
    with served(service(), limit_concurrency=1) as client, connected(client) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                connection.sendall(b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)

        assert client.get("/healthz").status == 200


def test_a_full_service_serves_each_newcomer_and_looks_through_its_connections_in_a_moment() -> None:
    with measured() as pauses, served(service(), limit_concurrency=200) as client, ExitStack() as held:
        for number in range(600):
            held.enter_context(connected(client))
            if number % 10 == 0:
                assert client.get("/healthz").status == 200
    assert pauses.longest < MOST, pauses
