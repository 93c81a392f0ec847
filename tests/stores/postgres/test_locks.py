"""Locks are taken in one order by all: nobody waits for somebody who waits for him."""

import random
import sys
from typing import Any

from tests.stores.postgres.crowd import meet
from tests.stores.postgres.servers import empty_database
from tests.stores.sqlite.alone import alone

SECONDS = 2.0
ADDERS = 8


def test_batches_in_any_order_deliveries_and_maintenance_never_deadlock() -> None:
    for _ in range(5):  # whether they meet is a matter of chance
        with empty_database() as url:
            found = meeting(url, seconds=SECONDS)
        check(found)
        if have_met(found):
            return
    raise AssertionError("they never met")


def meeting(url: str, *, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = alone(meet, url, seconds, ADDERS, random.randrange(2**32), timeout=seconds + 90)
    sys.stdout.write(f"{found}\n")  # for those who want the figures: pytest -rP
    return found


def check(found: dict[str, Any]) -> None:
    assert found["errors"] == []
    assert found["deadlocks"] == 0
    assert found["problems"] == []
    assert found["balanced"]
    assert found["accepted"] == found["added"]


def have_met(found: dict[str, Any]) -> bool:
    return all(found[fate] > 0 for fate in ("closed", "suspects", "moved", "lapsed", "expired"))
