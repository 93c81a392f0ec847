"""PostgreSQL obeys: each test in a namespace of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from digestif import Store
from digestif.ids import fresh_id
from digestif.stores.postgres import PostgresStore
from digestif.stores.postgres.connections import Pooled
from digestif.testing import StoreConformance
from digestif.testing.conformance.base import Damager, Harm
from tests.conformance.modes import SharedRules
from tests.stores.postgres.servers import empty_database

Maker = Callable[[], Store]


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with warm_database() as url:
        yield url


class TestPostgres(SharedRules, StoreConformance):
    @pytest.fixture
    def make_store(self, dsn: str) -> Iterator[Maker]:
        yield from in_namespaces(dsn)

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store, dsn: str) -> Damager:
        def harm(how: Harm, timeline: str) -> None:
            given = {"namespace": store.namespace, "key": timeline.encode()}
            with psycopg.connect(dsn, autocommit=True, options="-c search_path=digestif") as connection:
                assert connection.execute(DAMAGE[how], given).rowcount > 0

        return harm


_OWN = "namespace = (SELECT id FROM namespace WHERE name = %(namespace)s)"
_SLOT = f"UPDATE timeline SET slot = %s WHERE key = %(key)s AND {_OWN}"
_BATCH = f"SELECT (convert_from(slot, 'UTF8')::jsonb->>'batch')::bigint FROM timeline WHERE key = %(key)s AND {_OWN}"
_PENDING = f"(SELECT key FROM record WHERE batch = ({_BATCH}) ORDER BY arrival DESC LIMIT 1) AND {_OWN}"
DAMAGE = {
    Harm.GARBLED: _SLOT.replace("%s", "substr(slot, 1, length(slot) - 1)"),
    Harm.IMPOSSIBLE: _SLOT.replace(
        "%s", """convert_to((convert_from(slot, 'UTF8')::jsonb - 'token' || '{"state": "open"}')::text, 'UTF8')"""
    ),
    Harm.MISPLACED: f"""UPDATE timeline SET waiting = NULL, ready = NULL, until = NULL, expires = NULL
        WHERE key = %(key)s AND {_OWN}""",
    Harm.VALUE: f"UPDATE record SET payload = NULL WHERE key = {_PENDING}",
    Harm.RECORD: f"DELETE FROM record WHERE key = {_PENDING}",
    Harm.LETTER: f"UPDATE letter SET body = 'null' WHERE timeline = %(key)s AND {_OWN}",
    Harm.HISTORY: f"UPDATE history SET body = '{{' WHERE timeline = %(key)s AND {_OWN}",
}


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


def in_namespaces(dsn: str) -> Iterator[Maker]:
    """A maker of stores in namespaces of their own, disconnected in the end."""
    stores: list[Store] = []

    def make_another() -> Store:
        stores.append(Warm(dsn, namespace=f"d-{fresh_id()}"))
        return stores[-1]

    yield make_another
    for store in stores:
        store.close()
