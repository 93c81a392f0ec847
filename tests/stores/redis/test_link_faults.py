"""A link over servers that die, hang, load, are busy or lose connections."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from redis.exceptions import BusyLoadingError, RedisError, ResponseError

from digestif.clock import monotonic
from digestif.errors import StoreUnavailable
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.factory import link_over
from digestif.stores.redis.client.link import Link
from digestif.testing.servers import ClusterServers, RedisServer, becomes_true, free_port
from tests.stores.redis.links import echo, get, increment, key, linked, put, refuse_to_pause

pytestmark = pytest.mark.long

POP = Command(0, ("BLPOP", key("queue"), 0))  # a call that stays under way until there is something to pop


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@contextmanager
def running(link: Link, *commands: Command) -> Iterator[Future[list[Any]]]:
    """A call in another thread."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(link.run, commands)


def is_blocked(server: RedisServer) -> bool:
    return bool(server.cli("INFO", "clients")["blocked_clients"])


# Connections


@pytest.mark.parametrize("calls", [1, 2])
def test_connections_that_the_server_closed_between_calls_are_replaced_at_once(
    redis_server: RedisServer, calls: int
) -> None:
    with linked(redis_server.url, backoff=refuse_to_pause) as link:
        commands = [echo("a")] * calls
        link.run(commands)
        redis_server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        assert link.run(commands) == [b"a"] * calls


def test_all_idle_connections_die_together_and_cost_one_repetition(redis_server: RedisServer) -> None:
    with linked(redis_server.url, backoff=refuse_to_pause) as link, ThreadPoolExecutor(9) as threads:
        calls = [threads.submit(link.run, [POP]) for _ in range(9)]
        assert becomes_true(lambda: redis_server.cli("INFO", "clients")["blocked_clients"] == 9)
        redis_server.cli("RPUSH", key("queue"), *range(9))
        for call in calls:
            call.result()
        redis_server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        assert link.run([echo("a")]) == [b"a"]
        assert connections(redis_server) == 1


def connections(server: RedisServer) -> int:
    with server.client() as watcher:
        return len([each for each in watcher.client_list() if each["name"] == "digestif"])


@pytest.mark.parametrize("calls", [1, 2])
def test_a_connection_that_is_closed_under_way_is_replaced(redis_server: RedisServer, calls: int) -> None:
    with linked(redis_server.url) as link, running(link, *[POP] * calls) as answers:
        assert becomes_true(lambda: is_blocked(redis_server))
        redis_server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert becomes_true(lambda: is_blocked(redis_server))
        redis_server.cli("RPUSH", key("queue"), "a", "a")

        assert answers.result(30) == [[key("queue").encode(), b"a"]] * calls


@pytest.mark.parametrize("calls", [1, 2])
def test_a_call_that_was_interrupted_does_not_leave_its_replies_to_the_next(
    redis_server: RedisServer, interrupted: Callable[[Callable[[], bool]], Future[None]], calls: int
) -> None:
    with linked(redis_server.url) as link:
        link.run([echo("warm")])
        interrupted(lambda: is_blocked(redis_server))
        with pytest.raises(Interruption):
            link.run([echo("lost"), POP][-calls:])

        assert link.run([echo("b")]) == [b"b"]


class Interruption(BaseException):
    """Ctrl-C, for example."""


@pytest.fixture
def interrupted() -> Iterator[Callable[[Callable[[], bool]], Future[None]]]:
    """Interrupts the main thread as soon as something is true."""

    def interrupt(*_: object) -> None:
        raise Interruption

    def wait(condition: Callable[[], bool]) -> None:
        assert becomes_true(condition)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    with ThreadPoolExecutor(1) as thread:
        yield lambda condition: thread.submit(wait, condition)
    signal.signal(signal.SIGUSR1, before)


# Servers


def test_a_server_that_is_killed_under_way_and_comes_back_answers() -> None:
    with RedisServer(appendonly=True, appendfsync="always") as server, linked(server.url) as link:
        link.run([put("kept", "v")])
        with running(link, POP) as answers:
            assert becomes_true(lambda: is_blocked(server))
            server.kill()
            server.start()
            server.cli("RPUSH", key("queue"), "a")

            assert answers.result(30) == [[key("queue").encode(), b"a"]]
        assert link.run([get("kept")]) == [b"v"]


