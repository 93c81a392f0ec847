"""Processes with clocks an hour apart share a file: nothing is lost, a lease that was taken over is worth nothing."""

import json
import random
import sys
from collections.abc import Iterator

import pytest

from digestif import Busy, Digests, StaleLease
from digestif.clock import wall_clock
from digestif.stores.base import Burial, Completion, Release
from digestif.stores.sqlite import SQLiteStore
from tests.alone import alone
from tests.children import Child, killed_at_the_end, listen
from tests.stores.clocks import APART, SECONDS, Account, check_lives, drain, judge, live, records, suspects
from tests.stores.sqlite.soundness import check_sound

pytestmark = pytest.mark.long


@pytest.fixture
def behind(path: str) -> Iterator[SQLiteStore]:
    store = on_time(path)
    yield store
    store.close()


@pytest.fixture
def ahead(path: str) -> Iterator[SQLiteStore]:
    store = an_hour_ahead(path)
    yield store
    store.close()


def on_time(path: str) -> SQLiteStore:
    return SQLiteStore(path)


def an_hour_ahead(path: str) -> SQLiteStore:
    return SQLiteStore(path, clock=lambda: wall_clock() + APART)


def test_a_lease_that_a_faster_clock_took_over_is_stale_for_the_slower_one(
    behind: SQLiteStore, ahead: SQLiteStore
) -> None:
    Digests(behind).add("t", 0, key="r")
    lost = behind.open("t", token="slow", lease=30_000, now=None)
    first = records(behind, lost)

    (held,) = suspects(ahead, "fast", lease=30_000)

    assert records(ahead, held) == first  # the same digest again
    assert behind.extend([lost], lease=30_000, now=None) == [False]
    assert behind.release([Release(lost, None)], now=None) == [False]
    assert behind.bury([Burial(lost, "no", 0)], now=None) == [False]
    assert behind.complete([Completion(lost, 0)], now=None) == [False]
    assert ahead.complete([Completion(held, 0)], now=None) == [True]
    assert behind.ledger().delivered == behind.ledger().accepted == 1


def test_a_block_that_was_overtaken_by_a_faster_clock_ends_with_a_stale_lease(
    behind: SQLiteStore, ahead: SQLiteStore
) -> None:
    slow, fast = Digests(behind), Digests(ahead)
    slow.add("t", 0, key="r")

    with pytest.raises(StaleLease), slow.digest("t") as lost, fast.digest("t") as held:
        assert lost.idempotency_key == held.idempotency_key

    assert slow.ledger().delivered == 1


def test_a_lease_of_a_faster_clock_is_respected_by_the_slower_one(behind: SQLiteStore, ahead: SQLiteStore) -> None:
    Digests(behind).add("t", 0, key="r")
    held = ahead.open("t", token="fast", lease=30_000, now=None)

    assert behind.claim(0, 10, token="slow", lease=30_000, now=None).leases == []
    assert suspects(behind, "slow", lease=30_000) == []
    with pytest.raises(Busy):
        behind.open("t", token="slow", lease=30_000, now=None)
    assert not behind.maintain(0, 0, limit=10, now=None).lapsed
    assert ahead.complete([Completion(held, 0)], now=None) == [True]


def test_two_processes_an_hour_apart_lose_nothing_and_deliver_under_one_lease_at_a_time(path: str) -> None:
    check_lives(lambda number: alone(live_an_hour_apart, f"{path}-{number}", random.randrange(2**32)))


def live_an_hour_apart(path: str, seed: int) -> Account:
    sys.stderr.write(f"seed {seed}\n")
    children = [
        Child(live, on_time, path, "slow", random.Random(seed)),
        Child(live, an_hour_ahead, path, "fast", random.Random(seed + 1)),
    ]
    with killed_at_the_end(children):
        listen(children, seconds=SECONDS + 30)
        lines = [line for child in children for line in child.finish()]
    store = an_hour_ahead(path)
    drain(store, lines.append)
    store.close()
    return judge([json.loads(line) for line in lines], delivered=check_sound(path).delivered)
