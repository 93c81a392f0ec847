"""A link that was used before a fork serves parent and child alike, each over connections of its own."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
import redis

from digestif.dsn import Dsn
from digestif.stores.redis.client.factory import link_over, open_link
from digestif.stores.redis.client.link import Link
from digestif.testing.servers import LoneCluster, RedisServer
from tests.alone import alone
from tests.children import Child, Report
from tests.stores.redis.links import echo, linked

pytestmark = pytest.mark.long

WORDS = [str(number) for number in range(50)]


@pytest.mark.parametrize("client", ["ours", "theirs"])
def test_a_child_has_connections_of_its_own_and_the_parent_keeps_its(redis_server: RedisServer, client: str) -> None:
    check(alone(use_before_and_after, redis_server.url, client))


@pytest.mark.parametrize("client", ["ours", "theirs"])
def test_on_a_cluster_too(lone_cluster: LoneCluster, client: str) -> None:
    check(alone(use_before_and_after, lone_cluster.url, client))


def check(told: dict[str, Any]) -> None:
    assert told["child"] == told["parent"] == WORDS
    assert len(told["before"]) == 1
    assert len(told["during"]) == 2
    assert set(told["before"]) < set(told["during"])
    assert told["after"] == told["before"]


def use_before_and_after(url: str, client: str) -> dict[str, Any]:
    link, watcher = opened(url, client), redis.Redis.from_url(url.replace("+cluster", ""))
    others = connections(watcher)
    say(link)
    before = connections(watcher) - others
    child = Child(say_and_look, link, url)
    *words, during = child.finish()
    return {
        "before": sorted(before),
        "child": words,
        "during": sorted(set(during.split()) - others),
        "parent": say(link),
        "after": sorted(connections(watcher) - others),
    }


def say_and_look(link: Link, url: str, report: Report) -> None:
    for word in say(link):
        report(word)
    report(" ".join(connections(redis.Redis.from_url(url.replace("+cluster", "")))))


def opened(url: str, client: str) -> Link:
    if client == "ours":
        return open_link(Dsn.parse(url), namespace="d")
    host, port = url.rpartition("/")[2].split(":")
    kind = redis.RedisCluster if "cluster" in url else redis.Redis
    return link_over(kind(host=host, port=int(port), client_name="digestif"), namespace="d")


def say(link: Link) -> list[str]:
    return [link.run([echo(word)])[0].decode() for word in WORDS]


def connections(watcher: redis.Redis) -> set[str]:
    """The ids of the connections of links that have said something, as the server sees them."""
    return {each["id"] for each in watcher.client_list() if each["name"] == "digestif" and "eval" in each["cmd"]}


def test_a_fork_amid_the_calls_of_other_threads_does_no_harm(redis_server: RedisServer) -> None:
    assert alone(fork_amid_calls, redis_server.url) == [WORDS] * 10


def fork_amid_calls(url: str) -> list[list[str]]:
    stopping = Event()
    with linked(url) as link, ThreadPoolExecutor(4) as threads:

        def speak() -> None:
            while not stopping.is_set():
                assert say(link) == WORDS

        speaking = [threads.submit(speak) for _ in range(4)]
        said = [Child(report_all, link).finish() for _ in range(10)]
        stopping.set()
        for each in speaking:
            each.result()
    return said


def report_all(link: Link, report: Report) -> None:
    for word in say(link):
        report(word)


def test_a_child_does_not_wait_for_what_a_thread_of_the_parent_holds(redis_server: RedisServer) -> None:
    assert alone(fork_while_the_pool_is_locked, redis_server.url, timeout=30) == WORDS


def fork_while_the_pool_is_locked(url: str) -> list[str]:
    """As if another thread were just getting a connection."""
    with linked(url) as link, ThreadPoolExecutor(1) as thread:
        say(link)
        lock = link.topology.node_for(0)._pool._lock
        thread.submit(lock.acquire).result()
        said = Child(report_all, link).finish()
        thread.submit(lock.release).result()
    return said


def test_calls_import_nothing(redis_server: RedisServer) -> None:
    """A fork during an import leaves the child with the lock of a module whose import never ends."""
    assert alone(imported_by_calls, redis_server.url) == []


def imported_by_calls(url: str) -> list[str]:
    with linked(url) as link:
        before = set(sys.modules)
        say(link)
        return sorted(set(sys.modules) - before)


def test_closing_in_a_child_leaves_the_parent_its_connections(redis_server: RedisServer) -> None:
    told = alone(close_in_a_child, redis_server.url)

    assert told["child"] == [f"{redis_server.url.removeprefix('redis://')}: the store is closed"]
    assert told["parent"] == WORDS
    assert told["before"] == told["after"]


def close_in_a_child(url: str) -> dict[str, Any]:
    watcher = redis.Redis.from_url(url)
    with linked(url) as link:
        say(link)
        before = sorted(connections(watcher))
        child = Child(close_and_ask, link).finish()
        return {"before": before, "child": child, "parent": say(link), "after": sorted(connections(watcher))}


def close_and_ask(link: Link, report: Report) -> None:
    link.close()
    report(str(link.run([echo("a")])[0]))
