"""Stopping: idle or busy, by stop() or by cancelling serve(), before anything has begun or in the middle of it."""

import asyncio
import threading
from contextlib import suppress

import pytest

from digestif import (
    AsyncDigests,
    Delivered,
    Digest,
    Digests,
    Policy,
    Returned,
    Worker,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from digestif.attempts.room import Room
from digestif.attempts.stages import Judged
from digestif.attempts.steps import run as run_steps
from digestif.clock import monotonic
from digestif.core.verdicts import give_back
from digestif.stores.base import Wakeups
from digestif.stores.memory import MemoryStore
from digestif.worker.execution import Execution
from digestif.worker.limits import Limits, Tuning
from tests.worker.workers import AT_ONCE, LONG, PATIENCE, Ear, becomes, tuned, working


@pytest.fixture
def digests() -> Digests:
    return Digests("memory://", policy=Policy(minimum_delay=0))


def test_an_idle_worker_stops_at_once(digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    with working(digests, poll=LONG):
        ear.wait_for(WorkerStarted)
        began = monotonic()

    assert monotonic() - began < 10
    assert ear.of(WorkerStopped)


def test_a_worker_that_was_stopped_before_it_began_does_nothing(digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    digests.add("t", 1)
    worker = Worker(digests)

    worker.stop()
    worker.run()

    assert digests.timeline("t").state == "ready"


def test_stopping_twice_and_after_the_end_is_no_error(digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    with working(digests) as [worker]:
        worker.stop()
        worker.stop()
    worker.stop()


def test_a_busy_worker_finishes_what_it_has_begun(digests: Digests) -> None:
    begun, released = threading.Event(), threading.Event()

    @digests.handler("*")
    def handler(_: Digest) -> None:
        begun.set()
        released.wait(PATIENCE)

    digests.add("t", 1)
    with working(digests, poll=60) as [worker]:  # so that no claim is under way when it stops
        assert begun.wait(PATIENCE)
        worker.stop()
        digests.add("late", 1)
        released.set()

    assert digests.ledger().delivered == 1
    assert digests.timeline("late").state == "ready"


def test_what_a_claim_brings_that_was_under_way_at_the_stop_is_given_back(
    digests: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    digests.handler("*")(lambda digest: begun.append(digest.timeline))
    worker = Worker(digests)
    claim = digests.store.claim

    def stop_and_claim(*args, **options):  # type: ignore[no-untyped-def]  # as there
        worker.stop()
        return claim(*args, **options)

    monkeypatch.setattr(digests.store, "claim", stop_and_claim)
    digests.add("t", 1)
    ear = Ear(digests)
    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert begun == []
    assert {event.timeline for event in ear.of(Returned)} == {
        "t"
    }  # twice, if a second claim took what the first gave back
    assert digests.timeline("t").state == "ready"


def test_a_worker_with_all_hands_full_stops_after_its_grace(digests: Digests) -> None:
    """Its handlers hang, so no hand gets free: it notices all the same."""
    begun, released = threading.Semaphore(0), threading.Event()

    @digests.handler("*")
    def handler(_: Digest) -> None:
        begun.release()
        released.wait(PATIENCE)

    digests.add_many([(f"t{n}", n) for n in range(4)])
    ear = Ear(digests)
    with working(digests, threads=2, grace=0.1) as [worker]:
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE)
        worker.stop()
        ear.wait_for(WorkerStopped, seconds=10)
        released.set()

    assert [event.begun for event in ear.of(Returned)] == [True, True]


def test_a_stop_is_not_missed_in_the_middle_of_maintenance(digests: Digests, monkeypatch: pytest.MonkeyPatch) -> None:
    """All handlers are busy, and it is stopped just before it begins to wait for a free one."""
    begun, released = threading.Event(), threading.Event()

    @digests.handler("*")
    def handler(_: Digest) -> None:
        begun.set()
        released.wait(PATIENCE)

    worker = tuned(digests, Tuning(maintenance=0.0), threads=1, grace=0.1)
    maintain = digests.store.maintain

    def maintain_and_stop(*args, **options):  # type: ignore[no-untyped-def]  # as there
        if digests.timeline("t0").state == "open":
            begun.wait(PATIENCE)
            worker.stop()
            threading.Event().wait(0.05)  # until the event loop has heard of it
        return maintain(*args, **options)

    monkeypatch.setattr(digests.store, "maintain", maintain_and_stop)
    digests.add("t0", 0)
    digests.add("t1", 1)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    thread.join(10)
    is_running = thread.is_alive()
    released.set()

    assert begun.is_set()
    assert not is_running


def test_after_the_grace_functions_are_left_behind_and_coroutines_are_cancelled(digests: Digests) -> None:
    begun, released, cancelled = threading.Semaphore(0), threading.Event(), threading.Event()

    @digests.handler("function")
    def function(_: Digest) -> None:
        begun.release()
        released.wait(PATIENCE)

    @digests.handler("coroutine")
    async def coroutine(_: Digest) -> None:
        begun.release()
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    digests.add("function", 1)
    digests.add("coroutine", 1)
    ear = Ear(digests)
    with working(digests, grace=0.05):
        assert begun.acquire(timeout=PATIENCE)
        assert begun.acquire(timeout=PATIENCE)

    assert cancelled.is_set()
    assert {(event.timeline, event.begun) for event in ear.of(Returned)} == {("function", True), ("coroutine", True)}
    [stopped] = ear.of(WorkerStopped)
    assert (stopped.delivered, stopped.returned) == (0, 2)
    assert {digests.timeline(name).state for name in ("function", "coroutine")} == {"ready"}
    released.set()


def test_a_coroutine_that_will_not_be_cancelled_does_not_hold_the_worker(digests: Digests) -> None:
    begun, released = threading.Event(), threading.Event()

    @digests.handler("*")
    async def stubborn(_: Digest) -> None:
        begun.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    async def serve() -> None:
        worker = tuned(digests, Tuning(cancel=0.1), grace=0.05)
        serving = asyncio.create_task(worker.serve())
        await asyncio.to_thread(begun.wait, PATIENCE)
        worker.stop()
        await asyncio.wait_for(serving, PATIENCE)
        assert digests.timeline("t").state == "ready"
        released.set()

    digests.add("t", 1)
    asyncio.run(serve())

    assert digests.ledger().open == 1
    assert digests.verify()


# Cancelling serve()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_cancelled_worker_gives_back_what_is_running_at_once(kind: str) -> None:
    store = MemoryStore(namespace="d")
    digests = Digests(store, policy=Policy(minimum_delay=0))
    begun, cancelled = threading.Event(), threading.Event()

    async def handler(_: Digest) -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            cancelled.set()

    async def serve() -> None:
        served = digests if kind == "sync" else AsyncDigests(store, policy=Policy(minimum_delay=0))
        served.handler("*")(handler)
        serving = asyncio.create_task(served.serve(grace=60))
        await asyncio.to_thread(begun.wait, PATIENCE)
        began = monotonic()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert monotonic() - began < 10

    digests.add("t", 1, key="old")
    asyncio.run(serve())

    assert cancelled.is_set()
    assert digests.timeline("t").state == "ready"
    digests.add("t", 2, key="new")
    with digests.digest("t") as digest:
        assert [record.key for record in digest] == ["old"]  # it may have gone out


def test_a_cancelled_worker_tells_that_it_stopped(digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)

    async def serve() -> None:
        serving = asyncio.create_task(digests.serve())
        await asyncio.to_thread(ear.wait_for, WorkerStarted)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(serve())

    assert len(ear.of(WorkerStopped)) == 1


class SlowToListen(MemoryStore):
    """A store whose servers take their time before wake-ups are heard."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_answer, self.is_closed = threading.Event(), threading.Event(), threading.Event()

    def listen(self) -> Wakeups:
        self.is_asked.set()
        assert self.may_answer.wait(PATIENCE)
        wakeups = Wakeups()
        wakeups.close = self.is_closed.set  # type: ignore[method-assign]
        return wakeups


def test_a_worker_that_is_cancelled_before_it_hears_wakeups_leaves_nothing_behind() -> None:
    store = SlowToListen()
    digests = Digests(store)
    digests.handler("*")(lambda _: None)
    before = set(threading.enumerate())

    async def serve() -> None:
        serving = asyncio.create_task(digests.serve())
        assert await asyncio.to_thread(store.is_asked.wait, PATIENCE)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(serve())
    store.may_answer.set()

    assert store.is_closed.wait(AT_ONCE)
    assert becomes(lambda: set(threading.enumerate()) <= before, seconds=AT_ONCE)


def test_a_worker_leaves_no_thread_behind_that_does_not_end(digests: Digests) -> None:
    digests.handler("f*")(lambda _: None)
    before = set(threading.enumerate())
    digests.add_many([(f"f{n}", n) for n in range(20)])
    ear = Ear(digests)

    with working(digests):
        ear.wait_for(Delivered, 20)

    assert becomes(lambda: set(threading.enumerate()) <= before)


def test_a_cancelled_delivery_is_not_left_open() -> None:
    """AsyncDigests.deliver cancelled while it opens the digest: given back, not left until the lease lapses."""
    store = MemoryStore(namespace="d")
    opening, released = threading.Event(), threading.Event()
    slow = store.open

    def open_slowly(*args, **options):  # type: ignore[no-untyped-def]  # as there
        opening.set()
        released.wait(PATIENCE)
        return slow(*args, **options)

    async def deliver() -> None:
        async with AsyncDigests(store) as digests:
            digests.handler("*")(lambda _: None)
            await digests.add("t", 1)
            store.open = open_slowly  # type: ignore[method-assign]
            task = asyncio.create_task(digests.deliver("t"))
            await asyncio.to_thread(opening.wait, PATIENCE)
            task.cancel()
            released.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(becomes, lambda: store.inspect("t").state == "ready")

    asyncio.run(deliver())


def test_what_is_handed_out_in_the_very_moment_of_the_end_is_given_back_as_not_begun() -> None:
    """A coroutine that is cancelled before its first step never runs, not even its `finally`."""
    judged: list[Judged] = []
    called: list[str] = []
    with Digests("memory://") as digests:

        @digests.handler("*")
        async def note(digest: Digest) -> None:
            called.append(digest.timeline)

        digests.add("t", 1)
        pipeline = digests.engine.pipeline()
        page = run_steps(pipeline.claim(1, room=Room()))

        async def hand_out_and_end() -> None:
            execution = Execution(Limits(1, 1, 1), on_judged=judged.extend, cancel_seconds=2)
            execution.start(page.loaded)
            await execution.give_up()

        asyncio.run(hand_out_and_end())

    assert called == []
    assert [(each.held.timeline, each.verdict) for each in judged] == [("t", give_back(begun=False))]


def test_a_worker_that_stops_says_what_it_waits_for(digests: Digests) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    @digests.handler("*")
    def wait(digest: Digest) -> None:
        begun.release()
        go_on.wait(PATIENCE)

    digests.add_many([(f"mail:{n}", n) for n in range(5)])
    ear = Ear(digests)
    with working(digests, name="ada", grace=20) as [worker]:
        for _ in range(5):
            assert begun.acquire(timeout=PATIENCE)
        worker.stop()
        [told] = ear.wait_for(WorkerStopping)
        go_on.set()

    assert (told.worker, told.running, told.grace) == ("ada", 5, 20)
    assert sorted(told.timelines) == [f"mail:{n}" for n in range(5)]
    assert "waiting up to 20 s for 5 handlers: mail:" in str(told)
    assert " and 2 more; a second signal (Ctrl-C) ends it at once" in str(told)


def test_a_worker_that_has_nothing_to_wait_for_does_not_say_so(digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    ear = Ear(digests)
    with working(digests):
        ear.wait_for(WorkerStarted)

    assert ear.of(WorkerStopping) == []
