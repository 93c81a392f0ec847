"""Real workers and a real beat on a real broker: what is due arrives. torture/test_celery_kills.py kills them."""

import pytest

from digestif.testing.servers import becomes_true
from tests.integrations.mailroom import Mailroom, counts, sent
from tests.integrations.rooms import STORES
from tests.integrations.rooms import room as room  # a fixture

pytestmark = pytest.mark.long


def counted(room: Mailroom, *, later: bool = False) -> dict[str, int]:
    """How often each record of one of the two tests came: they share the room."""
    return {key: count for key, count in counts(room.setup).items() if key.startswith("later/") == later}


def test_a_coroutine_delivers_in_the_processes_of_the_pool(room: Mailroom) -> None:
    """They were forked after the installation, without the thread of an event loop."""
    for store in STORES:
        for number in range(3):
            room.tasks[store].notify("later:t", 1, key=f"later/{store}/{number}")

    assert becomes_true(lambda: len(counted(room, later=True)) == 6)
    assert set(counted(room, later=True).values()) == {1}


def test_the_first_record_comes_by_notify_and_the_rest_by_beat(room: Mailroom) -> None:
    """Each exactly once. The stores were opened before the pools forked."""
    for store in STORES:
        assert room.tasks[store].notify("burst", 1, key=f"{store}/first")
    assert becomes_true(lambda: len(counted(room)) == 2)
    for store in STORES:
        assert not any(room.tasks[store].notify("burst", 1, key=f"{store}/{number}") for number in range(20))

    assert becomes_true(lambda: len(counted(room)) == 42)

    assert set(counted(room).values()) == {1}
    bursts = [line["records"] for line in sent(room.setup) if not line["records"][0].startswith("later/")]
    assert sorted(bursts[:2]) == [["redis/first"], ["sqlite/first"]]
    assert becomes_true(lambda: room.is_empty())
