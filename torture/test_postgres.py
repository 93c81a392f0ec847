"""PostgreSQL under load and faults, for longer: no deadlock, no lost record, no long wait."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import psycopg
import pytest

from digestif import Digests, Policy, StoreUnavailable
from digestif.clock import monotonic
from digestif.testing.postgres import PostgresServer
from tests.alone import alone
from tests.stores.postgres.callers import IMPATIENT, PROMPT, TIMELINES, waits_from_commits, waits_of_others
from tests.stores.postgres.crowd import check, have_met, meeting
from tests.stores.postgres.faults import FAULTS, tormented
from tests.stores.postgres.interruptions import check as check_interrupted
from tests.stores.postgres.interruptions import interrupt
from tests.stores.postgres.lost_answers import answers_of
from tests.stores.postgres.proxy import Loss, Proxy
from tests.stores.redis.lives import EVERYDAY, POLICY
from torture._horizon import DEAD, claims_before_a_horizon, claims_with_nothing_dead

SECONDS = 30.0  # in which batches meet
HELD = 10.0  # seconds that a caller's transaction stays open
ROUNDS = 5  # of all faults
CLAIMS = 1000
LIVES = 200  # with each kind of loss
INTERRUPTIONS = 20_000
CALLERS = 20
QUICK = 0.02  # seconds, for 99 of 100 claims


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:  # with fsync
        yield server


def test_batches_in_any_order_deliveries_and_maintenance_never_deadlock(server: PostgresServer) -> None:
    found = meeting(server.url, seconds=SECONDS)

    check(found)
    assert have_met(found)


def test_claims_are_quick_although_nothing_dead_is_cleared_away() -> None:
    """Without fsync: this measures the cost of dead versions, not the disk."""
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


@pytest.mark.parametrize("loss", Loss)
def test_no_call_that_is_lost_at_its_commit_is_told_wrongly_or_counted_twice(loss: Loss) -> None:
    """Each step of a life loses its commit in every other life."""
    losses = 0
    with PostgresServer(fsync=False) as server, Digests(server.url, policy=POLICY, namespace="undisturbed") as quiet:
        expected = answers_of(quiet)
        for number in range(LIVES):
            with Proxy(server.url) as proxy, Digests(proxy.url, policy=POLICY, namespace=f"n{number}") as digests:
                digests.ledger()
                proxy.lose_from_now_on(loss, first=number % 2 == 0)
                assert answers_of(digests) == expected
                proxy.lose = None
                assert digests.verify()
            losses += proxy.lost
    say(f"{LIVES} lives of {len(EVERYDAY)} calls, {losses} commits lost: {loss.name.lower()}")


def test_thousands_of_interruptions_trouble_nobody_else(server: PostgresServer) -> None:
    check_interrupted(alone(interrupt, server.url, INTERRUPTIONS, timeout=1200))


def test_a_frozen_server_keeps_nobody_waiting_for_long() -> None:
    """It takes connections and does not answer. Callers must not wait for it one after the other."""
    with PostgresServer(fsync=False) as server, Digests(f"{server.url}?timeout=1") as digests:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(CALLERS) as threads:
                waits = list(threads.map(lambda _: wait_in_vain(digests), range(CALLERS)))
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert digests.ledger().accepted == 0
    say(f"{CALLERS} callers gave up after {min(waits):.1f} to {max(waits):.1f} s")
    assert max(waits) < 10


def wait_in_vain(digests: Digests) -> float:
    began = monotonic()
    with pytest.raises(StoreUnavailable):
        digests.ledger()
    return monotonic() - began


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
