"""Bodies that are made to cost much, against a real `digestif serve`, while another client adds small records."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import pytest

from tests.service.harness import Client
from tests.service.programs import started
from tests.service.test_bodies import (
    ADD,
    ADD_MANY,
    ALONE,
    NDJSON,
    TOGETHER,
    TOGETHER_IN_LINES,
    VALUE,
    filled,
    many,
    one,
)

SECONDS = 15
LONGEST_WAIT = 0.5  # seconds for an answer, on a machine that does other things too: one body took up to 30 before
LONGEST_COMMIT = 3.0  # seconds for an add beside those of 8 MiB
MOST_MEMORY = 300 << 20  # bytes

Attack = Callable[[Client], None]


def memory_of(pid: int) -> int:
    """The most bytes that a process has had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) << 10


@contextmanager
def under(attack: Attack, client: Client, attackers: int) -> Iterator[None]:
    """Let some threads attack until the block ends."""
    stopped = threading.Event()

    def go_on() -> None:
        while not stopped.is_set():
            attack(client)

    threads = [threading.Thread(target=go_on) for _ in range(attackers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


class Waits(NamedTuple):
    """How long the answers of a well-behaved client took at most, in seconds."""

    loop: float  # to a request that needs no store
    store: float  # to one that adds a record, which may wait for the commit of another client's records

    def __str__(self) -> str:
        return f"longest waits {self.loop * 1000:.0f} ms for /healthz, {self.store * 1000:.0f} ms for an add"


def waits(client: Client, seconds: float) -> Waits:
    """Send small requests for some time."""
    loop, store, end, connection = 0.0, 0.0, monotonic() + seconds, client.connect()
    while (began := monotonic()) < end:
        assert client.get("/healthz", connection=connection).status == 200
        between = monotonic()
        assert client.post("/v1/timelines/own/records", {"value": 1}, connection=connection).status == 202
        loop, store = max(loop, between - began), max(store, monotonic() - between)
    connection.close()
    return Waits(loop, store)


def assert_short(found: Waits, memory: int, what: str) -> None:
    print(f"{what}: {found}, {memory >> 20} MiB")  # noqa: T201  # the figure of this proof
    assert found.loop < LONGEST_WAIT
    assert found.store < LONGEST_COMMIT
    assert memory < MOST_MEMORY


def bombs(client: Client) -> None:
    """Send each of the costly bodies."""
    for body, status in ALONE.values():
        assert client.post(ADD, body).status == status
    for body, status in TOGETHER.values():
        assert client.post(ADD_MANY, body).status == status
    for body, status in TOGETHER_IN_LINES.values():
        assert client.post(ADD_MANY, body, headers={"Content-Type": NDJSON}).status == status


@pytest.mark.parametrize("attackers", [1, 4])
def test_costly_bodies_hold_up_no_other_client(tmp_path: Path, attackers: int) -> None:
    with started(tmp_path) as (program, client):
        with under(bombs, client, attackers):
            found = waits(client, SECONDS)
        memory = memory_of(program.process.pid)

    assert_short(found, memory, f"{attackers} attackers")


DENSE = {
    "arrays": one(b"[%b]" % filled(b"[]", 95_000)),
    "nested arrays": one(b"[%b]" % filled(b"[" * 60 + b"]" * 60, 64_000)),
    "names": one(b"{%b}" % b",".join(b'"%d":1' % number for number in range(20_000))),
    "numbers": one(b"[%b]" % filled(b"1e308", 600)),
    "texts": one(b"[%b]" % filled('"é"'.encode(), VALUE)),
}


def test_what_was_accepted_is_cheap_to_read(tmp_path: Path) -> None:
    """By the API and by the dashboard, while another client adds records."""

    def read(client: Client) -> None:
        for name in DENSE:
            path = name.replace(" ", "%20")
            assert client.get(f"/v1/timelines/{path}/records?limit=5").status == 200
            assert client.get(f"/timeline?key={path}").status == 200

    with started(tmp_path) as (program, client):
        for name, body in DENSE.items():
            for _ in range(5):
                assert client.post(f"/v1/timelines/{name.replace(' ', '%20')}/records", body).status == 202
        with under(read, client, 1):
            found = waits(client, SECONDS)
        memory = memory_of(program.process.pid)

    assert_short(found, memory, "read back")


def test_many_allowed_values_in_long_bodies_hold_up_no_other_client(tmp_path: Path) -> None:
    body = many(b"[%b]" % filled(b"[]", 90_000))

    def add(client: Client) -> None:
        assert client.post(ADD_MANY, body).status in (202, 503)

    with started(tmp_path) as (program, client):
        with under(add, client, 2):
            found = waits(client, SECONDS)
        memory = memory_of(program.process.pid)

    assert_short(found, memory, "long bodies")
