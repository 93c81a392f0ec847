"""A link over a real cluster: slots that move, are moving, or lose their server."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.cluster import LoadBalancingStrategy

from digestif.clock import monotonic
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.factory import link_over
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.topology import slot_of
from digestif.testing.servers import ClusterServers, RedisServer, becomes_true
from tests.stores.redis.links import echo, get, increment, key, linked, moving, put, refuse_to_pause

pytestmark = pytest.mark.long

PARTITIONS = range(64)


@pytest.fixture
def link(cluster: ClusterServers) -> Iterator[Link]:
    with linked(cluster.url) as link:
        yield link


def server_of(cluster: ClusterServers, partition: int) -> RedisServer:
    return cluster.node_for_slot(slot_of("d", partition))


def test_every_partition_finds_its_server(link: Link, cluster: ClusterServers) -> None:
    answers = link.run([put("k", str(partition), partition) for partition in PARTITIONS])

    assert answers == [b"OK"] * len(PARTITIONS)
    assert link.run([get("k", partition) for partition in PARTITIONS]) == [b"%d" % each for each in PARTITIONS]
    for partition in PARTITIONS:
        assert server_of(cluster, partition).cli("GET", key("k", partition)) == str(partition)


def test_one_known_node_is_enough_to_find_the_others(cluster: ClusterServers) -> None:
    replica = cluster.replicas_of(cluster.primaries()[0])[0]
    with linked(f"redis+cluster://127.0.0.1:{replica.port}") as link:
        assert link.run([echo(str(each), each) for each in PARTITIONS]) == [b"%d" % each for each in PARTITIONS]


def test_addresses_where_nobody_is_do_not_matter(cluster: ClusterServers) -> None:
    with linked(cluster.url.replace("://", "://127.0.0.1:1,")) as link:
        assert link.run([echo("a")]) == [b"a"]


def test_all_primaries_are_asked(link: Link, cluster: ClusterServers) -> None:
    answers = link.ask_all("ROLE")

    assert set(answers) == {f"127.0.0.1:{node.port}" for node in cluster.primaries()}
    assert {answer[0] for answer in answers.values()} == {b"master"}


def test_a_cluster_client_of_ones_own_knows_the_way(cluster: ClusterServers) -> None:
    node = cluster.nodes[0]
    spread = LoadBalancingStrategy.ROUND_ROBIN  # reads also from replicas
    with redis.RedisCluster(
        host="127.0.0.1", port=node.port, decode_responses=True, load_balancing_strategy=spread
    ) as client:
        link = link_over(client, namespace="d")
        answers = link.run([put("k", str(partition), partition) for partition in PARTITIONS])
        link.close()

        assert answers == [b"OK"] * len(PARTITIONS)
        assert client.set(key("k", 7), "8")


@pytest.mark.parametrize("calls", [1, 2])
def test_a_slot_that_has_moved_is_followed_at_once(link: Link, cluster: ClusterServers, calls: int) -> None:
    link.backoff = refuse_to_pause
    link.run([put("k", "v")])
    with moving(cluster) as way:
        way.begin()
        way.end()

        assert link.run([get("k")] * calls) == [b"v"] * calls
        assert link.run([increment()]) == [1]
        assert way.target.cli("GET", key("counter")) == "1"


def test_a_slot_that_is_moving_is_asked_for_where_it_goes(link: Link, cluster: ClusterServers) -> None:
    link.run([put("stays", "here"), put("goes", "there")])
    with moving(cluster) as way:
        way.begin()
        way.carry(key("goes"))

        assert link.run([get("stays"), get("goes"), get("none")]) == [b"here", b"there", None]
        assert link.run([put("new", "v")]) == [b"OK"]
        assert way.target.cli("CLUSTER", "COUNTKEYSINSLOT", way.slot) == 2
        assert link.run([get("stays")]) == [b"here"]


def test_a_script_is_brought_along_to_where_its_slot_goes(link: Link, cluster: ClusterServers) -> None:
    with moving(cluster) as way:
        way.target.cli("SCRIPT", "FLUSH")
        way.begin()

        assert link.run([increment(), increment()]) == [1, 2]
        assert link.run([increment()]) == [3]


def test_keys_that_are_apart_for_a_moment_are_waited_for(link: Link, cluster: ClusterServers) -> None:
    both = Command(0, ("MGET", key("stays"), key("goes")))
    link.run([put("stays", "here"), put("goes", "there")])
    with moving(cluster) as way, ThreadPoolExecutor(1) as thread:
        way.begin()
        way.carry(key("goes"))
        answers = thread.submit(link.run, [both])
        with pytest.raises(TimeoutError):
            answers.result(0.3)
        way.end()

        assert answers.result(30) == [[b"here", b"there"]]


def test_a_primary_that_dies_is_replaced_and_the_others_answer_at_once(cluster: ClusterServers) -> None:
    for node in cluster.nodes:
        node.cli("CONFIG", "SET", "cluster-require-full-coverage", "no")
    victim = server_of(cluster, 0)
    others = [partition for partition in PARTITIONS if server_of(cluster, partition) is not victim]
    with linked(cluster.url, replicas=1, replica_timeout=4) as link:
        assert link.run([put("k", str(partition), partition) for partition in PARTITIONS]) == [b"OK"] * len(PARTITIONS)
    with linked(cluster.url, patience=20) as link, ThreadPoolExecutor(1) as thread:
        link.run([echo("warm", partition) for partition in PARTITIONS])
        victim.kill()
        answers = thread.submit(link.run, [get("k", partition) for partition in PARTITIONS])

        answered = 0
        while not answers.done():
            partition = others[answered % len(others)]
            assert link.run([get("k", partition)]) == [b"%d" % partition]
            answered += 1
        assert answered > len(others)  # one that waits for the successor, too, would be the only one
        assert answers.result() == [b"%d" % partition for partition in PARTITIONS]
        assert link.run([increment()]) == [1]
    for node in cluster.nodes:
        if node.is_running():
            node.cli("CONFIG", "SET", "cluster-require-full-coverage", "yes")


def test_a_primary_that_hangs_is_replaced(cluster: ClusterServers) -> None:
    victim = server_of(cluster, 0)
    with linked(cluster.url, replicas=1, replica_timeout=4) as link:
        assert link.run([put("k", "v")]) == [b"OK"]
    with linked(cluster.url, patience=20, timeout=0.5) as link:
        link.run([echo("warm")])
        victim.freeze()
        try:
            assert link.run([get("k")]) == [b"v"]
        finally:
            victim.thaw()
        cluster.wait_until_ok()

        assert link.run([get("k"), increment()]) == [b"v", 1]


def test_a_primary_that_hands_over_in_order_is_followed(link: Link, cluster: ClusterServers) -> None:
    former = server_of(cluster, 0)
    assert becomes_true(lambda: bool(cluster.replicas_of(former)))
    [successor] = cluster.replicas_of(former)
    link.run([put("k", "v")])
    answers = link.run([increment()])
    asked = -math.inf
    while server_of(cluster, 0) is not successor:
        if monotonic() > asked + 6:  # after five seconds it gives up by itself
            successor.cli("CLUSTER", "FAILOVER")
            asked = monotonic()
        answers += link.run([increment()])
    answers += link.run([increment(), increment()])
    cluster.wait_until_ok()

    assert answers == list(range(1, len(answers) + 1))
    assert link.run([get("k")]) == [b"v"]
