"""How rings of tenants are stored and read. What holds for every store is in the conformance suite."""

from collections.abc import Iterator
from random import Random

import pytest
import redis

from digestif import Digests
from digestif.stores.documents import Bounds, Document
from digestif.stores.redis.rings import READ_AT_ONCE
from digestif.stores.redis.store import RedisStore
from digestif.testing.conformance.port import NOW, arrive
from digestif.testing.conformance.tenants import deliver, ended
from digestif.testing.servers import RedisServer
from tests.stores.redis.layout import flaws


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[RedisStore]:
    with Digests(redis_server.url) as digests:
        assert isinstance(digests.store, RedisStore)
        yield digests.store


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator["redis.Redis"]:
    with redis_server.client() as client:
        yield client


def test_entries_of_more_rings_than_are_read_at_once_come_in_their_order(redis_server: RedisServer) -> None:
    """Fact 88. Rings are read in groups, and of each group only what belongs to the latest is kept."""
    with Digests(f"{redis_server.url}?partitions=8") as digests:
        store = digests.store
        prefixes = [f"{number:03}:" for number in range(READ_AT_ONCE + 50)]
        store.name_tenants(prefixes)
        delivered = [deliver(store, f"{prefix}t", now=NOW + number) for number, prefix in enumerate(prefixes)]
        delivered += [deliver(store, f"{prefixes[0]}t", now=NOW + 1000 + number) for number in range(10)]

        found = [entry.id for entry in store.history(None, limit=READ_AT_ONCE + 30)]

        assert found == delivered[::-1][: READ_AT_ONCE + 30]


def test_a_ring_is_found_and_emptied_by_a_process_that_does_not_know_its_prefix_yet(
    store: RedisStore, redis_server: RedisServer
) -> None:
    """Fact 29. Its named prefixes are up to 15 s old; the partition says which rings there are."""
    assert store.tenants().named == {}
    with Digests(redis_server.url) as other:
        other.store.name_tenants(["a:"])
        filed = deliver(other.store, "a:1")

    assert store.tenants().named == {}
    assert ended(store, "a:1") == [entry.id for entry in store.history(None, limit=10)] == [filed]
    store.delete("a:1", now=NOW)

    assert store.history(None, limit=10) == []


def test_a_damaged_entry_in_the_ring_of_a_tenant_is_named_and_removed(store: RedisStore, client: "redis.Redis") -> None:
    store.name_tenants(["a:"])
    deliver(store, "a:1")
    deliver(store, "rest")
    client.hset("{d:0}:history", "1:a:", b"garbled")

    assert [entry.timeline for entry in store.history(None, limit=10)] == ["rest"]
    [problem] = store.verify().problems
    assert "an entry of the history can't be read" in problem
    store.repair(0, dry_run=False, now=NOW)

    assert store.verify()
    assert client.hget("{d:0}:history", "1:a:") is None


def test_if_the_names_of_the_rings_are_damaged_those_of_named_prefixes_are_still_read(
    store: RedisStore, client: "redis.Redis"
) -> None:
    store.name_tenants(["a:"])
    filed = deliver(store, "a:1")
    client.hset("{d:0}:history", "rings", b"garbled")

    assert ended(store, "a:1") == [filed]
    [problem] = store.verify().problems
    assert "the names of the rings of the history can't be read" in problem
    store.repair(0, dry_run=False, now=NOW)

    assert store.verify()
    assert ended(store, "a:1") == [filed]


def test_the_names_of_the_rings_are_written_again_in_each_round(
    store: RedisStore, client: "redis.Redis", redis_server: RedisServer
) -> None:
    store.name_tenants(["a:"])
    for number in range(3):
        deliver(store, "a:1", now=NOW + number)
    client.hdel("{d:0}:history", "rings")
    client.hset("{d:0}:ledger", "ended:a:", 1000)  # as after 1,000 digests

    filed = deliver(store, "a:1", now=NOW + 10)

    with Digests(redis_server.url) as other:
        client.hdel("{d:0}:notes", "tenants")
        assert other.store.tenants().named == {}
        assert ended(other.store, "a:1")[0] == filed


def test_removals_from_before_a_prefix_was_named_move_into_its_ring(store: RedisStore, client: "redis.Redis") -> None:
    """Fact 78. The place that they had is free, so what comes there later forgets nothing of this timeline."""
    arrive(store, "a:1", ["x", "y"])
    store.retract("a:1", "x", now=NOW)
    assert client.hget("{d:0}:history", "r1") == b"a:1"

    store.name_tenants(["a:"])
    store.retract("a:1", "y", now=NOW + 1)

    assert client.hget("{d:0}:history", "r1") is None
    assert client.hget("{d:0}:history", "r1:a:") == b"a:1"
    assert [key for key, _ in store.removals("a:1").retracted] == ["x", "y"]


def test_without_named_prefixes_nothing_more_is_stored(store: RedisStore, client: "redis.Redis") -> None:
    """Fact 30. No field of the history and the ledger names a ring, and requests do not speak of tenants."""
    arrive(store, "a:1", ["x"])
    store.retract("a:1", "x", now=NOW)
    deliver(store, "a:1")
    store.keep("shelf", Document("k", b"1", "a:1"), bounds=Bounds(entries=1), now=NOW)

    assert set(client.hkeys("{d:0}:history")) == {b"1", b"r1", b"ta:1"}
    assert {name for name in client.hkeys("{d:0}:ledger") if b":" in name and name[:2] != b"c:"} == set()
    assert set(client.hkeys("{d:0}:docs:shelf")) == {b"", b"k"}
    assert store._rings_of(["a:1"]) == {"ring": 1000}


def test_documents_of_rings_hang_together_whatever_is_kept_and_forgotten(
    store: RedisStore, client: "redis.Redis"
) -> None:
    """Fact 74. Totals, order and index agree with the documents after each call."""
    random = Random(88)
    for number in range(150):
        key, ring = f"k{random.randrange(12)}", random.choice(["", "a:", "b:"])
        timeline = random.choice([None, "a:1", "b:1"])
        match random.randrange(5):
            case 0:
                store.forget("shelf", key)
            case 1 if number % 3 == 0:
                store.forget_timeline("a:1")
            case _:
                bounds = Bounds(entries=3, bytes=40, age=random.choice([None, 5]))
                document = Document(key, b"x" * random.randrange(20), timeline, ring=ring)
                store.keep("shelf", document, bounds=bounds, replace=random.random() < 0.5, now=NOW + number)

        assert flaws(client, namespace="d") == []
    assert store.documents("shelf", limit=10, now=NOW)
