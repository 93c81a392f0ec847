"""Real workers and a real beat on a real broker: what is due arrives. torture/test_celery_kills.py kills them."""

from collections.abc import Iterator

import pytest

from digestif.testing.servers import RedisServer, becomes_true
from tests.integrations.mailroom import Mailroom, Setup, counts, sent


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailroom]:
    """Two workers and a beat."""
    directory = tmp_path_factory.mktemp("mailroom")
    with RedisServer() as server, Mailroom(Setup.on(server, directory, minimum_delay=2.0), directory) as room:
        for process in [room.start_worker(), room.start_worker(), room.start_beat()]:
            process.wait_until_ready()
        yield room


STORES = ("sqlite", "redis")


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
