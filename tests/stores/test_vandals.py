"""Random damage to real stores: `accepted` stays, each record has one fate. By the thousand: torture/test_damage.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif.stores.registry import open_store
from digestif.stores.sqlite import SQLiteStore
from digestif.testing.servers import RedisServer
from tests.stores.postgres.warm import WarmStore, warm_database
from tests.stores.vandals import DamagedLife, PostgresVandal, RedisVandal, SQLiteVandal

LIVES = range(30)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with warm_database() as url:
        yield url


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.mark.parametrize("seed", LIVES)
def test_damage_to_a_file_changes_no_sum(seed: int, tmp_path: Path) -> None:
    """Fact 77. Before a repair and after it."""
    store = SQLiteStore(tmp_path / "d.db", synchronous="normal")
    DamagedLife(store, SQLiteVandal(tmp_path / "d.db"), str(seed)).run()
    store.close()


@pytest.mark.parametrize("seed", LIVES)
def test_damage_to_a_database_changes_no_sum(seed: int, database: str) -> None:
    """Fact 77. Before a repair and after it."""
    store = WarmStore(database, namespace=f"d{seed}")
    DamagedLife(store, PostgresVandal(database, f"d{seed}"), str(seed)).run()
    store.close()


@pytest.mark.parametrize("seed", LIVES)
def test_damage_to_a_server_changes_no_sum(seed: int, server: RedisServer) -> None:
    """Fact 77. Before a repair and after it."""
    store = open_store(server.url, namespace=f"d{seed}")
    with server.client() as client:
        DamagedLife(store, RedisVandal(client, f"d{seed}"), str(seed)).run()
    store.close()
