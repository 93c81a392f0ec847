"""Writes that count only once replicas have received them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from digestif.clock import monotonic
from digestif.errors import StoreUnavailable
from digestif.stores.redis.client.commands import Command, ScriptRefused
from digestif.stores.redis.client.scripts import Script
from digestif.testing.servers import RedisServer, becomes_true
from tests.stores.redis.links import echo, get, increment, key, linked, put, refuse


@pytest.fixture
def pair() -> Iterator[tuple[RedisServer, RedisServer]]:
    """A primary and its replica, which has caught up."""
    with RedisServer() as primary, RedisServer(replicaof=f"127.0.0.1 {primary.port}") as replica:
        with primary.client() as client:
            assert becomes_true(lambda: bool(client.set("first", 1) and client.wait(1, 1000)))
            client.delete("first")
        yield primary, replica


def test_what_is_answered_is_on_the_replica(pair: tuple[RedisServer, RedisServer]) -> None:
    primary, replica = pair
    with linked(primary.url, replicas=1, replica_timeout=4) as link:
        for number in range(1, 20):
            assert link.run([increment()]) == [number]
            assert replica.cli("GET", key("counter")) == str(number)
        assert link.run([put("a", "1"), put("b", "2")]) == [b"OK", b"OK"]
        assert replica.cli("MGET", key("a"), key("b")) == ["1", "2"]


def test_a_replica_that_hangs_is_told_and_nothing_is_repeated(pair: tuple[RedisServer, RedisServer]) -> None:
    primary, replica = pair
    with linked(primary.url, replicas=1, replica_timeout=0.2) as link:
        replica.freeze()
        began = monotonic()
        answers = link.run([increment(), refuse("over"), increment("other")])
        took = monotonic() - began
        reading = link.run([get("counter")], writes=False)
        replica.thaw()
    with linked(primary.url, replicas=1, replica_timeout=4) as link:
        again = link.run([increment()])

    for answer in (answers[0], answers[2]):
        assert isinstance(answer, StoreUnavailable)
        assert "written, but only 0 of 1 replicas confirmed it within 0.2 s" in str(answer)
        assert f"127.0.0.1:{primary.port}" in str(answer)
    assert isinstance(answers[1], ScriptRefused)
    assert 0.2 <= took < 5
    assert reading == [b"1"]
    assert again == [2]


def test_more_replicas_than_there_are_never_confirm(pair: tuple[RedisServer, RedisServer]) -> None:
    primary, _ = pair
    with linked(primary.url, replicas=2, replica_timeout=0.5) as link:
        [answer] = link.run([increment()])

    assert isinstance(answer, StoreUnavailable)
    assert "only 1 of 2 replicas" in str(answer)


ONCE = Script.of("once", "#!lua\nif redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 'written' end return 'found'")


def test_a_repetition_that_finds_its_work_done_is_not_confirmed_by_a_replica_that_lacks_it(
    pair: tuple[RedisServer, RedisServer],
) -> None:
    """WAIT counts only the writes of its own connection, and a repetition on another one writes nothing."""
    primary, replica = pair
    with linked(primary.url, replicas=1, replica_timeout=0.5) as link, ThreadPoolExecutor(1) as thread:
        link.run([echo("warm")])
        primary.cli("SCRIPT", "LOAD", ONCE.text)
        replica.freeze()
        call = thread.submit(link.run, [Command(0, (1, key("k"), "nonce"), ONCE)])
        assert becomes_true(lambda: primary.cli("INFO", "clients")["blocked_clients"] == 1)
        assert primary.cli("GET", key("k")) == "nonce"
        primary.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        [answer] = call.result()
        replica.thaw()

    assert isinstance(answer, StoreUnavailable)
    assert "only 0 of 1" in str(answer)


def test_marks_of_repetitions_leave_nothing_behind(pair: tuple[RedisServer, RedisServer]) -> None:
    primary, _ = pair
    with linked(primary.url, replicas=1, replica_timeout=4) as link:
        link.run([increment()])
        primary.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        assert link.run([increment(), increment("other")]) == [2, 1]
        for server in pair:
            assert becomes_true(lambda server=server: len(server.cli("KEYS", "*")) == 2)  # type: ignore[misc]
