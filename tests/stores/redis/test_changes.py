"""The server changes under a running engine: it is emptied, divided anew, or evicts. Calls notice, and refuse."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from digestif import ConfigError, Digests, Event, Policy, StoreChanged, StoreError, StoreUnavailable
from digestif.stores.base import Store, SuspectGroup
from digestif.stores.redis.client.topology import slot_of
from digestif.testing.servers import ClusterServers, RedisServer, free_port

SOON = Policy(minimum_delay=0, increment_delay=0)


def told_by(digests: Digests) -> list[str]:
    """The changes that the engine reports from now on."""
    told: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, StoreChanged):
            told.append(str(event.error))

    digests.subscribe(listen)
    return told


def spread(many: int = 40) -> list[tuple[str, Any]]:
    """Records for timelines in most partitions."""
    return [(f"t{number}", number) for number in range(many)]


CALLS: dict[str, Callable[[Digests], object]] = {
    "add": lambda digests: digests.add("t", 1),
    "add_many": lambda digests: digests.add_many(spread()),
    "digest": lambda digests: digests.digest("t").__enter__(),
    "claim": lambda digests: digests.store.claim(0, 1, token="x", lease=1000, now=None),
    "claim_suspects": lambda digests: digests.store.claim_suspects(
        0, SuspectGroup(1, 1), token="x", lease=1000, now=None
    ),
    "schedule": lambda digests: list(digests.schedule()),
    "maintenance": lambda digests: digests.maintenance(),
    "retract": lambda digests: digests.retract("t", "k"),
    "delete": lambda digests: digests.delete("t"),
    "flush": lambda digests: digests.flush("t"),
    "pause": lambda digests: digests.pause("t"),
    "timeline": lambda digests: digests.timeline("t"),
    "timelines": lambda digests: digests.timelines(),
    "peek": lambda digests: digests.peek("t"),
    "ledger": lambda digests: digests.ledger(),
    "verify": lambda digests: digests.verify(),
    "backlog": lambda digests: digests.backlog(),
    "history": lambda digests: digests.history(),
    "dead_letters": lambda digests: digests.dead_letters(),
}


# Emptied


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("partitions", [1, 8])
def test_every_call_says_that_the_server_was_emptied(redis_server: RedisServer, call: str, partitions: int) -> None:
    with Digests(f"{redis_server.url}?partitions={partitions}") as digests:
        digests.add("t", 1)
        told = told_by(digests)
        redis_server.cli("FLUSHALL")

        with pytest.raises(StoreError, match="its settings are gone") as caught:
            CALLS[call](digests)

        assert "restart a process that uses this namespace" in str(caught.value)
        assert len(told) == 1  # however many partitions found it
        assert redis_server.cli("DBSIZE") == 0


def test_engines_that_divide_a_namespace_differently_never_both_hold_a_lease(redis_server: RedisServer) -> None:
    with Digests(f"{redis_server.url}?partitions=64", policy=SOON) as before:
        before.add("t", 1)
        redis_server.cli("FLUSHALL")
        with Digests(redis_server.url, policy=SOON) as after:
            after.add("t", 1)
            with after.digest("t") as digest:
                assert len(digest) == 1
                for call in CALLS.values():
                    with pytest.raises(StoreError) as caught:
                        call(before)
                assert "settings are gone" in str(caught.value) or "with 1 partitions" in str(caught.value)

            assert after.verify()
            assert after.ledger().accepted == after.ledger().delivered == 1


def test_a_partition_that_was_never_used_before_is_no_way_around(redis_server: RedisServer) -> None:
    """Partitions that could not be reached at the start are entered at their first use."""
    with Digests(f"{redis_server.url}?partitions=64", policy=SOON) as before:
        unentered(before.store)
        redis_server.cli("FLUSHALL")
        with Digests(redis_server.url, policy=SOON) as after:
            after.add("t", 1)
            told = told_by(before)

            with pytest.raises(StoreError, match="anew with 1 partitions, this store was opened with 64"):
                before.add("t", 1)
            with pytest.raises(StoreError, match="anew with 1 partitions"):
                before.add("t", 1)

            assert len(told) == 1


def test_a_partition_that_bears_the_layout_of_a_latecomer_is_none_either(redis_server: RedisServer) -> None:
    """An engine writes its layout to a partition, then finds another one in the first partition, and is refused."""
    with Digests(f"{redis_server.url}?partitions=64", policy=SOON) as before:
        redis_server.cli("FLUSHALL")
        with Digests(redis_server.url, policy=SOON) as after:
            after.add("t", 1)
            for partition in range(1, 64):
                redis_server.cli("HSET", f"{{d:{partition}}}:ledger", "layout", f"4/64/late-{partition}")

            for _ in range(3):
                with pytest.raises(StoreError, match="anew with 1 partitions, this store was opened with 64"):
                    before.add("t", 1)
                with pytest.raises(StoreError, match="anew with 1 partitions"):
                    before.ledger()


def unentered(store: Store) -> None:
    """As if only the first partition had been reached when the store was opened."""
    layouts = store._scripts._layouts  # type: ignore[attr-defined]
    for partition in range(1, store.partitions):
        layouts._known[partition] = b""
        layouts.unentered.add(partition)


def test_partitions_that_could_not_be_reached_at_the_start_are_entered_later(redis_server: RedisServer) -> None:
    with Digests(f"{redis_server.url}?partitions=8") as digests:
        unentered(digests.store)

        assert digests.add_many(spread()) == [True] * 40
        assert sum(1 for _ in digests.timelines()) == 40


# Going on


@pytest.mark.parametrize("partitions", [1, 8])
def test_opening_writes_the_settings_anew_and_the_others_go_on(redis_server: RedisServer, partitions: int) -> None:
    url = f"{redis_server.url}?partitions={partitions}"
    with Digests(url) as running:
        running.add("t", 1)
        told = told_by(running)
        redis_server.cli("FLUSHALL")

        with Digests(url) as started:
            assert started.add("t", 2)
            with pytest.raises(StoreError, match="lost its data and was set up anew") as caught:
                running.add("t", 3)
            assert "Nothing was done" in str(caught.value)
            assert told == [str(caught.value)]

            assert running.add("t", 4) is False
            assert running.ledger().accepted == 2
            assert [record.value for record in running.peek("t")] == [4, 2]
            assert running.verify()


def test_a_worker_that_holds_a_lease_of_the_old_data_loses_it(redis_server: RedisServer) -> None:
    with Digests(redis_server.url, policy=SOON) as running:
        running.add("t", 1)
        with pytest.raises(StoreError, match="set up anew"), running.digest("t"):
            redis_server.cli("FLUSHALL")
            with Digests(redis_server.url, policy=SOON) as started:
                started.add("t", 2)

        assert running.timeline("t").pending == 1
        assert running.ledger().delivered == 0


def test_settings_that_were_removed_by_hand_are_restored_from_what_the_partitions_say(
    redis_server: RedisServer,
) -> None:
    with Digests(f"{redis_server.url}?partitions=8") as digests:
        digests.add_many(spread())
        redis_server.cli("DEL", "{d:0}:meta", "{d:0}:ledger")

        with Digests(redis_server.url) as started:
            assert started.store.partitions == 8
        assert redis_server.cli("HGETALL", "{d:0}:meta") == {"schema": "4", "oldest": "4", "partitions": "8"}


# Written by an older release


def test_a_namespace_of_a_release_without_layouts_opens_with_nothing_lost(redis_server: RedisServer) -> None:
    with Digests(f"{redis_server.url}?partitions=8") as digests:
        digests.add_many(spread())
    for partition in range(8):
        redis_server.cli("HDEL", f"{{d:{partition}}}:ledger", "layout")

    with Digests(redis_server.url) as digests:
        assert digests.store.partitions == 8
        assert digests.ledger().pending == 40
        assert digests.verify()
        assert digests.add("t1", 1, key="again") is False
        layouts = [redis_server.cli("HGET", f"{{d:{each}}}:ledger", "layout") for each in range(8)]

    assert {layout.rpartition("/")[0] for layout in layouts} == {"4/8"}
    assert len(set(layouts)) == 8


def lower_schema(server: RedisServer, partitions: int) -> None:
    """As if a release that knows only schema 1 had written the namespace."""
    server.cli("HSET", "{d:0}:meta", "schema", 1)
    server.cli("HDEL", "{d:0}:meta", "oldest")
    for partition in range(partitions):
        layout = server.cli("HGET", f"{{d:{partition}}}:ledger", "layout")
        server.cli("HSET", f"{{d:{partition}}}:ledger", "layout", layout.replace("4/", "1/", 1))


def schemas(server: RedisServer, partitions: int) -> set[str]:
    layouts = [server.cli("HGET", f"{{d:{partition}}}:ledger", "layout") for partition in range(partitions)]
    return {server.cli("HGET", "{d:0}:meta", "schema"), *(layout.partition("/")[0] for layout in layouts)}


def test_an_older_schema_is_raised_when_the_namespace_is_opened(redis_server: RedisServer) -> None:
    """From then on an older release, which can't read every record, is refused."""
    with Digests(f"{redis_server.url}?partitions=8") as digests:
        digests.add_many(spread())
    lower_schema(redis_server, 8)

    with Digests(redis_server.url) as digests:
        assert digests.ledger().pending == 40
        assert digests.verify()

    assert schemas(redis_server, 8) == {"4"}


