"""Attacks on the wire of a real `digestif serve`, without a token and with one: what others notice of them."""

import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from digestif.service.server import CONNECTIONS
from tests.service.harness import Client, token_of
from tests.service.programs import Program, started

SECONDS = 5.0  # of each attack
TICKS = os.sysconf("SC_CLK_TCK")
TOKEN, ENTRY = token_of("ops")
HEAD = b"POST /v1/timelines/t/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ALLOWED = HEAD + b"Authorization: Bearer %b\r\n" % TOKEN.encode()
CHUNKED = b'Transfer-Encoding: chunked\r\n\r\nc\r\n{"value": 1}\r\n'


class Target(NamedTuple):
    """A service and what it costs."""

    program: Program
    client: Client

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.program.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def delay(self) -> float:
        """Seconds in which its event loop could have run, and other programs had the processors."""
        return int(Path(f"/proc/{self.program.process.pid}/schedstat").read_text().split()[1]) / 1e9

    def memory(self) -> int:
        """Bytes in memory."""
        status = Path(f"/proc/{self.program.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) << 10

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.client.port), timeout=30)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    scopes = ", ".join(f'"{scope}"' for scope in sorted(ENTRY.scopes))
    (tmp_path / "digestif.toml").write_text(
        f'store = "memory://"\n[[tokens]]\nname = "ops"\nhash = "{ENTRY.hash}"\nscopes = [{scopes}]\n'
    )
    with started(tmp_path, token=TOKEN) as (program, client):
        assert client.add("t", 1).status == 202
        yield Target(program, client)


