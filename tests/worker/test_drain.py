"""Draining: what is due is delivered, and then the worker ends, whatever handlers and producers do."""

import asyncio
import threading

import pytest

from digestif import AsyncDigests, ConfigError, Delivered, Digest, Digests, Policy, StoreUnavailable, Worker
from digestif.core.times import to_millis
from digestif.stores.memory import MemoryStore
from digestif.testing import FakeClock, Partitioned
from tests.worker.workers import PATIENCE, Ear


@pytest.fixture
def digests() -> Digests:
    return Digests("memory://", policy=Policy(minimum_delay=0))


def test_all_that_is_due_is_delivered_and_what_is_due_later_is_not(digests: Digests) -> None:
    digests.add_many([(f"t{n}", n) for n in range(700)])
    digests.add("later", 1, first_delay=60)
    sent: list[str] = []
    digests.handler("*")(lambda digest: sent.append(digest.timeline))

    claimed = asyncio.run(Worker(digests).drain())

    assert claimed == len(sent) == len(set(sent)) == 700
    assert digests.timeline("later").state == "waiting"


def test_a_program_can_drain_without_an_event_loop_of_its_own(digests: Digests) -> None:
    digests.add("t", 1)
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)

    digests.run(drain=True)

    assert len(ear.of(Delivered)) == 1


def test_an_async_engine_drains_too() -> None:
    async def drain() -> int:
        async with AsyncDigests("memory://") as digests:
            digests.handler("*")(lambda _: None)
            await digests.add("t", 1)
            return await Worker(digests).drain()

    assert asyncio.run(drain()) == 1


def test_slow_handlers_are_waited_for(digests: Digests) -> None:
    done = threading.Event()

    @digests.handler("*")
    async def send(digest: Digest) -> None:
        await asyncio.sleep(0.3)
        done.set()

    digests.add("t", 1)
    asyncio.run(Worker(digests).drain())

    assert done.is_set()
    assert digests.ledger().delivered == 1


def test_a_handler_that_never_ends_is_given_up_after_the_grace(digests: Digests) -> None:
    @digests.handler("*")
    async def hang(digest: Digest) -> None:
        await asyncio.Event().wait()

    digests.add("t", 1)
    asyncio.run(asyncio.wait_for(Worker(digests, grace=0.2).drain(), PATIENCE))

    assert digests.timeline("t").state in ("ready", "waiting")
    assert digests.ledger().open == 1


def test_an_attempt_that_failed_is_not_waited_for(digests: Digests) -> None:
    calls: list[int] = []

    @digests.handler("*")
    def fail(digest: Digest) -> None:
        calls.append(digest.attempt)
        raise OSError("no route")

    digests.add("t", 1)
    asyncio.run(Worker(digests).drain())

    assert calls == [1]
    assert digests.timeline("t").state == "waiting"


def test_it_ends_although_its_handlers_make_more_work_due() -> None:
    """Each delivery adds a record, which is due at once."""
    digests = Digests(Partitioned([MemoryStore(), MemoryStore()]), policy=Policy.immediate())

    @digests.handler("*")
    def again(digest: Digest) -> None:
        digests.add(digest.timeline, 1)

    digests.add_many([(f"t{n}", n) for n in range(20)])
    claimed = asyncio.run(asyncio.wait_for(Worker(digests).drain(), PATIENCE))

    assert claimed >= 20


def test_a_store_that_does_not_answer_is_an_error() -> None:
    store = Partitioned([MemoryStore()])
    digests = Digests(store)
    digests.handler("*")(lambda _: None)
    store.failing.add(0)

    with pytest.raises(StoreUnavailable):
        digests.run(drain=True)


def test_it_can_be_stopped(digests: Digests) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @digests.handler("*")
    def wait(digest: Digest) -> None:
        begun.set()
        go_on.wait(PATIENCE)

    digests.add("t", 1)
    worker = Worker(digests, drain=True)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE)
    digests.add("late", 1)
    worker.stop()
    go_on.set()
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert digests.timeline("late").state == "ready"


def test_digests_of_a_worker_that_died_are_delivered_too() -> None:
    clock = FakeClock()
    with Digests("memory://", policy=Policy(minimum_delay=0), clock=clock) as digests:
        digests.add("t", 1)
        digests.store.open("t", token="dead", lease=1000, now=to_millis(clock()))
        clock.advance(2)  # its lease has lapsed
        digests.handler("*")(lambda _: None)

        assert asyncio.run(Worker(digests).drain()) == 1
        assert digests.ledger().delivered == 1


def test_a_wrong_option_is_refused(digests: Digests) -> None:
    with pytest.raises(ConfigError, match="drain: 1 is not True or False"):
        Worker(digests, drain=1)  # type: ignore[arg-type]


def test_policies_that_cannot_be_planned_again_hold_up_no_drain(
    digests: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise StoreUnavailable("a partition is away")

    monkeypatch.setattr(digests, "replan_changed", fail)
    digests.handler("*")(lambda _: None)
    digests.add("t", 1)

    assert asyncio.run(asyncio.wait_for(Worker(digests).drain(), PATIENCE)) == 1


def test_a_drain_that_is_cancelled_gives_back_what_is_running(digests: Digests) -> None:
    begun = asyncio.Event()

    @digests.handler("*")
    async def hang(digest: Digest) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def cancel() -> None:
        draining = asyncio.create_task(Worker(digests, grace=PATIENCE * 10).drain())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        draining.cancel()
        await asyncio.wait_for(asyncio.gather(draining, return_exceptions=True), PATIENCE)

    digests.add("t", 1)
    asyncio.run(cancel())

    assert digests.ledger().open == 1
    assert digests.timeline("t").state in ("ready", "waiting")
