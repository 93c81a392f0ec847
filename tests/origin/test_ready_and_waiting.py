"""The two sets of the origin, ready and waiting, and the scheduler that moves timelines between them."""

from collections.abc import Callable, Iterable
from itertools import islice

import pytest

from digestif import Digests, Event, PartitionFailed, ScheduleEntry, Store, StoreUnavailable
from digestif.events import Events
from digestif.testing.conformance.actions import T, deliver, let_wait, scheduled
from digestif.testing.conformance.base import DigestsWith
from digestif.testing.partitioned import Partitioned
from tests.origin.stores import OnEveryStore
from tests.stores.claims import claim

WAITING = [f"waiting {n}" for n in range(10)]
READY = [f"ready {n}" for n in range(10)]
ENTRIES = [ScheduleEntry(key, float(n)) for n, key in enumerate(WAITING)]


class TestTheTwoSets(OnEveryStore):
    @pytest.fixture
    def digests(self, digests_with: DigestsWith) -> Digests:
        """Ten timelines wait and are due at 0…9, ten others are ready."""
        digests = digests_with()
        for n, timeline in enumerate(WAITING):
            let_wait(digests, timeline, due=n, last=0)
        digests.add_many([(timeline, "ready") for timeline in READY], now=0)
        return digests

    @pytest.mark.parametrize("page", [1, 4, 1000])
    def test_schedule_gives_the_ten_that_wait_in_the_order_of_their_times(self, digests: Digests, page: int) -> None:
        """Facts 11, 12, 13. schedule(10): ten entries with float times, rising, whatever the page; and then no more."""
        entries = list(digests.schedule(10, page=page, now=10))

        assert entries == ENTRIES
        assert {type(entry.timestamp) for entry in entries} == {float}
        assert in_state(digests, "waiting") == []
        assert in_state(digests, "ready") == sorted(READY + WAITING)
        assert list(digests.schedule(10, page=page, now=10)) == []

    def test_each_deadline_gives_what_is_due_by_then(self, digests: Digests) -> None:
        """Fact 13. schedule(4) gives those due at 0…4, then schedule(4.999) nothing, then schedule(9) the others."""
        given = [list(digests.schedule(deadline, now=deadline)) for deadline in (4, 4.999, 9)]

        assert given == [ENTRIES[:5], [], ENTRIES[5:]]

    def test_a_schedule_that_nobody_reads_moves_nothing(self, digests: Digests) -> None:
        """Fact 12. The iterator is lazy: before its first step all ten still wait."""
        unread = digests.schedule(10, now=10)

        assert in_state(digests, "waiting") == WAITING
        assert list(unread) == ENTRIES

    def test_a_scheduler_that_dies_after_three_of_ten_loses_nothing(self, digests: Digests) -> None:
        """Facts 12, 27, 28. Pages of five: two reached nobody, five did not move; the next round has those seven."""
        for entry in islice(digests.schedule(10, page=5, now=10), 3):
            deliver(digests, entry.key, now=10)
        assert in_state(digests, "ready") == sorted(READY + WAITING[3:5])

        digests.maintenance(10, now=310)

        given = list(digests.schedule(10, now=310))
        assert [entry for entry in given if entry.key in WAITING] == ENTRIES[3:]
        assert sorted(key for key, _ in given if key in READY) == READY


class TestSeveralHosts(OnEveryStore):
    """The origin spread its timelines over Redis hosts; here they are partitions."""

    @pytest.fixture
    def hosts(self, make_store: Callable[[], Store]) -> Partitioned:
        return Partitioned([make_store() for _ in range(3)])

    @pytest.fixture
    def digests(self, digests_with: DigestsWith, hosts: Partitioned) -> Digests:
        """Ten timelines whose dispatch got lost, and ten that are due."""
        digests = digests_with(over=hosts)
        digests.add_many([(timeline, "ready") for timeline in READY], now=T - 300)
        for timeline in WAITING:
            let_wait(digests, timeline, due=T, last=T - 60)
        return digests

    def test_a_tick_serves_the_other_hosts_when_one_is_down(self, digests: Digests, hosts: Partitioned) -> None:
        """Fact 14. Maintenance and schedule report the host and go on; when it is back, so are its timelines."""
        events: list[Event] = []
        digests.subscribe(events.append)
        down = hosts.part_of(WAITING[0])
        there = [key for key in READY + WAITING if hosts.part_of(key) == down]
        assert 0 < len(there) < 20

        hosts.failing.add(down)
        digests.maintenance(now=T)
        first = scheduled(digests, T)

        hosts.failing.clear()
        digests.maintenance(now=T)
        second = scheduled(digests, T)

        assert sorted(first) == sorted(set(READY + WAITING) - set(there))
        assert sorted(second) == sorted(there)
        assert reported(events) == [("maintenance", down), ("schedule", down)]

    def test_a_worker_claims_from_the_other_hosts_when_one_is_down(self, digests: Digests, hosts: Partitioned) -> None:
        """Fact 14. The same for claim, which the origin did not have. Those without a record are retired on the way."""
        events, seen = Events(), list[Event]()
        events.subscribe(seen.append)
        down = hosts.part_of(READY[0])
        hosts.failing.add(down)

        claimed = claim(hosts, 100, lease=30_000, now=lambda: round(T * 1000), events=events).leases

        assert sorted(lease.timeline for lease in claimed) == [key for key in READY if hosts.part_of(key) != down]
        assert reported(seen) == [("claim", down)]

    def test_when_all_hosts_are_down_that_is_said(self, digests: Digests, hosts: Partitioned) -> None:
        """Fact 14. The origin gave an empty schedule then, as if nothing were due."""
        hosts.failing.update(range(3))

        with pytest.raises(StoreUnavailable):
            scheduled(digests, T)
        with pytest.raises(StoreUnavailable):
            digests.maintenance(now=T)


def in_state(digests: Digests, state: str) -> list[str]:
    return [timeline.key for timeline in digests.timelines(state=state)]


def reported(events: Iterable[Event]) -> list[tuple[str, int]]:
    return [(event.operation, event.partition) for event in events if isinstance(event, PartitionFailed)]
