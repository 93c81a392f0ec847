"""Real workers and a real beat on a real broker: what is due arrives. torture/test_celery_kills.py kills them."""

import pytest

from digestif.testing.servers import becomes_true
from tests.integrations.mailroom import Mailroom, counts, sent
from tests.integrations.rooms import STORES
from tests.integrations.rooms import room as room  # a fixture

pytestmark = pytest.mark.long


def test_a_coroutine_delivers_in_the_processes_of_the_pool(room: Mailroom) -> None:
    """They were forked after the installation, without the thread of an event loop."""
    for store in STORES:
        for number in range(3):
            room.tasks[store].notify("later:t", 1, key=f"{store}/{number}")

    assert becomes_true(lambda: len(counts(room.setup)) == 6)
    assert set(counts(room.setup).values()) == {1}


def test_the_first_record_comes_by_notify_and_the_rest_by_beat(room: Mailroom) -> None:
    """Each exactly once. The stores were opened before the pools forked."""
    for store in STORES:
        assert room.tasks[store].notify("burst", 1, key=f"{store}/first")
    assert becomes_true(lambda: len(counts(room.setup)) == 2)
    for store in STORES:
        assert not any(room.tasks[store].notify("burst", 1, key=f"{store}/{number}") for number in range(20))

    assert becomes_true(lambda: len(counts(room.setup)) == 42)

    assert set(counts(room.setup).values()) == {1}
    assert sorted(line["records"] for line in sent(room.setup)[:2]) == [["redis/first"], ["sqlite/first"]]
    assert becomes_true(lambda: room.is_empty())
