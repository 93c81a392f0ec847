"""Digests: what one carries, how its timeline goes on, and who may not have it."""

import math
from contextlib import ExitStack

import pytest

from digestif import Busy, Digests, InvalidRecord, InvalidState, Record, StaleLease, Store
from digestif.testing import FakeClock
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
from digestif.testing.conformance.base import DigestsWith
from digestif.testing.conformance.digest import spoil
from digestif.testing.modes import Mode, digests_in
from digestif.testing.partitioned import Partitioned
from tests.origin.steps import due
from tests.origin.stores import OnEveryStore

EVENT = {"event_id": "433be20b", "title": "Ünïcode ✉", "count": 3, "rate": 0.1, "rules": [1, None, True], "tags": {}}


class TestRecords(OnEveryStore):
    def test_events_come_out_as_they_went_in(self, digests: Digests) -> None:
        """Fact 5. Key, value and timestamp read back equal, the timestamp to the last bit."""
        times = [math.nextafter(T, 0), 1444847625.123456, 1444847625.0, 0.1 + 0.2]
        events = [Record(f"433be20b-{n}", EVENT, timestamp) for n, timestamp in enumerate(times)]

        add_all(digests, "mail:p:1", events)

        digest = deliver(digests, "mail:p:1")
        assert list(digest) == events
        assert [event.timestamp.hex() for event in digest] == [timestamp.hex() for timestamp in times]

    def test_what_only_pickle_could_carry_is_refused(self, digests: Digests) -> None:
        """Fact 5. Values are JSON: what has no JSON form is refused, and nothing is written."""
        for value in (b"bytes", {b"bytes"}, {1: "a key that is no string"}, math.nan, object()):
            with pytest.raises(InvalidRecord):
                digests.add("t", Record("a", value, T), now=T)

        assert digests.timeline("t").state == "idle"
        assert digests.ledger().accepted == 0

    def test_an_event_that_is_reported_again_is_one_record(self, digests: Digests) -> None:
        """Fact 6. Three reports of one event and one of another: two records, with the last value and time; counted."""
        for seen in (1, 2, 3):
            digests.add("t", Record("again and again", {"seen": seen}, T + seen), now=T + seen)
        digests.add("t", Record("once", {"seen": 1}, T + 2.5), now=T + 4)

        digest = deliver(digests, "t", now=T + 5)

        assert list(digest) == [Record("again and again", {"seen": 3}, T + 3), Record("once", {"seen": 1}, T + 2.5)]
        assert (digests.ledger().accepted, digests.ledger().superseded) == (4, 2)


