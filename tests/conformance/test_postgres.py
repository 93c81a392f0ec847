"""PostgreSQL obeys: each test in a namespace of its own."""

from collections.abc import Callable, Iterator

import pytest

from digestif import Store
from digestif.ids import fresh_id
from digestif.stores.dsn import open_store
from digestif.testing import StoreConformance
from tests.conformance.modes import OneMode
from tests.postgres.servers import empty_database

Maker = Callable[[], Store]


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with empty_database() as url:
        yield url


class TestPostgres(OneMode, StoreConformance):
    # The same statements show it on SQLite; torture/test_conformance.py shows it here.
    test_a_hundred_thousand_due_timelines_are_scheduled = None  # type: ignore[assignment]

    @pytest.fixture
    def make_store(self, dsn: str) -> Iterator[Maker]:
        yield from in_namespaces(dsn)

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()


def in_namespaces(dsn: str) -> Iterator[Maker]:
    """A maker of stores in namespaces of their own, disconnected in the end."""
    stores: list[Store] = []

    def make_another() -> Store:
        stores.append(open_store(dsn, namespace=f"d-{fresh_id()}"))
        return stores[-1]

    yield make_another
    for store in stores:
        store.disconnect()