def test_a_store_that_is_refused_for_its_partitions_raises_no_schema(redis_server: RedisServer) -> None:
    """Processes of the older release go on."""
    with Digests(f"{redis_server.url}?partitions=8") as digests:
        digests.add_many(spread())
    lower_schema(redis_server, 8)

    with pytest.raises(ConfigError, match="has 8 and keeps them, not 4"):
        Digests(f"{redis_server.url}?partitions=4").ledger()

    assert schemas(redis_server, 8) == {"1"}


@pytest.mark.parametrize("partitions", [1, 8])
def test_after_a_failover_to_the_older_schema_it_is_raised_again(redis_server: RedisServer, partitions: int) -> None:
    """A replica may not have heard of it yet."""
    with Digests(f"{redis_server.url}?partitions={partitions}") as digests:
        digests.add_many(spread())
        lower_schema(redis_server, partitions)

        with pytest.raises(StoreError, match="as an older release left it"):
            digests.add("t1", 1)
        assert digests.ledger().accepted == 40
        digests.add("t1", 1)

        assert digests.ledger().accepted == 41


def test_a_newer_schema_is_named_and_nothing_is_said_to_be_lost(redis_server: RedisServer) -> None:
    with Digests(redis_server.url) as digests:
        digests.add("t", 1)
        with redis_server.client() as client:
            layout = client.hget("{d:0}:ledger", "layout")
            client.hset("{d:0}:ledger", "layout", layout.replace(b"4/", b"5/", 1))

        with pytest.raises(
            StoreError, match=r"version 5 or later, and this process has version 4\. Nothing was changed"
        ):
            digests.add("t", 2)


