"""Alone: a lapse speaks against a digest only if nothing else ran in its process, from its beginning to its end."""

import pytest

from digestif import Buried, Digests, Event, Failed, InvalidState, Policy, StaleLease
from digestif.stores.base import Take, Taken
from digestif.stores.memory import MemoryStore

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
