"""Wake-ups come again after any fault of a server, and a fault delays no worker that waits."""

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from digestif.clock import monotonic
from digestif.stores.redis import from_client
from digestif.stores.redis.client.subscription import Keepalive
from digestif.stores.redis.store import RedisStore
from digestif.stores.redis.wakeups import RedisWakeups
from digestif.testing.servers import RedisServer, becomes_true
from tests.stores.redis.hints import (
    AT_ONCE,
    GIVEN_UP,
    IMPATIENT,
    LONG,
    SHORT,
    add,
    heard,
    is_heard,
    listen_to,
    listeners,
    settle,
    subscribers,
    waiting,
)
from tests.stores.redis.sentinels import Watched, ask_before_each_call
from tests.stores.redis.tls import Encrypted

pytestmark = pytest.mark.long

# Ask soon, and be patient with a machine that does other things as well.
CURIOUS = Keepalive(quiet_seconds=0.1, answer_seconds=1.0)
ANSWERED = 1.3  # seconds after which a curious subscription has an answer, or has given up
# Ask at once, and accept any answer, however late.
RELUCTANT = Keepalive(quiet_seconds=0.0, answer_seconds=60.0)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(appendonly=True) as server:  # it comes back with its data
        yield server


# Connections that are lost


def test_a_connection_that_is_killed_is_replaced(redis_server: RedisServer, namespace: str) -> None:
    with heard(redis_server.url, namespace) as (store, wakeups):
        for _ in range(3):
            redis_server.cli("CLIENT", "KILL", "TYPE", "pubsub")

            assert wakeups.wait(LONG)  # something may have been missed
            assert not wakeups.wait(SHORT)
            assert is_heard(store, wakeups)
        assert listeners(redis_server, store) == store.partitions


def test_also_amid_a_wait(redis_server: RedisServer, namespace: str) -> None:
    with heard(redis_server.url, namespace) as (_, wakeups), waiting(wakeups) as answer:
        redis_server.cli("CLIENT", "KILL", "TYPE", "pubsub")

        assert answer.result()[0]


def test_without_threads_to_spare_it_is_replaced_later(
    redis_server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    with heard(redis_server.url, namespace) as (_, wakeups):
        redis_server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        with monkeypatch.context() as patched:
            patched.setattr("digestif.stores.redis.wakeups.Thread", refuse)
            assert not wakeups.wait(SHORT)

        assert wakeups.wait(LONG)


# Servers that are down


def test_a_server_that_restarts_is_heard_again(server: RedisServer) -> None:
    with heard(server.url) as (store, wakeups):
        server.stop()
        assert not wakeups.wait(SHORT)
        server.start()

        assert wakeups.wait(LONG)
        assert not wakeups.wait(SHORT)
        assert is_heard(store, wakeups)


def test_a_server_that_is_down_at_first_is_heard_when_it_is_up(server: RedisServer) -> None:
    server.stop()
    with heard(f"{server.url}?patience=0.1") as (store, wakeups):
        began = monotonic()
        assert not wakeups.wait(SHORT)
        assert monotonic() - began < SHORT + AT_ONCE
        server.start()

        assert wakeups.wait(LONG)
        assert is_heard(store, wakeups)


@pytest.mark.parametrize("order", ["SENTINEL FAILOVER main", None])
def test_the_successor_that_sentinels_name_is_heard(watched: Watched, order: str | None) -> None:
    """On request as well, when the former primary is up and does not know yet that it was replaced."""
    with heard(f"{watched.url}?patience=30") as (store, wakeups):
        assert isinstance(store, RedisStore)
        ask_before_each_call(store._link)
        assert is_heard(store, wakeups)
        if order is None:
            watched.primary.kill()
        else:
            watched.sentinel.cli(*order.split())
            assert becomes_true(lambda: watched.named() == watched.replica.port)
            add(store)

        assert wakeups.wait(30)
        settle(wakeups)
        assert listeners(watched.replica, store) == store.partitions
        assert is_heard(store, wakeups)


# Servers that hang


def test_a_server_that_hangs_costs_nobody_his_time_and_is_heard_again(server: RedisServer) -> None:
    with heard(server.url, keepalive=IMPATIENT) as (store, wakeups):
        server.freeze()
        began = monotonic()
        assert not wakeups.wait(GIVEN_UP)  # from here on somebody tries to connect
        assert not wakeups.wait(SHORT)
        assert monotonic() - began < GIVEN_UP + SHORT + AT_ONCE
        server.thaw()

        assert wakeups.wait(LONG)
        settle(wakeups)
        assert is_heard(store, wakeups)
        assert listeners(server, store) == store.partitions


def test_close_does_not_wait_for_a_server_that_hangs(server: RedisServer) -> None:
    with heard(server.url, keepalive=IMPATIENT) as (_, wakeups):
        server.freeze()
        assert not wakeups.wait(GIVEN_UP)
        with waiting(wakeups) as answer:
            wakeups.close()
            closed_at = monotonic()

            assert answer.result()[1] - closed_at < AT_ONCE
        server.thaw()

        assert becomes_true(lambda: not subscribers(server))


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_server_that_is_only_quiet_keeps_its_connection(redis_server: RedisServer, protocol: int) -> None:
    with redis.Redis(port=redis_server.port, protocol=protocol) as client:
        store = from_client(client)
        with closing(listen_to(store, CURIOUS)) as wakeups:
            before = subscribers(redis_server)

            assert not wakeups.wait(ANSWERED)
            assert subscribers(redis_server) == before
        store.close()


def test_also_through_tls(encrypted: Encrypted, namespace: str) -> None:
    with heard(f"{encrypted.url}?ca={encrypted.ca}", namespace, keepalive=CURIOUS) as (store, wakeups):
        assert not wakeups.wait(ANSWERED)
        assert is_heard(store, wakeups)


def test_an_answer_is_found_however_late_somebody_looks(server: RedisServer) -> None:
    with heard(server.url, keepalive=RELUCTANT) as (_, wakeups):
        before = subscribers(server)
        assert not wakeups.wait(0)
        assert becomes_true(lambda: "cmd=ping" in server.cli("CLIENT", "LIST", "TYPE", "pubsub"))
        assert isinstance(wakeups, RedisWakeups)
        for subscription in wakeups._subscriptions.values():
            subscription.keepalive = Keepalive(quiet_seconds=0.0, answer_seconds=0.0)

        assert not wakeups.wait(0)
        assert subscribers(server) == before


# Servers that refuse


def test_a_user_who_may_not_listen_waits_in_vain_and_seldom_asks(server: RedisServer) -> None:
    server.cli("ACL", "SETUSER", "deaf", "on", ">word", "~*", "+@all", "resetchannels")
    with heard(server.url.replace("://", "://deaf:word@")) as (store, wakeups):
        add(store)

        assert not wakeups.wait(0.5)
        with server.client(decode_responses=True) as client:
            refusals = [entry for entry in client.acl_log() if entry["context"] == "toplevel"]
        assert [entry["count"] for entry in refusals] == [1]
