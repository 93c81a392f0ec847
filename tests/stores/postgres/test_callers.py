"""Callers who add in transactions of their own and keep them open: no other call waits, or sees records too early."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count
from statistics import median
from threading import Event
from typing import Any

import psycopg
import pytest

from digestif import Digests, Policy, WorkerStarted
from digestif.clock import monotonic
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, ClaimPage
from digestif.stores.postgres import inbox, store
from digestif.testing.servers import becomes_true
from tests.stores.postgres.callers import (
    IMPATIENT,
    PROMPT,
    TIMELINES,
    inbox_of,
    waiting_for_locks,
    waits_from_commits,
    waits_of_others,
)
from tests.stores.postgres.crowd import deadlocks
from tests.worker.workers import AT_ONCE, LONG, Ear, working

pytestmark = pytest.mark.long

COMMITS = 20
GREAT = 5 * PAGE_RECORDS  # records of one commit
ADDING_SECONDS = 2


@pytest.fixture
def digests(url: str) -> Iterator[Digests]:
    with Digests(url, policy=Policy(minimum_delay=0, increment_delay=0)) as digests:
        yield digests


def test_callers_in_opposite_order_neither_wait_nor_delay_others(digests: Digests, url: str) -> None:
    with psycopg.connect(url, options=IMPATIENT) as one, psycopg.connect(url, options=IMPATIENT) as other:
        for there, back in zip(TIMELINES, reversed(TIMELINES), strict=True):
            digests.add(there, "one", connection=one)
            digests.add(back, "other", connection=other)

        waits = waits_of_others(digests, rounds=5)

        one.commit()
        other.commit()
    digests.store.close()
    assert deadlocks(url) == 0
    with Digests(url) as afterwards:
        for timeline in TIMELINES:
            assert {record.value for record in afterwards.peek(timeline)} == {"one", "other"}
        assert afterwards.verify()
    assert max(waits) < 1
    sys.stdout.write(f"others: p50 {median(waits) * 1000:.1f} ms, worst {max(waits) * 1000:.1f} ms\n")


def test_versions_of_a_key_keep_their_order_whoever_folds_them_in(digests: Digests, url: str) -> None:
    """The call that folds the older version has to wait; the newer version must not overtake it."""
    digests.add("a", 0)
    with psycopg.connect(url) as caller, psycopg.connect(url) as holder, ThreadPoolExecutor(2) as threads:
        holder.execute("SELECT FROM digestif.timeline FOR UPDATE")
        digests.add("a", 1, connection=caller)
        digests.add("t", "older", key="k", connection=caller)
        caller.commit()
        slow = threads.submit(digests.store.maintain, 0, None, limit=10, now=None)
        assert becomes_true(lambda: waiting_for_locks(url) == 1)
        digests.add("t", "newer", key="k", connection=caller)
        caller.commit()
        quick = threads.submit(digests.store.maintain, 0, None, limit=10, now=None)
        assert becomes_true(lambda: quick.done() or waiting_for_locks(url) == 2)
        holder.commit()
        slow.result()
        quick.result()

    assert [record.value for record in digests.peek("t")] == ["newer"]


def test_what_is_committed_after_a_call_has_begun_is_not_waited_for(
    digests: Digests, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers may add more quickly than records are folded in."""
    folds = count()
    with psycopg.connect(url) as caller:

        def add_inside() -> None:
            digests.add("t", 1, connection=caller)
            caller.commit()

        def fold_while_others_add(*arguments: Any, **named: Any) -> inbox.Folded:
            assert next(folds) < 20, "this goes on for ever"
            add_inside()
            return inbox.fold(*arguments, **named)

        monkeypatch.setattr(store, "PAGE_RECORDS", 1)
        monkeypatch.setattr(store, "fold", fold_while_others_add)
        for act in (digests.ledger, lambda: digests.add("t", 2), lambda: digests.delete("other"), claim_one(digests)):
            add_inside()
            act()

    monkeypatch.undo()
    assert digests.verify()


