"""Leases: held as long as a handler runs, whatever it does; and when one is lost, nothing is changed any more."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from digestif import Delivered, Digest, Digests, Lapsed, LeaseLost, LeaseNotRenewed, Policy, StoreUnavailable
from digestif.attempts.judgement import judge
from digestif.attempts.lease_watch import LeaseWatch
from digestif.clock import monotonic
from digestif.core.verdicts import DELIVERED
from digestif.stores.memory import MemoryStore
from digestif.testing import FakeClock, Partitioned
from tests.pipelines import claim, claim_suspects, end
from tests.worker.workers import Ear, becomes, once, rounds, working

pytestmark = pytest.mark.long

LEASE = 0.8  # a machine that does other things as well may hold a renewal up
SLOW = 1.5 * LEASE


def hold_a_thread(_: Digest) -> None:
    threading.Event().wait(SLOW)


async def wait_politely(_: Digest) -> None:
    await asyncio.sleep(SLOW)


async def block_the_event_loop(_: Digest) -> None:
    threading.Event().wait(SLOW)


async def compute_in_the_event_loop(_: Digest) -> None:
    end = monotonic() + SLOW
    while monotonic() < end:
        pass


@pytest.mark.parametrize(
    "handler", [hold_a_thread, wait_politely, block_the_event_loop, compute_in_the_event_loop], ids=lambda h: h.__name__
)
def test_a_handler_slower_than_the_lease_keeps_it(tmp_path: Path, handler: Callable[[Digest], Awaitable[None]]) -> None:
    """A second worker that only waits for a lease to lapse gets nothing."""
    dsn = f"sqlite:///{tmp_path}/d.db?synchronous=normal"
    with Digests(dsn, lease=LEASE) as digests, Digests(dsn, lease=LEASE) as others:
        digests.handler("*")(handler)
        taken: list[Digest] = []
        others.handler("*")(taken.append)
        digests.add("t", 1)
        ear = Ear(digests)
        with working(digests, poll=0.05):
            assert becomes(lambda: digests.timeline("t").state == "open")
            with working(others, poll=0.05):
                [told] = ear.wait_for(Delivered)

        assert taken == []
        assert told.attempt == 1
        assert ear.of(Lapsed) == []
        assert ear.of(LeaseLost) == []
        assert digests.ledger().delivered == 1


def test_digests_that_wait_for_a_thread_keep_their_leases() -> None:
    """Claimed and not begun: they too are renewed while one function holds the only thread."""
    digests = Digests("memory://", lease=LEASE)
    digests.handler("f*")(hold_a_thread)
    digests.handler("c")(wait_politely)  # with it there are hands for more functions than threads
    digests.add_many([(f"f{n}", n) for n in range(2)])
    ear = Ear(digests)

    with working(digests, threads=1, concurrency=4):
        told = ear.wait_for(Delivered, 2)

    assert {event.attempt for event in told} == {1}
    assert ear.of(Lapsed) == []


def test_a_lease_that_lapsed_is_lost_and_the_end_changes_nothing() -> None:
    """As after a long stop of the process: the late end is refused and told; the next attempt is the same digest."""
    clock = FakeClock()
    digests = Digests("memory://", clock=clock, lease=30)
    sent: list[str] = []
    digests.handler("*")(lambda digest: sent.append(digest.idempotency_key))
    digests.add("t", 1)
    pipeline = digests.engine.pipeline()
    [attempt] = claim(pipeline, 1).deliveries
    clock.advance(30)
    ear = Ear(digests)

    end(pipeline, attempt.judged(DELIVERED))

    assert [event.timeline for event in ear.of(LeaseLost)] == ["t"]
    assert ear.of(Delivered) == []
    assert (digests.ledger().open, digests.ledger().delivered) == (1, 0)
    once(digests)
    assert sent == [attempt.digest.idempotency_key]
    assert digests.ledger().delivered == 1


def test_a_worker_that_takes_its_own_digest_over_goes_on_renewing_it() -> None:
    """After a lapse the same worker claims it again while the first handler still runs: one ends, the other is held."""
    clock = FakeClock()
    digests = Digests("memory://", clock=clock, lease=30)
    digests.handler("*")(lambda _: None)
    digests.add("t", 1)
    pipeline = digests.engine.pipeline()
    [first] = claim(pipeline, 1).deliveries
    clock.advance(30)
    [second] = claim_suspects(pipeline, 1, alone=False).deliveries
    end(pipeline, first.judged(DELIVERED))

    clock.advance(20)
    pipeline.renew()
    clock.advance(20)
    end(pipeline, second.judged(DELIVERED))

    assert digests.ledger().delivered == 1


@pytest.mark.parametrize("by", ["a worker", "maintenance()"])
def test_after_a_clock_was_set_back_by_a_day_a_dead_worker_is_replaced_within_two_leases(by: str) -> None:
    clock, steady = FakeClock(), FakeClock(0)
    digests = Digests("memory://", clock=clock, lease=30)
    digests.engine.lease_watch = LeaseWatch(digests.store, lease=30_000, clock=steady)
    delivered: list[Digest] = []
    digests.handler("*")(delivered.append)
    digests.add("t", 1)
    clock.advance(86_400)
    claim(digests.engine.pipeline(), 1)  # and dies
    clock.advance(-86_400)

    for _ in range(7):
        if by != "a worker":
            digests.maintenance()
        once(digests)
        for each in (clock, steady):
            each.advance(10)

    assert [digest.attempt for digest in delivered] == [2]


def test_what_is_not_held_any_more_is_not_renewed() -> None:
    clock = FakeClock()
    store = Counting(MemoryStore(namespace="d"))
    digests = Digests(store, clock=clock)
    digests.handler("*")(lambda _: None)
    digests.add_many([(f"t{n}", n) for n in range(3)])
    pipeline = digests.engine.pipeline()
    first, second, third = claim(pipeline, 3).deliveries
    pipeline.renew()
    end(pipeline, first.judged(DELIVERED), second.judged(DELIVERED))
    pipeline.renew()
    end(pipeline, judge(third, ValueError()))
    pipeline.renew()

    assert store.renewed == [3, 1]


def test_a_store_that_does_not_answer_is_asked_again_to_renew() -> None:
    store = Counting(MemoryStore(namespace="d"))
    digests = Digests(store, lease=LEASE, policy=Policy(minimum_delay=60))
    released = threading.Event()
    digests.handler("*")(lambda _: released.wait(10))
    digests.add("t", 1)
    ear = Ear(digests)
    with working(digests, poll=0.05):
        assert becomes(lambda: digests.timeline("t").state == "open")
        store.refusing = 1
        ear.wait_for(LeaseNotRenewed)
        before = len(store.renewed)
        assert becomes(lambda: len(store.renewed) > before)
        released.set()
        [told] = ear.wait_for(Delivered)

    assert told.attempt == 1


def test_an_early_completion_without_an_answer_is_given_back() -> None:
    """At most once, and the store does not answer when it is to be closed: it is not held for ever."""
    store = Counting(MemoryStore(namespace="d"))
    digests = Digests(store, lease=30)
    sent: list[Digest] = []
    digests.handler("*", at_most_once=True)(sent.append)
    digests.add("t", 1)
    store.refusing_to_complete = 1

    rounds(digests)
    rounds(digests)

    assert len(sent) == 1
    assert (digests.ledger().delivered, digests.ledger().open) == (1, 0)


class Counting(Partitioned):
    """Counts renewals, and refuses some calls."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__([store])
        self.renewed: list[int] = []
        self.refusing = 0
        self.refusing_to_complete = 0

    def extend(self, leases, **options):  # type: ignore[no-untyped-def]  # as there
        if leases and self.refusing:
            self.refusing -= 1
            raise StoreUnavailable("told to refuse")
        if leases:
            self.renewed.append(len(leases))
        return super().extend(leases, **options)

    def complete(self, completions, **options):  # type: ignore[no-untyped-def]  # as there
        if self.refusing_to_complete:
            self.refusing_to_complete -= 1
            raise StoreUnavailable("told to refuse")
        return super().complete(completions, **options)
