"""Failure and recovery: a digest that was not delivered is tried again, and nothing is lost."""

import pytest

from digestif import Digests, InvalidState, Record
from digestif.stores.base import Store
from digestif.testing.conformance.actions import (
    Boom,
    T,
    add_all,
    deliver,
    fail,
    keys,
    let_wait,
    next_digest,
    numbered,
    scheduled,
)
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.footprint import assert_nothing_left


class Recovery(Suite):
    def test_what_the_block_raises_propagates_and_nothing_is_removed(self, digests: Digests) -> None:
        """Fact 25. The block raises: the exception propagates, nothing is removed, it is ready again and not busy."""
        digests.add("t", "a", now=T)
        boom = Boom()

        with pytest.raises(Boom) as raised, digests.digest("t", now=T + 1):
            raise boom

        assert raised.value is boom
        assert digests.timeline("t").state == "ready"
        assert (digests.ledger().open, digests.ledger().delivered) == (1, 0)
        assert len(deliver(digests, "t", now=T + 1)) == 1

    def test_digesting_again_gives_the_same_records_and_the_new_ones(self, digests: Digests, store: Store) -> None:
        """Fact 26. Again at once: the same records plus those added since, newest first; then nothing remains."""
        add_all(digests, "t", numbered([0, 2, 4]))
        first = fail(digests, "t")
        add_all(digests, "t", numbered([1, 3, 5]))

        second = deliver(digests, "t", 0)

        assert keys(second) == ["r5", "r4", "r3", "r2", "r1", "r0"]
        assert (second.id, second.revision, second.attempt) == (first.id, 2, 2)
        assert list(next_digest(digests, "t", now=T)) == []
        assert_nothing_left(store)

    def test_the_revision_rises_with_what_joined_after_a_reported_failure(self, digests: Digests) -> None:
        """Fact 26. The next opening has the same id and a higher attempt; newer records come under another key."""
        digests.add("t", "a", now=T)

        seen = [fail(digests, "t"), fail(digests, "t")]
        digests.add("t", "b", now=T)
        seen += [fail(digests, "t"), deliver(digests, "t")]

        assert len({digest.id for digest in seen}) == 1
        assert [(digest.revision, digest.attempt) for digest in seen] == [(1, 1), (1, 2), (2, 3), (2, 4)]

    def test_a_later_version_of_a_failed_record_wins(self, digests: Digests) -> None:
        """Fact 27. Old and new records come once each, the later version winning, by arrival."""
        digests.add("t", Record("a", "old", T + 9), now=T)
        digests.add("t", Record("b", "only", T), now=T)
        fail(digests, "t")
        digests.add("t", Record("a", "new", T - 9), now=T + 1)

        digest = deliver(digests, "t", now=T + 1)

        assert list(digest) == [Record("b", "only", T), Record("a", "new", T - 9)]
        assert (digests.ledger().superseded, digests.ledger().delivered) == (1, 2)

    def test_with_redelivery_same_a_failed_digest_comes_exactly_as_it_was(self, digests_with: DigestsWith) -> None:
        """Fact 26. With redelivery "same" the digest stays as it was, and the new record is in the next."""
        digests = digests_with(redelivery="same")
        digests.add("t", Record("a", 1, T), now=T)
        first = fail(digests, "t")
        digests.add("t", Record("b", 2, T), now=T)

        second = deliver(digests, "t", 0)

        assert keys(first) == keys(second) == ["a"]
        assert first.idempotency_key == second.idempotency_key
        assert second.attempt == 2
        assert keys(next_digest(digests, "t", now=T)) == ["b"]

    def test_a_failed_digest_is_found_again_by_maintenance(self, digests: Digests) -> None:
        """Fact 27. The first digest raises at T; maintenance(T); add at T+1: schedule(T+1) gives it, with both."""
        digests.add("t", Record("old", 1, T), now=T)
        fail(digests, "t", now=T)
        digests.maintenance(T, now=T)
        digests.add("t", Record("new", 2, T + 1), now=T + 1)

        given = scheduled(digests, T + 1)

        assert given == ["t"]
        assert keys(deliver(digests, "t", now=T + 1)) == ["new", "old"]

    def test_maintenance_lets_a_ready_timeline_wait_with_the_same_time(self, digests: Digests) -> None:
        """Fact 27. A deadline not before its ready time: waiting with the same time; newer ones are left alone."""
        digests.add("older", "a", now=T)
        digests.add("newer", "b", now=T + 1)

        moved = digests.maintenance(T, now=T + 1)

        assert moved == 1
        assert (digests.timeline("older").state, digests.timeline("older").due) == ("waiting", T)
        assert digests.timeline("newer").state == "ready"
        with pytest.raises(InvalidState):
            deliver(digests, "older", now=T + 1)
        assert len(digests.history()) == 0

    def test_maintenance_looks_five_minutes_back_by_default(self, digests: Digests) -> None:
        """Fact 27. Without a deadline, what is ready since now − 300 is moved, and newer ones are left alone."""
        digests.add("older", "a", now=T)
        digests.add("newer", "b", now=T + 0.001)

        assert digests.maintenance(now=T + 300) == 1
        assert digests.timeline("newer").state == "ready"

    def test_maintenance_counts_from_when_it_became_ready_not_from_when_it_was_due(self, digests: Digests) -> None:
        """Fact 27. A backlog is not dispatched twice: due long ago and scheduled just now is left alone."""
        let_wait(digests, "t", due=T, last=T)
        scheduled(digests, T + 1000)

        assert digests.maintenance(T + 999, now=T + 1000) == 0
        assert digests.maintenance(T + 1000, now=T + 1000) == 1
        assert digests.timeline("t").due == T

    def test_a_dispatch_that_never_happened_is_recovered(self, digests: Digests) -> None:
        """Fact 28. A dispatch that never happened is recovered by maintenance + schedule; no data lost."""
        digests.add("t", Record("a", 1, T), now=T)  # True, and the caller died
        digests.maintenance(T + 300, now=T + 300)
        scheduled(digests, T + 300)  # and again no worker delivers
        digests.add("t", Record("b", 2, T), now=T + 301)
        digests.maintenance(T + 600, now=T + 600)

        assert scheduled(digests, T + 600) == ["t"]
        assert keys(deliver(digests, "t", now=T + 600)) == ["b", "a"]

    def test_the_last_attempt_buries_the_digest(self, digests_with: DigestsWith) -> None:
        """Fact 25. The last attempt raises: that propagates too, and buries; the timeline goes on."""
        digests = digests_with(attempts=2, minimum_delay=60)
        digests.add("t", "poison", now=T)

        first, last = fail(digests, "t"), fail(digests, "t", now=T + 1)

        assert (first.attempt, last.attempt) == (1, 2)
        assert (digests.ledger().dead, digests.ledger().open) == (1, 0)
        timeline = digests.timeline("t")
        assert (timeline.state, timeline.due, timeline.last, timeline.iteration) == ("waiting", T + 61, T + 1, 1)
