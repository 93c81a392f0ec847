"""Recovery of suspects with real processes: `./dev torture torture/test_recovery.py -k "sqlite and 1000" -rP`.

Each case prints what it took and the bound. `tests.worker.recovery` shows the same in virtual time.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import ceil, log2
from pathlib import Path
from typing import NamedTuple

import pytest

from digestif import Digests
from digestif.worker.capacity import MOST_ATTEMPTS
from tests.worker.kills import Kind, emptied
from torture._recovery import POLICY

PATIENCE = 300.0  # seconds
STORES: list[Kind] = ["sqlite", "redis", "postgres"]
LONG = 3600.0  # seconds: of handlers that hold what they have until they are killed


class Case(NamedTuple):
    """Digests in flight, and the workers that deliver them."""

    digests: int
    workers: int
    handler: float  # seconds
    lease: float  # seconds

    @property
    def concurrency(self) -> int:
        return min(ceil(self.digests / self.workers), MOST_ATTEMPTS)

    def bound(self, undisturbed: float) -> float:
        """The seconds from the last kill in which all must be delivered."""
        return 2 * undisturbed + 2 * self.lease + (2 + log2(self.concurrency)) * self.handler


class Crew:
    """Workers in processes of their own."""

    def __init__(self, digests: Digests, dsn: str, case: Case, *, workers: int, handler: float) -> None:
        numbers = map(str, (case.lease, case.concurrency, handler))
        namespace = digests.store.namespace
        self._command = [sys.executable, "-m", "torture._recovery", dsn, namespace, *numbers]
        self._workers = [self._started() for _ in range(workers)]
        self.deaths = 0

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stderr=subprocess.DEVNULL)  # it tells of every lapse

    def replace_the_dead(self) -> None:
        for place, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self.deaths += 1
                self._workers[place] = self._started()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def dsn(store: Kind, tmp_path: Path) -> Iterator[str]:
    yield from emptied(store, tmp_path)


def wait_until(done: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        meanwhile()
        time.sleep(0.05)


@contextmanager
def digests_of(dsn: str, case: Case, names: Iterable[str], *, namespace: str = "d") -> Iterator[Digests]:
    """Digests of these timelines, due now."""
    with Digests(dsn, namespace=namespace, policy=POLICY, lease=case.lease) as digests:
        digests.add_many([(name, 1) for name in names])
        yield digests


def healthy(case: Case) -> list[str]:
    return [f"n{number}" for number in range(case.digests)]


def undisturbed(dsn: str, case: Case) -> float:
    """The seconds in which the workers deliver everything if nothing goes wrong."""
    with digests_of(dsn, case, healthy(case), namespace="undisturbed") as digests:
        return seconds_to_deliver(digests, dsn, case)


def seconds_to_deliver(digests: Digests, dsn: str, case: Case) -> float:
    """The seconds from the start of the workers until everything is delivered."""
    began = time.monotonic()
    with Crew(digests, dsn, case, workers=case.workers, handler=case.handler):
        wait_until(lambda: digests.ledger().delivered == case.digests)
        return time.monotonic() - began


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("many", [100, 1_000, 10_000])
def test_two_kills_delay_digests_in_flight_for_seconds(store: Kind, dsn: str, many: int, workers: int) -> None:
    """Fact 83. All are in flight at the first kill, a group of suspects at the second; none is buried."""
    case = Case(many, workers, handler=1.0, lease=5.0)
    bound = case.bound(undisturbed(dsn, case))
    with digests_of(dsn, case, healthy(case)) as digests:
        with Crew(digests, dsn, case, workers=ceil(many / case.concurrency), handler=LONG):
            wait_until(lambda: digests.ledger().open == many)
        with Crew(digests, dsn, case, workers=workers, handler=case.handler):
            wait_until(lambda: digests.ledger().delivered >= many // 10)

        took = seconds_to_deliver(digests, dsn, case)

        print(f"{store}: {many} in flight, {workers} workers: {took:.1f} s of {bound:.1f} s")  # noqa: T201
        assert took <= bound
        assert digests.ledger().dead == 0
        assert digests.verify()


def test_six_kills_delay_slow_digests_for_seconds(store: Kind, dsn: str) -> None:
    """Fact 83. Each of 100 digests takes three seconds, and a worker lives for two: nothing is buried."""
    case = Case(100, workers=2, handler=3.0, lease=5.0)
    bound = case.bound(undisturbed(dsn, case))
    with digests_of(dsn, case, healthy(case)) as digests:
        for _ in range(6):
            with Crew(digests, dsn, case, workers=case.workers, handler=case.handler):
                time.sleep(2.2)

        took = seconds_to_deliver(digests, dsn, case)

        print(f"{store}: 100 of 3 s, six kills: {took:.1f} s of {bound:.1f} s")  # noqa: T201
        assert took <= bound
        assert digests.ledger().dead == 0
        assert digests.verify()


@pytest.mark.parametrize("poison", [1, 3])
@pytest.mark.parametrize("neighbours", [60, 1_000])
def test_digests_that_kill_their_workers_are_buried_and_no_other(
    store: Kind, dsn: str, neighbours: int, poison: int
) -> None:
    """Fact 66. Each is buried with its reason, after it lapsed by itself."""
    case = Case(neighbours + poison, workers=2, handler=0.2, lease=2.0)
    names = [f"n{number}" for number in range(neighbours)]
    for number in range(poison):
        names.insert(neighbours * number // poison, f"poison{number}")
    with digests_of(dsn, case, names) as digests:
        began = time.monotonic()

        with Crew(digests, dsn, case, workers=case.workers, handler=case.handler) as crew:
            ledger = digests.ledger
            wait_until(lambda: ledger().delivered + ledger().dead == case.digests, crew.replace_the_dead)

        took = time.monotonic() - began
        print(f"{store}: {poison} among {neighbours}: {took:.1f} s, {crew.deaths} deaths")  # noqa: T201
        letters = {letter.timeline: letter.reason for letter in digests.dead_letters()}
        assert sorted(letters) == [f"poison{number}" for number in range(poison)]
        assert all(
            reason.startswith("its lease lapsed 3 times while it was tried alone") for reason in letters.values()
        )
        assert digests.ledger().delivered == neighbours
        assert digests.verify()