def claim_one(digests: Digests) -> Callable[[], ClaimPage]:
    return lambda: digests.store.claim(0, 1, token=fresh_id(), lease=30_000, now=None)


def test_callers_who_go_on_adding_keep_nobody_waiting(digests: Digests, url: str) -> None:
    digests.ledger()
    enough = Event()

    def go_on_adding(number: int) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not enough.is_set():
                digests.add(f"t{number}", 1, connection=connection)

    waits: dict[str, float] = {"ledger": 0, "claim": 0}
    with ThreadPoolExecutor(6) as threads:
        callers = [threads.submit(go_on_adding, number) for number in range(6)]
        try:
            end = monotonic() + ADDING_SECONDS
            while monotonic() < end:
                for name, act in (("ledger", digests.ledger), ("claim", claim_one(digests))):
                    began = monotonic()
                    act()
                    waits[name] = max(waits[name], monotonic() - began)
        finally:
            enough.set()
        for caller in callers:
            caller.result()

    assert digests.verify()
    assert max(waits.values()) < 2
    sys.stdout.write(f"worst: {waits}\n")


def test_a_great_commit_does_not_keep_others_from_being_claimed(digests: Digests, url: str) -> None:
    digests.add("due", 1)
    with psycopg.connect(url) as caller:
        digests.add_many([(f"great{number % 1000}", number) for number in range(GREAT)], connection=caller)
        caller.commit()

    digests.store.claim(0, 1, token=fresh_id(), lease=30_000, now=None)

    assert inbox_of(url) == GREAT - PAGE_RECORDS
    assert digests.ledger().accepted == GREAT + 1
    assert inbox_of(url) == 0


def test_a_worker_comes_back_for_the_rest_of_a_great_commit(digests: Digests, url: str) -> None:
    ear = Ear(digests)
    digests.handler("*")(lambda digest: None)
    with working(digests, poll=LONG), psycopg.connect(url) as caller:
        ear.wait_for(WorkerStarted)
        digests.add_many([("same", number) for number in range(GREAT)], connection=caller)
        caller.commit()

        assert becomes_true(lambda: inbox_of(url) == 0)


def test_who_claims_does_not_wait_for_somebody_who_folds(digests: Digests, url: str) -> None:
    digests.add("due", 1)
    digests.add("held", 1)
    with psycopg.connect(url) as caller, psycopg.connect(url) as holder, ThreadPoolExecutor(2) as threads:
        digests.add("held", 2, connection=caller)
        caller.commit()
        holder.execute("SELECT FROM digestif.timeline WHERE key = 'held' FOR UPDATE")
        folding = threads.submit(digests.ledger)
        assert becomes_true(lambda: waiting_for_locks(url) == 1)

        claimed = threads.submit(claim_one(digests)).result(timeout=2)

        assert [lease.timeline for lease in claimed.leases] == ["due"]
        holder.commit()
        assert folding.result().accepted == 3


def test_of_a_rollback_nobody_hears(digests: Digests, url: str) -> None:
    digests.add("before", 1)
    ledger, footprint = digests.ledger(), dict(digests.store.footprint())
    hints = digests.store.listen()
    with closing(hints), psycopg.connect(url) as connection:
        digests.add("t", 1, connection=connection)
        digests.add("u", 2, connection=connection)
        connection.rollback()

        assert not hints.wait(0.3)
        digests.add("t", 3, connection=connection)
        connection.commit()
        assert hints.wait(LONG)  # of a commit it does

    digests.delete("t")
    assert digests.ledger() == replace(ledger, accepted=2, deleted=1)
    assert dict(digests.store.footprint()) == footprint


def test_a_commit_is_delivered_at_once(digests: Digests, url: str) -> None:
    """On a loaded computer each takes longer: torture/test_postgres.py measures their median."""
    waits = waits_from_commits(digests, url, commits=COMMITS)

    assert min(waits) < PROMPT
    assert max(waits) < AT_ONCE
