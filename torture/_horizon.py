"""Claims beside an old transaction, which keeps the server from removing dead versions of rows."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from digestif import Digests, Policy
from digestif.clock import monotonic
from digestif.stores.base import Completion

TIMELINES = 1000
DEAD = 100_000  # versions of their rows
HOUR = 3_600_000  # milliseconds, over which their due times spread
CLAIMS = 100
PAGE = 10
MOVE = "UPDATE digestif.timeline SET ready = ready + %s, version = version + 1"  # as the store does
COUNT = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'timeline'"
POLICY = Policy(minimum_delay=0, increment_delay=0)


class Waits(NamedTuple):
    """The seconds of claims."""

    median: float
    worst: float  # of all but one in a hundred
    dead: int  # versions that the server could not remove

    def __str__(self) -> str:
        return f"p50 {self.median * 1000:.1f} ms, p99 {self.worst * 1000:.1f} ms, {self.dead} dead versions"


@contextmanager
def held_horizon(url: str) -> Iterator[None]:
    """Hold open a transaction that has read something."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM digestif.timeline")
        yield


def claims_before_a_horizon(url: str, *, dead: int, claims: int, page: int = PAGE) -> Waits:
    """Make timelines due again and again for an hour beside an old transaction, then claim."""
    with Digests(url, policy=POLICY) as digests:
        digests.add_many([(f"t{number}", 1) for number in range(TIMELINES)])
        with held_horizon(url), psycopg.connect(url, autocommit=True) as connection:
            rounds = dead // TIMELINES
            connection.execute(MOVE, (-HOUR,))
            for _ in range(rounds):
                connection.execute(MOVE, (HOUR // rounds,))
            connection.execute(
                "VACUUM digestif.timeline"
            )  # the planner then knows their number, and nothing of their values
            seconds = sorted(claimed_in(digests, number, page) for number in range(claims))
            connection.execute("VACUUM digestif.timeline")
            found = connection.execute(COUNT).fetchone()
        assert found is not None
        assert digests.verify()
    return waits_of(seconds, dead=found[0])


def claims_with_nothing_dead(url: str, *, claims: int, page: int) -> Waits:
    """The same claims without an old transaction."""
    with Digests(url, policy=POLICY, namespace="beside") as digests:
        digests.add_many([(f"t{number}", 1) for number in range(TIMELINES)])
        return waits_of(sorted(claimed_in(digests, number, page) for number in range(claims)), dead=0)


def waits_of(seconds: Sequence[float], *, dead: int) -> Waits:
    waits = Waits(seconds[len(seconds) // 2], seconds[-1 - len(seconds) // 100], dead)
    sys.stdout.write(f"{waits}\n")  # pytest -rP shows the figures
    return waits


def claimed_in(digests: Digests, number: int, page: int) -> float:
    """Return the seconds of a claim; its timelines are then delivered, and get new records."""
    began = monotonic()
    leases = digests.store.claim(0, page, token=f"w{number}", lease=30_000, now=None).leases
    took = monotonic() - began
    assert len(leases) == page
    assert all(digests.store.complete([Completion(lease, 0) for lease in leases], now=None))
    digests.add_many([(lease.timeline, 1) for lease in leases])
    return took
