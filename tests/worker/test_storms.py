"""A store that fails at random, before it did what it was asked or after it: the worker gets through."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from digestif import Digest, Digests, Policy, Retry, StoreUnavailable
from digestif.stores.memory import MemoryStore
from digestif.testing import Partitioned
from digestif.worker.limits import Tuning
from tests.worker.workers import becomes, working

pytestmark = pytest.mark.long

LEASE = 0.6
VERBS = ("claim", "claim_suspects", "take", "extend", "complete", "release", "bury", "maintain", "sweep", "discard")
HIT = {"claim", "take", "complete"}  # a storm lasts until it has
POLICY = Policy(
    minimum_delay=0,
    increment_delay=0,
    maximum_delay=0,
    attempts=10_000,  # nothing is given up, however slow the machine is
    lapses=10_000,
    retry=Retry(initial=0.01, maximum=0.05),
)


class Stormy(Partitioned):
    """Every so many calls fail; half of those have been done."""

    def __init__(self, store: MemoryStore, random: Random) -> None:
        super().__init__([store])
        self.strength = 0.0
        self.failed: Counter[str] = Counter()
        for verb in VERBS:
            setattr(self, verb, self._unreliable(verb, getattr(self, verb), random))

    def _unreliable(self, verb: str, call: Callable[..., Any], random: Random) -> Callable[..., Any]:
        def attempt(*args: Any, **options: Any) -> Any:
            chance = random.random()
            if chance < self.strength / 2:
                self.failed[verb] += 1
                raise StoreUnavailable("not done")
            answer = call(*args, **options)
            if chance < self.strength:
                self.failed[verb] += 1
                raise StoreUnavailable("done, and the answer got lost")
            return answer

        return attempt


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_held_for_ever_in_a_storm(seed: int) -> None:
    random = Random(seed)
    calm = MemoryStore(namespace="d")
    store = Stormy(calm, random)
    producer, digests = Digests(calm, policy=POLICY), Digests(store, policy=POLICY, lease=LEASE)
    carried: dict[str, list[str]] = {}
    once: Counter[str] = Counter()
    problems: list[str] = []

    def note(digest: Digest) -> None:
        keys = [record.key for record in digest]
        if carried.setdefault(digest.idempotency_key, keys) != keys:
            problems.append(f"{digest.idempotency_key} changed")

    @digests.handler("f:*")
    def function(digest: Digest) -> None:
        if random.random() < 0.1:
            raise ValueError
        note(digest)

    @digests.handler("c:*")
    async def coroutine(digest: Digest) -> None:
        await asyncio.sleep(0)
        note(digest)

    @digests.handler("b:*", batch=5)
    def batch(several: list[Digest]) -> None:
        for digest in several:
            note(digest)

    @digests.handler("o:*", at_most_once=True)
    def at_most_once(digest: Digest) -> None:
        once.update(record.key for record in digest)

    store.strength = 0.15
    with working(digests, tuning=Tuning(pauses=(0.005, 0.05)), poll=0.02, concurrency=8, threads=4):
        rounds = 0
        while rounds < 60 or (rounds < 6000 and not store.failed.keys() >= HIT):
            producer.add_many([(f"{kind}:{rounds % 7}", {"n": rounds}) for kind in "fcbo"])
            threading.Event().wait(0.01)
            rounds += 1
        store.strength = 0.0
        is_done = becomes(lambda: producer.ledger().pending == producer.ledger().open == 0, seconds=60)

    assert is_done, (producer.ledger(), producer.timelines(), store.failed)
    assert problems == []
    assert set(once.values()) <= {1}
    under = Counter(key for keys in carried.values() for key in keys)
    assert set(under.values()) == {1}
    assert len(under) == 3 * rounds
    assert producer.verify()
    assert store.failed.keys() >= HIT
