"""Random lives of large timelines, the same on a server and in memory."""

import random
from collections.abc import Callable

import pytest

from digestif.core.terms import Terms
from digestif.stores.base import (
    Arrival,
    Burial,
    Completion,
    Lease,
    Maintained,
    QuarantinedRecord,
    Release,
    Requeued,
    Store,
)
from digestif.testing.conformance.port import numbers, requeue
from tests.stores.redis.twins import Twins, twins

NOW = 1_700_000_000_000
DAY = 86_400_000
HEAVY = b"x" * 9_000


class Life:
    """Random steps of two timelines that are often large."""

    def __init__(self, stores: Twins, seed: int) -> None:
        self.stores = stores
        self.random = random.Random(seed)
        self.now = NOW
        self.leases: list[Lease] = []
        self.numbers = 0

    def live(self, steps: int) -> None:
        verbs = [self.add] * 6 + [self.begin] * 6 + [self.end] * 6 + [self.maintain] * 2 + [self.replay] * 2
        verbs += [self.retract, self.quarantine, self.steer]
        for _ in range(steps):
            self.now += self.random.randrange(1, 2_000)
            self.random.choice(verbs)()
            self.stores.look(self.timeline(), page=self.random.choice([90, 400, 1000]))

    def timeline(self) -> str:
        return self.random.choice(["t", "u"])

    def token(self) -> str:
        self.numbers += 1
        return f"token-{self.numbers:04}"

    def add(self) -> None:
        draw, timeline = self.random, self.timeline()
        terms = Terms(
            first_delay=draw.choice([0, 3_000]),
            increment=draw.choice([None, 500]),
            maximum=9_000,
            quiet=draw.choice([None, None, 2_000]),
            max_records=draw.choice([None, None, 350]),
            capacity=draw.choice([None, None, 260, 340]),
            ttl=draw.choice([None, 20_000, 60_000]),
        )
        times = draw.choice([[0.0], [1.0, 2.0], [number / 7 for number in range(400)]])
        withins: list[int | None] = draw.choice([[None], [None], [None, None, None, 700, 5_000]])
        payloads = draw.choice([[b"1"], [b"1"], [b"2"] * 9 + [HEAVY]])
        keys = draw.sample(numbers(0, 500), draw.choice([1, 3, 40, 150, 320, 320]))
        arrivals = [
            Arrival(timeline, key, draw.choice(payloads), draw.choice(times), draw.choice(withins), terms)
            for key in keys
        ]
        self.stores.do(lambda store: store.add(arrivals, now=self.now))

    def begin(self) -> None:
        """Become ready, be opened and taken."""
        timeline, token, draw = self.timeline(), self.token(), self.random
        if draw.random() < 0.5:
            self.stores.do(lambda store: store.flush(timeline, now=self.now))
        else:
            self.stores.do(
                lambda store: sorted(store.schedule(0, self.now, after=None, limit=100, now=self.now).entries)
            )
        lease = self.stores.attempt(lambda store: store.open(timeline, token=token, lease=10_000, now=self.now))
        if isinstance(lease, Lease):
            self.leases = [held for held in self.leases if held.timeline != timeline] + [lease]
            self.stores.carry(lease, now=self.now, capacity=draw.choice([None, 270]), merge=draw.random() < 0.8)

    def end(self) -> None:
        if not self.leases:
            return
        lease, draw = self.leases[0], self.random
        self.leases = self.leases[1:]
        later = draw.choice([None, self.now + 2_500])
        verbs: list[Callable[[Store], list[bool]]] = [
            lambda store: store.complete([Completion(lease, 1_700, 350)], now=self.now),
            lambda store: store.release([Release(lease, later, freeze=False)], now=self.now),
            lambda store: store.release([Release(lease, later, freeze=False)], now=self.now),
            lambda store: store.release([Release(lease, later, freeze=True)], now=self.now),
            lambda store: store.bury([Burial(lease, "given up", 1_300)], now=self.now),
            lambda store: store.extend([lease], lease=3_000, now=self.now),
        ]
        self.stores.do(draw.choice(verbs))

    def maintain(self) -> None:
        ago = self.random.choice([None, 0, 5_000])
        deadline = None if ago is None else self.now - ago

        def act(store: Store) -> Maintained:
            done = store.maintain(0, deadline, limit=100, now=self.now)
            return done._replace(expired=sorted(done.expired))  # those that lapsed before the others, or after them

        self.stores.do(act)

    def retract(self) -> None:
        timeline = self.timeline()
        for key in self.random.sample(numbers(0, 500), 30):
            self.stores.retract(key, timeline, now=self.now)

    def quarantine(self) -> None:
        if self.leases:
            lease, token = self.leases[0], self.token()
            quarantined = [
                QuarantinedRecord(key, f"{token}-{key}", "broken") for key in self.random.sample(numbers(0, 500), 20)
            ]
            self.stores.do(lambda store: store.quarantine(lease, quarantined, now=self.now))

    def steer(self) -> None:
        timeline, flag = self.timeline(), self.random.random() < 0.3
        if self.random.random() < 0.2:
            self.stores.do(lambda store: store.delete(timeline, now=self.now))
        else:
            self.stores.do(lambda store: store.pause(timeline, flag, now=self.now))

    def replay(self) -> None:
        letters = self.stores.server.letters(None, after=None, limit=1000)
        if letters:
            letter = max(letters, key=lambda letter: (letter.records, letter.id))
            verb = self.random.choice(["replay", "replay", "discard", "requeue", "requeue"])
            if verb == "requeue":
                self.stores.attempt(lambda store: sum(page.records for page in self.requeue(store, letter.id)))
            else:
                self.stores.attempt(lambda store: getattr(store, verb)(letter.id, now=self.now))

    def requeue(self, store: Store, letter_id: str) -> list[Requeued]:
        return requeue(store, letter_id, force=True, ttl=DAY, now=self.now)


def live_large(seed: int, monkeypatch: pytest.MonkeyPatch, *, steps: int = 120) -> None:
    """Each page of maintenance in which records of a failed digest expire is a revision of it: all in one page here."""
    monkeypatch.setattr("digestif.stores.redis.store.EXPIRED_RECORDS", 10**6)
    monkeypatch.setattr("digestif.stores.rows.schedule.PAGE_RECORDS", 10**6)
    with twins() as stores:
        Life(stores, seed).live(steps)
        stores.end("t", "u", now=NOW + DAY)
