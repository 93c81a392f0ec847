"""The verbs of operators: pause and resume, flush, retract."""

import pytest

from digestif import Digests, InvalidState, Record
from digestif.stores.base import Store
from digestif.testing.conformance.actions import (
    T,
    assert_leaves_at,
    deliver,
    fail,
    keys,
    let_wait,
    numbered,
    scheduled,
)
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.footprint import assert_nothing_left


class Pauses(Suite):
    def test_a_paused_timeline_accepts_but_does_not_move(self, digests: Digests, store: Store) -> None:
        """Fact 53. A paused timeline accepts, is not scheduled, claimed or opened."""
        let_wait(digests, "t", due=T + 60, last=T)
        assert digests.pause("t", now=T) is True

        answer = digests.add("t", Record("a", 1, T), increment_delay=0, now=T)

        assert answer is False
        assert digests.timeline("t").paused is True
        assert scheduled(digests, T + 1e6) == []
        for partition in range(store.partitions):
            assert store.claim(partition, 10, token="x", lease=1000, now=10**13).leases == []
        with pytest.raises(InvalidState):
            deliver(digests, "t", now=T + 60)
        assert digests.timeline("t").state == "waiting"

    def test_a_resumed_timeline_goes_on_where_it_was(self, digests: Digests) -> None:
        """Fact 53. Resumed, it goes on where it was."""
        let_wait(digests, "t", due=T + 60, last=T)
        digests.pause("t", now=T)
        digests.add("t", Record("a", 1, T), increment_delay=5, now=T)

        assert digests.resume("t", now=T + 10) is True

        assert digests.timeline("t").paused is False
        assert_leaves_at(digests, "t", T + 65)
        assert keys(deliver(digests, "t", now=T + 65)) == ["a"]

    def test_a_paused_idle_timeline_accepts_and_waits(self, digests: Digests) -> None:
        """Fact 53. A paused timeline accepts: an idle one becomes waiting at now, and add answers False."""
        assert digests.pause("t", now=T) is True

        answer = digests.add("t", "a", now=T + 5)

        assert answer is False
        assert (digests.timeline("t").state, digests.timeline("t").due) == ("waiting", T + 5)
        assert scheduled(digests, T + 5) == []
        digests.resume("t", now=T + 6)
        assert scheduled(digests, T + 6) == ["t"]

    def test_a_paused_ready_timeline_is_not_opened(self, digests: Digests) -> None:
        """Fact 53. A paused timeline is not opened, though it was ready; resumed, it is."""
        digests.add("t", "a", now=T)
        digests.pause("t", now=T)
        block_ran = False

        with pytest.raises(InvalidState), digests.digest("t", now=T):
            block_ran = True

        assert not block_ran
        digests.resume("t", now=T)
        assert len(deliver(digests, "t")) == 1

    def test_a_paused_timeline_is_maintained_all_the_same(self, digests: Digests) -> None:
        """Fact 53. Paused and ready for too long: it waits again, and is scheduled when it is resumed."""
        digests.add("t", "a", now=T)
        digests.pause("t", now=T)

        assert digests.maintenance(T, now=T) == 1
        assert scheduled(digests, T + 1) == []
        digests.resume("t", now=T + 1)
        assert scheduled(digests, T + 1) == ["t"]

    def test_pausing_does_not_disturb_an_open_digest(self, digests: Digests) -> None:
        """Fact 53. Paused while open: the holder of the lease completes it, then it stays where it is."""
        digests.add("t", "a", now=T)
        with digests.digest("t", 0, now=T):
            digests.pause("t", now=T)

        assert digests.ledger().delivered == 1
        assert digests.timeline("t").state == "waiting"
        assert scheduled(digests, T + 1e6) == []

    def test_the_flag_survives_idle_but_not_delete(self, digests: Digests, store: Store) -> None:
        """Fact 53. The flag survives idle, not delete."""
        let_wait(digests, "t")
        scheduled(digests)
        with digests.digest("t", now=T):
            digests.pause("t", now=T)
        assert digests.timeline("t").state == "idle"
        assert digests.timeline("t").paused is True

        assert digests.delete("t", now=T) is True

        assert digests.timeline("t").paused is False
        assert_nothing_left(store)

    def test_pause_and_resume_say_whether_there_was_something_to_do(self, digests: Digests, store: Store) -> None:
        """Fact 53. pause and resume answer True exactly if the flag changed; resumed and idle, nothing is left."""
        answers = [digests.resume("t", now=T), digests.pause("t", now=T), digests.pause("t", now=T)]
        answers += [digests.resume("t", now=T), digests.resume("t", now=T)]

        assert answers == [False, True, False, True, False]
        assert_nothing_left(store)


