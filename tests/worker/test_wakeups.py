"""The leading edge: the first record of an idle timeline reaches its handler at once, whoever adds it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import Delivered, Digest, Digests, Policy, WorkerStarted
from digestif.clock import monotonic
from tests.servers import empty_lone_cluster, empty_server
from tests.stores.postgres.servers import empty_database
from tests.worker.programs import ROOT
from tests.worker.workers import AT_ONCE, LONG, Ear, Times, becomes, working

POLICY = Policy(minimum_delay=0)
ADD = """
import sys
from digestif import Digests
with Digests(sys.argv[1]) as digests:
    digests.ledger()
    print("ready", flush=True)
    sys.stdin.readline()
    digests.add("t", 1)
"""


@pytest.fixture(params=["memory", "sqlite in memory", "sqlite", "postgres", "redis", "cluster"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    match request.param:
        case "memory":
            yield "memory://"
        case "sqlite in memory":
            yield "sqlite://"
        case "sqlite":
            yield f"sqlite:///{tmp_path}/d.db"
        case "postgres":
            with empty_database() as url:
                yield url
        case "cluster":
            yield f"{empty_lone_cluster().url}?partitions=8"
        case _:
            yield empty_server().url


@pytest.fixture
def digests(dsn: str) -> Iterator[Digests]:
    with Digests(dsn, policy=POLICY) as digests:
        yield digests


def test_what_this_process_adds_is_delivered_at_once(digests: Digests) -> None:
    """A worker that looks every minute is woken, again and again."""
    times, ear = Times(digests), Ear(digests)
    with working(digests, poll=LONG):
        ear.wait_for(WorkerStarted)
        waits = []
        for number in range(5):
            began = monotonic()
            digests.add(f"t{number}", 1)
            waits.append(times.after(began))
            ear.wait_for(Delivered, number + 1)

    assert max(waits) < AT_ONCE, (waits, ear.events)


@pytest.mark.parametrize("dsn", ["sqlite", "postgres", "redis", "cluster"], indirect=True)
def test_what_another_process_adds_is_delivered_at_once(dsn: str, digests: Digests) -> None:
    times, ear = Times(digests), Ear(digests)
    command = [sys.executable, "-c", ADD, dsn]
    adding = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with working(digests, poll=LONG), adding as adder:
        ear.wait_for(WorkerStarted)
        assert adder.stdin is not None
        assert adder.stdout is not None
        adder.stdout.readline()  # it has opened the store and waits for the word
        began = monotonic()
        adder.stdin.close()
        wait = times.after(began)

    assert wait < AT_ONCE, ear.events


def test_what_is_flushed_is_delivered_at_once(digests: Digests) -> None:
    times, ear = Times(digests), Ear(digests)
    digests.add("t", 1, first_delay=600)
    with working(digests, poll=LONG):
        ear.wait_for(WorkerStarted)
        began = monotonic()
        assert digests.flush("t")

        assert times.after(began) < AT_ONCE


@pytest.mark.parametrize("dsn", ["memory", "sqlite", "postgres", "redis"], indirect=True)
def test_two_workers_that_are_woken_deliver_it_once(dsn: str, digests: Digests) -> None:
    with Digests(dsn if dsn != "memory://" else digests.store, policy=POLICY) as others:
        calls: list[Digest] = []
        for each in (digests, others):
            each.handler("*")(calls.append)
        ears = [Ear(digests), Ear(others)]
        with working(digests, others, poll=LONG):
            for ear in ears:
                ear.wait_for(WorkerStarted)
            for number in range(20):
                digests.add(f"t{number}", 1)
            assert becomes(lambda: digests.ledger().delivered == 20)

    assert sorted(digest.timeline for digest in calls) == sorted(f"t{number}" for number in range(20))
