"""A digest that ends its workers, one that is too large for them, and killed workers: other digests are delivered."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from digestif import Digests, Record
from tests.logbook import Logbook
from tests.worker.kills import emptied
from torture._suspects import POLICY

LEASE = 2.0
PATIENCE = 600.0  # seconds
HALVINGS = 6  # of the largest group, which the 50 threads of a worker allow
OVERHEAD = 4  # bytes of a payload besides the characters of its value


class Delivery(NamedTuple):
    timeline: str
    at: float
    key: str
    records: int
    dropped: int


@pytest.fixture(params=["sqlite", "redis", "cluster", "postgres"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from emptied(request.param, tmp_path)


class Crew:
    """Workers in processes of their own; one that has ended is replaced."""

    def __init__(self, dsn: str, folder: Path, *, megabytes: str = "") -> None:
        self._command = [sys.executable, "-m", "torture._suspects", dsn, str(folder), str(LEASE), megabytes]
        self._logbook = Logbook(folder / "delivered")
        self._workers: list[subprocess.Popen[bytes]] = []
        self.deaths = 0

    def __enter__(self) -> "Crew":
        self._start()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def _start(self) -> None:
        environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
        self._workers.append(subprocess.Popen(self._command, env=environment))

    def replace_the_dead(self) -> None:
        for worker in [worker for worker in self._workers if worker.poll() is not None]:
            self._workers.remove(worker)
            self.deaths += 1
            self._start()

    def kill_one(self) -> None:
        self._workers[0].kill()
        self._workers[0].wait()
        self.replace_the_dead()

    def delivered(self) -> list[Delivery]:
        return [Delivery(*noted) for noted in self._logbook.read()]

    def work_until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, self.delivered()
            self.replace_the_dead()
            time.sleep(0.05)


@contextmanager
def digests_on(dsn: str) -> Iterator[Digests]:
    with Digests(dsn, policy=POLICY, lease=LEASE) as digests:
        yield digests


def test_a_digest_that_ends_its_worker_takes_no_neighbour_along(dsn: str, tmp_path: Path) -> None:
    """Sixty neighbours are delivered, none is buried. The digest itself is, after lapses alone, as its reason says."""
    neighbours = [f"n{number}" for number in range(60)]
    with digests_on(dsn) as digests:
        digests.add_many([(name, name) for name in [*neighbours[:30], "poison", *neighbours[30:]]])

        with Crew(dsn, tmp_path) as crew:
            crew.work_until(lambda: digests.ledger().dead == 1 and digests.ledger().delivered == 60)

        assert {delivery.timeline for delivery in crew.delivered()} == set(neighbours)
        [letter] = digests.dead_letters()
        assert (letter.timeline, "alone" in letter.reason) == ("poison", True)
        assert 1 + POLICY.lapses <= crew.deaths <= 1 + HALVINGS + POLICY.lapses  # among others, in groups, alone
        assert digests.verify()


def test_kills_of_workers_bury_nothing(dsn: str, tmp_path: Path) -> None:
    """Six kills 2.2 s apart, with 300 digests of 3 s: none of the digests is to blame."""
    with digests_on(dsn) as digests:
        digests.add_many([(f"slow{number}", number) for number in range(300)])

        with Crew(dsn, tmp_path) as crew:
            crew.work_until(lambda: digests.ledger().open > 0)
            for _ in range(6):
                time.sleep(2.2)
                crew.kill_one()
            crew.work_until(lambda: digests.ledger().delivered == 300)

        assert digests.ledger().dead == 0
        assert len({delivery.timeline for delivery in crew.delivered()}) == 300
        assert digests.verify()


def test_a_giant_holds_up_no_neighbour(dsn: str, tmp_path: Path) -> None:
    """4,000 records of 250 KB in one timeline, workers of 512 MB: the newest are delivered."""
    value = "x" * 250_000
    neighbours = [f"n{number}" for number in range(40)]
    with digests_on(dsn) as digests:
        for start in range(0, 4000, 20):
            digests.add_many([("giant", Record(str(n), value, float(n))) for n in range(start, start + 20)])
        digests.add_many([(name, name) for name in neighbours])
        began = time.time()

        with Crew(dsn, tmp_path, megabytes="512") as crew:
            crew.work_until(lambda: len({delivery.timeline for delivery in crew.delivered()}) == 41)

        deliveries: dict[str, Any] = {delivery.timeline: delivery for delivery in crew.delivered()}
        giant = deliveries.pop("giant")
        assert POLICY.max_bytes is not None
        assert giant.records == POLICY.max_bytes // (len(value) + OVERHEAD)
        assert giant.records + giant.dropped == 4000
        assert max(delivery.at for delivery in deliveries.values()) - began < 30
        assert (crew.deaths, digests.ledger().dead) == (0, 0)
        assert digests.verify()