class Neighbour:
    """A well-behaved client that asks again and again, each time on a new connection."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.waits: list[float] = []  # without those for a processor
        self.statuses: set[int] = set()

    def _ask(self) -> None:
        while not self._ends.wait(0.02):
            began = time.monotonic() - self._target.delay()
            try:
                self.statuses.add(self._target.client.get("/healthz").status)
            except OSError:
                self.statuses.add(0)
            self.waits.append(time.monotonic() - self._target.delay() - began)

    def __enter__(self) -> "Neighbour":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(30)

    @property
    def longest(self) -> float:
        return max(self.waits)


@contextmanager
def beside(target: Target, name: str) -> Iterator[Neighbour]:
    """A neighbour during an attack; what it noticed is printed."""
    before, began = target.processor(), time.monotonic()
    with Neighbour(target) as neighbour:
        yield neighbour
    took = time.monotonic() - began
    print(  # noqa: T201 -- for the report
        f"{name}: {took:.1f} s, {(target.processor() - before) / took:.0%} of a core, "
        f"{target.memory() >> 20} MiB, the neighbour's longest wait {neighbour.longest * 1000:.0f} ms"
    )


def repeat(attack: Callable[[], None], seconds: float = SECONDS) -> int:
    """Attack again whenever the service ends the connection. How often."""
    until, times = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        with suppress(OSError):
            attack()
        times += 1
    return times


def send(connection: socket.socket, data: bytes) -> None:
    """Send, unless the service has ended the connection."""
    with suppress(OSError):
        connection.sendall(data)


@pytest.mark.parametrize("head", [HEAD, ALLOWED], ids=["without a token", "with a token"])
def test_attack_trailers_without_end(target: Target, head: bytes) -> None:
    """24 MB of one trailer and then single bytes took a core of its own: each byte copied all of them."""

    def attack() -> None:
        with target.connect() as connection:
            connection.sendall(head + CHUNKED + b"0\r\nX: ")
            for _ in range(24):
                connection.sendall(b"y" * 1_000_000)
            for _ in range(1_100):
                connection.sendall(b"y")
                time.sleep(0.001)

    before = target.processor()
    with beside(target, "trailers without end") as neighbour:
        times = repeat(attack)
    cost = (target.processor() - before) / times

    assert neighbour.statuses == {200}
    assert neighbour.longest < 1.0
    assert cost < 0.5  # seconds for each connection


def test_attack_slow_trailers_on_many_connections(target: Target) -> None:
    with ExitStack() as held, beside(target, "slow trailers") as neighbour:
        connections = [held.enter_context(target.connect()) for _ in range(200)]
        for connection in connections:
            connection.sendall(ALLOWED + CHUNKED + b"0\r\nX: " + b"y" * 30_000)
        before, until = target.processor(), time.monotonic() + SECONDS
        while time.monotonic() < until:
            for connection in connections:
                send(connection, b"y")

    assert neighbour.statuses == {200}
    assert neighbour.longest < 2.0
    assert target.processor() - before < 2 * SECONDS


@pytest.mark.parametrize("size", [1, 16])
def test_attack_tiny_chunks(target: Target, size: int) -> None:
    chunks = b"%x\r\n%b\r\n" % (size, b" " * size) * 100_000

    def attack() -> None:
        with target.connect() as connection:
            connection.sendall(ALLOWED + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
            connection.recv(1000)

    with beside(target, f"chunks of {size} bytes") as neighbour:
        repeat(attack)

    assert neighbour.statuses == {200}
    assert neighbour.longest < 1.0


def test_attack_unfinished_bodies(target: Target) -> None:
    """120 bodies of 8 MiB without their last byte took 960 MB."""
    size = 8 << 20
    before = target.memory()
    with ExitStack() as held, beside(target, "unfinished bodies") as neighbour:
        for _ in range(120):
            connection = held.enter_context(target.connect())
            connection.settimeout(2)
            send(connection, ALLOWED + b"Content-Length: %d\r\n\r\n" % size + b" " * (size - 1))
        grown = target.memory() - before
        small = [target.client.add("t", number).status for number in range(20)]
        time.sleep(1.2)
        large = target.client.post("/v1/timelines/t/records", b'{"value": 1}' + b" " * (1 << 20)).status

    assert grown < 130 << 20
    assert small == [202] * 20
    assert large == 202  # the slowest bodies made room
    assert neighbour.statuses == {200}


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process open as many connections as the service has places, and some more."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * CONNECTIONS), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


def test_attack_bodies_that_are_renewed_before_they_are_slow(target: Target) -> None:
    """30 connections of one address held all memory for bodies: those of others were refused."""
    size, ends = 8 << 20, threading.Event()
    body = ALLOWED + b"Content-Length: %d\r\n\r\n" % size + b" " * (size - 1)

    def attack() -> None:
        while not ends.is_set():
            with socket.socket() as connection, suppress(OSError):
                connection.settimeout(2)
                connection.bind(("127.0.0.2", 0))
                connection.connect(("127.0.0.1", target.client.port))
                connection.sendall(body)
                ends.wait(0.9)

    threads = [threading.Thread(target=attack) for _ in range(30)]
    with beside(target, "renewed bodies") as neighbour:
        for thread in threads:
            thread.start()
        time.sleep(2)
        large = b'{"value": 1}' + b" " * (1 << 20)
        statuses = [target.client.post("/v1/timelines/t/records", large).status for _ in range(20)]
        ends.set()
        for thread in threads:
            thread.join(30)

    assert statuses == [202] * 20
    assert neighbour.statuses == {200}


WAITING = {
    "idle": b"",
    "between requests": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "in heads": b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    "in bodies": ALLOWED + b"Content-Length: 5\r\n\r\n1",
    "in refused bodies": HEAD + b"Content-Length: 5\r\n\r\n1",
}


@pytest.mark.parametrize("where", WAITING)
def test_attack_connections_that_do_nothing(target: Target, where: str) -> None:
    """2,000 of them shut everybody out for more than half a minute."""
    with many_files(), ExitStack() as held, beside(target, f"connections {where}") as neighbour:
        until = time.monotonic() + SECONDS
        for _ in range(CONNECTIONS + 500):
            connection = held.enter_context(target.connect())
            send(connection, WAITING[where])
        time.sleep(max(0.0, until - time.monotonic()))
        assert target.client.add("t", 1).status == 202

    assert neighbour.statuses == {200}
    assert neighbour.longest < 1.5
    assert target.memory() < 250 << 20


UNFINISHED = {
    "tiny headers": b"ab:ba\r\n" * 5_000,
    "as many headers as may be": b"ab:ba\r\n" * 98 + b"X: " + b"y" * 30_000,
}


@pytest.mark.parametrize("kind", UNFINISHED)
def test_attack_unfinished_heads(target: Target, kind: str) -> None:
    """5,000 headers of two bytes took a megabyte of memory on each connection."""
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + UNFINISHED[kind]
    before = target.memory()
    with many_files(), ExitStack() as held, beside(target, f"heads of {kind}") as neighbour:
        for _ in range(1_500):
            send(held.enter_context(target.connect()), head)
        grown = target.memory() - before

    assert neighbour.statuses == {200}
    assert neighbour.longest < 1.0
    assert grown < 150 << 20


def test_attack_cookies_in_quotes(target: Target) -> None:
    """One of 32 KB stopped the loop for seconds."""
    head = b'GET /login HTTP/1.1\r\nHost: localhost\r\nCookie: a="%b"\r\n\r\n' % (rb"\\" * 15_900)

    def attack() -> None:
        with target.connect() as connection:
            connection.sendall(head)
            connection.recv(1000)

    with beside(target, "cookies in quotes") as neighbour:
        repeat(attack)

    assert neighbour.statuses == {200}
    assert neighbour.longest < 0.5


def test_attack_foreign_host_names_are_not_remembered(target: Target) -> None:
    before = target.memory()
    with beside(target, "host names"), target.connect() as connection:
        for number in range(2_000):
            name = b"%d" % number + b"x" * 30_000
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: %b\r\n\r\n" % name)
            assert connection.recv(1000).startswith(b"HTTP/1.1 421 ")

    assert target.memory() - before < 15 << 20


def test_attack_bodies_that_wait_behind_unread_answers(target: Target) -> None:
    """Requests that are sent ahead are held until answers before them are read: little, on each connection."""
    before = target.memory()
    page = b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = HEAD + b"Content-Length: 20000\r\n\r\n" + b" " * 20_000
    with ExitStack() as held, beside(target, "bodies behind unread answers") as neighbour:
        for _ in range(300):
            connection = held.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", target.client.port))
            connection.settimeout(0.01)
            send(connection, page * 20 + body * 50)
        time.sleep(1)
        grown = target.memory() - before

    assert neighbour.statuses == {200}
    assert grown < 300 * (400 << 10)
