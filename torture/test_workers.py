"""Workers are killed two hundred times, and stopped for three leases, under load: nothing is lost or changed."""

from pathlib import Path

import pytest

from tests.runtime.test_kills import tortured
from tests.servers import empty_server

KILLS = 200
STOPS = 5
LEASE = 2.0


@pytest.fixture(params=["sqlite", "redis", "valkey"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/d.db" if request.param == "sqlite" else empty_server(request.param).url


def test_killed_at_random_points(dsn: str) -> None:
    """Every duplicate has the key and the records of its first attempt, and comes within lease + 2 seconds."""
    found = tortured(dsn, kills=KILLS, lease=LEASE)

    assert found["is_good"], found
    assert found["duplicates"] > 0


def test_stopped_for_three_leases(dsn: str) -> None:
    """What they end afterwards is refused, and the ledger balances."""
    found = tortured(dsn, stops=STOPS, lease=LEASE)

    assert found["is_good"], found
    assert found["refused"] > 0
