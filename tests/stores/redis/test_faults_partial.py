"""A cluster with one primary down and no replica for it: the partitions of the others are served."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from digestif import ConfigError, Digests, Ledger, Policy, Record, ScheduleEntry, StoreUnavailable
from digestif.events import Event, PartitionFailed
from digestif.stores.base import Burial, Completion, Durability
from digestif.stores.redis.client.topology import SLOTS, slot_of
from digestif.stores.redis.keys import Keys
from digestif.testing.servers import ClusterServers, RedisServer
from tests.stores.claims import claim

pytestmark = pytest.mark.long

PARTITIONS = 12
POLICY = Policy(minimum_delay=10, increment_delay=0)
TIMELINES = [f"t{number}" for number in range(60)]
HOME = Keys("any", PARTITIONS).partition_of
NAMESPACES = ("visiting", "adding", "replaying")  # one per test: the settings of each are not on the node that dies


class Scene(NamedTuple):
    """A cluster, and the primary that dies."""

    cluster: ClusterServers
    victim: RedisServer

    def kill(self) -> None:
        self.victim.kill()
        self.cluster.wait_until_ok(without=[self.victim])

    def partitions(self, namespace: str) -> set[int]:
        """Partitions of the victim."""
        share = SLOTS // 3  # the first of three
        found = {partition for partition in range(PARTITIONS) if slot_of(namespace, partition) < share}
        assert found
        assert 0 not in found
        return found

    def alive(self, namespace: str) -> set[str]:
        """Timelines in partitions of the other primaries."""
        dead = self.partitions(namespace)
        return {timeline for timeline in TIMELINES if HOME(timeline) not in dead}


@pytest.fixture(scope="module")
def whole() -> Iterator[Scene]:
    """In every namespace, each timeline has delivered one record and waits with another until 11."""
    settings: dict[str, Any] = {"cluster_require_full_coverage": False, "appendonly": True, "appendfsync": "always"}
    with ClusterServers(primaries=3, replicas=0, node_timeout=500, **settings) as cluster:
        for namespace in NAMESPACES:
            with Digests(f"{cluster.url}?partitions={PARTITIONS}", namespace=namespace, policy=POLICY) as digests:
                digests.add_many([(timeline, Record("a", 0, 0.0)) for timeline in TIMELINES], now=0)
                leases = claim(digests.store, 1000, lease=30_000, now=lambda: 1_000, events=digests.events).leases
                digests.store.complete([Completion(lease, 10_000) for lease in leases], now=1_000)
                digests.add_many([(timeline, Record("b", 0, 0.0)) for timeline in TIMELINES], now=2)
        yield Scene(cluster, cluster.primaries()[0])


@pytest.fixture
def wounded(whole: Scene) -> Scene:
    """The cluster with its victim down."""
    whole.kill()
    return whole


@contextmanager
def opened(scene: Scene, namespace: str) -> Iterator[tuple[Digests, list[PartitionFailed]]]:
    """A store of little patience, and the partitions that failed."""
    failed: list[PartitionFailed] = []

    def listen(event: Event) -> None:
        if isinstance(event, PartitionFailed):
            failed.append(event)

    with Digests(f"{scene.cluster.url}?patience=0.1", namespace=namespace, policy=POLICY) as digests:
        digests.subscribe(listen)
        yield digests, failed


def keys_of(entries: Iterable[ScheduleEntry]) -> set[str]:
    return {entry.key for entry in entries}


def test_a_cluster_is_as_fit_as_its_worst_node(whole: Scene) -> None:
    whole.cluster.heal()
    worst = whole.cluster.primaries()[-1]
    with Digests(whole.cluster.url, namespace="adding") as digests:
        assert digests.store.durability is Durability.POWER_LOSS

    worst.cli("CONFIG", "SET", "appendfsync", "everysec")
    with Digests(whole.cluster.url, namespace="adding") as digests:
        assert digests.store.durability is Durability.PROCESS_KILL
    worst.cli("CONFIG", "SET", "appendfsync", "always")
    worst.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    try:
        with pytest.raises(ConfigError, match=f"127.0.0.1:{worst.port}: maxmemory-policy is allkeys-lfu"):
            Digests(whole.cluster.url, namespace="adding")
    finally:
        worst.cli("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_the_others_are_served_those_that_failed_are_named_and_all_goes_on_by_itself(whole: Scene) -> None:
    whole.cluster.heal()
    alive, dead = whole.alive("visiting"), whole.partitions("visiting")
    total = len(TIMELINES)
    with opened(whole, "visiting") as (digests, failed):
        assert not failed
        whole.kill()

        assert keys_of(digests.schedule(now=20)) == alive
        assert digests.maintenance(20, now=20) == len(alive)
        leases = claim(digests.store, 1000, lease=30_000, now=lambda: 20_000, events=digests.events).leases
        assert {lease.timeline for lease in leases} == alive
        assert digests.store.complete([Completion(lease, 0) for lease in leases], now=21_000) == [True] * len(alive)
        with opened(whole, "visiting") as (late, failed_too):
            assert keys_of(late.schedule(now=22)) == alive
        for operation in ("schedule", "maintenance", "claim"):
            assert sorted(event.partition for event in failed if event.operation == operation) == sorted(dead)
        assert sorted(event.partition for event in failed_too) == sorted(dead)
        assert all(f"127.0.0.1:{whole.victim.port}" in str(event.error) for event in (*failed, *failed_too))

        whole.cluster.heal()
        assert keys_of(digests.schedule(now=23)) == set(TIMELINES) - alive
        assert digests.ledger() == Ledger(accepted=2 * total, delivered=total + len(alive), pending=total - len(alive))
        assert digests.verify()


def test_dead_letters_of_the_others_can_be_replayed_and_discarded(wounded: Scene) -> None:
    one, other = sorted(wounded.alive("replaying"))[:2]
    with opened(wounded, "replaying") as (digests, _):
        for timeline in (one, other):
            digests.flush(timeline, now=3)
            lease = digests.store.open(timeline, token=f"of-{timeline}", lease=30_000, now=3_000)
            digests.store.bury([Burial(lease, "it is refused", 0)], now=3_000)

        assert digests.replay(f"of-{one}", now=4)
        assert digests.discard(f"of-{other}", now=4)
        with pytest.raises(StoreUnavailable):
            digests.replay("unknown", now=4)  # it may be one of those that can't be asked


def test_records_for_the_others_are_accepted_and_those_that_were_not_are_told(wounded: Scene) -> None:
    alive = wounded.alive("adding")
    batch = [(timeline, Record("c", 0, 0.0)) for timeline in TIMELINES]
    with opened(wounded, "adding") as (digests, _):
        for timeline in sorted(alive)[:5]:
            assert digests.add(timeline, 0, now=3) is False
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{wounded.victim.port}"):
            digests.add(min(set(TIMELINES) - alive), 0, now=3)
        with pytest.raises(StoreUnavailable) as caught:
            digests.add_many(batch, now=3)

        assert caught.value.answers == tuple(False if timeline in alive else None for timeline in TIMELINES)
        assert {timeline for timeline in alive if digests.timeline(timeline).pending >= 2} == alive
