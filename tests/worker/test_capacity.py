"""What the next claim may take, decided without an event loop or a store."""

import pytest

from digestif.attempts.handlers import Handlers, Kind
from digestif.testing import FakeClock
from digestif.worker.capacity import MOST_ATTEMPTS, Allotment, Capacity
from digestif.worker.limits import Limits, Tuning

MEMORY = 1000
BOTH = {Kind.FUNCTION: 2, Kind.COROUTINE: 5}  # half of the places


class Attempts:
    """Handlers that are running."""

    def __init__(self) -> None:
        self.weight = 0
        self.counts = dict.fromkeys(Kind, 0)

    def count(self, kind: Kind) -> int:
        return self.counts[kind]


@pytest.fixture
def handlers() -> Handlers:
    handlers = Handlers()

    async def coroutine(_: object) -> None:
        """Nothing to wait for."""

    handlers.register("f:*", lambda _: None)
    handlers.register("c:*", coroutine)
    return handlers


@pytest.fixture
def running() -> Attempts:
    return Attempts()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def capacity(handlers: Handlers, running: Attempts, clock: FakeClock) -> Capacity:
    return Capacity(handlers, Limits(10, 4, MEMORY), running, tuning=Tuning(suspects=60.0), clock=clock)


def allotted(capacity: Capacity) -> Allotment:
    allotment = capacity.allot(MOST_ATTEMPTS)
    assert allotment is not None
    return allotment


def run_short(capacity: Capacity, *kinds: Kind) -> None:
    """Let a claim find more digests of these kinds than there are places."""
    claim = allotted(capacity)
    for kind in kinds:
        while claim.room.take(kind):
            pass
    capacity.end_claim(claim, claim.most)


def meet_large(capacity: Capacity) -> None:
    """Let a claim find a digest that fits into no memory that is free."""
    claim = allotted(capacity)
    assert not claim.room.hold(2 * MEMORY)
    capacity.end_claim(claim, 1)


def test_a_claim_takes_half_of_the_places_and_of_the_memory(capacity: Capacity) -> None:
    most, room, places = allotted(capacity)

    assert (most, places) == (7, BOTH)
    assert room.is_heavy(MEMORY // 2)
    assert not room.is_heavy(MEMORY // 2 - 1)


def test_a_claim_takes_no_more_than_it_is_let(capacity: Capacity) -> None:
    allotment = capacity.allot(3)

    assert allotment is not None
    assert allotment.most == 3
    assert capacity.allot(0) is None


def test_what_runs_and_what_claims_under_way_may_bring_takes_places_and_memory(
    capacity: Capacity, running: Attempts
) -> None:
    running.counts[Kind.FUNCTION], running.weight = 1, 100
    capacity.claims["first"] = BOTH

    assert allotted(capacity).places == {Kind.FUNCTION: 1, Kind.COROUTINE: 5}
    assert capacity.held == 100 + MEMORY // 2

    capacity.claims["second"] = BOTH
    assert capacity.allot(MOST_ATTEMPTS) is None

    del capacity.claims["first"], capacity.claims["second"]
    assert allotted(capacity).places == {Kind.FUNCTION: 2, Kind.COROUTINE: 5}


def test_a_claim_for_suspects_takes_no_places_from_others(capacity: Capacity) -> None:
    most, room, places = capacity.allot_suspects()
    capacity.claims["suspects"] = places

    assert most == 10
    assert not room.is_heavy(MEMORY - 1)
    assert allotted(capacity).places == BOTH


def test_a_handler_of_batches_has_places_for_a_batch_at_once(capacity: Capacity, handlers: Handlers) -> None:
    handlers.register("b:*", lambda _: None, batch=100)

    assert allotted(capacity).places[Kind.FUNCTION] == 200
    assert capacity.allot_suspects().most == 400


def test_of_each_kind_there_is_a_bound_however_large_the_batches(capacity: Capacity, handlers: Handlers) -> None:
    handlers.register("b:*", lambda _: None, batch=MOST_ATTEMPTS)

    assert allotted(capacity).places[Kind.FUNCTION] == MOST_ATTEMPTS // 2
    assert capacity.allot_suspects().most == MOST_ATTEMPTS


def test_while_a_kind_has_too_few_places_claims_take_turns_and_no_more_than_it_can_take(
    capacity: Capacity, running: Attempts
) -> None:
    run_short(capacity, Kind.FUNCTION)
    running.counts[Kind.FUNCTION] = 3

    assert capacity.has_places()
    assert allotted(capacity).most == 1
    assert not capacity.waits_for_claim
    capacity.claims["under way"] = {}
    assert capacity.waits_for_claim


def test_a_kind_without_places_is_slow_and_does_not_hold_up_the_other(capacity: Capacity, running: Attempts) -> None:
    run_short(capacity, Kind.FUNCTION)
    running.counts[Kind.FUNCTION] = 4

    assert not capacity.has_places()
    most, room, _ = allotted(capacity)
    assert most == 5
    assert room.delay(Kind.FUNCTION) > room.delay(Kind.COROUTINE) == 0


@pytest.mark.parametrize(("claimed", "is_short"), [(7, True), (None, True), (6, False)])
def test_a_kind_is_short_until_a_claim_finds_that_little_is_due(
    capacity: Capacity, claimed: int | None, is_short: bool
) -> None:
    """A full claim that met no such digest, or one that failed, says nothing about them."""
    run_short(capacity, Kind.FUNCTION, Kind.COROUTINE)

    capacity.end_claim(Allotment(7, allotted(capacity).room, {}), claimed)

    capacity.claims["under way"] = {}
    assert capacity.waits_for_claim is is_short


def test_a_large_digest_waits_for_those_that_hold_much_and_then_goes_alone(
    capacity: Capacity, running: Attempts
) -> None:
    running.weight = MEMORY // 2
    meet_large(capacity)
    assert capacity.waits_for_memory

    running.weight = MEMORY // 2 - 1
    assert not capacity.waits_for_memory
    large = allotted(capacity)

    assert large.room.hold(100 * MEMORY)
    assert capacity.allot(MOST_ATTEMPTS) is None  # no claim beside this one
    assert capacity.held == MEMORY
    capacity.end_claim(large, 1)
    assert capacity.allot(MOST_ATTEMPTS) is not None


def test_a_claim_that_failed_lets_the_large_digest_be_next_all_the_same(capacity: Capacity, running: Attempts) -> None:
    meet_large(capacity)

    capacity.end_claim(allotted(capacity), None)

    assert capacity.held == 0
    running.weight = MEMORY
    assert capacity.waits_for_memory


def test_others_do_not_wait_for_ever_for_a_large_digest(
    capacity: Capacity, running: Attempts, clock: FakeClock
) -> None:
    running.weight = MEMORY // 2
    meet_large(capacity)

    clock.advance(59)
    assert capacity.waits_for_memory
    clock.advance(2)
    assert not capacity.waits_for_memory
