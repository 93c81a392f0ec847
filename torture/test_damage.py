"""A thousand random damages to each store: `accepted` never changes, and each record has one fate, repaired or not.

    DIGESTIF_DAMAGES=5000 DIGESTIF_DAMAGE_SEED=7 ./dev torture -k "damage and redis"

A failure begins with the seed of the life in which it happened: `DIGESTIF_DAMAGE_LIFE=7-123` lives that one again.
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from digestif import Store
from digestif.ids import chance
from digestif.stores.registry import open_store
from digestif.stores.sqlite import SQLiteStore
from digestif.testing.servers import RedisServer
from tests.stores.postgres.warm import WarmStore, warm_database
from tests.stores.vandals import DamagedLife, PostgresVandal, RedisVandal, SQLiteVandal, Vandal

DAMAGES = int(os.environ.get("DIGESTIF_DAMAGES", "1000"))
SEED = os.environ.get("DIGESTIF_DAMAGE_SEED", str(int(chance() * 1_000_000)))
LIFE = os.environ.get("DIGESTIF_DAMAGE_LIFE")

Make = Callable[[str], tuple[Store, Vandal]]


def live_on(make: Make) -> None:
    """Live one life after the other, until there was enough damage."""
    if LIFE is not None:
        live(make, "n", LIFE)
        return
    damages = number = 0
    while damages < DAMAGES:
        damages += live(make, f"n{number}", f"{SEED}-{number}")
        number += 1


def live(make: Make, name: str, seed: str) -> int:
    store, vandal = make(name)
    with closing(store):
        return DamagedLife(store, vandal, seed).run()


def test_damage_to_sqlite(tmp_path: Path) -> None:
    """Fact 77."""

    def make(name: str) -> tuple[Store, Vandal]:
        path = tmp_path / f"{name}.db"
        return SQLiteStore(path, synchronous="normal"), SQLiteVandal(path)

    live_on(make)


def test_damage_to_postgres() -> None:
    """Fact 77."""
    with warm_database() as url:
        live_on(lambda name: (WarmStore(url, namespace=name), PostgresVandal(url, name)))


def test_damage_to_redis() -> None:
    """Fact 77."""
    with RedisServer() as server, server.client() as client:
        live_on(lambda name: (open_store(server.url, namespace=name), RedisVandal(client, name)))
