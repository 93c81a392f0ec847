"""Several workers on one store, several stores in one process, and what they do besides delivering."""

import asyncio
import gc
import threading
from collections import Counter
from pathlib import Path

import pytest

from digestif import (
    Delivered,
    Digest,
    Digests,
    Expired,
    Lapsed,
    Policy,
    PutOff,
    Worker,
    WorkerStarted,
    WorkerStopped,
    run,
)
from digestif.ids import fresh_id
from digestif.testing import FakeClock, assert_nothing_left
from digestif.worker.limits import Tuning
from tests.worker.workers import PATIENCE, Ear, becomes, once, rounds, working

POLICY = Policy(minimum_delay=0, capacity=None)


def test_two_workers_on_one_store_share_the_work(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path}/d.db?synchronous=normal"
    sent: Counter[str] = Counter()
    lock = threading.Lock()

    def note(digest: Digest) -> None:
        with lock:
            sent.update(record.key for record in digest)

    with Digests(dsn, policy=POLICY) as one, Digests(dsn, policy=POLICY) as other:
        for each in (one, other):
            each.handler("*")(note)
        with working(one, poll=0.05), working(other, poll=0.05):
            for start in range(0, 400, 100):
                one.add_many([(f"t{n % 50}", {"n": n}) for n in range(start, start + 100)], maximum_delay=0)
            assert becomes(lambda: one.ledger().delivered == 400)

        assert set(sent.values()) == {1}
        assert len(sent) == 400
        assert one.verify()


def test_workers_of_two_stores_run_side_by_side() -> None:
    sent: list[str] = []
    engines = [Digests("memory://", policy=POLICY), Digests("sqlite://", policy=POLICY)]
    for number, each in enumerate(engines):
        each.handler("*")(lambda _, number=number: sent.append(f"store {number}"))
        each.add("t", 1)
    workers = [Worker(each) for each in engines]
    thread = threading.Thread(target=run, args=workers)
    thread.start()

    assert becomes(lambda: sorted(sent) == ["store 0", "store 1"])
    for worker in workers:
        worker.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    for each in engines:
        each.close()


def test_a_worker_that_fails_ends_its_neighbours_in_order() -> None:
    """One has no handler, so nobody runs; the other gives back what it has."""
    good, bad = Digests("memory://"), Digests("memory://")
    good.handler("*")(lambda _: None)
    ear = Ear(good)

    with pytest.raises(Exception, match="there is no handler"):
        run(Worker(good), Worker(bad))

    assert len(ear.of(WorkerStopped)) == len(ear.of(WorkerStarted)) == 1
    gc.collect()  # and whatever was left running would be told of


# Besides delivering


def test_a_worker_expires_what_is_too_old() -> None:
    digests = Digests("memory://", policy=Policy(ttl=7200, maximum_delay=3600))
    digests.handler("other")(lambda _: None)
    digests.add_many([("t", n) for n in range(3)], first_delay=3600, now=1000.0)
    digests.pause("t", now=1000.0)
    ear = Ear(digests)

    once(digests, now=1000.0 + 7200)

    assert ear.of(Expired) == [Expired(timeline="t", records=3)]
    assert digests.ledger().expired == 3


def test_a_worker_takes_over_what_others_left_open() -> None:
    clock = FakeClock()
    digests = Digests("memory://", clock=clock, lease=30)
    digests.handler("*")(lambda _: None)
    digests.add("t", 1)
    digests.store.claim(0, 1, token=fresh_id(), lease=30_000, now=int(clock() * 1000))  # and dies
    ear = Ear(digests)

    clock.advance(29)
    assert rounds(digests) == 0
    clock.advance(1)
    assert rounds(digests) == 1

    assert ear.of(Lapsed) == [Lapsed(timeline="t")]
    assert [event.attempt for event in ear.of(Delivered)] == [2]


def test_a_worker_that_runs_maintains_by_itself() -> None:
    digests = Digests("memory://", policy=Policy(ttl=7200, maximum_delay=3600))
    digests.handler("*")(lambda _: None)
    digests.pause("t")
    digests.add("t", 1, now=1000.0)
    ear = Ear(digests)

    with working(digests):
        ear.wait_for(Expired)


# Large digests


def test_a_digest_of_more_records_than_a_worker_reads_at_a_time_is_delivered() -> None:
    digests = Digests("memory://", policy=POLICY)
    sizes: list[int] = []
    digests.handler("*")(lambda digest: sizes.append(len(digest)))
    digests.add_many([("t", n) for n in range(25_000)])

    rounds(digests)

    assert sizes == [25_000]
    assert digests.ledger().delivered == 25_000
    assert_nothing_left(digests.store)


def test_a_claim_reads_so_many_records_and_gives_the_rest_back() -> None:
    """Given back untouched: they come next, with their first attempt."""
    tuning = Tuning(records=1000)
    digests = Digests("memory://", policy=POLICY)
    seen: list[Digest] = []
    digests.handler("*")(seen.append)
    digests.add_many([(f"t{n}", m) for n in range(6) for m in range(600)])
    ear = Ear(digests)

    once(digests, tuning=tuning, threads=12)
    assert len(seen) < 6
    assert {event.reason for event in ear.of(PutOff)} == {"the worker holds enough records"}
    rounds(digests, tuning=tuning, threads=12)

    assert sorted(digest.timeline for digest in seen) == [f"t{n}" for n in range(6)]
    assert {(len(digest), digest.attempt) for digest in seen} == {(600, 1)}


def test_large_digests_follow_each_other_without_a_pause() -> None:
    """What a claim gave back does not wait until the worker looks again."""
    digests = Digests("memory://", policy=POLICY)
    digests.handler("*")(lambda _: None)
    digests.add_many([(f"t{n}", m) for n in range(6) for m in range(1200)])
    ear = Ear(digests)

    with working(digests, tuning=Tuning(records=1000), poll=30.0):
        ear.wait_for(Delivered, 6)


def test_a_thousand_timelines_are_delivered_by_coroutines_on_the_callers_loop() -> None:
    digests = Digests("memory://", policy=Policy(minimum_delay=60))
    sent: list[str] = []
    worker = Worker(digests, concurrency=50)

    @digests.handler("*")
    async def send(digest: Digest) -> None:
        await asyncio.sleep(0)
        sent.append(digest.timeline)
        if len(sent) == 1000:
            worker.stop()

    digests.add_many([(f"t{n}", n) for n in range(1000)])
    asyncio.run(asyncio.wait_for(worker.serve(), 30))

    assert len(set(sent)) == len(sent) == 1000
    assert digests.ledger().delivered == 1000
