"""PostgreSQL under load and faults, for longer: no deadlock, no record lost, nobody kept waiting."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psycopg
import pytest

from digestif import Digests, Policy
from digestif.clock import monotonic
from digestif.testing.postgres import PostgresServer
from tests.postgres.test_callers import IMPATIENT, PROMPT, TIMELINES, waits_from_commits, waits_of_others
from tests.postgres.test_faults import FAULTS, tormented
from tests.postgres.test_horizon import DEAD, claims_before_a_horizon, claims_with_nothing_dead
from tests.postgres.test_locks import check, meeting

SECONDS = 30.0  # in which batches meet
HELD = 10.0  # seconds that a caller's transaction stays open
ROUNDS = 5  # of all faults
CLAIMS = 1000
QUICK = 0.02  # seconds, for 99 of 100 claims


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:  # with fsync
        yield server


def test_batches_in_any_order_deliveries_and_maintenance_never_deadlock(server: PostgresServer) -> None:
    check(meeting(server.url, seconds=SECONDS))


def test_claims_are_quick_although_nothing_dead_is_cleared_away() -> None:
    """Without fsync: what dead versions cost is shown here, not how slow the disk is."""
    with PostgresServer(fsync=False) as server:
        waits = claims_before_a_horizon(server.url, dead=DEAD, claims=CLAIMS)

    assert waits.dead >= DEAD
    assert waits.worst < QUICK


@pytest.mark.parametrize("page", [10, 50, 200])
def test_claims_of_any_size_cost_no_more_than_where_nothing_is_dead(server: PostgresServer, page: int) -> None:
    usual = claims_with_nothing_dead(server.url, claims=CLAIMS // 10, page=page)
    waits = claims_before_a_horizon(server.new_database("held"), dead=DEAD, claims=CLAIMS // 10, page=page)

    assert waits.dead >= DEAD
    assert waits.median < 2 * usual.median


def test_nothing_acknowledged_is_lost_in_many_faults(server: PostgresServer, tmp_path: Path) -> None:
    faults = random.sample(FAULTS * ROUNDS, len(FAULTS) * ROUNDS)

    account = tormented(server, faults, directory=tmp_path, processes=3, steps=10)

    account.check()


def test_a_transaction_that_stays_open_for_long_delays_nobody(server: PostgresServer) -> None:
    waits = []
    with Digests(server.url, policy=Policy(minimum_delay=0, increment_delay=0)) as digests:
        with (
            psycopg.connect(server.url, options=IMPATIENT) as one,
            psycopg.connect(server.url, options=IMPATIENT) as other,
        ):
            for there, back in zip(TIMELINES, reversed(TIMELINES), strict=True):
                digests.add(there, "one", connection=one)
                digests.add(back, "other", connection=other)
            end = monotonic() + HELD
            while monotonic() < end:
                waits += waits_of_others(digests, rounds=1)
        assert [len(list(digests.peek(timeline))) for timeline in TIMELINES] == [2] * len(TIMELINES)
        assert digests.verify()

    say(f"others: {len(waits)} calls, p50 {median(waits) * 1000:.1f} ms, worst {max(waits) * 1000:.1f} ms")
    assert max(waits) < 1


def test_commits_are_delivered_at_once(server: PostgresServer) -> None:
    with Digests(server.url, policy=Policy(minimum_delay=0)) as digests:
        waits = waits_from_commits(digests, server.url, commits=200)

    assert median(waits) < PROMPT


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
