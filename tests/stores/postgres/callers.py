"""Callers who add in transactions of their own, and how long others wait for them."""

import sys
from statistics import median
from typing import LiteralString

import psycopg

from digestif import Digests, WorkerStarted
from digestif.clock import monotonic
from digestif.ids import fresh_id
from digestif.stores.base import Completion
from digestif.testing.conformance.port import take_all
from digestif.testing.servers import becomes_true
from tests.worker.workers import LONG, Ear, Times, working

TIMELINES = [f"t{number}" for number in range(10)]
PROMPT = 0.1  # seconds from a commit to the handler
IMPATIENT = "-c lock_timeout=1s"  # an error if a caller waits for a lock


def waits_of_others(digests: Digests, *, rounds: int) -> list[float]:
    """Return the seconds of adds to these timelines, and of their deliveries."""
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
    delivered = [take_all(digests.store, lease, now=None) for lease in leases]
    assert all(digests.store.complete([Completion(lease, 0) for lease in leases], now=None))
    assert sorted(lease.timeline for lease in leases) == TIMELINES
    assert [len(taken.records) for taken in delivered] == [1] * len(TIMELINES)


def inbox_of(url: str) -> int:
    return number_of(url, "SELECT count(*) FROM digestif.inbox")


def waiting_for_locks(url: str) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return number_of(url, query)


def number_of(url: str, query: LiteralString) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def waits_from_commits(digests: Digests, url: str, *, commits: int) -> list[float]:
    """Return the seconds from each commit of a caller to the handler, with a worker that polls twice a minute."""
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
