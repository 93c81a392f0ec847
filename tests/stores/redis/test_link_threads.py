"""One link for many threads, and how many connections it opens."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from digestif.stores.redis.client import node
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.factory import link_over
from digestif.stores.redis.client.link import Link
from digestif.testing.servers import RedisServer, becomes_true
from tests.stores.redis.links import echo, increment, key, linked


@pytest.fixture
def link(redis_server: RedisServer, others: set[str]) -> Iterator[Link]:
    with linked(redis_server.url) as link:
        yield link


@pytest.fixture
def others(redis_server: RedisServer) -> set[str]:
    """Connections of earlier tests: one that was interrupted closes when its traceback is collected."""
    return connections(redis_server)


def connections(server: RedisServer) -> set[str]:
    """The ids of the connections of links, as the server sees them."""
    with server.client() as watcher:
        return {each["id"] for each in watcher.client_list() if each["name"] == "digestif"}


def test_threads_never_get_each_others_answers(link: Link) -> None:
    def calls(thread: int) -> list[bytes]:
        answers = [link.run([echo(f"{thread}.{number}")])[0] for number in range(400)]
        for number in range(400, 500):
            first, second = link.run([echo(f"{thread}.{number}"), increment()])
            assert isinstance(second, int)
            answers.append(first)
        return answers

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(calls, range(16)))

    assert answers == [[f"{thread}.{number}".encode() for number in range(500)] for thread in range(16)]
    assert link.run([increment()]) == [1601]


def test_threads_share_a_small_pool_of_the_users(redis_server: RedisServer) -> None:
    with redis_server.client(max_connections=4) as client, ThreadPoolExecutor(8) as threads:
        link = link_over(client, namespace="d")
        answers = list(threads.map(lambda number: link.run([echo(str(number))])[0], range(800)))
        link.close()

    assert answers == [str(number).encode() for number in range(800)]


# Connections


def test_calls_one_after_the_other_take_one_connection(link: Link, redis_server: RedisServer, others: set[str]) -> None:
    link.run([echo("a")])
    first = connections(redis_server) - others
    for _ in range(20):
        link.run([echo("a")])
        link.run([echo("a"), echo("b")])

    assert len(first) == 1
    assert connections(redis_server) - others == first


def test_connections_that_nobody_needs_any_more_are_let_go(
    link: Link, redis_server: RedisServer, others: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(node, "monotonic", lambda: now)
    waiting = Command(0, ("BLPOP", key("queue"), 0))
    with ThreadPoolExecutor(5) as threads:
        calls = [threads.submit(link.run, [waiting]) for _ in range(5)]
        assert becomes_true(lambda: redis_server.cli("INFO", "clients")["blocked_clients"] == 5)
        redis_server.cli("RPUSH", key("queue"), *range(5))
        for call in calls:
            call.result()
    assert len(connections(redis_server) - others) == 5

    for _ in range(6):
        now += node.IDLE_SECONDS / 4
        link.run([echo("a")])

    assert len(connections(redis_server) - others) == 1
