"""A receiver that deduplicates on the id sees every record exactly once through 50 kills of the workers."""

import sys
from pathlib import Path

import pytest

from tests.routes.kills import seen_through_kills
from tests.transfer.stores import dsn_of


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_fifty_kills_lose_nothing_and_double_nothing(tmp_path: Path, kind: str) -> None:
    with dsn_of(kind, tmp_path) as store:
        found = seen_through_kills(store, kills=50)

    sys.stdout.write(f"{kind}: {found}\n")  # for those who want the figures: pytest -rP
    assert found["records"] == found["accepted"] == found["delivered"] == 1000
    assert (found["twice"], found["differing"]) == (0, 0)
