"""Processes that start while servers change roles or are not ready: they wait or say so, and go on by themselves."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from digestif import ConfigError, Delivered, Digests, StoreFailed, StoreUnavailable
from digestif.clock import monotonic
from digestif.stores.redis import checks
from digestif.stores.redis.client.topology import Cluster, slot_of
from digestif.stores.redis.store import RedisStore
from digestif.testing.servers import ClusterServers, LoneCluster, RedisServer, becomes_true
from tests.stores.redis.links import echo, linked
from tests.stores.redis.sentinels import Watched
from tests.worker.workers import Ear, working

pytestmark = pytest.mark.long

LONG = "local till = redis.call('TIME'); repeat local now = redis.call('TIME') until now[1] - till[1] >= 2"


def fail_over(cluster: ClusterServers) -> RedisServer:
    """Let the replica of the node of partition 0 take its place; gives the former primary."""
    former = cluster.node_for_slot(slot_of("d", 0))
    assert becomes_true(lambda: bool(cluster.replicas_of(former)))
    successor, asked = cluster.replicas_of(former)[0], 0.0
    while cluster.node_for_slot(slot_of("d", 0)) is not successor:
        if monotonic() > asked + 6:  # after five seconds it gives up by itself
            successor.cli("CLUSTER", "FAILOVER")
            asked = monotonic()
    cluster.wait_until_ok()
    return former


class Stale(NamedTuple):
    """An engine whose link goes on with the table of before a failover, in which a replica is a primary."""

    digests: Digests
    end: Callable[[], None]  # it may read the table again


@contextmanager
def failing_over(cluster: ClusterServers) -> Iterator[Stale]:
    with linked(cluster.url, patience=0.3) as link, pytest.MonkeyPatch.context() as patch:
        link.run([echo("a")])
        fail_over(cluster)
        patch.setattr(checks, "SETTLE_SECONDS", 0.3)
        patch.setattr(Cluster, "refresh", lambda *_, **__: None)
        yield Stale(Digests(RedisStore(link, clustered=True)), patch.undo)


# Clusters


def test_a_store_that_is_opened_during_a_failover_finds_the_successor(cluster: ClusterServers) -> None:
    with linked(cluster.url) as link:
        link.run([echo("a")])  # it has read which nodes are primaries, and then they change
        former = fail_over(cluster)

        found = RedisStore(link, clustered=True).examine()

    assert f"127.0.0.1:{former.port}" not in found.versions
    assert len(found.versions) == 3


def test_a_failover_that_does_not_end_makes_a_cluster_unavailable(cluster: ClusterServers) -> None:
    with failing_over(cluster) as stale:
        with pytest.raises(StoreUnavailable, match=r"a replica for 0\.3 s: a failover has not ended; try again"):
            stale.digests.add("t", 1)
        stale.end()

        assert stale.digests.add("t", 1)


def test_a_worker_that_starts_during_a_failover_goes_on_after_it(cluster: ClusterServers) -> None:
    with Digests(cluster.url) as producer:
        producer.add("t", 1)
    with failing_over(cluster) as stale:
        stale.digests.handler("*")(lambda _: None)
        ear = Ear(stale.digests)
        with working(stale.digests):
            failed = ear.wait_for(StoreFailed)
            stale.end()
            ear.wait_for(Delivered)

    assert "a failover has not ended" in str(failed[0].error)


def test_stores_that_are_opened_amid_failovers_are_never_refused(cluster: ClusterServers) -> None:
    over = threading.Event()

    def open_stores() -> int:
        opened = 0
        while not over.is_set():
            with Digests(cluster.url) as digests:
                digests.add("t", 1)
            opened += 1
        return opened

    with ThreadPoolExecutor(2) as threads:
        opening = [threads.submit(open_stores) for _ in range(2)]
        try:
            for _ in range(3):
                fail_over(cluster)
        finally:
            over.set()

        assert all(each.result() for each in opening)


def test_a_cluster_without_slots_is_unavailable_until_it_has_some() -> None:
    with RedisServer(cluster_enabled=True) as server, Digests(f"{server.url}?patience=0.2") as digests:
        with pytest.raises(StoreUnavailable, match="knows of no slots"):
            digests.add("t", 1)
        server.cli("CLUSTER", "ADDSLOTSRANGE", 0, 16383)

        assert becomes_true(lambda: "cluster_state:ok" in str(server.cli("CLUSTER", "INFO")))
        assert digests.add("t", 1)


def test_a_cluster_that_is_busy_with_a_script_is_waited_for() -> None:
    with LoneCluster(busy_reply_threshold=50) as server, ThreadPoolExecutor(1) as thread:
        busy = thread.submit(server.cli, "EVAL", LONG, 0)
        assert becomes_true(lambda: _is_busy(server))

        with Digests(server.url) as digests:
            assert digests.add("t", 1)
        busy.result()


def _is_busy(server: RedisServer) -> bool:
    try:
        server.cli("PING")
    except Exception as error:  # noqa: BLE001  # of redis-py
        return str(error).startswith("BUSY")
    return False


# Single servers


def test_a_replica_that_becomes_the_primary_in_time_is_taken(redis_server: RedisServer) -> None:
    with RedisServer(replicaof=f"127.0.0.1 {redis_server.port}") as replica:
        promotion = threading.Timer(0.5, replica.cli, ["REPLICAOF", "NO", "ONE"])
        promotion.start()

        with Digests(replica.url) as digests:
            assert digests.add("t", 1)
        promotion.join()


def test_a_replica_that_sentinels_name_is_unavailable_until_they_name_another(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SETTLE_SECONDS", 0.2)
    watched.primary.cli("REPLICAOF", "127.0.0.1", watched.replica.port)
    with Digests(f"{watched.url}?patience=0.2") as digests:
        with pytest.raises(StoreUnavailable, match="named as a primary, and has been a replica"):
            digests.add("t", 1)
        watched.primary.cli("REPLICAOF", "NO", "ONE")

        assert digests.add("t", 1)


def test_a_replica_that_stays_one_is_an_error_of_the_configuration(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SETTLE_SECONDS", 0.2)
    with (
        RedisServer(replicaof=f"127.0.0.1 {redis_server.port}") as replica,
        pytest.raises(ConfigError, match=r"this server is a replica.*name its primary"),
    ):
        Digests(replica.url)
