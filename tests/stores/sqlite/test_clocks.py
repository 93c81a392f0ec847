"""Processes with clocks an hour apart share a file: nothing is lost, a lease that was taken over is worth nothing."""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from digestif import Busy, Digests, InvalidState, Policy, StaleLease
from digestif.clock import monotonic, wall_clock
from digestif.stores.base import Burial, Completion, Lease, Release, Take
from digestif.stores.sqlite import SQLiteStore
from tests.stores.sqlite.alone import alone
from tests.stores.sqlite.children import Child, Report, killed_at_the_end, listen
from tests.stores.sqlite.soundness import check_sound

Told = dict[str, int]  # how often what happened
APART = 3600.0  # seconds
LEASE = 200  # milliseconds
SECONDS = 0.7
TIMELINES = 60
POLICY = Policy(minimum_delay=0, increment_delay=0, capacity=None, lapses=1_000_000, attempts=1_000_000)


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


def check_lives(life: Callable[[int], Told]) -> None:
    """Lives, each in a store of its own, until two processes have met: that is a matter of chance."""
    for number in range(5):
        told = life(number)

        assert told["acknowledged"] > 0
        assert told["missing"] == 0
        assert told["closed twice"] == 0
        assert told["closed"] == told["delivered"]  # what a close answered is what the ledger says
        if told["stale"]:
            return
    raise AssertionError("they never met")


def live_an_hour_apart(path: str, seed: int) -> Told:
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


def live(opened: Callable[[str], SQLiteStore], path: str, name: str, chance: random.Random, report: Report) -> None:
    """Add, claim, deliver, and now and then forget a lease; reports what was acknowledged, after it was."""
    store = opened(path)
    digests = Digests(store, policy=POLICY, lease=LEASE / 1000)
    ends = monotonic() + SECONDS
    number = 0
    while monotonic() < ends:
        number += 1
        timeline = f"t{chance.randrange(TIMELINES)}"
        action = chance.random()
        if action < 0.5:
            digests.add(timeline, 0, key=f"{name}-{number}")
            report(json.dumps(["added", [f"{name}-{number}"]]))
        elif action < 0.7:
            with_a_block(digests, timeline, report)
        else:
            leases = store.claim(0, 3, token=f"{name}-{number}", lease=LEASE, now=None).leases
            leases += suspects(store, f"{name}-{number}")
            kept = [lease for lease in leases if chance.random() < 0.8]
            chance.shuffle(kept)
            for lease in kept:
                close(store, lease, report)


def with_a_block(digests: Digests, timeline: str, report: Report) -> None:
    keys: list[str] = []
    try:
        with suppress(InvalidState), digests.digest(timeline) as digest:
            keys = [record.key for record in digest]
    except StaleLease:
        report(json.dumps(["stale", keys]))
    else:
        report(json.dumps(["closed", keys]))


def suspects(store: SQLiteStore, token: str, *, lease: int = LEASE) -> list[Lease]:
    return store.claim_suspects(0, alone=False, token=token, lease=lease, now=None).leases


def records(store: SQLiteStore, lease: Lease) -> tuple[str, list[str]]:
    """What an open digest carries, and under which key; StaleLease if the lease is lost."""
    request, keys = Take(lease, None, merge=True), list[str]()
    while True:
        [taken] = store.take([request], now=None)
        if taken is None:
            raise StaleLease
        keys += [record.key for record in taken.records]
        if taken.complete:
            return f"{lease.digest_id}.{taken.revision}", keys
        request = request._replace(after=taken.after)


def close(store: SQLiteStore, lease: Lease, report: Report) -> None:
    try:
        _, keys = records(store, lease)
        (closed,) = store.complete([Completion(lease, 0)], now=None)
    except StaleLease:
        keys, closed = [], False
    report(json.dumps(["closed" if closed else "stale", keys]))


def drain(store: SQLiteStore, report: Report) -> None:
    """Deliver what is left, by the faster clock: for that one every lease of the slower has lapsed."""
    number = 0
    while (ledger := store.ledger()).pending or ledger.open:
        number += 1
        leases = store.claim(0, 100, token=f"last-{number}", lease=LEASE, now=None).leases
        for lease in [*leases, *suspects(store, f"last-{number}")]:
            close(store, lease, report)


def judge(lines: list[Any], *, delivered: int) -> Told:
    added = {key for word, keys in lines if word == "added" for key in keys}
    closed = Counter(key for word, keys in lines if word == "closed" for key in keys)
    told = {
        "acknowledged": len(added),
        "missing": len(added - closed.keys()),
        "closed": sum(closed.values()),
        "closed twice": sum(count > 1 for count in closed.values()),
        "delivered": delivered,
        "stale": sum(word == "stale" for word, _ in lines),
    }
    sys.stderr.write(f"{told}\n")
    return told
