"""Callers who add in transactions of their own, and keep them open: nobody waits for them or hears too early."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from statistics import median

import psycopg
import pytest

from digestif import Digests, Policy, WorkerStarted
from digestif.clock import monotonic
from digestif.ids import fresh_id
from digestif.reading import read_whole
from digestif.stores.base import Closing
from digestif.testing.servers import becomes_true
from tests.postgres.crowd import deadlocks
from tests.postgres.servers import empty_database
from tests.runtime.test_wakeups import Times
from tests.runtime.workers import LONG, Ear, working

TIMELINES = [f"t{number}" for number in range(10)]
COMMITS = 20
PROMPT = 0.1  # seconds from a commit to the handler
IMPATIENT = "-c lock_timeout=1s"  # of callers: who waits for a lock is told so


@pytest.fixture
def url() -> Iterator[str]:
    with empty_database() as url:
        yield url


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
    digests.store.disconnect()
    assert deadlocks(url) == 0
    with Digests(url) as afterwards:
        for timeline in TIMELINES:
            assert {record.value for record in afterwards.peek(timeline)} == {"one", "other"}
        assert afterwards.verify()
    assert max(waits) < 1
    sys.stdout.write(f"others: p50 {median(waits) * 1000:.1f} ms, worst {max(waits) * 1000:.1f} ms\n")


def waits_of_others(digests: Digests, *, rounds: int) -> list[float]:
    """Seconds that adds to these timelines, and their deliveries, take."""
    waits = []
    for _ in range(rounds):
        for act in (add_to_all, deliver_all):
            began = monotonic()
            act(digests)
            waits.append(monotonic() - began)
    return waits


def add_to_all(digests: Digests) -> None:
    digests.add_many([(timeline, "now") for timeline in TIMELINES])


def deliver_all(digests: Digests) -> None:
    leases = digests.store.claim(0, len(TIMELINES), token=fresh_id(), lease=30_000, now=None).leases
    delivered = read_whole(digests._desk(), leases)
    assert all(digests.store.close([Closing(lease, 0) for lease in leases], now=None))
    assert sorted(lease.timeline for lease in leases) == TIMELINES
    assert [len(whole.records) for whole in delivered] == [1] * len(TIMELINES)


def test_versions_of_a_key_keep_their_order_whoever_folds_them_in(digests: Digests, url: str) -> None:
    """Whoever has taken the older version is kept waiting; the newer one must not overtake it."""
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


def waiting_for_locks(url: str) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


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
    waits = waits_from_commits(digests, url, commits=COMMITS)

    assert median(waits) < PROMPT


def waits_from_commits(digests: Digests, url: str, *, commits: int) -> list[float]:
    """Seconds from each commit of a caller until a worker that looks twice a minute has called the handler."""
    times, ear = Times(digests), Ear(digests)
    waits = []
    with working(digests, poll=LONG), psycopg.connect(url) as connection:
        ear.wait_for(WorkerStarted)
        for number in range(commits):
            digests.add(f"t{number}", 1, connection=connection)
            began = monotonic()
            connection.commit()
            waits.append(times.after(began))
            assert becomes_true(lambda done=number + 1: digests.ledger().delivered == done)  # type: ignore[misc]
    sys.stdout.write(f"{commits} commits: p50 {median(waits) * 1000:.1f} ms, worst {max(waits) * 1000:.1f} ms\n")
    return waits
