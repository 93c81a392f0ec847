"""Alone: a lapse speaks against a digest only if nothing else ran in its process, from its beginning to its end."""

from collections.abc import Sequence
from typing import Any

import pytest

from digestif import (
    Buried,
    Claimed,
    Digests,
    Ended,
    Event,
    Failed,
    InvalidState,
    Policy,
    StaleLease,
    StoreUnavailable,
)
from digestif.attempts.steps import Finished, advance
from digestif.stores.base import Lease, Take, Taken
from digestif.stores.memory import MemoryStore
from digestif.testing import FakeClock

T = 1_700_000_000.0
LEASE = 30.0


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def let_lapse(digests: Digests, timeline: str) -> None:
    """Open a timeline, keep it open for longer than its lease, and let maintenance make it wait again."""
    digests.add(timeline, 1, now=T)
    with pytest.raises(StaleLease), digests.digest(timeline, now=T):
        digests.maintenance(T - 1, now=T + LEASE)
    assert [entry.key for entry in digests.schedule(T + LEASE, now=T + LEASE)] == [timeline]


def test_a_suspect_is_noted_as_alone_until_something_else_begins(store: MemoryStore) -> None:
    digests = Digests(store)
    let_lapse(digests, "suspect")
    digests.add("other", 1, now=T + LEASE)

    with digests.digest("suspect", now=T + LEASE):
        assert store.inspect("suspect").group == 1
        with digests.digest("other", now=T + LEASE):
            assert store.inspect("suspect").group == 0

    assert digests.ledger().delivered == 2


def test_a_suspect_that_begins_beside_others_is_not_noted(store: MemoryStore) -> None:
    digests = Digests(store)
    let_lapse(digests, "suspect")
    digests.add("other", 1, now=T + LEASE)

    with digests.digest("other", now=T + LEASE), digests.digest("suspect", now=T + LEASE):
        assert store.inspect("suspect").group == 0


class Interrupted(MemoryStore):
    """The next extension is interrupted, or not answered, before it takes effect."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def extend(self, leases: Sequence[Lease], **options: Any) -> list[bool]:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return super().extend(leases, **options)


@pytest.mark.parametrize("begun", ["deliver", "block"])
def test_an_interrupt_while_a_suspect_is_disturbed_ends_an_attempt_that_was_told_of(begun: str) -> None:
    told: list[Event] = []
    store = Interrupted()
    digests = Digests(store)
    digests.handler("other")(lambda _: None)
    let_lapse(digests, "suspect")
    digests.add("other", 1, now=T + LEASE)
    digests.subscribe(told.append)

    with digests.digest("suspect", now=T + LEASE):
        store.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            if begun == "deliver":
                digests.deliver("other", now=T + LEASE)
            else:
                digests.digest("other", now=T + LEASE).__enter__()

    others = [event for event in told if isinstance(event, Claimed | Ended) and event.timeline == "other"]
    assert [type(event).__name__ for event in others] == ["Claimed", "Returned"]


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_group_that_the_store_still_notes_is_cleared_with_the_next_renewal(*, is_answered: bool) -> None:
    """It did not answer, or the lease had lapsed, and a clock that was set back let it live again."""
    store, clock = Interrupted(), FakeClock(T)
    digests = Digests(store, clock=clock)
    let_lapse(digests, "suspect")
    digests.add("other", 1)
    clock.advance(LEASE)
    pipeline = digests.engine.pipeline()
    suspect, other = pipeline.block("suspect"), pipeline.block("other")
    advance(suspect)
    if is_answered:
        clock.advance(LEASE)
    else:
        store.error = StoreUnavailable("told to fail")
    advance(other)
    assert store.inspect("suspect").group == 1
    clock.set(T + LEASE)

    pipeline.renew()

    assert store.inspect("suspect").group == 0
    for steps in (suspect, other):
        assert isinstance(advance(steps), Finished)
    assert digests.ledger().delivered == 2


def test_poison_that_is_found_when_it_is_opened_leaves_the_cool_down_that_was_asked_for(store: MemoryStore) -> None:
    digests = Digests(store, policy=Policy(lapses=1, minimum_delay=300))
    let_lapse(digests, "suspect")
    with pytest.raises(StaleLease), digests.digest("suspect", now=T + LEASE):
        digests.maintenance(T - 1, now=T + 2 * LEASE)
    assert digests.flush("suspect", now=T + 2 * LEASE)

    with pytest.raises(InvalidState, match="dead letter"), digests.digest("suspect", 7, now=T + 2 * LEASE):
        raise AssertionError("it was opened")

    assert digests.timeline("suspect").due == T + 2 * LEASE + 7


class TooLarge(MemoryStore):
    """Reading any digest takes more memory than there is."""

    def take(self, requests: "list[Take]", *, now: int | None) -> "list[Taken | None]":  # type: ignore[override]
        raise MemoryError


def test_a_digest_that_can_not_be_read_is_not_taken_for_an_empty_one() -> None:
    """Its last attempt buries it, through `digest()` too."""
    told: list[Event] = []
    digests = Digests(TooLarge(), policy=Policy(attempts=2))
    digests.subscribe(told.append)
    digests.add("t", 1, now=T)

    for _ in range(2):
        with pytest.raises(MemoryError), digests.digest("t", now=T):
            raise AssertionError("it was opened")

    assert [type(event) for event in told if isinstance(event, Failed | Buried)] == [Failed, Buried]
    assert digests.ledger().dead == 1
