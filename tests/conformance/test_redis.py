"""Redis and Valkey obey, as a single server and as a cluster-enabled one, which refuses keys of other slots in a call.

The awaited face: torture/test_conformance.py. Another product: DIGESTIF_REDIS_SERVER=/path/to/the/server.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest

from digestif import Store
from digestif.stores.dsn import open_store
from digestif.stores.redis import wire
from digestif.stores.redis.commands import Command
from digestif.stores.redis.keys import SCHEDULE
from digestif.stores.redis.store import RedisStore
from digestif.testing import StoreConformance
from digestif.testing.conformance.base import Damager, Harm
from tests.conformance.modes import OneMode
from tests.servers import empty_lone_cluster, empty_server

Maker = Callable[[], Store]


class TestRedisServer(OneMode, StoreConformance):
    # SQLite shows it here, and every store in torture/test_conformance.py.
    test_a_hundred_thousand_due_timelines_are_scheduled = None  # type: ignore[assignment]

    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made(empty_server().url)

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store) -> Damager:
        return partial(harm_in, store)


class TestRedisCluster(OneMode, StoreConformance):
    # The same scripts show it above, on one partition; and torture/test_conformance.py here.
    test_a_hundred_thousand_due_timelines_are_scheduled = None  # type: ignore[assignment]
    test_fifty_thousand_records_can_be_digested_in_bounded_calls = None  # type: ignore[assignment]

    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made(f"{empty_lone_cluster().url}?partitions=3")

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store) -> Damager:
        return partial(harm_in, store)


def harm_in(store: Store, how: Harm, timeline: str) -> None:
    """Damage what the server holds of a timeline, behind the store's back."""
    assert isinstance(store, RedisStore)
    keys = store._dialogue.keys
    home = keys.home(timeline)
    partition, own = home.partition, home.keys[0]

    def run(*command: bytes | int | str) -> Any:
        [answer] = store._dialogue.get([Command(partition, command)])
        return answer

    match how:
        case Harm.GARBLED:
            run("HSET", own, b"", b"garbled")
        case Harm.IMPOSSIBLE:
            slot = wire.decode(run("HGET", own, b"")[8:])
            slot.pop("token", None)
            run("HSET", own, b"", b" " * 8 + wire.encode(slot | {"state": "open"}))
        case Harm.MISPLACED:
            for order in SCHEDULE:
                run("ZREM", keys.key(partition, order), timeline)
        case Harm.VALUE:
            run("HSET", own, max(run("HKEYS", own)), b"short")
        case Harm.RECORD:
            run("HDEL", own, max(run("HKEYS", own)))
        case Harm.LETTER:
            for letter in store.letters(timeline, after=None, limit=100):
                run("HSET", keys.letter(partition, letter.id)[0], b"", _damaged(timeline))
        case Harm.HISTORY:
            history = keys.key(partition, "history")
            flat = run("HGETALL", history)
            for place, body in zip(flat[::2], flat[1::2], strict=True):
                if wire.decode(body)["timeline"] == timeline:
                    run("HSET", history, place, _damaged(timeline))


def _damaged(timeline: str) -> bytes:
    """A dead letter, or an entry of the history, of which the timeline is left."""
    return wire.encode({"timeline": timeline, "records": "many"})


def made(dsn: str) -> Iterator[Maker]:
    """A maker of stores in namespaces of their own, disconnected in the end."""
    stores: list[Store] = []
    numbers = count()

    def make_another() -> Store:
        stores.append(open_store(dsn, namespace=f"d{next(numbers)}"))
        return stores[-1]

    yield make_another
    for store in stores:
        store.disconnect()
