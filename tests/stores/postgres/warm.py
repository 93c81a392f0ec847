"""Stores that share a pool of connections: to connect, and to plan the statements, takes longer than most tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg_pool import ConnectionPool

from digestif.stores.postgres import PostgresStore
from digestif.stores.postgres.connections import PooledConnection
from tests.stores.postgres.servers import empty_database

_pools: "dict[str, ConnectionPool[PooledConnection]]" = {}  # by the name of the database


@contextmanager
def warm_database() -> Iterator[str]:
    """An empty database with connections that many stores use, one after the other."""
    with empty_database() as url:
        yield url
        while _pools:
            _pools.popitem()[1].close()


class WarmStore(PostgresStore):
    """A store with the connections of the test before."""

    def __init__(self, dsn: str, *, namespace: str) -> None:
        super().__init__(dsn, namespace=namespace)
        self._database._pool = _pools.setdefault(self._database.name, self._database._pool)

    def close(self) -> None:
        self._database._pool = self._database._new_pool()  # to be closed instead
        super().close()
