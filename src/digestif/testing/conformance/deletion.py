"""Deletion and leaks: what is finished or deleted leaves nothing behind."""

from random import Random

import pytest

from digestif import Digest, Digests, Discard, InvalidState, Record, StaleLease
from digestif.stores.base import PAGE_TIMELINES, Store
from digestif.testing.conformance.actions import T, add_all, deliver, fail, let_wait, numbered, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.footprint import assert_nothing_left


class Deletion(Suite):
    @pytest.mark.parametrize("state", ["ready", "waiting"])
    @pytest.mark.parametrize("data", ["pending", "in a digest", "both"])
    def test_a_deleted_timeline_leaves_nothing(self, digests: Digests, store: Store, data: str, state: str) -> None:
        """Fact 29. After delete: digest raises InvalidState, schedule gives nothing, and no key or row remains."""
        add_all(digests, "t", numbered(range(3)))
        if data != "pending":
            fail(digests, "t")
        if data == "both":
            add_all(digests, "t", numbered(range(2, 5)))
        if state == "waiting":
            digests.maintenance(T, now=T)
        assert digests.timeline("t").state == state

        deleted = digests.delete("t", now=T)

        assert deleted is True
        with pytest.raises(InvalidState):
            deliver(digests, "t", now=T)
        assert scheduled(digests, T + 1e6) == []
        assert_nothing_left(store)
        ledger = digests.ledger()
        assert ledger.deleted == ledger.accepted == (6 if data == "both" else 3)
        assert digests.verify()

    def test_an_open_timeline_can_be_deleted(self, digests: Digests, store: Store) -> None:
        """Fact 29. After delete no key or row of the timeline remains, even while it is open."""
        add_all(digests, "t", numbered(range(3)))
        with pytest.raises(StaleLease), digests.digest("t", now=T):
            digests.add("t", "meanwhile", now=T)
            digests.delete("t", now=T)

        assert_nothing_left(store)
        assert digests.ledger().deleted == 4

    def test_a_handler_that_deletes_its_own_timeline_does_not_fail_the_notification(
        self, digests: Digests, store: Store
    ) -> None:
        """Fact 29. Its record was accepted, and deleted with the others: nothing is raised for the producer."""
        digests.handler("t")(lambda digest: digests.delete(digest.timeline, now=T))

        assert digests.notify("t", "a", now=T) is True

        assert_nothing_left(store)
        assert digests.ledger().deleted == 1

    def test_several_pages_of_dead_letters_go_with_an_audience_that_is_gone(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 29. More dead letters than one call deletes."""
        digests = digests_with(attempts=1, minimum_delay=0)
        for number in range(PAGE_TIMELINES + 1):
            digests.add("t", number, now=T)
            digests.flush("t", now=T)
            fail(digests, "t")
        digests.add("t", "last", now=T)
        digests.flush("t", now=T)

        @digests.handler("t")
        def leave(digest: Digest) -> None:
            raise Discard("has left", delete=True)

        assert digests.deliver("t", now=T) is False

        assert_nothing_left(store)
        assert digests.ledger().deleted == PAGE_TIMELINES + 2

    def test_its_history_and_dead_letters_go_too(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 29. After delete no key or row of the timeline remains, of its history and dead letters neither."""
        digests = digests_with(attempts=1, minimum_delay=0)
        digests.add("t", "a", now=T)
        digests.add("other", "stays in the history", now=T)
        fail(digests, "t")
        let_wait(digests, "other")

        deleted = digests.delete("t", now=T)

        assert deleted is True
        assert store.letters(None, after=None, limit=10) == []
        assert digests.history("t") == []
        assert len(digests.history()) == 1
        assert (digests.ledger().deleted, digests.ledger().dead) == (1, 0)

    def test_a_large_timeline_is_deleted_whole(self, digests: Digests, store: Store) -> None:
        """Fact 29. After delete no key or row of the timeline remains, of several pages of records neither."""
        add_all(digests, "t", numbered(range(2_500)))
        fail(digests, "t")
        add_all(digests, "t", numbered(range(2_500)))

        digests.delete("t", now=T)

        assert_nothing_left(store)
        assert digests.ledger().deleted == 5_000

    def test_a_deletion_ends_however_busy_producers_are(
        self, digests: Digests, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 29. Delete removes what was there when it began: records that are added all the time do not keep it."""
        delete, calls = store.delete, 0

        def delete_beside_a_producer(timeline: str, *, now: int | None) -> bool:
            nonlocal calls
            calls += 1
            assert calls < 10, "it does not end"
            found = delete(timeline, now=now)
            digests.add("t", "another", now=T)
            return found

        digests.add("t", "first", now=T)
        monkeypatch.setattr(store, "delete", delete_beside_a_producer)

        assert digests.delete("t", now=T) is True
        assert [record.value for record in digests.peek("t", now=T)] == ["another"]
        assert digests.ledger().deleted == 1
        assert digests.verify()

    def test_deleting_an_unknown_timeline_is_no_error(self, digests: Digests) -> None:
        """Fact 29. Deleting an unknown timeline is no error."""
        assert digests.delete("unknown", now=T) is False

    def test_a_deleted_timeline_begins_anew(self, digests: Digests) -> None:
        """Fact 29. After delete the next record finds an unknown timeline."""
        let_wait(digests, "t", due=T + 60)
        digests.delete("t", now=T)

        assert digests.add("t", "anew", now=T) is True
        assert digests.timeline("t").last is None

    def test_a_random_run_leaves_nothing(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 30. Random records, schedule, digest all, schedule past the cool-down, digest all: nothing is left."""
        digests = digests_with(first_delay=1, minimum_delay=60)
        random = Random(30)
        records = [(f"t{random.randrange(20)}", Record(f"r{random.randrange(90)}", n, T + n)) for n in range(300)]
        digests.add_many(records, now=T)

        for now in (T + 1, T + 61):
            for timeline in scheduled(digests, now):
                deliver(digests, timeline, now=now)

        assert_nothing_left(store)
        ledger = digests.ledger()
        assert ledger.delivered == len({(timeline, record.key) for timeline, record in records})
        assert ledger.accepted == ledger.delivered + ledger.superseded == 300
