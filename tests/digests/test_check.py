"""`check` connects, and says what is wrong with a store before a program relies on it."""

import asyncio
from pathlib import Path

import pytest

from digestif import AsyncDigests, Digests
from digestif.stores.memory import MemoryStore
from digestif.testing.servers import RedisServer
from tests.servers import empty_server

NOWHERE = {"redis": "redis://127.0.0.1:1", "postgres": "postgresql://nobody@127.0.0.1:1/none"}


def test_there_is_nothing_wrong_with_a_good_store(tmp_path: Path) -> None:
    for dsn in ("memory://", f"sqlite:///{tmp_path}/d.db", empty_server().url, "off://"):
        with Digests(dsn) as digests:
            assert digests.check() == [], dsn


@pytest.mark.parametrize("kind", NOWHERE)
def test_a_server_that_is_not_there_is_told_once_and_soon(kind: str) -> None:
    with Digests(NOWHERE[kind]) as digests:
        [problem] = digests.check()

    assert "refused; check that the server is up and can be reached" in problem


def test_a_server_that_would_evict_records_by_now_is_told() -> None:
    """One that would from the beginning is refused when the store is opened."""
    with RedisServer() as server, Digests(server.url) as digests:
        server.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

        [problem] = digests.check()

    assert "maxmemory-policy is allkeys-lru" in problem


def test_a_server_that_became_a_replica_since_is_told() -> None:
    with RedisServer() as primary, RedisServer() as server, Digests(server.url) as digests:
        before = digests.check()
        server.cli("REPLICAOF", "127.0.0.1", primary.port)

        [problem] = digests.check()

    assert before == []
    assert "replica" in problem


def test_a_store_that_is_being_moved_is_told() -> None:
    store = MemoryStore()
    with Digests(store) as digests:
        store.begin_move(0, "m", now=0)

        [problem] = digests.check()

    assert "is being moved into another one" in problem


def test_it_can_be_awaited() -> None:
    async def problems() -> list[str]:
        async with AsyncDigests(NOWHERE["redis"]) as digests:
            return await digests.check()

    assert len(asyncio.run(problems())) == 1
