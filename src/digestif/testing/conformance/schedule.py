"""Scheduling: what is due becomes ready, once, in bounded pages, and a lost page is found again."""

from itertools import islice

import pytest

from digestif import Digests, ScheduleEntry
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, deliver, let_wait, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite, in_sync_mode_only
from digestif.testing.conformance.port import arrive_everywhere
from digestif.testing.partitioned import Partitioned


class Schedules(Suite):
    def test_ready_timelines_are_not_scheduled(self, digests: Digests) -> None:
        """Fact 11. Only ready timelines: schedule gives nothing."""
        for n in range(3):
            digests.add(f"t{n}", "ready", now=T)

        assert list(digests.schedule(T + 1e6, now=T + 1e6)) == []

    @pytest.mark.parametrize("page", [1, 3, 10, 1000])
    def test_waiting_timelines_are_scheduled_when_due(self, digests: Digests, page: int) -> None:
        """Fact 12. Waiting timelines due at 0…9 and others ready: schedule(10) gives ten entries with float times."""
        ten_wait_and_others_are_ready(digests)

        entries = list(digests.schedule(10, page=page, now=10))

        assert sorted(entries) == [ScheduleEntry(f"w{n}", float(n)) for n in range(10)]
        assert all(type(entry.timestamp) is float for entry in entries)
        assert {digests.timeline(entry.key).state for entry in entries} == {"ready"}

    def test_times_rise_within_a_partition(self, digests: Digests, store: Store) -> None:
        """Fact 12. Waiting timelines due at 0…9: schedule(10) gives them in rising order within a partition."""
        ten_wait_and_others_are_ready(digests)

        given = [
            [due.at for due in store.schedule(partition, 10_000, after=None, limit=100, now=10_000).entries]
            for partition in range(store.partitions)
        ]

        assert sorted(at for times in given for at in times) == [1000 * n for n in range(10)]
        assert all(times == sorted(times) for times in given)

    def test_nothing_moves_before_the_iterator_is_used(self, digests: Digests) -> None:
        """Fact 12. Nothing moves before the iterator is used."""
        ten_wait_and_others_are_ready(digests)

        digests.schedule(10, now=10)

        assert len(digests.timelines(state="waiting")) == 10

    def test_an_abandoned_page_is_recovered_by_maintenance(self, digests: Digests) -> None:
        """Fact 12. An abandoned page is recovered by maintenance."""
        ten_wait_and_others_are_ready(digests)
        first = next(iter(digests.schedule(10, page=3, now=10)))
        assert digests.timeline(first.key).state == "ready"

        digests.maintenance(10, now=10)

        assert sorted(key for key in scheduled(digests, 10) if key.startswith("w")) == [f"w{n}" for n in range(10)]

    def test_due_exactly_at_the_deadline_is_included(self, digests: Digests) -> None:
        """Fact 13. Due exactly at the deadline is included; later is not."""
        let_wait(digests, "exactly", due=T + 60, last=T)
        let_wait(digests, "later", due=T + 60.001, last=T)

        assert list(digests.schedule(T + 60, now=T + 60)) == [ScheduleEntry("exactly", T + 60)]
        assert digests.timeline("later").state == "waiting"

    def test_an_entry_is_not_given_twice(self, digests: Digests) -> None:
        """Fact 13. An entry is not given twice: two callers share none."""
        for n in range(10):
            let_wait(digests, f"t{n}")
        one, other = digests.schedule(T, page=2, now=T), digests.schedule(T, page=2, now=T)

        given = [*islice(one, 3), *islice(other, 3), *one, *other]

        assert sorted(entry.key for entry in given) == [f"t{n}" for n in range(10)]
        assert scheduled(digests, T + 1) == []

    @pytest.mark.parametrize("later", [0, 1])
    def test_a_timeline_that_is_due_again_at_once_is_given_once_per_call(self, digests: Digests, later: int) -> None:
        """Fact 13. An entry is not given twice, and the call ends even if the consumer completes with minimum 0."""
        for n in range(5):
            let_wait(digests, f"t{n}")
            digests.add(f"t{n}", "more", increment_delay=0, now=T)

        given = []
        for entry in digests.schedule(T + later, page=2, now=T + later):
            deliver(digests, entry.key, 0, now=T + later)
            given.append(entry.key)

        assert sorted(given) == [f"t{n}" for n in range(5)]
        assert sorted(scheduled(digests, T + later)) == [f"t{n}" for n in range(5)]

    @in_sync_mode_only
    def test_a_hundred_thousand_due_timelines_are_scheduled(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 15. 100,000 due timelines are scheduled, in bounded calls."""
        watched = Partitioned([store])
        digests = digests_with(over=watched)
        everybody = [f"t{n}" for n in range(100_000)]
        arrive_everywhere(store, everybody, first_delay=1000)

        given = scheduled(digests, T + 1)

        assert len(given) == 100_000
        assert set(given) == set(everybody)
        assert watched.largest["schedule"] <= 1_000


def ten_wait_and_others_are_ready(digests: Digests) -> None:
    """Timelines w0…w9 wait until 0…9 seconds, others are ready since then."""
    for n in range(10):
        let_wait(digests, f"w{n}", due=n, last=0)
        digests.add(f"ready{n}", "ready", now=n)
