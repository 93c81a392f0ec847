"""Workers are killed two hundred times, and stopped for three leases, under load: nothing is lost or changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.kills import emptied, tortured

KILLS = 200
STOPS = 5
LEASE = 2.0
SOON = 2.0  # seconds


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from emptied(request.param, tmp_path)


def test_killed_at_random_points(dsn: str) -> None:
    """Every duplicate has the key and the records of its first attempt.

    What a dead worker held can be claimed when its lease has lapsed. It is a suspect, so a worker takes it when nothing
    else is due or under way there: usually soon, but while all workers are busy the others go first for a minute.
    """
    found = tortured(dsn, kills=KILLS, lease=LEASE)

    assert found["is_good"], found
    assert found["late"] == [], found
    assert found["most"] <= LEASE + SOON, found
    assert found["duplicates"] > 0


def test_stopped_for_three_leases(dsn: str) -> None:
    """What they end afterwards is refused, and the ledger balances."""
    found = tortured(dsn, stops=STOPS, lease=LEASE)

    assert found["is_good"], found
    assert found["late"] == [], found
    assert found["refused"] > 0
