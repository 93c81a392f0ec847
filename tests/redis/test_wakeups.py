"""Hints over pub/sub: who waits hears of a ready timeline at once, and again after whatever happened to the servers."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from zlib import crc32

import pytest
import redis

from digestif import Digests, Policy
from digestif.clock import monotonic
from digestif.ids import fresh_id
from digestif.stores.base import Store, Wakeups
from digestif.stores.dsn import open_store
from digestif.stores.redis import from_client
from digestif.stores.redis.wakeups import RedisWakeups
from digestif.testing.servers import ClusterServers, LoneCluster, RedisServer, becomes_true
from tests.redis import test_link_sentinel, test_link_tls
from tests.redis.test_link_cluster import moving
from tests.redis.test_link_sentinel import Watched
from tests.redis.test_link_tls import Encrypted
from tests.sqlite.alone import alone
from tests.sqlite.children import Child, Report

encrypted = test_link_tls.encrypted
watched = test_link_sentinel.watched

AT_ONCE = 0.5  # seconds, generously: a tenth of a millisecond is usual
SHORT = 0.05
LONG = 10.0


@contextmanager
def opened(url: str, namespace: str = "d") -> Iterator[Store]:
    store = open_store(url, namespace=namespace)
    try:
        yield store
    finally:
        store.disconnect()


@contextmanager
def waiting(wakeups: Wakeups, timeout: float = LONG) -> Iterator[Future[tuple[bool, float]]]:
    """A wait in another thread: what it answers, and when."""

    def wait() -> tuple[bool, float]:
        return wakeups.wait(timeout), monotonic()

    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(wait)
        with pytest.raises(TimeoutError):
            answer.result(SHORT)
        yield answer


@pytest.fixture
def store(redis_server: RedisServer, namespace: str) -> Iterator[Store]:
    with opened(redis_server.url, namespace) as store:
        yield store


@pytest.fixture
def wakeups(store: Store) -> Iterator[Wakeups]:
    with closing(store.listen()) as wakeups:
        yield wakeups


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask soon whether a silent server is there."""
    monkeypatch.setattr("digestif.stores.redis.subscription.QUIET_SECONDS", 0.1)
    monkeypatch.setattr("digestif.stores.redis.subscription.ANSWER_SECONDS", 0.1)


def add(store: Store, partition: int | None = None) -> None:
    """Make an idle timeline ready, in this partition or anywhere."""
    names = iter(fresh_id, None)
    timeline = next(name for name in names if partition in (None, crc32(name.encode()) % store.partitions))
    assert Digests(store).add(timeline, 1)


def is_heard(store: Store, wakeups: Wakeups, partition: int | None = None) -> bool:
    add(store, partition)
    return wakeups.wait(LONG)


def settle(wakeups: Wakeups) -> None:
    """Wait until every partition is listened to, and nothing is heard any more."""
    assert isinstance(wakeups, RedisWakeups)
    assert becomes_true(lambda: not wakeups.wait(SHORT) and wakeups.is_whole())


def listeners(server: RedisServer, store: Store) -> int:
    channels = [f"{{{store.namespace}:{partition}}}:wake" for partition in range(store.partitions)]
    return sum(server.cli("PUBSUB", "SHARDNUMSUB", *channels)[1::2])


def subscribers(server: RedisServer) -> dict[str, str]:
    """The connections that listen, by their ids, with their names."""
    with server.client() as client:
        return {each["id"]: each["name"] for each in client.client_list(_type="pubsub")}


# What is heard


def test_an_add_on_an_idle_timeline_wakes_who_waits(store: Store, wakeups: Wakeups) -> None:
    with waiting(wakeups) as answer:
        add(store)
        added_at = monotonic()

        woken, at = answer.result()
    assert woken
    assert at - added_at < AT_ONCE


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