def test_a_server_that_is_down_is_waited_for(server: RedisServer) -> None:
    with linked(server.url) as link:
        link.run([echo("a")])
        server.kill()
        with running(link, echo("b"), echo("c")) as answers:
            with pytest.raises(TimeoutError):
                answers.result(0.3)
            server.start()

            assert answers.result(30) == [b"b", b"c"]


@pytest.mark.parametrize("calls", [1, 2])
def test_patience_ends_with_the_name_of_the_server_and_the_last_error(calls: int) -> None:
    port = free_port()
    with linked(f"redis://user:s3cret@127.0.0.1:{port}", patience=0.3) as link:
        began = monotonic()
        answers = link.run([echo("a")] * calls)
        took = monotonic() - began

    assert len(answers) == calls
    for answer in answers:
        assert isinstance(answer, StoreUnavailable)
        assert f"127.0.0.1:{port}: no answer within 0.3 s" in str(answer)
        assert "refused" in str(answer)
        assert "s3cret" not in str(answer)
    assert 0.3 <= took < 5


def test_a_host_that_does_not_exist_is_told() -> None:
    with linked("redis://nobody.invalid", patience=0.1) as link:
        [answer] = link.run([echo("a")])

    assert isinstance(answer, StoreUnavailable)
    assert "nobody.invalid:6379" in str(answer)


def test_a_pause_that_is_longer_than_the_timeout_is_waited_for(server: RedisServer) -> None:
    with linked(server.url, timeout=0.1) as link:
        link.run([increment()])
        began = monotonic()
        server.cli("CLIENT", "PAUSE", 500, "ALL")

        answers = link.run([echo("a"), echo("b")])

        assert answers == [b"a", b"b"]
        assert 0.4 < monotonic() - began < 5


def test_late_replies_are_not_taken_for_those_of_later_calls(server: RedisServer) -> None:
    with linked(server.url, timeout=0.1) as link:
        link.run([echo("warm")])
        server.freeze()
        with running(link, echo("slow")) as answers:
            with pytest.raises(TimeoutError):
                answers.result(0.5)
            server.thaw()

            assert answers.result(30) == [b"slow"]
        for number in range(20):
            assert link.run([echo(str(number))]) == [str(number).encode()]


def test_a_frozen_server_exhausts_patience(server: RedisServer) -> None:
    with linked(server.url, timeout=0.1, patience=0.4) as link:
        link.run([echo("a")])
        server.freeze()
        began = monotonic()
        [answer] = link.run([echo("b")])
        took = monotonic() - began
        server.thaw()

    assert isinstance(answer, StoreUnavailable)
    assert "Timeout reading from" in str(answer)
    assert 0.4 <= took < 5


def test_a_server_that_loads_its_data_is_waited_for() -> None:
    with RedisServer(rdbcompression=False) as server, linked(server.url) as link, ThreadPoolExecutor(1) as thread:
        link.run([put(f"k{number}", "v" * 1000) for number in range(100)])
        server.cli("SAVE")
        server.kill()
        server.options |= {"key-load-delay": 10_000, "loading-process-events-interval-bytes": 1024}
        started = thread.submit(server.start)
        assert becomes_true(lambda: is_loading(server))

        answers = link.run([get("k1"), get("k99")])

        assert answers == [b"v" * 1000] * 2
        started.result()


def is_loading(server: RedisServer) -> bool:
    try:
        server.cli("PING")
    except RedisError as error:  # or it does not even listen yet
        return isinstance(error, BusyLoadingError)
    return False


LONG = "local till = redis.call('TIME'); repeat local now = redis.call('TIME') until now[1] - till[1] >= 2"


