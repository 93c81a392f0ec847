"""A cluster that loses a primary while processes add and deliver."""

from pathlib import Path

import pytest

from digestif.clock import monotonic
from digestif.stores.redis.client.topology import slot_of
from digestif.testing.servers import ClusterServers, RedisServer
from tests.stores.redis.load import Load

pytestmark = pytest.mark.long

PARTITIONS = 6


def serving(cluster: ClusterServers, namespace: str, *, partitions: int = PARTITIONS) -> list[RedisServer]:
    """The node of each partition."""
    return [cluster.node_for_slot(slot_of(namespace, partition)) for partition in range(partitions)]


def test_what_replicas_confirmed_outlives_its_primary(cluster: ClusterServers, tmp_path: Path) -> None:
    """Without waiting for replicas, only writes that they had not received are lost; ledger and data still agree."""
    victim = next(node for node in serving(cluster, "safe") if node in serving(cluster, "swift"))
    [replica] = cluster.replicas_of(victim)
    url = f"{cluster.url}?partitions={PARTITIONS}"
    with (
        Load(f"{url}&replicas=1&replica_timeout=0.2", directory=tmp_path, namespace="safe", processes=1) as safe,
        Load(url, directory=tmp_path, namespace="swift", processes=1) as swift,
    ):
        safe.go_on()
        swift.go_on()
        parted = monotonic()
        replica.freeze()
        victim.cli("CLIENT", "KILL", "TYPE", "replica")  # what is on its way would still arrive
        swift.go_on()
        safe.fail(3)
        victim.kill()
        died = monotonic()
        replica.thaw()
        swift.go_on()
        cluster.heal()
        safe.go_on()
        swift.go_on()
    confirmed, hoped = safe.account(), swift.account()

    confirmed.check()
    hoped.check_with_losses((parted, died))
    assert not hoped.failures