def test_two_who_wait_at_once_do_not_disturb_each_other(store: Store, wakeups: Wakeups) -> None:
    with waiting(wakeups, timeout=0.5) as one, waiting(wakeups, timeout=0.3) as other:
        add(store)

        assert sorted([one.result()[0], other.result()[0]]) == [False, True]


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

    assert becomes_true(lambda: listeners(redis_server, store) == 0, timeout=1)


def test_a_store_without_hints_lets_wait_and_be_closed() -> None:
    with opened("memory://") as store, closing(store.listen()) as wakeups:
        add(store)

        assert not wakeups.wait(SHORT)
        with waiting(wakeups) as answer:
            wakeups.close()
            closed_at = monotonic()

            assert not answer.result()[0]
            assert monotonic() - closed_at < AT_ONCE


# Servers that fail


def test_a_connection_that_is_killed_is_replaced(redis_server: RedisServer, store: Store, wakeups: Wakeups) -> None:
    for _ in range(3):
        assert redis_server.cli("CLIENT", "KILL", "TYPE", "pubsub") == 1

        assert wakeups.wait(LONG)  # something may have been missed
        assert not wakeups.wait(SHORT)
        assert is_heard(store, wakeups)
    assert listeners(redis_server, store) == store.partitions


def test_a_connection_that_is_killed_amid_a_wait_is_replaced(redis_server: RedisServer, wakeups: Wakeups) -> None:
    with waiting(wakeups) as answer:
        redis_server.cli("CLIENT", "KILL", "TYPE", "pubsub")

        assert answer.result()[0]


def test_a_server_that_restarts_is_heard_again(server: RedisServer) -> None:
    with opened(server.url) as store, closing(store.listen()) as wakeups:
        server.stop()
        assert not wakeups.wait(SHORT)
        server.start()

        assert wakeups.wait(LONG)
        assert not wakeups.wait(SHORT)
        assert is_heard(store, wakeups)


def test_a_server_that_is_down_at_first_is_heard_when_it_is_up(server: RedisServer) -> None:
    server.stop()
    url = f"{server.url}?patience=0.1"
    with opened(url) as store, closing(store.listen()) as wakeups:
        began = monotonic()
        assert not wakeups.wait(SHORT)
        assert monotonic() - began < SHORT + AT_ONCE
        server.start()

        assert wakeups.wait(LONG)
        assert is_heard(store, wakeups)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_hangs_costs_nobody_his_time_and_is_heard_again(server: RedisServer) -> None:
    with opened(server.url) as store, closing(store.listen()) as wakeups:
        server.freeze()
        began = monotonic()
        assert not wakeups.wait(0.5)  # meanwhile it was asked, given up, and somebody tries to connect
        assert not wakeups.wait(SHORT)
        assert monotonic() - began < 0.5 + SHORT + AT_ONCE
        server.thaw()

        assert wakeups.wait(LONG)
        settle(wakeups)
        assert is_heard(store, wakeups)
        assert listeners(server, store) == store.partitions


@pytest.mark.usefixtures("impatient")
def test_close_does_not_wait_for_a_server_that_hangs(server: RedisServer) -> None:
    with opened(server.url) as store:
        wakeups = store.listen()
        server.freeze()
        assert not wakeups.wait(0.5)
        with waiting(wakeups) as answer:
            wakeups.close()
            closed_at = monotonic()

            assert answer.result()[1] - closed_at < AT_ONCE
        server.thaw()

        assert becomes_true(lambda: listeners(server, store) == 0)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_only_quiet_keeps_its_connection(redis_server: RedisServer, wakeups: Wakeups) -> None:
    before = subscribers(redis_server)

    assert not wakeups.wait(0.5)
    assert subscribers(redis_server) == before


@pytest.mark.usefixtures("impatient")
def test_answers_of_the_server_are_found_however_late_somebody_looks(
    redis_server: RedisServer, wakeups: Wakeups
) -> None:
    before = subscribers(redis_server)
    assert not wakeups.wait(0.15)  # it was asked…
    assert not becomes_true(lambda: False, timeout=0.3)

    assert not wakeups.wait(SHORT)  # …and had answered long ago
    assert subscribers(redis_server) == before


