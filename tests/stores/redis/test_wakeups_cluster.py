"""Wake-ups from all nodes of a cluster, also after partitions have moved."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from digestif.clock import monotonic
from digestif.stores.base import Store, Wakeups
from digestif.stores.redis.wakeups import RedisWakeups
from digestif.testing.servers import ClusterServers, RedisServer, becomes_true
from tests.stores.redis.hints import (
    AT_ONCE,
    GIVEN_UP,
    IMPATIENT,
    LONG,
    SHORT,
    is_heard,
    listen_to,
    opened,
    settle,
    subscribers,
    waiting,
)
from tests.stores.redis.links import moving

pytestmark = pytest.mark.long


@pytest.fixture
def store(cluster: ClusterServers) -> Iterator[Store]:
    with opened(f"{cluster.url}?patience=30") as store:
        yield store


@pytest.fixture
def wakeups(store: Store) -> Iterator[Wakeups]:
    with closing(store.listen()) as wakeups:
        yield wakeups


def all_are_heard(store: Store, wakeups: Wakeups) -> bool:
    return all(is_heard(store, wakeups, partition) for partition in range(store.partitions))


def channels_heard(cluster: ClusterServers, store: Store) -> int:
    """How many of the channels have a listener on some node."""
    channels = {f"{{{store.namespace}:{partition}}}:wake" for partition in range(store.partitions)}
    heard = [each for node in cluster.nodes if node.is_running() for each in node.cli("PUBSUB", "SHARDCHANNELS")]
    return len(channels & set(heard))


def test_every_partition_of_a_cluster_is_heard(cluster: ClusterServers, store: Store, wakeups: Wakeups) -> None:
    assert store.partitions == 64
    assert not wakeups.wait(SHORT)

    assert all_are_heard(store, wakeups)
    assert not wakeups.wait(SHORT)
    assert channels_heard(cluster, store) == 64
    assert [len(subscribers(node)) for node in cluster.primaries()] == [1, 1, 1]

    wakeups.close()
    assert becomes_true(lambda: channels_heard(cluster, store) == 0)


def test_the_successor_of_a_primary_that_dies_is_heard(cluster: ClusterServers, store: Store, wakeups: Wakeups) -> None:
    victim = cluster.primaries()[0]
    with waiting(wakeups, timeout=60) as answer:
        victim.kill()

        assert answer.result()[0]
    cluster.wait_until_ok()
    settle(wakeups)
    assert all_are_heard(store, wakeups)


def test_a_primary_that_hangs_does_not_silence_the_others_and_its_successor_is_heard(
    cluster: ClusterServers, store: Store
) -> None:
    with closing(listen_to(store, IMPATIENT)) as wakeups:
        victim, other, *_ = cluster.primaries()
        channel = other.cli("PUBSUB", "SHARDCHANNELS")[0]
        victim.freeze()
        assert not wakeups.wait(GIVEN_UP)
        with waiting(wakeups) as answer:
            other.cli("SPUBLISH", channel, "")
            published_at = monotonic()

            woken, at = answer.result()
            assert woken
            assert at - published_at < AT_ONCE
        cluster.wait_until_ok()
        settle(wakeups)
        assert all_are_heard(store, wakeups)

        victim.thaw()
        cluster.wait_until_ok()
        settle(wakeups)
        assert all_are_heard(store, wakeups)


def test_a_primary_that_hands_over_in_order_is_followed(
    cluster: ClusterServers, store: Store, wakeups: Wakeups
) -> None:
    former = cluster.primaries()[0]
    [successor] = cluster.replicas_of(former)
    with waiting(wakeups, timeout=60) as answer:
        hand_over(cluster, successor)

        assert answer.result()[0]
    cluster.wait_until_ok()
    settle(wakeups)
    assert all_are_heard(store, wakeups)


def hand_over(cluster: ClusterServers, successor: RedisServer) -> None:
    """Ask until it is done: nodes that voted in this shard a moment ago refuse, and after five seconds it gives up."""
    while successor not in cluster.primaries():
        successor.cli("CLUSTER", "FAILOVER")
        becomes_true(lambda: successor in cluster.primaries(), timeout=6)


def test_a_slot_that_moves_is_followed(cluster: ClusterServers, store: Store, wakeups: Wakeups) -> None:
    with moving(cluster) as way:
        way.begin()
        way.end()

        assert wakeups.wait(LONG)
        settle(wakeups)
        assert all_are_heard(store, wakeups)
        assert "{d:0}:wake" in way.target.cli("PUBSUB", "SHARDCHANNELS")
    settle(wakeups)
    assert all_are_heard(store, wakeups)
    assert channels_heard(cluster, store) == 64


def test_what_the_link_learns_of_a_move_is_enough(cluster: ClusterServers, store: Store, wakeups: Wakeups) -> None:
    """Also without a message to the subscription: the store's own calls find out."""
    assert isinstance(wakeups, RedisWakeups)
    before = wakeups._topology.node_for(0)
    another = next(node for node in wakeups._topology.nodes() if node is not before)
    host, _, port = another.name.rpartition(":")
    wakeups._topology.follow(0, host, int(port), reported_by=before)

    assert wakeups.wait(LONG)  # it went there, was told the truth, and is back
    settle(wakeups)
    assert wakeups._topology.node_for(0) is before
    assert all_are_heard(store, wakeups)
