"""Makers of stores under test: each store is fresh and empty, and all are closed in the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from psycopg_pool import ConnectionPool

from digestif import Store
from digestif.ids import fresh_id
from digestif.stores.dsn import open_store
from digestif.stores.postgres import PostgresStore
from digestif.stores.postgres.connections import Pooled
from tests.stores.postgres.servers import empty_database

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


_pools: "dict[str, ConnectionPool[Pooled]]" = {}  # by the name of the database


@contextmanager
def warm_database() -> Iterator[str]:
    """An empty database with connections that many stores use, one after the other."""
    with empty_database() as url:
        yield url
        while _pools:
            _pools.popitem()[1].close()


class Warm(PostgresStore):
    """Has the connections of the test before: to make one, and to plan its statements, takes longer than most tests."""

    def _new_pool(self) -> "ConnectionPool[Pooled]":
        if self.name not in _pools:
            _pools[self.name] = super()._new_pool()
        return _pools[self.name]

    def close(self) -> None:
        self._pool = super()._new_pool()  # to be closed instead
        super().close()


def made_warm(dsn: str) -> Iterator[Maker]:
    """A maker of stores in one database, in namespaces of their own, which share connections."""
    yield from made(lambda _: Warm(dsn, namespace=f"d-{fresh_id()}"))
