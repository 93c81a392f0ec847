"""Counters of the ledger that are far from anything that can be counted: `repair` brings them back, on every store."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from digestif import Digests, Store
from digestif.core.ledger import COUNTERS
from digestif.stores.memory import MemoryStore
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.link import required
from digestif.stores.redis.store import RedisStore
from digestif.testing.conformance.actions import T, deliver, keys
from tests.transfer.stores import KINDS, dsn_of

SMALLEST, LARGEST = -(2**63), 2**63 - 1
SHARES = {"some": "share = 1", "all": "true"}  # of PostgreSQL's ledger
# Every counter in a file, and one of each sort elsewhere.
CASES = [("sqlite", counter) for counter in COUNTERS]
CASES += [(kind, counter) for kind in KINDS if kind != "sqlite" for counter in ("accepted", "pending", "declined")]


def set_counter(store: Store, dsn: str, counter: str, value: int, shares: str = "some") -> None:
    """Write the counter behind the store's back."""
    if isinstance(store, MemoryStore):
        store._tables.tally[counter] = value
    elif isinstance(store, RedisStore):
        partition = store._scripts.keys.partition_of("t")
        ledger = store._scripts.keys.key(partition, "ledger")
        required(store._scripts._link.run([Command(partition, ("HSET", ledger, counter, value))])[0])
    elif dsn.startswith("sqlite"):
        with closing(sqlite3.connect(dsn.removeprefix("sqlite:///"), isolation_level=None)) as file:
            file.execute(f"UPDATE namespace SET {counter} = ?", (value,))
    else:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"UPDATE digestif.ledger SET {counter} = {value} WHERE {SHARES[shares]}".encode())


def check_that_it_can_be_repaired(digests: Digests, dsn: str, counter: str, value: int, shares: str = "some") -> None:
    digests.add("t", 1, key="a", now=T)
    set_counter(digests.store, dsn, counter, value, shares)

    assert not digests.verify()
    assert [found.part for found in digests.repair(now=T)] == ["ledger"]

    assert digests.verify()
    assert digests.repair(now=T) == []
    ledger = digests.ledger()
    assert (ledger.pending, ledger.accepted, ledger.declined) == (1, 1, 0)
    digests.add("t", 2, key="b", now=T)
    assert set(keys(deliver(digests, "t", now=T))) == {"a", "b"}
    assert digests.ledger().delivered == 2
    assert digests.verify()


@pytest.mark.parametrize("value", [SMALLEST, LARGEST])
@pytest.mark.parametrize(("kind", "counter"), CASES)
def test_a_counter_at_the_end_of_its_range_is_named_and_repaired(
    kind: str, counter: str, value: int, tmp_path: Path
) -> None:
    with dsn_of(kind, tmp_path) as dsn, Digests(dsn) as digests:
        check_that_it_can_be_repaired(digests, dsn, counter, value)


@pytest.mark.parametrize("counter", ["accepted", "expired"])
@pytest.mark.parametrize("value", [SMALLEST, LARGEST])
def test_every_share_of_a_counter_may_be_damaged(counter: str, value: int, tmp_path: Path) -> None:
    """The sum of the shares is no 64-bit integer any more."""
    with dsn_of("postgres", tmp_path) as dsn, Digests(dsn) as digests:
        check_that_it_can_be_repaired(digests, dsn, counter, value, "all")


@pytest.mark.parametrize("counter", ["left", "moved"])
@pytest.mark.parametrize("value", [SMALLEST, LARGEST])
def test_what_scripts_count_besides_may_be_damaged(counter: str, value: int, tmp_path: Path) -> None:
    with dsn_of("redis", tmp_path) as dsn, Digests(dsn) as digests:
        check_that_it_can_be_repaired(digests, dsn, counter, value)