def test_a_server_that_is_busy_with_a_script_is_waited_for() -> None:
    with RedisServer(busy_reply_threshold=50) as server, linked(server.url) as link, ThreadPoolExecutor(1) as thread:
        link.run([echo("a")])
        busy = thread.submit(server.cli, "EVAL", LONG, 0)
        assert becomes_true(lambda: is_busy(server))

        assert link.run([echo("b")]) == [b"b"]
        busy.result()


def is_busy(server: RedisServer) -> bool:
    try:
        server.cli("PING")
    except ResponseError as error:
        return str(error).startswith("BUSY")
    return False


def test_a_server_that_misses_its_replicas_is_waited_for(server: RedisServer) -> None:
    server.cli("CONFIG", "SET", "min-replicas-to-write", 1)
    with linked(server.url) as link, running(link, increment()) as answers:
        with pytest.raises(TimeoutError):
            answers.result(0.2)
        server.cli("CONFIG", "SET", "min-replicas-to-write", 0)

        assert answers.result(30) == [1]


def test_a_server_that_misses_its_replicas_for_long_is_told(server: RedisServer) -> None:
    server.cli("CONFIG", "SET", "min-replicas-to-write", 1)
    with linked(server.url, patience=0.3) as link:
        written, read = link.run([increment(), get("counter")])

    assert isinstance(written, StoreUnavailable)
    assert "NOREPLICAS" in str(written)
    assert read is None


def test_a_replica_refuses_and_is_told_by_name(server: RedisServer) -> None:
    with RedisServer(replicaof=f"127.0.0.1 {server.port}") as replica, linked(replica.url, patience=0.3) as link:
        [answer] = link.run([increment()])

        assert isinstance(answer, StoreUnavailable)
        assert f"127.0.0.1:{replica.port}" in str(answer)
        assert "READONLY" in str(answer)
        assert "name the primary" in str(answer)


def test_a_server_that_becomes_a_replica_and_a_primary_again_is_waited_for(server: RedisServer) -> None:
    with linked(server.url) as link:
        assert link.run([increment()]) == [1]
        server.cli("REPLICAOF", "127.0.0.1", free_port())
        with running(link, increment()) as answers:
            with pytest.raises(TimeoutError):
                answers.result(0.2)
            server.cli("REPLICAOF", "NO", "ONE")

            assert answers.result(30) == [2]


def test_closing_ends_the_patience_of_calls_under_way() -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    with linked(url, patience=60, backoff=lambda _: 60.0) as link, running(link, echo("a")) as answers:
        with pytest.raises(TimeoutError):
            answers.result(0.1)
        link.close()

        [answer] = answers.result(30)

    assert isinstance(answer, StoreUnavailable)
    assert "closed" in str(answer)


def test_a_call_that_outlives_its_link_gets_its_answer_and_leaves_no_connection(server: RedisServer) -> None:
    with linked(server.url) as link:
        link.run([echo("warm")])
        with running(link, POP) as answers:
            assert becomes_true(lambda: is_blocked(server))
            link.close()
            server.cli("RPUSH", key("queue"), "a")

            assert answers.result(30) == [[key("queue").encode(), b"a"]]
        assert connections(server) == 0


def test_a_pool_that_is_used_up_is_waited_for(server: RedisServer) -> None:
    with server.client(max_connections=1) as client, ThreadPoolExecutor(1) as thread:
        link = link_over(client, namespace="d")
        theirs = thread.submit(client.blpop, ["theirs"], 5)
        assert becomes_true(lambda: is_blocked(server))
        with running(link, echo("a")) as answers:
            with pytest.raises(TimeoutError):
                answers.result(0.2)
            server.cli("RPUSH", "theirs", "b")

            assert answers.result(30) == [b"a"]
        assert list(theirs.result()) == [b"theirs", b"b"]
        link.close()


def test_a_node_of_a_cluster_is_no_single_server(cluster: ClusterServers) -> None:
    node = cluster.primaries()[0]
    with linked(f"redis://127.0.0.1:{node.port}") as link:
        answers = link.run([put("k", "v", partition) for partition in range(16)])

    wrong = [answer for answer in answers if answer != b"OK"]
    assert wrong
    assert all("redis+cluster://" in str(answer) for answer in wrong)
