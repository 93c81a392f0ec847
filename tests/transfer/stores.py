"""Stores of every kind, empty and the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from digestif import Store
from digestif.ids import fresh_id
from digestif.stores.registry import open_store
from tests.servers import empty_lone_cluster, empty_server, shared_lone_cluster, shared_server
from tests.stores.postgres.servers import empty_database

KINDS = ("memory", "sqlite", "redis", "cluster", "postgres")


@contextmanager
def dsn_of(kind: str, folder: Path, *, emptied: bool = True) -> Iterator[str]:
    """Where an empty store of this kind may be made, apart from memory; a server that is shared need not be emptied."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/{fresh_id()}.db"
    elif kind == "redis":
        yield (empty_server() if emptied else shared_server()).url
    elif kind == "cluster":
        yield (empty_lone_cluster() if emptied else shared_lone_cluster()).url
    elif kind == "postgres":
        with empty_database() as url:
            yield url
    else:
        yield "memory://"


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[Store]:
    """An empty store; on a cluster of few partitions: a move visits each of them at every step."""
    with dsn_of(kind, folder, emptied=False) as dsn:
        partitions = "?partitions=3" if kind == "cluster" else ""
        store = open_store(dsn + partitions, namespace=f"d-{fresh_id()}")
        try:
            yield store
        finally:
            store.close()
