"""Deletion and leaks: what was deleted or delivered leaves nothing behind."""

from contextlib import ExitStack
from random import Random

import pytest

from digestif import Digests, InvalidState, Record, StaleLease, Store
from digestif.testing.conformance.actions import T, add_all, deliver, fail, let_wait, numbered, scheduled
from digestif.testing.conformance.base import DigestsWith
from digestif.testing.footprint import assert_nothing_left
from tests.origin.stores import OnEveryStore

pytestmark = pytest.mark.long

STATES = {"both": "ready", "both waiting": "waiting", "failed": "ready", "pending": "ready", "waiting": "waiting"}


class TestDeletion(OnEveryStore):
    @pytest.fixture
    def digests(self, digests_with: DigestsWith) -> Digests:
        """A timeline for each place where its records can be, two of them waiting, three ready."""
        digests = digests_with()
        let_wait(digests, "waiting")
        add_all(digests, "waiting", numbered(range(10)))
        for timeline in ("both waiting", "both", "failed", "pending"):
            add_all(digests, timeline, numbered(range(10)))
            if timeline != "pending":
                fail(digests, timeline)
            if timeline.startswith("both"):
                add_all(digests, timeline, numbered(range(5, 15)))
            if timeline == "both waiting":
                digests.maintenance(T, now=T)
        return digests

    def test_deleted_timelines_are_gone_wherever_their_records_were(self, digests: Digests, store: Store) -> None:
        """Fact 29. Pending, in a failed digest, or both, ready or waiting: no digest, no schedule, no row or key."""
        found = {timeline.key: str(timeline.state) for timeline in digests.timelines()}
        assert found == STATES

        assert all(digests.delete(timeline, now=T) for timeline in found)

        assert_nothing_left(store)
        assert scheduled(digests, T + 1e6) == []
        for timeline in found:
            with pytest.raises(InvalidState):
                deliver(digests, timeline)
        assert digests.ledger().deleted == 70
        assert digests.verify()

    def test_a_deletion_touches_no_other_timeline(self, digests: Digests) -> None:
        """Fact 29. One of five is deleted: the other four hold what they held. An unknown one is no error."""
        assert digests.delete("both", now=T) is True
        assert digests.delete("both", now=T) is False
        assert digests.delete("never seen", now=T) is False

        held = {timeline: len(digests.peek(timeline, now=T)) for timeline in STATES}
        assert held == {"both": 0, "both waiting": 15, "failed": 10, "pending": 10, "waiting": 10}

    def test_a_deletion_does_not_wait_for_a_delivery(self, digests: Digests) -> None:
        """Fact 29. The origin took the lock for it; here it works at once, and the close that comes late is refused."""
        with ExitStack() as another:
            with pytest.raises(StaleLease), digests.digest("pending", now=T):
                assert digests.delete("pending", now=T) is True
                assert digests.add("pending", "anew", now=T) is True
                digest = another.enter_context(digests.digest("pending", now=T))
            assert digests.timeline("pending").state == "open"

        assert [record.value for record in digest] == ["anew"]
        assert (digests.ledger().deleted, digests.ledger().delivered) == (10, 2)


class TestLeaks(OnEveryStore):
    @pytest.mark.parametrize(("timelines", "records"), [(1, 100), (20, 300), (100, 100)])
    def test_random_records_in_rounds_leave_an_empty_store(
        self, digests: Digests, store: Store, timelines: int, records: int
    ) -> None:
        """Fact 30. Records into timelines, deliveries (some fail), ticks past the cool-down, until none is left."""
        random = Random(records)
        digests.add_many(
            [(f"t{random.randrange(timelines)}", Record(f"r{random.randrange(90)}", n, T + n)) for n in range(records)],
            now=T,
        )

        for tick in range(1, 9):
            now = T + 300 * tick
            digests.maintenance(now=now)
            for timeline in scheduled(digests, now):
                fails = tick < 4 and random.random() < 0.3
                (fail if fails else deliver)(digests, timeline, now=now)

        assert_nothing_left(store)
        ledger = digests.ledger()
        assert ledger.accepted == ledger.delivered + ledger.superseded == records
        assert digests.verify()
