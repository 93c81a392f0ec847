"""Digests: what they carry, and how the timeline goes on after them."""

from typing import Any

import pytest

from digestif import Busy, ConfigError, Digests, InvalidState, Record, StaleLease
from digestif.core.terms import Terms
from digestif.stores.base import PAGE_RECORDS, Arrival, Store
from digestif.testing.conformance.actions import (
    T,
    add_all,
    deliver,
    keys,
    let_wait,
    next_digest,
    numbered,
    scheduled,
)
from digestif.testing.conformance.base import DigestsWith, Suite, in_sync_mode_only
from digestif.testing.partitioned import Partitioned


class DigestBlocks(Suite):
    def test_a_digest_gives_exactly_the_records_of_its_timeline(self, digests: Digests) -> None:
        """Fact 16. Two records in a ready timeline: the digest gives exactly those two."""
        one, two = numbered(range(2))
        digests.add("t", one, now=T)
        digests.add("t", two, now=T)
        digests.add("other", "not in it", now=T)

        digest = deliver(digests, "t")

        assert list(digest) == [two, one]
        assert digest.timeline == "t"
        assert (digest.revision, digest.attempt, digest.dropped) == (1, 1, 0)
        assert digest.idempotency_key == f"{digest.id}.1"

    def test_ten_records_come_newest_first(self, digests: Digests) -> None:
        """Fact 16. Ten come newest first, whatever the order of their arrival."""
        for n in (3, 7, 1, 9, 0, 5, 2, 8, 6, 4):
            digests.add("t", Record(f"r{n}", n, T + n), now=T)

        assert keys(deliver(digests, "t")) == [f"r{n}" for n in range(9, -1, -1)]

    def test_a_completed_timeline_cools_down(self, digests: Digests) -> None:
        """Fact 17. Completed at t with minimum m: waiting, due t+m, nothing pending, last delivery t."""
        digests.add("t", "a", now=T)

        deliver(digests, "t", 60, now=T + 2)

        timeline = digests.timeline("t")
        assert (timeline.state, timeline.due, timeline.last) == ("waiting", T + 62, T + 2)
        assert (timeline.pending, timeline.iteration, timeline.paused) == (0, 1, False)
        assert digests.ledger().delivered == 1

    def test_the_cool_down_comes_from_the_policy_if_the_call_says_nothing(self, digests_with: DigestsWith) -> None:
        """Fact 17. Completed at t with a policy's minimum m: waiting, due t+m."""
        digests = digests_with(minimum_delay=45)
        digests.add("t", "a", now=T)

        deliver(digests, "t", now=T)

        assert digests.timeline("t").due == T + 45

    def test_without_a_cool_down_the_next_schedule_gives_it(self, digests: Digests) -> None:
        """Fact 17. With m = 0 the next schedule(now) gives it."""
        digests.add("t", "a", now=T)

        deliver(digests, "t", 0, now=T)

        assert scheduled(digests, T) == ["t"]

    def test_an_empty_digest_makes_the_timeline_idle(self, digests: Digests) -> None:
        """Fact 18. Scheduled again without new records: an empty digest; then idle, and the next add is True again."""
        let_wait(digests, "t", due=T + 60, last=T)
        assert scheduled(digests, T + 60) == ["t"]

        empty = deliver(digests, "t", now=T + 60)

        assert list(empty) == []
        assert digests.timeline("t").state == "idle"
        assert digests.timeline("t").last is None
        assert scheduled(digests, T + 1e6) == []
        assert digests.add("t", "anew", now=T + 61) is True

    def test_a_record_that_arrives_during_an_empty_digest_is_in_the_next(self, digests: Digests) -> None:
        """Fact 19. A record that arrives during an empty digest: it ends waiting, the record is in the next."""
        let_wait(digests, "t", due=T, last=T - 10)
        scheduled(digests, T)
        with digests.digest("t", 60, now=T) as empty:
            answer = digests.add("t", Record("late", 1, T), now=T)

        assert answer is False
        assert list(empty) == []
        timeline = digests.timeline("t")
        assert (timeline.state, timeline.due, timeline.last, timeline.iteration) == ("waiting", T + 60, T - 10, 0)
        assert keys(next_digest(digests, "t", now=T + 60)) == ["late"]

    def test_records_added_while_a_digest_is_open_are_in_the_next_one(self, digests: Digests) -> None:
        """Fact 20. Records added while a digest is open are not in it and are in the next one."""
        digests.add("t", Record("early", 1, T), now=T)
        with digests.digest("t", 0, now=T) as first:
            answer = digests.add("t", Record("late", 2, T), now=T)
            assert digests.timeline("t").state == "open"

        assert answer is False
        assert keys(first) == ["early"]
        assert keys(next_digest(digests, "t", now=T)) == ["late"]

    @pytest.mark.parametrize("timeline", ["waiting", "unknown", "deleted"])
    def test_a_timeline_that_is_not_ready_can_not_be_digested(self, digests: Digests, timeline: str) -> None:
        """Fact 21. Digesting a waiting, unknown or deleted timeline raises InvalidState and does not run the block."""
        let_wait(digests, "waiting", due=T)
        digests.add("deleted", "gone", now=T)
        digests.delete("deleted", now=T)
        block_ran = False

        with pytest.raises(InvalidState) as refused, digests.digest(timeline, now=T):
            block_ran = True

        assert not isinstance(refused.value, Busy)
        assert not block_ran

    @pytest.mark.parametrize("minimum_delay", [-1, float("nan"), float("inf"), True, "60"])
    def test_a_wrong_cool_down_opens_nothing(self, digests: Digests, minimum_delay: Any) -> None:
        """Fact 50. A cool-down that is no duration: ConfigError that names it, before anything is opened."""
        digests.add("t", "a", now=T)

        with pytest.raises(ConfigError, match="minimum_delay"), digests.digest("t", minimum_delay, now=T):
            pytest.fail("the block ran")

        assert digests.timeline("t").state == "ready"

    def test_while_one_worker_has_it_open_a_second_is_refused(self, digests_with: DigestsWith) -> None:
        """Fact 22. While one worker has it open a second gets Busy."""
        one, other = digests_with(), digests_with()
        one.add("t", "a", now=T)
        block_ran = False

        with one.digest("t", now=T), pytest.raises(Busy), other.digest("t", now=T + 29.999):
            block_ran = True

        assert not block_ran
        assert one.ledger().delivered == 1

    def test_eight_thousand_records_can_be_digested(self, digests_with: DigestsWith) -> None:
        """Fact 23. 8,192 records can be digested and completed, capacity permitting."""
        digests = digests_with(capacity=8_192)

        assert_digested_whole(digests, 8_192)

    @in_sync_mode_only
    def test_fifty_thousand_records_can_be_digested_in_bounded_calls(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 23. 50,000 records can be digested and completed, in bounded calls."""
        watched = Partitioned([store])
        digests = digests_with(over=watched, capacity=None)

        assert_digested_whole(digests, 50_000)

        assert 0 < watched.largest["add"] <= PAGE_RECORDS
        assert 0 < watched.largest["take"] <= PAGE_RECORDS


class UndecodableRecords(Suite):
    """Fact 24. A record whose stored value is missing or cannot be decoded is quarantined; the others are delivered."""

    def test_a_value_that_cannot_be_decoded_is_quarantined(self, digests: Digests, store: Store) -> None:
        """Fact 24. A value that cannot be decoded is quarantined, counted dead, and is in no later digest."""
        digests.add("t", Record("good", 1, T), now=T)
        spoil(store, "t", "bad")

        digest = deliver(digests, "t", 0, now=T)

        assert keys(digest) == ["good"]
        assert (digests.ledger().delivered, digests.ledger().dead) == (1, 1)
        assert keys(next_digest(digests, "t", now=T)) == []
        assert digests.timeline("t").state == "idle"
        assert digests.verify()

    def test_a_missing_value_is_quarantined(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 24. A missing value is quarantined with its error and counted dead; the others are delivered."""
        forgetful = Partitioned([store])
        forgetful.lost.add("lost")
        digests = digests_with(over=forgetful)
        for key in ("good", "lost", "better"):
            digests.add("t", Record(key, key, T), now=T)

        digest = deliver(digests, "t", now=T)

        assert keys(digest) == ["better", "good"]
        assert (digests.ledger().delivered, digests.ledger().dead) == (2, 1)

    def test_a_digest_that_lost_a_value_has_another_key(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 24. A value is lost after the digest may have gone out: other records, so another idempotency key."""
        forgetful = Partitioned([store])
        digests = digests_with(over=forgetful)
        for key in ("good", "lost"):
            digests.add("t", Record(key, key, T), now=T)
        with pytest.raises(StaleLease), digests.digest("t", now=T) as first:
            forgetful.lost.add("lost")
            second = deliver(digests, "t", now=T + 30)

        assert (keys(first), keys(second)) == (["lost", "good"], ["good"])
        assert first.idempotency_key != second.idempotency_key

    def test_each_has_a_dead_letter_of_its_own_that_says_why(self, digests: Digests, store: Store) -> None:
        """Fact 24. A quarantined record is a dead letter of its own, with its error."""
        digests.add("t", Record("good", 1, T), now=T)
        spoil(store, "t", "bad")
        spoil(store, "t", "worse")

        digest = deliver(digests, "t", now=T)

        letters = store.letters("t", after=None, limit=10)
        assert [letter.records for letter in letters] == [1, 1]
        assert {store.letter_records(letter.id, after=None, limit=10)[0].key for letter in letters} == {"bad", "worse"}
        assert all(letter.reason for letter in letters)
        assert digest.id not in {letter.id for letter in letters}

    def test_a_digest_of_which_nothing_is_left_is_an_empty_one(self, digests: Digests, store: Store) -> None:
        """Fact 24. If no record can be decoded the digest is empty, and the timeline is idle afterwards."""
        spoil(store, "t", "bad")

        digest = deliver(digests, "t", now=T)

        assert list(digest) == []
        assert digests.timeline("t").state == "idle"
        assert digests.ledger().dead == 1


def spoil(store: Store, timeline: str, key: str) -> None:
    """Store a value that no codec ever wrote."""
    store.add([Arrival(timeline, key, b"\xff\x00 is no value", T, None, Terms())], now=round(T * 1000))


def assert_digested_whole(digests: Digests, count: int) -> None:
    add_all(digests, "t", numbered(range(count)))

    digest = deliver(digests, "t", 60)

    assert keys(digest) == [f"r{n}" for n in range(count - 1, -1, -1)]
    assert digests.timeline("t").due == T + 60
    assert digests.ledger().delivered == count
