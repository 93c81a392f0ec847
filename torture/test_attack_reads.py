"""Readers and the worker of a real `digestif serve`, whose store holds values that are costly to decode."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from digestif import Digests, Policy, Record
from tests.service.harness import Client
from tests.service.old_values import TEXTS, AsIs
from tests.service.programs import Program, started

MIB = 1 << 20
QUICK = 1.0  # seconds in which /healthz answers beside the attack, on a machine that is busy with both
SECONDS = 5.0  # of each attack
READERS = 6
TIMELINES = 24
SETTINGS = """
store = "sqlite:///digests.db"

[worker]
memory = 64

[[routes]]
pattern = "*"
channel = "file://./out"
"""


def planted(folder: Path, kind: str, *, timelines: int, records: int, dead: bool = False) -> list[str]:
    """Store old values in a file for a service, and return the ids of its dead letters."""
    with Digests(f"sqlite:///{folder / 'digests.db'}", codec=AsIs(), policy=Policy(attempts=1)) as digests:
        digests.handler("*")(lambda _: 1 / 0)
        for timeline in range(timelines):
            name = f"t{timeline}"
            if not dead:
                digests.pause(name)
            digests.add_many([(name, Record(f"k{number}", TEXTS[kind], number)) for number in range(records)])
            if dead:
                digests.deliver(name)
        return [letter.id for letter in digests.dead_letters()]


def resident(program: Program, which: str = "VmHWM") -> int:
    """The bytes of memory that a program uses, by default the most so far."""
    [line] = [
        line
        for line in Path(f"/proc/{program.process.pid}/status").read_text().splitlines()
        if line.startswith(f"{which}:")
    ]
    return int(line.split()[1]) * 1024


@contextmanager
def slowest_answer(client: Client) -> Iterator[list[float]]:
    """Ask for /healthz all the time; the longest time that an answer took is the one item."""
    longest, is_over = [0.0], threading.Event()

    def ask() -> None:
        while not is_over.wait(0.01):
            began = time.perf_counter()
            assert client.get("/healthz").status == 200
            longest[0] = max(longest[0], time.perf_counter() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield longest
    finally:
        is_over.set()
        asking.join()


def read_until(client: Client, paths: list[str], end: float) -> int:
    """Read pages and answers again and again, and return how many there were."""
    count = 0
    while time.perf_counter() < end:
        status = client.get(paths[count % len(paths)]).status
        assert status in (200, 413, 503), status
        count += 1
    return count


@pytest.mark.parametrize("kind", TEXTS)
def test_readers_of_costly_values_neither_fill_the_memory_nor_hold_up_others(tmp_path: Path, kind: str) -> None:
    letters = planted(tmp_path, kind, timelines=1, records=50, dead=True)
    planted(tmp_path, kind, timelines=2, records=50)
    paths = [f"/v1/dead-letters/{letters[0]}", f"/dead-letter?id={letters[0]}", "/timeline?key=t1"]
    paths += ["/v1/timelines/t1/records?limit=500", "/v1/timelines/t1/records?limit=1"]
    paths += ["/v1/timelines/t1/preview", "/timeline/preview?key=t1", "/v1/timelines/t1/trace/k1", "/v1/digests"]
    (tmp_path / "digestif.toml").write_text(SETTINGS)

    with started(tmp_path, "--no-worker") as (program, client):
        client.get("/timeline?key=t1")
        before = resident(program, "VmRSS")
        with slowest_answer(client) as slowest:
            end, counts = time.perf_counter() + SECONDS, list[int]()
            readers = [
                threading.Thread(target=lambda n=n: counts.append(read_until(client, paths[n:] + paths[:n], end)))
                for n in range(READERS)
            ]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
        most = resident(program)

    memory = f"RSS {before / MIB:.0f} to {most / MIB:.0f} MiB"
    print(f"{kind}: {sum(counts)} answers, {memory}, /healthz within {slowest[0]:.3f} s")  # noqa: T201  # the figure
    assert len(counts) == READERS
    assert most < before + 200 * MIB
    assert slowest[0] < QUICK


@pytest.mark.parametrize("kind", ["lists", "nested", "objects"])
def test_a_worker_stays_within_its_memory_whatever_is_stored(tmp_path: Path, kind: str) -> None:
    """The attack comes in small digests: each takes up to 40 MB once it is decoded."""
    planted(tmp_path, kind, timelines=TIMELINES, records=4)
    (tmp_path / "digestif.toml").write_text(SETTINGS)

    with started(tmp_path) as (program, client):
        before = resident(program, "VmRSS")
        for timeline in range(TIMELINES):
            assert client.post(f"/v1/timelines/t{timeline}/resume").status == 200
        with slowest_answer(client) as slowest:
            end = time.perf_counter() + 50
            while client.get("/v1/ledger").json()["delivered"] < 4 * TIMELINES and time.perf_counter() < end:
                time.sleep(0.1)
        most, delivered = resident(program), client.get("/v1/ledger").json()["delivered"]

    memory = f"RSS {before / MIB:.0f} to {most / MIB:.0f} MiB"
    print(f"{kind}: {delivered} delivered, {memory}, /healthz within {slowest[0]:.3f} s")  # noqa: T201  # the figure
    assert delivered == 4 * TIMELINES
    assert most < before + (64 + 64) * MIB
