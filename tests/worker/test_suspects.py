"""Digests whose lease lapsed are tried beside nothing else: when it is their turn, and what waits meanwhile."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from digestif import Digests
from digestif.stores.base import ClaimPage
from digestif.stores.memory import MemoryStore
from digestif.worker.limits import Limits, Tuning
from digestif.worker.loop import Loop
from digestif.worker.suspects import Suspects

PATIENCE_SECONDS = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def held() -> Any:
    """A held lease, as far as suspects look at it."""
    return SimpleNamespace(is_running=True)


def seen(clock: Clock) -> Suspects:
    """As a claim sees them that finds one."""
    turn = Suspects(lease_seconds=30, clock=clock)
    turn.saw(0, looked_everywhere=True)
    return turn


def test_suspects_let_the_others_go_first_for_a_minute(clock: Clock) -> None:
    turn = seen(clock)

    assert not turn.hold_others()

    clock.now += PATIENCE_SECONDS

    assert turn.hold_others()
    assert not turn.wait_no_longer


def test_nothing_else_is_claimed_from_their_claim_until_their_attempts_have_ended(clock: Clock) -> None:
    turn, tried = seen(clock), held()

    turn.begin_claim(10)
    assert turn.are_tried

    turn.end_claim([tried])
    assert turn.are_tried

    tried.is_running = False
    assert not turn.are_tried


def test_a_claim_that_fails_holds_up_nothing(clock: Clock) -> None:
    turn = seen(clock)

    turn.begin_claim(10)
    turn.end_claim([])

    assert not turn.are_tried


def test_after_them_others_are_claimed_once_before_it_is_their_turn_again(clock: Clock) -> None:
    turn, tried = seen(clock), held()
    clock.now += PATIENCE_SECONDS

    turn.begin_claim(10)
    turn.end_claim([tried])
    tried.is_running = False
    assert not turn.hold_others()

    turn.saw(0, looked_everywhere=True)
    assert turn.hold_others()


def test_a_claim_that_did_not_look_everywhere_does_not_forget_them(clock: Clock) -> None:
    turn = seen(clock)
    clock.now += PATIENCE_SECONDS

    turn.saw(None, looked_everywhere=False)
    assert turn.hold_others()

    turn.saw(None, looked_everywhere=True)
    assert not turn.exist


def test_the_first_group_is_one_and_each_that_ended_lets_the_next_be_twice_as_large(clock: Clock) -> None:
    turn, sizes = seen(clock), []

    for _ in range(6):
        sizes.append(turn.begin_claim(10))
        turn.end_claim(tried := [held() for _ in range(sizes[-1])])
        for each in tried:
            each.is_running = False

    assert sizes == [1, 2, 4, 8, 10, 10]


def test_a_group_that_has_not_ended_or_was_empty_lets_the_next_be_no_larger(clock: Clock) -> None:
    turn = seen(clock)

    turn.begin_claim(10)
    turn.end_claim([])
    assert turn.begin_claim(10) == 1

    turn.end_claim([held(), held()])
    clock.now += 30
    assert not turn.are_tried
    assert turn.begin_claim(10) == 1


def test_they_are_forgotten_when_their_claim_finds_none(clock: Clock) -> None:
    turn = seen(clock)

    turn.begin_claim(10)
    turn.end_claim([])

    assert not turn.exist


class SlowSuspects(MemoryStore):
    """A store that takes its time to find suspects."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()

    def claim(self, *arguments: Any, **options: Any) -> ClaimPage:
        self.calls.append("claim")
        return super().claim(*arguments, **options)

    def claim_suspects(self, *arguments: Any, **options: Any) -> ClaimPage:
        self.calls.append("claim_suspects")
        self.is_asked.set()
        assert self.may_answer.wait(10)
        return super().claim_suspects(*arguments, **options)


def test_a_worker_claims_nothing_else_while_suspects_are_being_claimed() -> None:
    store, limits = SlowSuspects(), Limits(concurrency=4, threads=4, memory=1 << 20)
    digests = Digests(store)
    digests.handler("*")(lambda _: None)
    digests.add("suspect", 1, now=0)
    store.open("suspect", token="dead", lease=1000, now=0)

    async def two_claims() -> None:
        worker = Loop(digests.engine.pipeline(10.0), limits, tuning=Tuning(look_again=0.01))
        first = asyncio.create_task(worker.run_once())
        assert await asyncio.to_thread(store.is_asked.wait, 10)
        await worker.run_once()
        store.may_answer.set()
        await first
        await worker.idle()
        await worker.wind_down(0)

    asyncio.run(two_claims())

    assert store.calls == ["claim", "claim_suspects"]
    assert digests.ledger().delivered == 1
