"""Failure and recovery: a snapshot that survives, a merge with what came since, and maintenance for what got lost."""

import pytest

from digestif import Digests, InvalidState, Record, ScheduleEntry, Store
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
from digestif.testing.footprint import assert_nothing_left
from tests.origin.steps import due
from tests.origin.stores import OnEveryStore


class TestAFailedDelivery(OnEveryStore):
    def test_what_the_mail_server_said_reaches_the_caller_and_nothing_is_removed(self, digests: Digests) -> None:
        """Facts 25, 26. The block raises: its own exception, ready and free, and a second try has the same ten."""
        add_all(digests, "t", numbered(range(10)))
        refused = Boom("450 try again later")

        with pytest.raises(Boom) as raised, digests.digest("t", now=T) as first:
            raise refused

        assert raised.value is refused
        assert digests.timeline("t").state == "ready"
        assert keys(deliver(digests, "t")) == keys(first) == [f"r{n}" for n in range(9, -1, -1)]

    def test_each_try_has_all_that_came_until_then(self, digests: Digests, store: Store) -> None:
        """Facts 25, 26. Three tries, two records before each: 2, 4, then 6, newest first; then nothing is left."""
        seen = []
        for start in (0, 2):
            add_all(digests, "t", numbered(range(start, start + 2)))
            seen.append(keys(fail(digests, "t")))
        add_all(digests, "t", numbered(range(4, 6)))
        seen.append(keys(deliver(digests, "t", 0)))

        assert seen == [["r1", "r0"], ["r3", "r2", "r1", "r0"], ["r5", "r4", "r3", "r2", "r1", "r0"]]
        assert keys(next_digest(digests, "t", now=T)) == []
        assert_nothing_left(store)
        assert digests.ledger().delivered == 6

    def test_of_two_versions_the_one_that_arrived_later_wins(self, digests: Digests) -> None:
        """Fact 27. The origin paired the later value with the larger time; here a version stays whole."""
        digests.add("t", Record("a", "first report", T + 60), now=T)
        fail(digests, "t")
        digests.add("t", Record("a", "second report", T - 60), now=T + 1)

        assert list(deliver(digests, "t", now=T + 1)) == [Record("a", "second report", T - 60)]
        assert digests.ledger().superseded == 1

    def test_a_digest_that_nobody_can_deliver_does_not_block_its_timeline_for_ever(self, digests: Digests) -> None:
        """Fact 25. Eight attempts, then a dead letter; the timeline cools down, and the next record is delivered."""
        digests.add("t", Record("poison", 1, T), now=T)
        attempts = [fail(digests, "t", now=T + n).attempt for n in range(8)]
        assert attempts == [1, 2, 3, 4, 5, 6, 7, 8]

        digests.add("t", Record("good", 2, T + 10), now=T + 10)

        assert keys(next_digest(digests, "t", now=due(digests))) == ["good"]
        assert [letter.attempts for letter in digests.dead_letters("t")] == [8]
        assert (digests.ledger().dead, digests.ledger().delivered) == (1, 1)

    def test_an_event_does_not_put_off_the_retry_of_a_failed_digest(self, digests: Digests) -> None:
        """Facts 3, 27. Delivered at T, failed at T+300, waiting again: the origin moved it by 30 for each event."""
        let_wait(digests, "t", due=T + 300, last=T)
        digests.add("t", Record("old", 1, T), increment_delay=0, now=T)
        assert scheduled(digests, T + 300) == ["t"]
        fail(digests, "t", now=T + 300)
        digests.maintenance(T + 300, now=T + 600)
        waiting = due(digests)

        for n in range(3):
            digests.add("t", Record(f"new {n}", 1, T + 600 + n), now=T + 600)

        assert due(digests) == waiting == T + 300
        assert scheduled(digests, T + 600) == ["t"]
        assert len(deliver(digests, "t", now=T + 600)) == 4


class TestMaintenance(OnEveryStore):
    def test_a_failed_digest_takes_its_turn_again(self, digests: Digests) -> None:
        """Fact 27. Failed at T; maintenance(T−1) leaves it, maintenance(T) lets it wait at T; schedule(T+1) has it."""
        digests.add("t", Record("old", 1, T), now=T)
        fail(digests, "t", now=T)
        assert (digests.maintenance(T - 1, now=T), digests.timeline("t").state) == (0, "ready")

        assert digests.maintenance(T, now=T) == 1

        digests.add("t", Record("new", 2, T + 1), now=T + 1)
        with pytest.raises(InvalidState):
            deliver(digests, "t", now=T + 1)
        assert list(digests.schedule(T + 1, now=T + 1)) == [ScheduleEntry("t", T)]
        assert keys(deliver(digests, "t", now=T + 1)) == ["new", "old"]

    def test_a_message_that_the_broker_lost_is_sent_again(self, digests: Digests) -> None:
        """Fact 28. True, and the task never ran; then the scheduled one neither: the third has everything."""
        assert digests.add("t", Record("a", 1, T), now=T) is True
        for round_number in (1, 2):
            now = T + 300 * round_number
            assert digests.maintenance(now=now) == 1
            assert scheduled(digests, now) == ["t"]
            digests.add("t", Record(f"during round {round_number}", 1, now), now=now)

        assert keys(deliver(digests, "t", now=T + 700)) == ["during round 2", "during round 1", "a"]
        assert digests.ledger().delivered == 3

    def test_tasks_that_are_still_in_the_queue_are_left_alone(self, digests: Digests) -> None:
        """Fact 27. Ready for less than 300 s: the default deadline of maintenance leaves all ten alone."""
        digests.add_many([(f"t{n}", "an event") for n in range(10)], now=T)

        assert digests.maintenance(now=T + 299.999) == 0
        assert digests.maintenance(now=T + 300) == 10

    def test_a_backlog_is_not_dispatched_twice(self, digests: Digests) -> None:
        """Fact 27. An hour late, scheduled just now: the origin counted from the due time and took it back at once."""
        let_wait(digests, "t", due=T + 300, last=T)
        digests.add("t", Record("late", 1, T), increment_delay=0, now=T)
        assert scheduled(digests, T + 3900) == ["t"]

        assert digests.maintenance(now=T + 3901) == 0

        assert keys(deliver(digests, "t", now=T + 3901)) == ["late"]