def test_a_user_who_may_not_listen_waits_in_vain_and_seldom_asks(server: RedisServer) -> None:
    server.cli("ACL", "SETUSER", "deaf", "on", ">word", "~*", "+@all", "resetchannels")
    with opened(server.url.replace("://", "://deaf:word@")) as store, closing(store.listen()) as wakeups:
        add(store)

        assert not wakeups.wait(0.5)
        assert sum(entry["count"] for entry in server.cli("ACL", "LOG") if entry["reason"] == "channel") <= 2


def test_without_threads_to_spare_nothing_is_raised(
    redis_server: RedisServer, wakeups: Wakeups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    redis_server.cli("CLIENT", "KILL", "TYPE", "pubsub")
    with monkeypatch.context() as patched:
        patched.setattr("digestif.stores.redis.wakeups.Thread", refuse)
        assert not wakeups.wait(SHORT)

    assert wakeups.wait(LONG)


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
        store.disconnect()


def test_a_cluster_client_of_ones_own_too(lone_cluster: LoneCluster) -> None:
    with redis.RedisCluster(host="127.0.0.1", port=lone_cluster.port, protocol=3) as client:
        store = from_client(client, partitions=3)
        with closing(store.listen()) as wakeups:
            assert [is_heard(store, wakeups, partition) for partition in range(3)] == [True] * 3
            assert not wakeups.wait(SHORT)
        store.disconnect()


def test_hints_come_through_tls(encrypted: Encrypted, namespace: str) -> None:
    with opened(f"{encrypted.url}?ca={encrypted.ca}", namespace) as store, closing(store.listen()) as wakeups:
        for _ in range(1000):
            add(store)

        assert wakeups.wait(LONG)
        assert not wakeups.wait(SHORT)
        with waiting(wakeups) as answer:
            add(store)

            assert answer.result()[0]


def test_the_successor_that_sentinels_name_is_heard(watched: Watched) -> None:
    with opened(f"{watched.url}?patience=30") as store, closing(store.listen()) as wakeups:
        assert is_heard(store, wakeups)
        watched.primary.kill()

        assert wakeups.wait(30)
        settle(wakeups)
        assert is_heard(store, wakeups)
        assert listeners(watched.replica, store) == store.partitions


# Clusters


@pytest.fixture
def cluster_store(cluster: ClusterServers) -> Iterator[Store]:
    with opened(f"{cluster.url}?patience=30") as store:
        yield store


@pytest.fixture
def cluster_wakeups(cluster_store: Store) -> Iterator[Wakeups]:
    with closing(cluster_store.listen()) as wakeups:
        yield wakeups


def all_are_heard(store: Store, wakeups: Wakeups) -> bool:
    return all(is_heard(store, wakeups, partition) for partition in range(store.partitions))


def listeners_by_server(cluster: ClusterServers, store: Store) -> int:
    """All that there are, each asked for the channels of its own slots."""
    channels = {f"{{{store.namespace}:{partition}}}:wake" for partition in range(store.partitions)}
    heard = [each for node in cluster.nodes if node.is_running() for each in node.cli("PUBSUB", "SHARDCHANNELS")]
    return len(channels & set(heard))


def test_every_partition_of_a_cluster_is_heard(
    cluster: ClusterServers, cluster_store: Store, cluster_wakeups: Wakeups
) -> None:
    assert cluster_store.partitions == 64
    assert not cluster_wakeups.wait(SHORT)

    assert all_are_heard(cluster_store, cluster_wakeups)
    assert not cluster_wakeups.wait(SHORT)
    assert listeners_by_server(cluster, cluster_store) == 64
    assert [len(subscribers(node)) for node in cluster.primaries()] == [1, 1, 1]

    cluster_wakeups.close()
    assert becomes_true(lambda: listeners_by_server(cluster, cluster_store) == 0)


def test_the_successor_of_a_primary_that_dies_is_heard(
    cluster: ClusterServers, cluster_store: Store, cluster_wakeups: Wakeups
) -> None:
    victim = cluster.primaries()[0]
    with waiting(cluster_wakeups, timeout=60) as answer:
        victim.kill()

        assert answer.result()[0]
    cluster.wait_until_ok()
    settle(cluster_wakeups)
    assert all_are_heard(cluster_store, cluster_wakeups)


@pytest.mark.usefixtures("impatient")
def test_a_primary_that_hangs_does_not_silence_the_others_and_its_successor_is_heard(
    cluster: ClusterServers, cluster_store: Store, cluster_wakeups: Wakeups
) -> None:
    victim, other, *_ = cluster.primaries()
    channel = other.cli("PUBSUB", "SHARDCHANNELS")[0]
    victim.freeze()
    assert not cluster_wakeups.wait(0.5)
    with waiting(cluster_wakeups) as answer:
        other.cli("SPUBLISH", channel, "")
        published_at = monotonic()

        woken, at = answer.result()
        assert woken
        assert at - published_at < AT_ONCE
    cluster.wait_until_ok()
    settle(cluster_wakeups)
    assert all_are_heard(cluster_store, cluster_wakeups)

    victim.thaw()
    cluster.wait_until_ok()
    settle(cluster_wakeups)
    assert all_are_heard(cluster_store, cluster_wakeups)


def test_a_primary_that_hands_over_in_order_is_followed(
    cluster: ClusterServers, cluster_store: Store, cluster_wakeups: Wakeups
) -> None:
    former = cluster.primaries()[0]
    [successor] = cluster.replicas_of(former)
    with waiting(cluster_wakeups, timeout=60) as answer:
        successor.cli("CLUSTER", "FAILOVER")

        assert answer.result()[0]
    assert becomes_true(lambda: successor in cluster.primaries())
    cluster.wait_until_ok()
    settle(cluster_wakeups)
    assert all_are_heard(cluster_store, cluster_wakeups)


def test_a_slot_that_moves_is_followed(cluster: ClusterServers, cluster_store: Store, cluster_wakeups: Wakeups) -> None:
    with moving(cluster) as way:
        way.begin()
        way.end()

        assert cluster_wakeups.wait(LONG)
        settle(cluster_wakeups)
        assert all_are_heard(cluster_store, cluster_wakeups)
        assert "{d:0}:wake" in way.target.cli("PUBSUB", "SHARDCHANNELS")
    settle(cluster_wakeups)
    assert all_are_heard(cluster_store, cluster_wakeups)
    assert listeners_by_server(cluster, cluster_store) == 64


def test_what_the_link_learns_of_a_move_is_enough(
    cluster: ClusterServers, cluster_store: Store, cluster_wakeups: Wakeups
) -> None:
    """Also where nobody tells who listens: the store's own calls find out."""
    assert isinstance(cluster_wakeups, RedisWakeups)
    before = cluster_wakeups._routes.node_for(0)
    another = next(node for node in cluster_wakeups._routes.nodes() if node is not before)
    host, _, port = another.name.rpartition(":")
    cluster_wakeups._routes.follow(0, host, int(port), told_by=before)

    assert cluster_wakeups.wait(LONG)  # it went there, was told the truth, and is back
    settle(cluster_wakeups)
    assert cluster_wakeups._routes.node_for(0) is before
    assert all_are_heard(cluster_store, cluster_wakeups)


# Forks


def test_a_child_listens_for_itself_and_the_parent_goes_on(redis_server: RedisServer) -> None:
    told = alone(listen_before_and_after_a_fork, redis_server.url)

    assert told == {"child": ["True", "False", "True", "False"], "heard": True, "again": True, "quiet": False}


def listen_before_and_after_a_fork(url: str) -> dict[str, object]:
    with opened(url) as store, closing(store.listen()) as wakeups:
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