class TestDigests(OnEveryStore):
    def test_a_digest_is_all_of_its_timeline_and_nothing_else(self, digests: Digests) -> None:
        """Fact 16. Two records here, ten there: each digest has its own, newest first."""
        add_all(digests, "two", numbered(range(2)))
        add_all(digests, "ten", numbered([4, 9, 1, 0, 7, 3, 8, 2, 6, 5]))

        assert keys(deliver(digests, "two")) == ["r1", "r0"]
        assert keys(deliver(digests, "ten")) == [f"r{n}" for n in range(9, -1, -1)]

    def test_the_cool_down_begins_when_the_delivery_ends(self, store: Store, mode: Mode) -> None:
        """Fact 17. Opened at T, closed at T+20, minimum 300: last delivery T+20, due T+320, nothing pending."""
        clock = FakeClock(T)
        with digests_in(mode, store, clock=clock) as digests:
            digests.add("t", "an event")
            with digests.digest("t"):
                clock.advance(20)

            timeline = digests.timeline("t")
            assert (timeline.state, timeline.last, timeline.due) == ("waiting", T + 20, T + 320)
            assert (timeline.pending, timeline.iteration) == (0, 1)

    def test_without_a_cool_down_the_next_tick_has_it_again(self, digests: Digests) -> None:
        """Facts 17, 18. Minimum 0: schedule(now) gives it; empty then, and the timeline is gone."""
        add_all(digests, "t", numbered(range(2)))

        rounds = [
            keys(deliver(digests, "t", 0)),
            scheduled(digests),
            keys(deliver(digests, "t", 0)),
            scheduled(digests),
        ]

        assert rounds == [["r1", "r0"], ["t"], [], []]
        assert digests.timelines() == []

    def test_an_event_that_comes_while_nothing_is_delivered_is_not_forgotten(self, digests: Digests) -> None:
        """Fact 19. During an empty digest: waiting for the cool-down, but the last delivery is still the real one."""
        let_wait(digests, "t", due=T + 300, last=T)
        scheduled(digests, T + 300)

        with digests.digest("t", now=T + 300) as empty:
            assert digests.add("t", Record("late", 1, T + 300), now=T + 300) is False

        timeline = digests.timeline("t")
        assert (len(empty), timeline.state, timeline.due, timeline.last) == (0, "waiting", T + 600, T)
        assert keys(next_digest(digests, "t", now=T + 600)) == ["late"]

    def test_events_that_come_during_a_delivery_wait_for_the_next(self, digests: Digests) -> None:
        """Fact 20. Ten while the first digest is open: not in it, all in the next, each once."""
        add_all(digests, "t", numbered(range(10)))

        with digests.digest("t", now=T) as first:
            add_all(digests, "t", numbered(range(10, 20)))

        assert keys(first) == [f"r{n}" for n in range(9, -1, -1)]
        assert keys(next_digest(digests, "t", now=due(digests))) == [f"r{n}" for n in range(19, 9, -1)]

    def test_a_task_that_runs_twice_or_too_late_is_refused(self, digests: Digests) -> None:
        """Fact 21. Waiting after a delivery, deleted, or never seen: InvalidState, and the block does not run."""
        for timeline in ("delivered", "deleted"):
            digests.add(timeline, "an event", now=T)
        deliver(digests, "delivered")
        digests.delete("deleted", now=T)
        ran = []

        for timeline in ("delivered", "deleted", "never seen"):
            with pytest.raises(InvalidState), digests.digest(timeline, now=T):
                ran.append(timeline)

        assert ran == []
        assert digests.ledger().delivered == 1

    def test_one_bad_value_does_not_hold_up_the_others(self, digests: Digests, store: Store) -> None:
        """Fact 24. Two of three values can't be decoded: one is delivered, two are dead letters, all are counted."""
        spoil(store, "t", "bad")
        digests.add("t", Record("good", 1, T), now=T)
        spoil(store, "t", "worse")

        assert keys(deliver(digests, "t", 0)) == ["good"]

        assert keys(next_digest(digests, "t", now=T)) == []
        assert [letter.timeline for letter in digests.dead_letters()] == ["t", "t"]
        assert all(letter.reason for letter in digests.dead_letters())
        assert (digests.ledger().delivered, digests.ledger().dead) == (1, 2)

    def test_a_value_that_vanished_is_not_passed_over_in_silence(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 24. The origin left a record out whose value had been evicted; here it is a dead letter."""
        forgetful = Partitioned([store])
        forgetful.lost.add("r1")
        digests = digests_with(over=forgetful)
        add_all(digests, "t", numbered(range(3)))

        assert keys(deliver(digests, "t")) == ["r2", "r0"]

        assert len(digests.dead_letters("t")) == 1
        assert (digests.ledger().delivered, digests.ledger().dead) == (2, 1)


class TestTwoWorkers(OnEveryStore):
    """The origin took a lock for 30 seconds and never looked at it again."""

    def test_for_thirty_seconds_a_second_worker_is_refused(self, digests_with: DigestsWith) -> None:
        """Fact 22. Busy until T+29.999, which is a kind of InvalidState: a task may treat both alike."""
        one, other = digests_with(), digests_with()
        add_all(one, "t", numbered(range(3)))

        with one.digest("t", now=T):
            for later in (0, 15, 29.999):
                with pytest.raises(Busy) as refused:
                    deliver(other, "t", now=T + later)
                assert isinstance(refused.value, InvalidState)

        assert one.ledger().delivered == 3

    def test_a_worker_that_took_too_long_can_not_complete_what_another_has(self, digests_with: DigestsWith) -> None:
        """Facts 20, 22. At T+30 another has it, exactly as it was; the late close changes nothing, nothing is lost."""
        slow, other = digests_with(), digests_with()
        add_all(slow, "t", numbered(range(3)))

        with ExitStack() as another:
            with pytest.raises(StaleLease), slow.digest("t", now=T) as first:
                slow.add("t", Record("late", 1, T), now=T + 1)
                second = another.enter_context(other.digest("t", now=T + 30))
            assert slow.timeline("t").state == "open"

        assert keys(first) == keys(second) == ["r2", "r1", "r0"]
        assert first.idempotency_key == second.idempotency_key
        assert other.ledger().delivered == 3
        assert keys(next_digest(other, "t", now=due(other))) == ["late"]

    def test_a_worker_that_was_killed_before_it_sent_anything_loses_nothing(
        self, digests: Digests, store: Store
    ) -> None:
        """Facts 22, 28. Opened and never closed: after the lease, maintenance and schedule, the same digest again."""
        add_all(digests, "t", numbered(range(3)))
        killed = store.open("t", token="killed", lease=30_000, now=round(T * 1000))
        assert digests.maintenance(T + 29, now=T + 29) == 0

        assert digests.maintenance(T + 30, now=T + 30) == 1

        assert scheduled(digests, T + 30) == ["t"]
        again = deliver(digests, "t", now=T + 30)
        assert (again.id, again.attempt, keys(again)) == (killed.digest_id, 2, ["r2", "r1", "r0"])
