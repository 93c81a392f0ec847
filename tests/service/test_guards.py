"""What is refused before an endpoint sees it: foreign hosts and pages, floods, and bodies that hurt."""

import gzip
import json
import resource
import socket
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from digestif.service.connection import HEAD_BYTES, MOST_HEADERS, Connection
from digestif.service.security.hosts import Hosts
from digestif.service.security.tokens import Tokens, hash_of
from digestif.service.server import CONNECTIONS, OTHER_FILES, most_connections
from digestif.service.settings import Limits, Scope, Token
from tests.service.harness import TIMEOUT, Client, Reply, serving, settings_with, token_of

pytestmark = pytest.mark.long

ADD = "/v1/timelines/t/records"


def is_problem(reply: Reply, status: int) -> bool:
    problem = reply.json()
    kind = reply.headers["content-type"]
    return (
        reply.status == status == problem["status"] and kind == "application/problem+json" and problem["detail"] != ""
    )


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", "", "[::1"]
)
def test_a_foreign_host_is_refused(client: Client, host: str) -> None:
    for path in ("/v1/timelines", "/docs", "/healthz"):
        assert is_problem(client.get(path, headers={"Host": host}), 421)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:8321", "digest.example.org", "x.example"]
)
def test_names_of_this_service_are_served(host: str) -> None:
    settings = settings_with(public="https://digest.example.org", hosts=("x.example",))
    with serving(settings=settings) as (client, _):
        assert client.get("/healthz", headers={"Host": host}).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_a_page_of_another_site_changes_nothing(client: Client, origin: str) -> None:
    assert is_problem(client.post(ADD, {"value": 1}, headers={"Origin": origin}), 403)
    assert client.get("/v1/timelines/t").json()["state"] == "idle"


def test_a_page_of_our_own_may_change_something(client: Client) -> None:
    assert client.post(ADD, {"value": 1}, headers={"Origin": client.url}).status == 202


def test_a_page_under_the_public_address_may_change_something() -> None:
    with serving(settings=settings_with(public="https://digest.example.org")) as (client, _):
        assert client.post(ADD, {"value": 1}, headers={"Origin": "https://digest.example.org"}).status == 202


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("digest.example.org", "http://digest.example.org", 403),
        ("digest.example.org:443", "http://digest.example.org:443", 403),
        ("digest.example.org", "https://digest.example.org", 202),
        ("127.0.0.1:8321", "http://127.0.0.1:8321", 202),  # people on the computer itself come without the proxy
        ("x.example", "https://x.example", 202),
    ],
)
def test_under_a_public_address_of_https_only_its_own_pages_may_change_something(
    host: str, origin: str, status: int
) -> None:
    with serving(settings=settings_with(public="https://digest.example.org", hosts=("x.example",))) as (client, _):
        reply = client.post(ADD, {"value": 1}, headers={"Host": host, "Origin": origin})

        assert reply.status == status


def test_names_of_hosts_take_little_memory() -> None:
    hosts = Hosts(settings_with())
    tracemalloc.start()
    try:
        for number in range(3_000):
            assert not hosts.are_ours(b"%d" % number + b"x" * 30_000)
            assert not hosts.are_ours(b"%d.example" % number)
            assert hosts.are_ours(b"localhost:%d" % number)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 500_000


