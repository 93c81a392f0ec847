"""The conformance suite in the modes that the tests leave out to save time."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from digestif import Store
from digestif.stores.memory import MemoryStore
from digestif.stores.sqlite import SQLiteStore
from digestif.testing import StoreConformance
from tests.conformance.makers import Maker, made, made_warm, made_without_ttl
from tests.conformance.modes import Undamaged
from tests.servers import empty_lone_cluster, empty_server
from tests.stores.postgres.warm import warm_database


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with warm_database() as url:
        yield url


class TestMemory(Undamaged):  # type: ignore[misc]  # a class that mypy does not see
    @pytest.fixture
    def make_store(self) -> Callable[[], Store]:
        return lambda: MemoryStore(namespace="d")

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()


class TestPostgres(StoreConformance):
    @pytest.fixture
    def make_store(self, dsn: str) -> Iterator[Maker]:
        yield from made_warm(dsn)

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()


class TestSQLiteFile(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[Callable[[], Store]]:
        yield from made(lambda number: SQLiteStore(tmp_path / f"{number}.db", namespace="d"))

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()


class TestSQLiteInMemory(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Callable[[], Store]]:
        yield from made(lambda _: SQLiteStore(None, namespace="d"))

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()


class TestRedis(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made_without_ttl(empty_server())

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()


class TestRedisCluster(StoreConformance):
    @pytest.fixture
    def make_store(self) -> Iterator[Maker]:
        yield from made_without_ttl(empty_lone_cluster(), "?partitions=3")

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()