# A part of a cluster


@contextmanager
def engines(*urls: str) -> Iterator[list[Digests]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Digests(url)) for url in urls]


def test_partitions_that_come_back_empty_are_named_and_the_others_served(cluster: ClusterServers) -> None:
    with engines(cluster.url, cluster.url) as (running, other):
        running.add_many(spread())
        other.add_many(spread())
        [emptied, *others] = cluster.primaries()
        kept = sum(node.cli("DBSIZE") for node in others)
        emptied.cli("FLUSHALL")

        with pytest.raises(StoreError, match="its settings are gone") as caught:
            running.add_many(spread())
        assert caught.value.answers is not None
        assert {None, False} == set(caught.value.answers)
        assert emptied.cli("DBSIZE") == 0

        with Digests(cluster.url) as started:
            assert started.store.partitions == 64
            started.add_many(spread())
        with pytest.raises(StoreError, match="set up anew"):
            running.add_many(spread())
        assert running.add_many(spread()) == [False] * 40
        assert running.verify()
        assert sum(node.cli("DBSIZE") for node in others) == kept


def test_a_cluster_that_lost_its_settings_with_a_node_is_divided_as_before(cluster: ClusterServers) -> None:
    with Digests(f"{cluster.url}?partitions=7") as running:
        running.add_many(spread())
        cluster.node_for_slot(slot_of("d", 0)).cli("FLUSHALL")

        with Digests(cluster.url) as started:
            assert started.store.partitions == 7
            assert started.verify()


