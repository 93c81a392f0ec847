"""One of several nodes hangs: a thread probes it, and the partitions of the others are served as before."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median

import pytest

from digestif import AsyncDigests, Digests, StoreUnavailable
from digestif.clock import monotonic
from digestif.dsn import Dsn
from digestif.stores.redis.client.factory import open_link
from digestif.stores.redis.client.link import Link
from digestif.stores.redis.client.topology import slot_of
from digestif.testing.servers import ClusterServers, RedisServer
from tests.alone import alone
from tests.children import Child, Report
from tests.stores.redis.hung import POLICY, divided_cluster, played
from tests.stores.redis.links import echo, linked
from tests.worker.workers import AT_ONCE, becomes

pytestmark = pytest.mark.long

PARTITIONS = range(12)
SOON = 2.0  # seconds, on a machine that may do other things as well; without the probes it takes five or ten


@pytest.fixture(scope="module")
def divided() -> Iterator[ClusterServers]:
    with divided_cluster() as cluster:
        yield cluster


def probing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "digestif-probe"]


def owner(cluster: ClusterServers, partition: int) -> RedisServer:
    return cluster.node_for_slot(slot_of("d", partition))


@contextmanager
def hanging(cluster: ClusterServers) -> Iterator[RedisServer]:
    """The node of partition 0, which hangs until the block ends."""
    victim = owner(cluster, 0)
    victim.freeze()
    try:
        yield victim
    finally:
        cluster.heal()
    assert becomes(lambda: not probing())


def warm(link: Link) -> None:
    """Connect to all nodes."""
    link.run([echo(str(each), each) for each in PARTITIONS])


@pytest.mark.parametrize("first", [False, True], ids=["elsewhere", "with-partition-0"])
def test_first_deliveries_of_the_others_do_not_wait_for_a_node_that_hangs(
    divided: ClusterServers, namespace: str, first: bool
) -> None:
    with (
        played(divided, namespace=namespace) as scene,
        Digests(divided.url, policy=POLICY, namespace=namespace) as producer,
    ):
        victim = scene.victim(first=first)
        lost = scene.partitions(victim)
        took: list[float] = []
        victim.freeze()
        for _ in range(40):
            name, began = scene.name(lambda partition: partition not in lost), monotonic()
            producer.add(name, 1)
            assert becomes(lambda name=name: name in scene.delivered)  # type: ignore[misc]
            took.append(scene.delivered[name] - began)
            threading.Event().wait(0.1)  # so that the worker meets the node several times

        assert median(took) < 0.1
        assert max(took) < AT_ONCE

        victim.thaw()
        name, began = scene.name(lambda partition: partition in lost), monotonic()
        producer.add(name, 1)
        assert becomes(lambda: name in scene.delivered)
        assert scene.delivered[name] - began < AT_ONCE


def test_calls_that_fail_fast_go_on_without_it_until_it_answers(divided: ClusterServers) -> None:
    commands = [echo(str(each), each) for each in PARTITIONS]
    with linked(divided.url) as link:
        warm(link)
        lost = {each for each in PARTITIONS if owner(divided, each) is owner(divided, 0)}
        with hanging(divided) as victim:
            began = monotonic()
            rounds = [link.run(commands, fail_fast=True) for _ in range(20)]
            took = monotonic() - began

            for answers in rounds:
                assert [answer for answer in answers if not isinstance(answer, Exception)] == [
                    b"%d" % each for each in PARTITIONS if each not in lost
                ]
                assert all(isinstance(answers[each], StoreUnavailable) for each in lost)
                assert f"127.0.0.1:{victim.port}: Timeout reading from socket" in str(answers[0])
            assert took < 1 + SOON
            assert len(probing()) == 1

            victim.thaw()
            assert becomes(lambda: not link.misses_nodes)
            assert link.run(commands, fail_fast=True) == [b"%d" % each for each in PARTITIONS]


def test_many_calls_share_one_probe_and_it_ends_with_the_link(divided: ClusterServers) -> None:
    with linked(divided.url, patience=0.5, timeout=0.5) as link:
        warm(link)
        with hanging(divided), ThreadPoolExecutor(8) as threads:
            answers = [threads.submit(link.run, [echo("a")], fail_fast=number % 2 == 0) for number in range(16)]

            assert all(isinstance(each.result()[0], StoreUnavailable) for each in answers)
            assert len(probing()) == 1

            link.close()
            assert becomes(lambda: not probing(), seconds=SOON)


def test_a_link_that_is_dropped_ends_its_probe(divided: ClusterServers) -> None:
    link = open_link(Dsn.parse(f"{divided.url}?timeout=0.2&connect_timeout=0.2"), namespace="d")
    warm(link)
    with hanging(divided):
        answers = link.run([echo("a")], patience=0)
        assert isinstance(answers[0], StoreUnavailable)
        assert len(probing()) == 1

        del link, answers
        gc.collect()
        assert becomes(lambda: not probing())


def test_a_node_that_is_replaced_is_probed_no_more_and_its_successor_is_found(cluster: ClusterServers) -> None:
    victim = owner(cluster, 0)
    with linked(cluster.url) as link:
        warm(link)
        victim.freeze()
        try:
            assert isinstance(link.run([echo("a")], fail_fast=True)[0], StoreUnavailable)

            assert becomes(lambda: link.run([echo("a")], fail_fast=True) == [b"a"])
            assert becomes(lambda: not probing())
        finally:
            cluster.heal()


# Forks


def test_a_child_finds_out_for_itself(divided: ClusterServers) -> None:
    with hanging(divided):
        told = alone(fork_while_probing, divided.url)

    assert told == ["False", "StoreUnavailable", "1"]


def fork_while_probing(url: str) -> list[str]:
    with linked(url, timeout=1, connect_timeout=1) as link:
        link.run([echo("a", each) for each in PARTITIONS], patience=0)
        assert link.misses_nodes
        return list(Child(look_in_child, link).finish())


def look_in_child(link: Link, report: Report) -> None:
    report(str(link.misses_nodes))
    report(type(link.run([echo("a")], fail_fast=True)[0]).__name__)
    report(str(len(probing())))


# Adds


def test_async_adds_to_the_others_do_not_wait_for_those_to_a_node_that_hangs(divided: ClusterServers) -> None:
    async def add_beside_it() -> float:
        async with AsyncDigests(divided.url, policy=POLICY) as digests:
            await digests.add_many([(f"warm{number}", 1) for number in range(100)])
            home = digests.store.partition_of
            names = [f"t{number}" for number in range(100)]
            with hanging(divided) as victim:
                lost = {each for each in range(digests.store.partitions) if owner(divided, each) is victim}
                digests.store.reach()  # as the calls of a worker do: the node is known to be silent
                waiting = [asyncio.create_task(digests.add(name, 1)) for name in names if home(name) in lost]
                began = monotonic()
                await asyncio.gather(*[digests.add(name, 1) for name in names if home(name) not in lost])
                took = monotonic() - began

                assert not any(task.done() for task in waiting)
                victim.thaw()
                assert all(await asyncio.gather(*waiting))
            return took

    assert asyncio.run(add_beside_it()) < SOON
