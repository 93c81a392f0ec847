"""Digests whose lease lapsed are tried beside nothing else: when it is their turn, and what waits meanwhile."""

import asyncio
import threading
from typing import cast

import pytest

from digestif.attempts import Attempt, Attempts, Handlers, Page, Room
from digestif.events import Events
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


def attempt() -> Attempt:
    attempt = Attempt.__new__(Attempt)
    attempt.is_ended = False
    return attempt


def seen(clock: Clock) -> Suspects:
    """As a claim sees them that finds one."""
    turn = Suspects(lease_seconds=30, clock=clock)
    turn.saw(0, looked_everywhere=True)
    return turn


def test_suspects_let_the_others_go_first_for_a_minute(clock: Clock) -> None:
    turn = seen(clock)

    assert not turn.are_next

    clock.now += PATIENCE_SECONDS

    assert turn.are_next
    assert not turn.wait_no_longer


def test_nothing_else_is_claimed_from_their_claim_until_their_attempts_have_ended(clock: Clock) -> None:
    turn, tried = seen(clock), attempt()

    turn.begin_claim()
    assert turn.are_tried

    turn.end_claim([tried])
    assert turn.are_tried

    tried.is_ended = True
    assert not turn.are_tried


def test_a_claim_that_fails_holds_up_nothing(clock: Clock) -> None:
    turn = seen(clock)

    turn.begin_claim()
    turn.end_claim([])

    assert not turn.are_tried


def test_after_them_others_are_claimed_once_before_it_is_their_turn_again(clock: Clock) -> None:
    turn, tried = seen(clock), attempt()
    clock.now += PATIENCE_SECONDS

    turn.begin_claim()
    turn.end_claim([tried])
    tried.is_ended = True
    assert not turn.are_next

    turn.saw(0, looked_everywhere=True)
    assert turn.are_next


def test_a_claim_that_did_not_look_everywhere_does_not_forget_them(clock: Clock) -> None:
    turn = seen(clock)
    clock.now += PATIENCE_SECONDS

    turn.saw(None, looked_everywhere=False)
    assert turn.are_next

    turn.saw(None, looked_everywhere=True)
    assert not turn.exist


def test_the_first_group_is_one_and_each_that_ended_lets_the_next_be_twice_as_large(clock: Clock) -> None:
    turn, sizes = seen(clock), []

    for _ in range(6):
        sizes.append(turn.group_size(10))
        turn.begin_claim()
        turn.end_claim(tried := [attempt() for _ in range(sizes[-1])])
        for each in tried:
            each.is_ended = True

    assert sizes == [1, 2, 4, 8, 10, 10]


def test_a_group_that_has_not_ended_or_was_empty_lets_the_next_be_no_larger(clock: Clock) -> None:
    turn = seen(clock)

    turn.begin_claim()
    turn.end_claim([])
    assert turn.group_size(10) == 1

    turn.begin_claim()
    turn.end_claim([attempt(), attempt()])
    clock.now += 30
    assert not turn.are_tried
    assert turn.group_size(10) == 1


def test_they_are_forgotten_when_their_claim_finds_none(clock: Clock) -> None:
    turn = seen(clock)

    turn.begin_claim()
    turn.end_claim([])

    assert not turn.exist


class SlowSuspects:
    """Attempts of a store that takes its time to find suspects."""

    lease = 30_000
    is_process_idle = True

    def __init__(self) -> None:
        self.events = Events()
        self.handlers = Handlers()
        self.handlers.register("*", print)
        self.calls: list[str] = []
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()

    def maintain(self) -> bool:
        return False

    def claim(self, limit: int, *, room: Room, partitions: None = None) -> Page:
        self.calls.append("claim")
        return Page([], [], 0, suspect=0)

    def claim_suspects(self, size: int, *, alone: bool, room: Room) -> Page:
        self.calls.append("claim_suspects")
        self.is_asked.set()
        self.may_answer.wait(10)
        return Page([], [], 0)


def test_a_worker_claims_nothing_else_while_suspects_are_being_claimed() -> None:
    attempts = SlowSuspects()
    limits = Limits(concurrency=4, threads=4, memory=1 << 20)

    async def two_claims() -> None:
        worker = Loop(cast(Attempts, attempts), limits, tuning=Tuning(look_again=0.01))
        first = asyncio.create_task(worker.run_once())
        await asyncio.to_thread(attempts.is_asked.wait, 10)
        await worker.run_once()
        attempts.may_answer.set()
        await first
        await worker.wind_down(0)

    asyncio.run(two_claims())

    assert attempts.calls == ["claim", "claim_suspects"]