def test_more_requests_than_a_token_may_make_are_refused_for_a_while() -> None:
    (fast, one), (other, two) = token_of("fast"), token_of("other")
    with serving(settings=settings_with(one, two, limits=Limits(rate=2))) as (client, _):
        replies = [client.by(fast).get("/v1/ledger") for _ in range(6)]

        assert 429 in [reply.status for reply in replies]
        refused = next(reply for reply in replies if reply.status == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert client.by(other).get("/v1/ledger").status == 200


def test_a_long_body_counts_as_many_requests_of_its_token() -> None:
    (long, one), (other, two) = token_of("long"), token_of("other")
    with serving(settings=settings_with(one, two, limits=Limits(rate=10))) as (client, _):
        assert client.by(long).add("t", "x" * (200 << 10)).status == 202
        assert client.by(long).get("/v1/ledger").status == 200
        assert client.by(long).post("/v1/records", b" " * (4 << 20) + b"[]").status == 202

        refused = client.by(long).get("/v1/ledger")

        assert refused.status == 429
        assert 4 <= int(refused.headers["retry-after"]) <= 8  # 64 requests at ten a second
        assert client.by(other).get("/v1/ledger").status == 200


def nested(depth: int) -> bytes:
    return b'{"value":' + b"[" * depth + b"]" * depth + b"}"


BAD = {
    "nested 10,000 deep": (nested(10_000), 422),
    "nested 65 deep": (nested(65), 422),
    "a number of 300 digits": (b'{"value":' + b"7" * 300 + b"}", 422),
    "a fraction of 300 digits": (b'{"value":0.' + b"7" * 300 + b"}", 422),
    "a timestamp of 300 digits": (b'{"value":1,"timestamp":' + b"7" * 300 + b"}", 422),
    "a number out of range": (b'{"value":1e999}', 422),
    "UTF-16": (json.dumps({"value": 1}).encode("utf-16"), 400),
    "bytes that are no UTF-8": (b'{"value":"\xff"}', 400),
    "NaN": (b'{"value":NaN}', 400),
    "a name twice": (b'{"value":{"a":1,"a":2}}', 422),
    "a name twice among many": (b'{"value":{%b,"n79999":1}}' % b",".join(b'"n%d":1' % n for n in range(80_000)), 422),
    "a name twice outside": (b'{"value":1,"value":2}', 422),
    "a name twice in disguise": (b'{"value":{"a":1,"a":2,"b":"\\u003a"}}', 422),
    "an unknown field": (b'{"value":1,"vaule":2}', 422),
    "no value": (b'{"key":"k"}', 422),
    "a key that is no string": (b'{"value":1,"key":5}', 422),
    "an array": (b"[]", 422),
    "nothing": (b"", 400),
    "half": (b'{"value":', 400),
    "two documents": (b'{"value":1}{"value":2}', 400),
    "a lone surrogate": (b'{"value":"\\ud800"}', 400),
    "a negative deadline": (b'{"value":1,"within":-1}', 422),
    "milliseconds": (b'{"value":1,"timestamp":1700000000000}', 422),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_body_is_a_problem(client: Client, name: str) -> None:
    body, status = BAD[name]

    assert is_problem(client.post(ADD, body), status)


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFff", "\\ud83d\\ud83d\\ude00", "\\\\\\ud800"])
def test_half_of_a_surrogate_pair_is_named(client: Client, half: str) -> None:
    body = b'{"timeline":"t","value":"%b"}' % half.encode()

    for content, kind in ((b"[%b]" % body, "json"), (b"%b\n%b" % (body, body), "x-ndjson")):
        reply = client.post("/v1/records", content, headers={"Content-Type": f"application/{kind}"})
        assert is_problem(reply, 400)
        assert "is half of a character: send both halves of the pair" in reply.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"value":"\\ud83d\\ude00 \\\\ud800"}',
        b'{"value":{"a":"7777777777777777777777777777777777777777777777777777"}}',
        b'{"value":{"a:b":"c:d","e":"\\u003a"}, "key":null}',
        b'{"value":123456789012345678901234567890}',
        b' {"value" : null } ',
        b'{"value":{"a":{"a":1}}}',
        nested(64),
    ],
)
def test_a_good_body_is_not_mistaken_for_a_bad_one(client: Client, body: bytes) -> None:
    assert client.post(ADD, body).status == 202


def test_a_wrong_field_is_named_by_its_path(client: Client) -> None:
    reply = client.post(ADD, {"value": 1, "timestamp": "now"})

    assert reply.json()["errors"][0]["path"] == "$.timestamp"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=utf-16"]
)
def test_a_body_of_another_type_is_refused(client: Client, kind: str) -> None:
    assert is_problem(client.post(ADD, b'{"value":1}', headers={"Content-Type": kind}), 415)


def test_a_packed_body_is_refused_unread(client: Client) -> None:
    bomb = gzip.compress(b"[" + b" " * 50_000_000 + b"]")
    before = peak()

    reply = client.post("/v1/records", bomb, headers={"Content-Encoding": "gzip"})

    assert is_problem(reply, 415)
    assert peak() - before < 20_000_000


def peak() -> int:
    """Bytes that this process has had in memory at most; the server runs in it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture(scope="module")
def strict() -> Iterator[Client]:
    """A service with little room and little patience."""
    with serving(settings=settings_with(limits=Limits(body=100_000))) as (client, _):
        yield client


def raw(client: Client, *parts: bytes, endless: bytes = b"", seconds: float = TIMEOUT) -> bytes:
    """Send bytes as they are, then some of them again and again; the answer up to where the connection ends."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=seconds) as connection:
        received = b""
        try:
            for part in parts:
                connection.sendall(part)
            deadline = time.monotonic() + seconds
            while endless and time.monotonic() < deadline:
                connection.sendall(endless)
        except OSError:
            pass  # the server has closed it
        try:
            while chunk := connection.recv(65536):
                received += chunk
        except ConnectionError:
            pass
    return received


