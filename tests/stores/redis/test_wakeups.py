"""Wake-ups over pub/sub: a worker that waits learns of a ready timeline at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import redis

from digestif import Digests, Policy
from digestif.clock import monotonic
from digestif.stores.base import Store, Wakeups
from digestif.stores.redis import from_client
from digestif.testing.servers import LoneCluster, RedisServer, becomes_true
from tests.alone import alone
from tests.children import Child, Report
from tests.stores.redis.hints import (
    AT_ONCE,
    LONG,
    SHORT,
    add,
    heard,
    is_heard,
    listeners,
    opened,
    settle,
    subscribers,
    waiting,
)
from tests.stores.redis.tls import Encrypted

pytestmark = pytest.mark.long


@pytest.fixture
def store(redis_server: RedisServer, namespace: str) -> Iterator[Store]:
    with opened(redis_server.url, namespace) as store:
        yield store


@pytest.fixture
def wakeups(store: Store) -> Iterator[Wakeups]:
    with closing(store.listen()) as wakeups:
        yield wakeups


# What is heard


def test_an_add_on_an_idle_timeline_wakes_who_waits(store: Store, wakeups: Wakeups) -> None:
    with waiting(wakeups) as answer:
        add(store)
        added_at = monotonic()

        woken, at = answer.result()
    assert woken
    assert at - added_at < AT_ONCE


def test_a_hint_names_its_partition(redis_server: RedisServer, namespace: str) -> None:
    with opened(f"{redis_server.url}?partitions=8", namespace) as store, closing(store.listen()) as wakeups:
        settle(wakeups)
        add(store, 5)
        add(store, 2)
        assert becomes_true(lambda: listeners(redis_server, store) == 8)

        named = wakeups.wait_where(LONG) or frozenset()
        named |= wakeups.wait_where(SHORT) or frozenset()

        assert named == {5, 2}
        assert wakeups.wait_where(SHORT) is None


def test_hints_that_may_have_been_missed_name_no_partition(redis_server: RedisServer, namespace: str) -> None:
    with opened(f"{redis_server.url}?partitions=8", namespace) as store, closing(store.listen()) as wakeups:
        settle(wakeups)
        for client in subscribers(redis_server):
            redis_server.cli("CLIENT", "KILL", "ID", client)

        began = monotonic()

        assert wakeups.wait_where(LONG) is None
        assert monotonic() - began < LONG
        assert is_heard(store, wakeups)


def test_also_across_processes(redis_server: RedisServer, store: Store, wakeups: Wakeups) -> None:
    with waiting(wakeups, timeout=60) as answer:
        added_at = alone(add_from_afar, redis_server.url, store.namespace)

        woken, at = answer.result()
    assert woken
    assert at - added_at < AT_ONCE


def add_from_afar(url: str, namespace: str) -> float:
    with opened(url, namespace) as store:
        add(store)
        return monotonic()


def test_a_quiet_store_lets_who_waits_wait(wakeups: Wakeups) -> None:
    began = monotonic()

    assert not wakeups.wait(SHORT)
    assert SHORT <= monotonic() - began < SHORT + AT_ONCE


def test_an_add_to_a_ready_timeline_is_no_news(store: Store, wakeups: Wakeups) -> None:
    digests = Digests(store)
    digests.add("t", 1)
    assert wakeups.wait(LONG)

    assert not digests.add("t", 2)
    assert not wakeups.wait(SHORT)


def test_nor_is_one_that_has_to_wait(store: Store, wakeups: Wakeups) -> None:
    Digests(store).add("t", 1, first_delay=60)

    assert not wakeups.wait(SHORT)


# Each prepares, gives the word, and makes a timeline ready.


def flush(digests: Digests) -> Iterator[None]:
    digests.add("t", 1, first_delay=60)
    yield
    assert digests.flush("t")


def resume(digests: Digests) -> Iterator[None]:
    digests.add("t", 1)
    digests.pause("t")
    yield
    assert digests.resume("t")


def close_without_cooling_down(digests: Digests) -> Iterator[None]:
    digests.add("t", 1)
    with digests.digest("t", 0):
        digests.add("t", 2)
        yield


def replay(digests: Digests) -> Iterator[None]:
    digests.add("t", 1)
    with pytest.raises(RuntimeError), digests.digest("t"):
        raise RuntimeError("undeliverable")
    [letter] = digests.dead_letters()
    yield
    assert digests.replay(letter.id)


@pytest.mark.parametrize("act", [flush, resume, close_without_cooling_down, replay])
def test_whatever_else_makes_a_timeline_ready_is_heard(store: Store, act: Callable[[Digests], Iterator[None]]) -> None:
    steps = act(Digests(store, policy=Policy(attempts=1)))
    next(steps)
    with closing(store.listen()) as wakeups:
        assert not wakeups.wait(SHORT)
        next(steps, None)

        assert wakeups.wait(LONG)
        assert not wakeups.wait(SHORT)


def test_many_hints_are_one(store: Store, wakeups: Wakeups) -> None:
    for _ in range(1000):
        add(store)
    store.time(0)  # the server has sent the last of them

    assert wakeups.wait(LONG)
    assert not wakeups.wait(SHORT)


def test_a_hint_between_two_waits_is_not_lost(store: Store, wakeups: Wakeups) -> None:
    assert not wakeups.wait(0)
    add(store)

    assert wakeups.wait(LONG)
    assert not wakeups.wait(0)


def test_everybody_who_listens_hears_it(store: Store) -> None:
    with ExitStack() as stack:
        several = [stack.enter_context(closing(store.listen())) for _ in range(3)]
        add(store)

        assert [wakeups.wait(LONG) for wakeups in several] == [True] * 3


def test_other_namespaces_are_not_heard(redis_server: RedisServer, wakeups: Wakeups) -> None:
    with opened(redis_server.url, "other") as other:
        add(other)

    assert not wakeups.wait(SHORT)


def test_somebody_who_waits_meanwhile_has_his_own_time(store: Store, wakeups: Wakeups) -> None:
    with waiting(wakeups) as answer:
        began = monotonic()
        assert not wakeups.wait(SHORT)
        assert monotonic() - began < SHORT + AT_ONCE
        add(store)

        assert answer.result()[0]


# Ends


def test_close_ends_a_wait(wakeups: Wakeups) -> None:
    with waiting(wakeups) as answer:
        wakeups.close()
        closed_at = monotonic()

        woken, at = answer.result()
    assert not woken
    assert at - closed_at < AT_ONCE
    assert not wakeups.wait(LONG)
    assert monotonic() - closed_at < AT_ONCE


def test_close_in_a_signal_handler_ends_the_wait_that_it_interrupts(wakeups: Wakeups) -> None:
    former = signal.signal(signal.SIGALRM, lambda *_: wakeups.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, SHORT)
        began = monotonic()

        assert not wakeups.wait(LONG)
        assert monotonic() - began < SHORT + AT_ONCE
    finally:
        signal.signal(signal.SIGALRM, former)


@pytest.mark.parametrize("while_waiting", [False, True])
def test_nothing_is_left_behind(redis_server: RedisServer, store: Store, while_waiting: bool) -> None:
    wakeups = store.listen()
    assert listeners(redis_server, store) == store.partitions
    with ExitStack() as stack:
        if while_waiting:
            stack.enter_context(waiting(wakeups))
        wakeups.close()
        wakeups.close()

    assert becomes_true(lambda: listeners(redis_server, store) == 0)


def test_a_store_without_hints_lets_wait_and_be_closed() -> None:
    with heard("off://") as (_, wakeups):
        assert not wakeups.wait(SHORT)
        with waiting(wakeups) as answer:
            wakeups.close()
            closed_at = monotonic()

            assert not answer.result()[0]
            assert monotonic() - closed_at < AT_ONCE


# Kinds of connections


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decoding", [False, True])
def test_a_client_of_ones_own_is_used_as_it_is(redis_server: RedisServer, protocol: int, decoding: bool) -> None:
    with redis.Redis(
        port=redis_server.port, protocol=protocol, decode_responses=decoding, max_connections=2, client_name="mine"
    ) as client:
        store = from_client(client)
        with closing(store.listen()) as wakeups:
            assert list(subscribers(redis_server).values()) == ["mine"]
            redis_server.cli("CLIENT", "KILL", "TYPE", "pubsub")

            assert wakeups.wait(LONG)
            assert is_heard(store, wakeups)
            assert not wakeups.wait(SHORT)
        store.close()


def test_a_cluster_client_of_ones_own_too(lone_cluster: LoneCluster) -> None:
    with redis.RedisCluster(host="127.0.0.1", port=lone_cluster.port, protocol=3) as client:
        store = from_client(client, partitions=3)
        with closing(store.listen()) as wakeups:
            assert [is_heard(store, wakeups, partition) for partition in range(3)] == [True] * 3
            assert not wakeups.wait(SHORT)
        store.close()


def test_hints_come_through_tls(encrypted: Encrypted, namespace: str) -> None:
    with heard(f"{encrypted.url}?ca={encrypted.ca}", namespace) as (store, wakeups):
        for _ in range(1000):
            add(store)
        store.time(0)

        assert wakeups.wait(LONG)
        assert not wakeups.wait(SHORT)
        with waiting(wakeups) as answer:
            add(store)

            assert answer.result()[0]


# Forks


def test_a_child_listens_for_itself_and_the_parent_goes_on(redis_server: RedisServer) -> None:
    told = alone(listen_before_and_after_a_fork, redis_server.url)

    assert told == {"child": ["True", "False", "True", "False"], "heard": True, "again": True, "quiet": False}


def listen_before_and_after_a_fork(url: str) -> dict[str, object]:
    with heard(url) as (store, wakeups):
        child = Child(listen_in_the_child, store, wakeups).finish()
        return {
            "child": child,
            "heard": wakeups.wait(LONG),  # what the child has added
            "again": is_heard(store, wakeups),
            "quiet": wakeups.wait(SHORT),
        }


def listen_in_the_child(store: Store, wakeups: Wakeups, report: Report) -> None:
    report(str(wakeups.wait(LONG)))  # it has subscribed
    report(str(wakeups.wait(SHORT)))
    report(str(is_heard(store, wakeups)))
    wakeups.close()
    report(str(wakeups.wait(SHORT)))