# Eviction, and replicas


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server whose settings a test may change."""
    with RedisServer() as server:
        yield server


@contextmanager
def probing(url: str, **options: Any) -> Iterator[Digests]:
    """An engine that probes the server with every call."""
    with Digests(url, **options) as digests:
        digests.store._scripts._layouts.probe_seconds = 0.0  # type: ignore[attr-defined]
        yield digests


def test_a_server_that_begins_to_evict_accepts_nothing_and_is_drained(own_server: RedisServer) -> None:
    with probing(own_server.url, policy=SOON) as digests:
        digests.add("t", 1)
        told = told_by(digests)
        own_server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

        for add in (lambda: digests.add("t", 2), lambda: digests.add_many([("t", 3), ("u", 4)])):
            with pytest.raises(StoreError, match="maxmemory-policy is allkeys-lru") as caught:
                add()
        assert "CONFIG SET maxmemory-policy noeviction" in str(caught.value)
        assert len(told) == 1
        with digests.digest("t") as digest:
            assert len(digest) == 1
        assert digests.maintenance() == 0
        assert digests.ledger().delivered == digests.ledger().accepted == 1

        own_server.cli("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert digests.add("u", 2)


def test_eviction_is_noticed_without_being_looked_for_by_every_call(
    own_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = [0.0]
    monkeypatch.setattr("digestif.stores.redis.layout.monotonic", lambda: time[0])
    with Digests(own_server.url) as digests:
        digests.add("t", 1)
        own_server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        looks = own_server.cli("INFO", "commandstats")["cmdstat_info"]["calls"]

        time[0] = 9.9
        digests.add("t", 2)
        assert own_server.cli("INFO", "commandstats")["cmdstat_info"]["calls"] == looks + 1  # that of the test

        time[0] = 10.0
        for _ in range(3):  # once found, it is looked for until it is gone
            with pytest.raises(StoreError, match="evict"):
                digests.add("t", 3)
        own_server.cli("CONFIG", "SET", "maxmemory-policy", "noeviction")
        digests.add("t", 3)


def test_a_worker_tells_of_eviction_and_goes_on(own_server: RedisServer) -> None:
    with probing(own_server.url, policy=SOON) as digests:
        digests.add("t", 1)
        told = told_by(digests)
        own_server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-random")

        digests.maintenance()

        assert ["allkeys-random" in text for text in told] == [True]


def test_a_server_that_begins_to_evict_only_keys_with_a_ttl_goes_on_without_a_word(own_server: RedisServer) -> None:
    with probing(own_server.url, policy=SOON) as digests:
        digests.add("t", 1)
        told = told_by(digests)
        own_server.cli("CONFIG", "SET", "maxmemory-policy", "volatile-lru")

        digests.add_many([("t", 2), ("u", 3)])
        digests.maintenance()

        assert told == []


def test_a_replica_that_takes_writes_is_noticed(own_server: RedisServer) -> None:
    own_server.cli("CONFIG", "SET", "replica-read-only", "no")
    with probing(f"{own_server.url}?patience=0.1") as digests:
        digests.add("t", 1)
        own_server.cli("REPLICAOF", "127.0.0.1", free_port())

        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="became a replica"):
                digests.add("t", 2)
        with pytest.raises(StoreUnavailable, match="became a replica"):
            digests.store.claim(0, 1, token="x", lease=1000, now=None)
