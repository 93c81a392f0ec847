"""Processes with clocks an hour apart share a database: they go by the server's, or agree nevertheless."""

import json
import random
import sys
from typing import Any

import pytest

from digestif import Digests
from digestif.clock import wall_clock
from digestif.stores.base import Completion
from digestif.stores.postgres import PostgresStore
from tests.alone import alone
from tests.children import Child, killed_at_the_end, listen
from tests.stores.clocks import APART, SECONDS, Account, check_lives, drain, judge, live, records, suspects
from tests.stores.postgres.servers import empty_database

pytestmark = pytest.mark.long

TOLERANCE = 60.0  # seconds: far from an hour


def on_time(url: str) -> Any:  # the program that it is given to is annotated for SQLite
    return PostgresStore(url)


def an_hour_ahead(url: str) -> Any:
    """A store whose idea of the server's clock is wrong."""
    store = PostgresStore(url)
    store.clock = lambda: wall_clock() + APART
    return store


def test_the_clock_is_the_servers(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock of the process says."""
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("digestif.clock.wall_clock", lambda: 0.0)
    store = on_time(url)

    account = store.time(0) / 1000

    monkeypatch.undo()
    store.close()
    assert abs(account - wall_clock()) < TOLERANCE


def test_a_lease_that_a_faster_clock_took_over_is_stale_for_the_slower_one(url: str) -> None:
    behind, ahead = on_time(url), an_hour_ahead(url)
    Digests(behind).add("t", 0, key="r")
    lost = behind.open("t", token="slow", lease=30_000, now=None)
    first = records(behind, lost)

    (held,) = suspects(ahead, "fast", lease=30_000)

    assert records(ahead, held) == first
    assert behind.complete([Completion(lost, 0)], now=None) == [False]
    assert ahead.complete([Completion(held, 0)], now=None) == [True]
    assert behind.ledger().delivered == behind.ledger().accepted == 1
    behind.close()
    ahead.close()


def test_two_processes_an_hour_apart_lose_nothing_and_deliver_under_one_lease_at_a_time() -> None:
    def life(_: int) -> Account:
        with empty_database() as url:
            account: Account = alone(live_an_hour_apart, url, random.randrange(2**32))
        return account

    check_lives(life)


def live_an_hour_apart(url: str, seed: int) -> Account:
    sys.stderr.write(f"seed {seed}\n")
    on_time(url).ledger()  # the tables are there
    children = [
        Child(live, on_time, url, "slow", random.Random(seed)),
        Child(live, an_hour_ahead, url, "fast", random.Random(seed + 1)),
    ]
    with killed_at_the_end(children):
        listen(children, seconds=SECONDS + 30)
        lines = [line for child in children for line in child.finish()]
    store = an_hour_ahead(url)
    drain(store, lines.append)
    verification = store.verify()
    store.close()
    assert verification, verification.problems
    return judge([json.loads(line) for line in lines], delivered=verification.ledger.delivered)
