"""Workers are killed and stopped at random points under load, as in torture/, for a few seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.kills import emptied, tortured

pytestmark = pytest.mark.long

LEASE = 0.5


@pytest.fixture
def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from emptied(request.param, tmp_path)


@pytest.mark.parametrize("dsn", ["sqlite"], indirect=True)
def test_workers_that_are_killed_lose_nothing_and_send_nothing_under_two_keys(dsn: str) -> None:
    found = tortured(dsn, kills=4, lease=LEASE)

    assert found["is_good"], found
    assert found["deliveries"] > 50


@pytest.mark.parametrize("dsn", ["redis"], indirect=True)
def test_workers_that_were_stopped_can_not_end_what_others_have_taken_over(dsn: str) -> None:
    found = tortured(dsn, stops=1, lease=LEASE)

    assert found["is_good"], found
    assert found["refused"] > 0
