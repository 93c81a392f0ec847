"""Makers of stores under test: each store is fresh and empty, and all are closed in the end."""

from collections.abc import Callable, Iterator
from itertools import count

from digestif import Store
from digestif.ids import fresh_id
from digestif.stores.registry import open_store
from digestif.testing.servers import RedisServer
from tests.servers import no_key_expires
from tests.stores.postgres.warm import WarmStore

Maker = Callable[[], Store]


def made(make: Callable[[int], Store]) -> Iterator[Maker]:
    """A maker that numbers its stores."""
    stores: list[Store] = []
    numbers = count()

    def make_another() -> Store:
        stores.append(make(next(numbers)))
        return stores[-1]

    yield make_another
    for store in stores:
        store.close()


def made_at(dsn: str) -> Iterator[Maker]:
    """A maker of stores on one server, in namespaces of their own."""
    yield from made(lambda number: open_store(dsn, namespace=f"d{number}"))


def made_without_ttl(server: RedisServer, options: str = "") -> Iterator[Maker]:
    """A maker of stores on a server of Redis, none of which may give a key a TTL."""
    with no_key_expires(server):
        yield from made_at(f"{server.url}{options}")


def made_warm(dsn: str) -> Iterator[Maker]:
    """A maker of stores in one database, in namespaces of their own, which share connections."""
    yield from made(lambda _: WarmStore(dsn, namespace=f"d-{fresh_id()}"))
