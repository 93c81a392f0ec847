"""All transactions take locks in one order, so that there is no deadlock."""

import pytest

from tests.stores.postgres.crowd import check, have_met, meeting
from tests.stores.postgres.servers import empty_database

pytestmark = pytest.mark.long

SECONDS = 2.0


def test_batches_in_any_order_deliveries_and_maintenance_never_deadlock() -> None:
    for _ in range(5):  # whether they meet is a matter of chance
        with empty_database() as url:
            found = meeting(url, seconds=SECONDS)
        check(found)
        if have_met(found):
            return
    raise AssertionError("they never met")
