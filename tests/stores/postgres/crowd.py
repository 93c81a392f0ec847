"""A crowd of processes on a few timelines: some add batches in any order, one delivers, two maintain. Runs alone."""

import random
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import psycopg

from digestif import Digests, Policy, Record
from digestif.clock import monotonic, wall_clock
from digestif.stores.base import Completion, Lease, Release, Store, SuspectGroup, Take
from digestif.testing.servers import becomes_true
from tests.alone import alone
from tests.children import Child, Report, killed_at_the_end, listen

TIMELINES = 40
LARGEST = 30  # batch
LEASES = [50, 2_000]  # milliseconds: some lapse, and some serve on a slow machine, too
# Timelines come and go, leases lapse and records expire all the time: each has its way of locking.
POLICY = Policy(minimum_delay=0, increment_delay=0, maximum_delay=0.1, ttl=0.2, attempts=10_000, lapses=10_000)

Steps = Iterator[dict[str, int]]


def meet(dsn: str, seconds: float, adders: int, seed: int) -> dict[str, Any]:
    """Run the crowd; return what it did, its errors, and the number of deadlocks."""
    with Digests(dsn) as digests:
        digests.ledger()  # the tables are there
    roles = [add] * adders + [deliver, maintain, maintain]
    children = [Child(live, role.__name__, dsn, seconds, seed + place) for place, role in enumerate(roles)]
    with killed_at_the_end(children):
        listen(children, seconds=seconds + 60)
        lines = [line for child in children for line in child.finish()]
    done: dict[str, Any] = {"errors": [line for line in lines if line.startswith("error")]}
    for word, number in (line.split() for line in lines if not line.startswith("error")):
        done[word] = done.get(word, 0) + int(number)
    with Digests(dsn) as digests:
        verification = digests.verify()
    ledger = verification.ledger
    facts = {"balanced": ledger.balanced, "problems": list(verification.problems), "accepted": ledger.accepted}
    return done | facts | {"deadlocks": deadlocks(dsn)}


def live(role: str, dsn: str, seconds: float, seed: int, report: Report) -> None:
    """Repeat the steps of a role until the time is over."""
    done: dict[str, int] = {}
    with Digests(dsn, policy=POLICY) as digests:
        end = monotonic() + seconds
        steps = ROLES[role](digests, random.Random(seed))
        while monotonic() < end:
            try:
                for word, number in next(steps).items():
                    done[word] = done.get(word, 0) + number
            except Exception as error:  # noqa: BLE001  # whatever reaches a caller is a finding
                report(f"error {role}: {error!r}")
                break
    for word, number in done.items():
        report(f"{word} {number}")


def add(digests: Digests, chance: random.Random) -> Steps:
    for number in count():
        timelines = [f"t{chance.randrange(TIMELINES)}" for _ in range(chance.randint(1, LARGEST))]
        digests.add_many([(timeline, Record(f"r{chance.randrange(50)}", number, 0.0)) for timeline in timelines])
        yield {"added": len(timelines), "batches": 1}


def deliver(digests: Digests, chance: random.Random) -> Steps:
    store = digests.store
    for number in count():
        term = chance.choice(LEASES)
        leases = store.claim(0, 10, token=f"{number}", lease=term, now=None).leases
        suspects = store.claim_suspects(
            0, SuspectGroup(8, 8, alone=False), token=f"{number}", lease=term, now=None
        ).leases
        completions, releases = [], []
        for lease in [*leases, *suspects]:
            is_whole, fate = is_read(store, lease), chance.random()
            if fate < 0.5 and is_whole:
                completions.append(Completion(lease, 0))
            elif fate < 0.7:
                releases.append(Release(lease, None))
        closed = store.complete(completions, now=None)
        store.release(releases, now=None)
        yield {"claimed": len(leases), "suspects": len(suspects), "closed": sum(closed)}


def is_read(store: Store, lease: Lease) -> bool:
    """Read a digest to its end; False if its lease is lost."""
    request = Take(lease, POLICY.capacity, merge=True)
    while True:
        [taken] = store.take([request], now=None)
        if taken is None or taken.complete:
            return taken is not None
        request = request._replace(after=taken.after)


def maintain(digests: Digests, chance: random.Random) -> Steps:
    while True:
        page = digests.store.maintain(0, round(1000 * (wall_clock() - 0.02)), limit=chance.randint(5, 40), now=None)
        expired = sum(records for _, records in page.expired)
        done = {"moved": len(page.moved), "lapsed": len(page.lapsed), "expired": expired}
        done["scheduled"] = sum(1 for _ in digests.schedule(page=chance.randint(2, 20)))
        yield done


ROLES: dict[str, Callable[[Digests, random.Random], Steps]] = {"add": add, "deliver": deliver, "maintain": maintain}


def deadlocks(dsn: str) -> int:
    """Return the number of deadlocks; the server adds a backend's count when the backend ends."""
    with psycopg.connect(dsn, autocommit=True) as connection:

        def value(query: str) -> int:
            row = connection.execute(query).fetchone()
            assert row is not None
            return int(row[0])

        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert becomes_true(lambda: value(others) == 0)
        return value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


ADDERS = 8


def meeting(url: str, *, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = alone(meet, url, seconds, ADDERS, random.randrange(2**32), timeout=seconds + 90)
    sys.stdout.write(f"{found}\n")  # pytest -rP shows the figures
    return found


def check(found: dict[str, Any]) -> None:
    assert found["errors"] == []
    assert found["deadlocks"] == 0
    assert found["problems"] == []
    assert found["balanced"]
    assert found["accepted"] == found["added"]


def have_met(found: dict[str, Any]) -> bool:
    return all(found[fate] > 0 for fate in ("closed", "suspects", "moved", "lapsed", "expired"))
