"""A burst through Celery while its workers are killed every few seconds: nothing is lost, and all is counted."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from digestif.clock import monotonic
from digestif.testing.servers import RedisServer, becomes_true
from tests.integrations.mailroom import Mailroom, Process, Setup, check_identity, counts
from tests.stores.postgres.servers import empty_database

SECONDS = 60
TIMELINES = 100
PAUSE = 3.0  # between two kills, on average
TO_DELIVER = 60  # seconds: longer than a lease, a lost dispatch and the cool-down together


@pytest.mark.parametrize("redelivered_after", [3600, 4], ids=["without redelivery", "with redelivery"])
@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_nothing_is_lost_while_workers_are_killed(store: str, redelivered_after: int, tmp_path: Path) -> None:
    """Whether the broker redelivers the tasks of killed workers, or ticks alone find what they left."""
    with RedisServer() as server, other_stores(store) as others:
        setup = Setup.on(server, tmp_path, store, redelivered_after=redelivered_after)
        setup = replace(setup, stores=setup.stores | others)
        with Mailroom(setup, tmp_path) as room:
            for process in [room.start_worker(), room.start_worker(), room.start_beat()]:
                process.wait_until_ready()

            accepted, kills = torment(room, store)
            arrived = becomes_true(lambda: counts(setup).keys() >= accepted, timeout=TO_DELIVER, every=0.5)
            emptied = becomes_true(room.is_empty, timeout=TO_DELIVER, every=0.5)

            digests = room.tasks[store].digests
            ledger = digests.ledger()
            say(store, accepted, kills, repeated=check_identity(setup), ledger=ledger)
            assert arrived, f"{len(accepted - counts(setup).keys())} are missing"
            assert emptied, f"{digests.backlog()}"
            assert ledger.balanced
            assert ledger.delivered == ledger.accepted == len(accepted)
            assert digests.verify()
            assert kills >= SECONDS / PAUSE / 2


@contextmanager
def other_stores(store: str) -> Iterator[dict[str, str]]:
    """Open a store that needs neither the folder nor the broker."""
    if store == "postgres":
        with empty_database() as url:
            yield {store: url}
    else:
        yield {}


def torment(room: Mailroom, store: str) -> tuple[set[str], int]:
    """Notify without a pause, and kill in between; return the accepted records, and the number of kills."""
    accepted: set[str] = set()
    kills = 0
    end, next_kill = monotonic() + SECONDS, monotonic() + PAUSE
    for number in count():
        if monotonic() > end:
            break
        room.tasks[store].notify(f"t{random.randrange(TIMELINES)}", number, key=str(number))
        accepted.add(str(number))
        if monotonic() > next_kill:
            strike(room, random.choice(room.workers))
            kills += 1
            next_kill = monotonic() + random.uniform(0, 2 * PAUSE)
    return accepted, kills


def strike(room: Mailroom, worker: Process) -> None:
    """Kill a worker with its children, its main process, or a child of its pool; soon there are two workers again."""
    random.choice([worker.kill, worker.kill_main, worker.kill_child])()
    if not worker.is_alive:
        room.start_worker()


def say(store: str, accepted: set[str], kills: int, **facts: object) -> None:
    sys.stdout.write(f"{store}: {len(accepted)} records, {kills} kills, {facts}\n")
