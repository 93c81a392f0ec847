"""Interruptions, at the level of the port: something happens while a digest of many pages is merged or trimmed."""

import pytest

from digestif import InvalidState, Ledger
from digestif.stores.base import PAGE_RECORDS, Burial, Lease, Store, Take
from digestif.stores.reader import Part
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.complete import assert_refused
from digestif.testing.conformance.port import (
    LEASE,
    LONG_AGO,
    NOW,
    ROUNDS,
    arrive,
    claim_all,
    complete,
    delete,
    everything,
    expire,
    maintain,
    numbers,
    open_and_take,
    open_digest,
    open_lease,
    record_keys,
    release,
    stored,
    sweep,
    take_all,
)
from digestif.testing.footprint import assert_nothing_left

HALF = PAGE_RECORDS + 100
WHOLE = 2 * HALF


class Interruptions(Suite):
    def test_what_is_half_merged_is_counted_and_seen_whole(self, store: Store) -> None:
        """Fact 48. In the middle of a merge the ledger balances, verify agrees, and every record is seen once."""
        begin_merge(store)

        assert store.ledger() == Ledger(accepted=WHOLE, open=WHOLE)
        assert store.verify()
        assert sorted(record_keys(stored(store, "t", Part.DIGEST))) == sorted(numbers(0, WHOLE))

    def test_the_next_worker_finishes_a_merge(self, store: Store) -> None:
        """Fact 40. A worker dies in the middle of a merge: the next gets the whole digest of that revision."""
        begin_merge(store)
        arrive(store, "t", ["meanwhile"])

        taken = open_and_take(store, "t", now=NOW + LEASE)

        assert record_keys(taken.records) == numbers(0, WHOLE)[::-1]
        assert taken.revision == 2
        assert store.inspect("t").pending == 1
        assert store.verify()

    def test_a_merge_that_is_given_back_goes_on_with_what_came_since(self, store: Store) -> None:
        """Fact 26. Given back in the middle of a merge: then all records come, old, new and newest, once each."""
        lease = begin_merge(store)
        release(store, lease)
        arrive(store, "t", numbers(HALF // 2, HALF), timestamp=2e6)
        arrive(store, "t", numbers(WHOLE, WHOLE + 10), timestamp=3e6)

        taken = open_and_take(store, "t")

        assert len(taken.records) == WHOLE + 10
        assert sorted(record_keys(taken.records)) == sorted(numbers(0, WHOLE + 10))
        assert record_keys(taken.records)[:10] == numbers(WHOLE, WHOLE + 10)[::-1]
        assert store.ledger().superseded == HALF - HALF // 2
        assert store.verify()

    def test_a_half_merged_digest_can_be_completed(self, store: Store) -> None:
        """Fact 48. Completed in the middle of a merge: all its records are counted once, and none is left."""
        complete(store, begin_merge(store))

        claim_all(store)
        maintain(store)

        assert store.ledger() == Ledger(accepted=WHOLE, delivered=WHOLE)
        assert_nothing_left(store)

    def test_a_half_merged_digest_can_be_deleted(self, store: Store) -> None:
        """Fact 29. Deleted in the middle of a merge: all its records are counted once, and none is left."""
        begin_merge(store)
        arrive(store, "t", ["meanwhile"])

        delete(store, "t")

        sweep(store)
        assert store.ledger() == Ledger(accepted=WHOLE + 1, deleted=WHOLE + 1)
        assert_nothing_left(store)

    def test_a_stale_token_changes_nothing_in_the_middle_of_a_merge(self, store: Store) -> None:
        """Fact 39. The holder is in the middle of a merge, and another call has a stale token: refused as ever."""
        stale = begin_merge(store)._replace(token="stale")

        assert_refused(store, stale, NOW)

    def test_a_half_merged_digest_is_not_buried(self, store: Store) -> None:
        """Fact 40. Buried in the middle of a merge: InvalidState, nothing changes; a dead letter is always whole."""
        lease = begin_merge(store)
        before = everything(store)

        with pytest.raises(InvalidState):
            store.bury([Burial(lease, "poison", 0)], now=NOW)

        assert everything(store) == before
        take_all(store, lease)
        assert store.bury([Burial(lease, "poison", 0)], now=NOW) == [True]
        assert store.replay(lease.digest_id, now=NOW)
        assert record_keys(open_and_take(store, "t").records) == numbers(0, WHOLE)[::-1]

    def test_a_half_merged_digest_expires_whole(self, store: Store) -> None:
        """Fact 45. A worker dies in the middle of a merge, and everything gets old: counted, and nothing is left."""
        begin_merge(store, ttl=LEASE + 5)
        assert maintain(store, LONG_AGO, now=NOW + LEASE).lapsed == ["t"]

        assert expire(store, now=NOW + LEASE + 5) == WHOLE

        assert store.ledger() == Ledger(accepted=WHOLE, expired=WHOLE)
        assert_nothing_left(store)

    def test_a_half_merged_digest_that_was_given_back_expires_whole(self, store: Store) -> None:
        """Fact 45. Given back in the middle of a merge: what was merged expires, and what was not yet."""
        release(store, begin_merge(store, ttl=100), until=NOW + 200)

        assert expire(store, now=NOW + 100) == WHOLE

        assert store.ledger() == Ledger(accepted=WHOLE, expired=WHOLE)
        assert store.inspect("t").digest is None

    @pytest.mark.parametrize("capacity", [2, HALF + 300, None])
    def test_wherever_a_merge_is_interrupted_the_next_worker_finishes_it(
        self, store: Store, capacity: int | None
    ) -> None:
        """Fact 9. A worker dies after any page of a merge: the next gets exactly the newest, the rest is counted."""
        for pages in range(1, ROUNDS):
            lease = begin_merge(store, f"t{pages}", capacity=capacity)
            if is_complete(store, lease, capacity, pages=pages):
                break
            assert_finished(store, f"t{pages}", numbers(0, WHOLE), capacity)

        assert pages > 1

    @pytest.mark.parametrize("capacity", [2, HALF])
    def test_wherever_trimming_is_interrupted_the_next_worker_finishes_it(self, store: Store, capacity: int) -> None:
        """Fact 8. A worker dies after any page of trimming a large digest: the next gets exactly the newest."""
        for pages in range(1, ROUNDS):
            arrive(store, f"t{pages}", numbers(0, WHOLE))
            if is_complete(store, open_lease(store, f"t{pages}"), capacity, pages=pages):
                break
            assert_finished(store, f"t{pages}", numbers(0, WHOLE), capacity)

        assert pages > 1


def begin_merge(store: Store, timeline: str = "t", *, capacity: int | None = None, **terms: int) -> Lease:
    """A failed digest and pending records, more than a page each, of which one page has been merged."""
    arrive(store, timeline, numbers(0, HALF), **terms)
    release(store, open_digest(store, timeline))
    arrive(store, timeline, numbers(HALF, WHOLE), timestamp=1e6, **terms)
    lease = open_lease(store, timeline)
    assert not is_complete(store, lease, capacity, pages=1)
    return lease


def is_complete(store: Store, lease: Lease, capacity: int | None, *, pages: int) -> bool:
    """Take so many pages; was that all?"""
    request, complete = Take(lease, capacity, merge=True), False
    for _ in range(pages):
        [taken] = store.take([request], now=NOW)
        assert taken is not None
        request, complete = request._replace(after=taken.after), taken.complete
    return complete


def assert_finished(store: Store, timeline: str, all_keys: list[str], capacity: int | None) -> None:
    """Fail unless the worker that comes after the lapse gets the newest up to capacity."""
    lease = open_lease(store, timeline, now=NOW + LEASE)
    taken = take_all(store, lease, capacity=capacity, now=NOW + LEASE)
    newest_first = all_keys[::-1]
    assert record_keys(taken.records) == newest_first[:capacity]
    assert taken.dropped == len(all_keys) - len(taken.records)
    assert store.ledger().balanced
    assert store.verify()
    assert complete(store, lease, now=NOW + LEASE)