class Flushes(Suite):
    def test_a_waiting_timeline_becomes_ready_at_once(self, digests: Digests) -> None:
        """Fact 17. Waiting, then flushed: ready now, and its digest can be taken."""
        let_wait(digests, "t", due=T + 300)
        digests.add("t", Record("a", 1, T), now=T)

        assert digests.flush("t", now=T + 1) is True

        assert digests.timeline("t").state == "ready"
        assert keys(deliver(digests, "t", now=T + 1)) == ["a"]

    def test_a_flushed_timeline_is_due_and_ready_since_then(self, digests: Digests) -> None:
        """Fact 27. Flushed at T+1 and not delivered: maintenance(T+1) finds it, due T+1, and not earlier."""
        let_wait(digests, "t", due=T + 300)
        digests.flush("t", now=T + 1)

        assert digests.maintenance(T + 0.999, now=T + 1) == 0
        assert digests.maintenance(T + 1, now=T + 1) == 1
        assert digests.timeline("t").due == T + 1

    def test_a_paused_timeline_is_flushed_but_stays_paused(self, digests: Digests) -> None:
        """Fact 53. Paused, then flushed: ready, and opened only when it is resumed."""
        let_wait(digests, "t", due=T + 300)
        digests.pause("t", now=T)

        assert digests.flush("t", now=T) is True

        assert (digests.timeline("t").state, digests.timeline("t").paused) == ("ready", True)
        with pytest.raises(InvalidState):
            deliver(digests, "t")

    def test_in_any_other_state_there_is_nothing_to_flush(self, digests: Digests) -> None:
        """Fact 17. Flush is True only from waiting: not for an idle, ready or open timeline."""
        answers = [digests.flush("t", now=T)]
        digests.add("t", "a", now=T)
        answers.append(digests.flush("t", now=T))
        with digests.digest("t", now=T):
            answers.append(digests.flush("t", now=T))

        assert answers == [False, False, False]


class Retractions(Suite):
    def test_a_pending_record_can_be_taken_back(self, digests: Digests) -> None:
        """Fact 48. Retracted: the record is in no digest, and counted deleted."""
        for record in numbered(range(3)):
            digests.add("t", record, now=T)

        answers = [
            digests.retract("t", "r1", now=T),
            digests.retract("t", "r1", now=T),
            digests.retract("x", "r1", now=T),
        ]

        assert answers == [True, False, False]
        assert keys(deliver(digests, "t")) == ["r2", "r0"]
        assert (digests.ledger().deleted, digests.ledger().delivered) == (1, 2)

    def test_a_record_in_a_digest_can_not_be_taken_back(self, digests: Digests) -> None:
        """Fact 48. Retract reaches pending records only: what is in a digest stays there."""
        digests.add("t", Record("a", 1, T), now=T)
        fail(digests, "t")

        assert digests.retract("t", "a", now=T) is False
        assert keys(deliver(digests, "t")) == ["a"]

    def test_the_newer_version_is_taken_back_and_the_older_one_stays_in_its_digest(self, digests: Digests) -> None:
        """Fact 48. Retract takes the pending version of a record; the version in the digest is delivered."""
        digests.add("t", Record("a", "old", T), now=T)
        fail(digests, "t")
        digests.add("t", Record("a", "new", T), now=T)

        assert digests.retract("t", "a", now=T) is True
        assert list(deliver(digests, "t")) == [Record("a", "old", T)]

    def test_a_timeline_whose_records_were_all_taken_back_ends_by_itself(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 18. Everything retracted: the state does not change, the digest is empty, and then it is idle."""
        digests = digests_with()
        digests.add("t", Record("a", 1, T), now=T)
        digests.retract("t", "a", now=T)
        assert digests.timeline("t").state == "ready"

        assert list(deliver(digests, "t")) == []

        assert_nothing_left(store)
