"""Handlers run side by side: as many as allowed, never more."""

import asyncio
import threading

import pytest

from digestif import Delivered, Digest, Digests, Policy
from tests.worker.workers import PATIENCE, Crowd, Ear, once, working

pytestmark = pytest.mark.long

THREADS = 4
COROUTINES = 6
TIMELINES = 24


@pytest.fixture
def digests() -> Digests:
    return Digests("memory://", policy=Policy(minimum_delay=0))


def add_to(digests: Digests, prefix: str, count: int = TIMELINES) -> None:
    digests.add_many([(f"{prefix}:{n}", n) for n in range(count)])


def test_as_many_functions_run_at_once_as_there_are_threads(digests: Digests) -> None:
    crowd, meeting = Crowd(), threading.Barrier(THREADS)

    @digests.handler("f:*")
    def meet(_: Digest) -> None:
        with crowd:
            meeting.wait(PATIENCE)  # nobody goes on until so many are here

    add_to(digests, "f")
    ear = Ear(digests)
    with working(digests, threads=THREADS):
        ear.wait_for(Delivered, TIMELINES)

    assert crowd.most == THREADS


def test_as_many_coroutines_run_at_once_as_is_allowed(digests: Digests) -> None:
    crowd, meeting = Crowd(), asyncio.Barrier(COROUTINES)

    @digests.handler("c:*")
    async def meet(_: Digest) -> None:
        with crowd:
            await asyncio.wait_for(meeting.wait(), PATIENCE)

    add_to(digests, "c")
    ear = Ear(digests)
    with working(digests, concurrency=COROUTINES):
        ear.wait_for(Delivered, TIMELINES)

    assert crowd.most == COROUTINES


@pytest.mark.parametrize(("concurrency", "threads"), [(2, 12), (12, 2), (1, 1)])
@pytest.mark.parametrize("kinds", ["c", "f", "cf"])
def test_functions_and_coroutines_each_keep_their_limit_side_by_side(
    digests: Digests, kinds: str, concurrency: int, threads: int
) -> None:
    """Also if everything that is due is of one kind, and there are hands for more of the other."""
    crowds = {"c": Crowd(), "f": Crowd()}

    @digests.handler("f:*")
    def function(_: Digest) -> None:
        with crowds["f"]:
            threading.Event().wait(0.002)

    @digests.handler("c:*")
    async def coroutine(_: Digest) -> None:
        with crowds["c"]:
            await asyncio.sleep(0.002)

    for kind in kinds:
        add_to(digests, kind)
    ear = Ear(digests)
    with working(digests, concurrency=concurrency, threads=threads):
        ear.wait_for(Delivered, TIMELINES * len(kinds))

    assert crowds["c"].most <= concurrency
    assert crowds["f"].most <= threads


def test_a_coroutine_that_waits_does_not_keep_functions_waiting(digests: Digests) -> None:
    """With one place for each: the coroutine ends only when the function has run."""
    has_run = threading.Event()

    @digests.handler("c")
    async def coroutine(_: Digest) -> None:
        assert await asyncio.to_thread(has_run.wait, PATIENCE)

    @digests.handler("f")
    def function(_: Digest) -> None:
        has_run.set()

    digests.add("c", 1)
    digests.add("f", 1)
    ear = Ear(digests)
    with working(digests, concurrency=1, threads=1):
        assert {event.timeline for event in ear.wait_for(Delivered, 2)} == {"c", "f"}


def test_a_function_that_hangs_does_not_keep_the_others_waiting(digests: Digests) -> None:
    released = threading.Event()

    @digests.handler("*")
    def handler(digest: Digest) -> None:
        if digest.timeline == "hangs":
            released.wait(PATIENCE)

    digests.add("hangs", 1)
    add_to(digests, "f")
    ear = Ear(digests)
    with working(digests, threads=2):
        ear.wait_for(Delivered, TIMELINES)
        assert digests.timeline("hangs").state == "open"
        released.set()
        ear.wait_for(Delivered, TIMELINES + 1)


def test_one_round_claims_no_more_than_there_are_hands(digests: Digests) -> None:
    digests.handler("*")(lambda _: None)
    add_to(digests, "f")

    assert 1 <= once(digests, threads=2) <= 2
    assert digests.ledger().delivered <= 2


def test_slow_functions_do_not_keep_coroutines_waiting(digests: Digests) -> None:
    """All that is due first is slow, and more than there are threads; what is quick has its turn all the same."""
    released = threading.Event()
    digests.handler("slow:*")(lambda _: released.wait(PATIENCE))

    @digests.handler("quick:*")
    async def quick(_: Digest) -> None:
        """Nothing to wait for."""

    digests.add_many([(f"slow:{n}", n) for n in range(60)])
    digests.add_many([(f"quick:{n}", n) for n in range(5)])
    ear = Ear(digests)
    with working(digests, threads=2, concurrency=4):
        ear.wait_for(Delivered, 5)
        released.set()

    assert {event.timeline.partition(":")[0] for event in ear.of(Delivered)[:5]} == {"quick"}


def test_one_hand_is_free_again_after_each_delivery_at_most_once(digests: Digests) -> None:
    digests.handler("*", at_most_once=True)(lambda _: None)
    add_to(digests, "f")
    ear = Ear(digests)
    with working(digests, threads=1):
        ear.wait_for(Delivered, TIMELINES)
