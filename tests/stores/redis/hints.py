"""Wake-ups for the tests: stores to listen to, timelines that become ready, and the subscriptions of a server."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from zlib import crc32

import pytest

from digestif import Digests
from digestif.clock import monotonic
from digestif.ids import fresh_id
from digestif.stores.base import Store, Wakeups
from digestif.stores.redis.client.subscription import Keepalive
from digestif.stores.redis.store import RedisStore
from digestif.stores.redis.wakeups import RedisWakeups, listen
from digestif.stores.registry import open_store
from digestif.testing.servers import RedisServer, becomes_true

AT_ONCE = 10.0  # seconds: a tenth of a millisecond is usual, and a wake-up that is missed takes LONG
SHORT = 0.05
LONG = 30.0
IMPATIENT = Keepalive(quiet_seconds=0.1, answer_seconds=0.3)
GIVEN_UP = 0.8  # seconds after which an impatient subscription has given up a server that hangs


@contextmanager
def opened(url: str, namespace: str = "d") -> Iterator[Store]:
    store = open_store(url, namespace=namespace)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def heard(url: str, namespace: str = "d", *, keepalive: Keepalive | None = None) -> Iterator[tuple[Store, Wakeups]]:
    """A store and its wake-ups."""
    with opened(url, namespace) as store, closing(listen_to(store, keepalive)) as wakeups:
        yield store, wakeups


def listen_to(store: Store, keepalive: Keepalive | None = None) -> Wakeups:
    if keepalive is None:
        return store.listen()
    assert isinstance(store, RedisStore)
    return listen(store._link.topology, lambda: store._scripts.keys, keepalive)


@contextmanager
def waiting(wakeups: Wakeups, timeout: float = LONG) -> Iterator[Future[tuple[bool, float]]]:
    """A wait in another thread: its answer, and when it came."""

    def wait() -> tuple[bool, float]:
        return wakeups.wait(timeout), monotonic()

    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(wait)
        with pytest.raises(TimeoutError):
            answer.result(SHORT)
        yield answer


def add(store: Store, partition: int | None = None) -> None:
    """Make an idle timeline ready, in this partition or anywhere."""
    names = iter(fresh_id, None)
    timeline = next(name for name in names if partition in (None, crc32(name.encode()) % store.partitions))
    assert Digests(store).add(timeline, 1)


def is_heard(store: Store, wakeups: Wakeups, partition: int | None = None) -> bool:
    add(store, partition)
    return wakeups.wait(LONG)


def settle(wakeups: Wakeups) -> None:
    """Wait until every partition has a subscription, and no more wake-ups arrive."""
    assert isinstance(wakeups, RedisWakeups)
    assert becomes_true(lambda: not wakeups.wait(SHORT) and wakeups.is_complete())


def listeners(server: RedisServer, store: Store) -> int:
    channels = [f"{{{store.namespace}:{partition}}}:wake" for partition in range(store.partitions)]
    return sum(server.cli("PUBSUB", "SHARDNUMSUB", *channels)[1::2])


def subscribers(server: RedisServer) -> dict[str, str]:
    """The names of the subscribed connections, by their ids."""
    with server.client() as client:
        return {each["id"]: each["name"] for each in client.client_list(_type="pubsub")}