HEAD = b"POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_that_says_it_is_too_long_is_refused_unread(strict: Client) -> None:
    answer = raw(strict, HEAD + b"Content-Length: 100001\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer


def test_an_endless_body_is_refused_when_it_is_too_long(strict: Client) -> None:
    chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    before = peak()

    answer = raw(strict, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", endless=chunk)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert peak() - before < 20_000_000


def test_a_body_that_does_not_arrive_is_given_up(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "body_seconds", 0.3)
    started = time.monotonic()

    answer = raw(strict, HEAD + b"Content-Length: 1000\r\n\r\n[")

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - started < 5


def test_a_head_that_is_too_long_is_refused(strict: Client) -> None:
    at_once = raw(strict, HEAD + b"X-Long: " + b"x" * HEAD_BYTES + b"\r\n\r\n")
    endless = raw(strict, HEAD, endless=b"X-More: " + b"x" * 1000 + b"\r\n")
    address = raw(strict, b"GET /" + b"x" * HEAD_BYTES + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert [answer[:13] for answer in (at_once, endless, address)] == [b"HTTP/1.1 431 "] * 3


def test_a_head_of_too_many_headers_is_refused_before_its_end(strict: Client) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    most = raw(strict, head + b"a:b\r\n" * (MOST_HEADERS - 2) + b"\r\n")
    more = raw(strict, head + b"a:b\r\n" * (MOST_HEADERS - 1) + b"\r\n")
    unfinished = raw(strict, head + b"a:b\r\n" * MOST_HEADERS)
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    behind = raw(strict, first + head + b"a:b\r\n" * MOST_HEADERS + b"\r\n")

    assert [answer[9:12] for answer in (most, more, unfinished)] == [b"200", b"431", b"431"]
    assert behind.count(b"HTTP/1.1 ") == behind.count(b"HTTP/1.1 200 ") == 1  # what was asked before has its answer


def test_what_is_refused_before_the_application_sees_it_is_no_error_in_the_log(
    strict: Client, caplog: pytest.LogCaptureFixture
) -> None:
    raw(strict, HEAD + b"X-Long: " + b"x" * HEAD_BYTES + b"\r\n\r\n")
    raw(strict, b"CONNECT example.org:443 HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_head_that_does_not_arrive_is_given_up(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "head_seconds", 0.2)

    assert raw(strict, HEAD).startswith(b"HTTP/1.1 408 ")
    assert raw(strict).startswith(b"HTTP/1.1 408 ")


def test_long_texts_in_place_of_a_token_take_no_memory() -> None:
    long, token = "x" * 32_000, Token(name="long", hash=hash_of("x" * 32_000), scopes=frozenset([Scope.READ]))
    tokens = Tokens([token])
    tracemalloc.start()
    try:
        assert not any(tokens.find(f"{number}{long}") for number in range(100))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 100_000
    holder = tokens.find(long)
    assert holder is not None
    assert holder.name == "long"


def test_what_is_no_http_is_a_problem(strict: Client) -> None:
    answer = raw(strict, b"HELLO\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer


def test_the_connection_is_kept_after_a_small_problem(client: Client) -> None:
    connection = client.connect()

    assert client.post(ADD, b"{", connection=connection).status == 400
    assert client.post(ADD, {"value": 1}, connection=connection).status == 202
    connection.close()


def test_there_are_fewer_connections_than_files_that_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 524_288))
    assert most_connections() == CONNECTIONS
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert most_connections() == 1024 - OTHER_FILES
    monkeypatch.setattr(resource, "getrlimit", lambda _: (128, 128))
    assert most_connections() == 64
    assert asked == [(CONNECTIONS + OTHER_FILES, 524_288)]


@pytest.mark.parametrize("name", ["Host", "Authorization", "Content-Type", "Origin"])
def test_a_header_that_guards_read_may_come_only_once(strict: Client, name: str) -> None:
    head = b"POST /v1/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
    twice = f"{name}: localhost\r\n".encode() * 2

    assert raw(strict, head + twice + b"\r\n").startswith(b"HTTP/1.1 400 ")
