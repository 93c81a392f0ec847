"""Processes with different clocks that add and deliver in one store, and the account of what they did."""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from digestif import Digests, InvalidState, Policy, StaleLease
from digestif.clock import monotonic
from digestif.stores.base import Completion, Lease, SuspectGroup, Take
from digestif.stores.sqlite import SQLiteStore
from tests.children import Report

Account = dict[str, int]  # counts of events
APART = 3600.0  # seconds
LEASE = 200  # milliseconds
SECONDS = 0.7
TIMELINES = 60
POLICY = Policy(minimum_delay=0, increment_delay=0, capacity=None, lapses=1_000_000, attempts=1_000_000)


def check_lives(life: Callable[[int], Account]) -> None:
    """Check lives, each in a new store, until in one of them two processes have met, which is a matter of chance."""
    for number in range(5):
        account = life(number)

        assert account["acknowledged"] > 0
        assert account["missing"] == 0
        assert account["closed twice"] == 0
        assert account["closed"] == account["delivered"]  # what a close answered is what the ledger says
        if account["stale"]:
            return
    raise AssertionError("they never met")


def live(opened: Callable[[str], SQLiteStore], path: str, name: str, chance: random.Random, report: Report) -> None:
    """Add, claim, deliver, and now and then forget a lease; report each acknowledgement."""
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
                complete(store, lease, report)


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
    return store.claim_suspects(0, SuspectGroup(8, 8, alone=False), token=token, lease=lease, now=None).leases


def records(store: SQLiteStore, lease: Lease) -> tuple[str, list[str]]:
    """Return the idempotency key and the record keys of an open digest; StaleLease if the lease is lost."""
    request, keys = Take(lease, None, merge=True), list[str]()
    while True:
        [taken] = store.take([request], now=None)
        if taken is None:
            raise StaleLease
        keys += [record.key for record in taken.records]
        if taken.complete:
            return f"{lease.digest_id}.{taken.revision}", keys
        request = request._replace(after=taken.after)


def complete(store: SQLiteStore, lease: Lease, report: Report) -> None:
    try:
        _, keys = records(store, lease)
        (closed,) = store.complete([Completion(lease, 0)], now=None)
    except StaleLease:
        keys, closed = [], False
    report(json.dumps(["closed" if closed else "stale", keys]))


def drain(store: SQLiteStore, report: Report) -> None:
    """Deliver the rest by the faster clock, for which every lease of the slower one has lapsed."""
    number = 0
    while (ledger := store.ledger()).pending or ledger.open:
        number += 1
        leases = store.claim(0, 100, token=f"last-{number}", lease=LEASE, now=None).leases
        for lease in [*leases, *suspects(store, f"last-{number}")]:
            complete(store, lease, report)


def judge(lines: list[Any], *, delivered: int) -> Account:
    added = {key for word, keys in lines if word == "added" for key in keys}
    closed = Counter(key for word, keys in lines if word == "closed" for key in keys)
    account = {
        "acknowledged": len(added),
        "missing": len(added - closed.keys()),
        "closed": sum(closed.values()),
        "closed twice": sum(count > 1 for count in closed.values()),
        "delivered": delivered,
        "stale": sum(word == "stale" for word, _ in lines),
    }
    sys.stderr.write(f"{account}\n")
    return account
