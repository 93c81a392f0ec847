"""Servers that answer late: paused, frozen, busy with a script, or still loading their files."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis.exceptions import BusyLoadingError, RedisError, ResponseError

from digestif import Digests, Ledger, Policy, Record, StoreUnavailable
from digestif.clock import monotonic
from digestif.testing.servers import RedisServer, becomes_true

pytestmark = pytest.mark.long

POLICY = Policy(minimum_delay=0, increment_delay=0, maximum_delay=0)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def lifetime(digests: Digests, timeline: str) -> None:
    """Every kind of call once."""
    assert digests.add(timeline, Record("a", 0, 0.0))
    with digests.digest(timeline) as digest:
        assert [record.key for record in digest] == ["a"]
    assert [entry.key for entry in digests.schedule()] == [timeline]
    assert digests.maintenance(2**33) == 1
    assert digests.delete(timeline)


def took(*acts: Callable[[], object]) -> float:
    began = monotonic()
    for act in acts:
        act()
    return monotonic() - began


# Paused: the server reads what it is asked, and goes on when the pause is over


@pytest.mark.parametrize("kind", ["ALL", "WRITE"])
def test_a_pause_that_is_shorter_than_the_timeout_is_only_noticed_by_the_time_it_takes(
    server: RedisServer, kind: str
) -> None:
    with Digests(server.url, policy=POLICY) as digests:
        digests.pause("first")

        assert 0.3 <= took(lambda: server.cli("CLIENT", "PAUSE", 310, kind), lambda: lifetime(digests, "t")) < 4.5
        assert digests.ledger() == Ledger(accepted=1, delivered=1)
        assert digests.verify()


@pytest.mark.parametrize("kind", ["ALL", "WRITE"])
def test_a_pause_that_is_longer_than_the_timeout_is_waited_for_and_nothing_counts_twice(
    server: RedisServer, kind: str
) -> None:
    with Digests(f"{server.url}?timeout=0.1", policy=POLICY) as digests:
        digests.pause("first")

        assert 0.5 <= took(lambda: server.cli("CLIENT", "PAUSE", 510, kind), lambda: lifetime(digests, "t")) < 10
        assert digests.ledger() == Ledger(accepted=1, delivered=1)
        assert digests.verify()


@pytest.mark.parametrize("kind", ["ALL", "WRITE"])
def test_a_pause_that_is_longer_than_patience_is_told_and_survived(server: RedisServer, kind: str) -> None:
    with Digests(f"{server.url}?timeout=0.1&patience=0.2", policy=POLICY) as digests:
        digests.add("t", Record("a", 0, 0.0))
        server.cli("CLIENT", "PAUSE", 1200, kind)

        with pytest.raises(StoreUnavailable, match=rf"127\.0\.0\.1:{server.port}: no answer within 0\.2 s"):
            digests.add("t", Record("b", 0, 0.0))
        server.cli("SET", "awake", 1)  # waits for the end of the pause
        assert digests.add("t", Record("c", 0, 0.0)) is False

        pending = {record.key for record in digests.peek("t")}
        assert {"a", "c"} <= pending <= {"a", "b", "c"}
        assert digests.ledger() == Ledger(accepted=len(pending), pending=len(pending))
        assert digests.verify()


# Frozen: requests wait in the sockets, and run when their callers have given up


def test_what_a_frozen_server_finds_when_it_awakes_counts_once(server: RedisServer) -> None:
    with Digests(f"{server.url}?timeout=0.1&patience=0.3", policy=POLICY) as digests:
        digests.add("t", Record("a", 0, 0.0))
        server.freeze()
        with pytest.raises(StoreUnavailable):
            digests.add("t", Record("b", 0, 0.0))
        server.thaw()
        assert becomes_true(lambda: digests.timeline("t").pending == 2)

        assert digests.ledger() == Ledger(accepted=2, pending=2)
        with digests.digest("t") as digest:
            assert [record.key for record in digest] == ["b", "a"]
        assert digests.ledger() == Ledger(accepted=2, delivered=2)
        assert digests.verify()


def test_a_lease_outlives_a_server_that_freezes_for_less_than_it(server: RedisServer) -> None:
    with Digests(f"{server.url}?timeout=0.1", policy=POLICY, lease=3) as digests, ThreadPoolExecutor(1) as thread:
        digests.add("t", Record("a", 0, 0.0))
        with digests.digest("t"):
            server.freeze()
            other = thread.submit(digests.add, "t", Record("b", 0, 0.0))
            assert not becomes_true(other.done, timeout=1.1)  # a renewal is due meanwhile
            server.thaw()
            assert other.result(30) is False

        assert digests.ledger() == Ledger(accepted=2, pending=1, delivered=1)


# Busy and loading: the server answers, but not with an answer


LONG = """
local function time()
  local now = redis.call('TIME')
  return now[1] + now[2] / 1e6
end
local till = time() + 0.7
repeat until time() > till
"""


def test_a_server_that_is_busy_with_a_script_is_waited_for() -> None:
    with (
        RedisServer(busy_reply_threshold=50) as server,
        Digests(server.url, policy=POLICY) as digests,
        ThreadPoolExecutor(1) as thread,
    ):
        digests.pause("first")
        busy = thread.submit(server.cli, "EVAL", LONG, 0)
        assert becomes_true(lambda: refusal_of(server).startswith("BUSY"))

        lifetime(digests, "t")

        assert digests.ledger() == Ledger(accepted=1, delivered=1)
        assert digests.verify()
        busy.result()


def test_a_server_that_loads_a_big_file_is_waited_for() -> None:
    with (
        RedisServer(appendonly=True, rdbcompression=False) as server,
        Digests(server.url, policy=POLICY) as digests,
        ThreadPoolExecutor(1) as thread,
    ):
        digests.add_many([(f"t{number % 100}", Record(str(number), "v" * 100, 0.0)) for number in range(3000)])
        server.cli("BGREWRITEAOF")
        assert becomes_true(lambda: server.cli("INFO", "persistence")["aof_rewrite_in_progress"] == 0)
        server.kill()
        server.options |= {"key-load-delay": 6_000, "loading-process-events-interval-bytes": 1024}
        started = thread.submit(server.start)
        assert becomes_true(lambda: refusal_of(server) == "LOADING")

        assert digests.add("t0", 0) is False
        with digests.digest("t1") as digest:
            assert len(digest) == 30

        assert digests.ledger() == Ledger(accepted=3001, pending=2971, delivered=30)
        assert digests.verify()
        started.result()


def refusal_of(server: RedisServer) -> str:
    try:
        server.cli("PING")
    except BusyLoadingError:
        return "LOADING"
    except ResponseError as error:
        return str(error)
    except RedisError:
        pass  # it does not even listen
    return ""
