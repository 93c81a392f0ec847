"""Partitions: one that fails is reported and does not stop the others."""

from collections.abc import Callable

import pytest

from digestif import Digests, Event, PartitionFailed, Policy, StoreUnavailable
from digestif.attempts.admission import Admissions
from digestif.attempts.claims import Claims
from digestif.attempts.handlers import Handlers
from digestif.attempts.outages import Outages
from digestif.events import Events
from digestif.intake.policies import Policies
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, let_wait, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.partitioned import Partitioned

TIMELINES = [f"t{n}" for n in range(30)]
FAILING = 1


class Partitions(Suite):
    @pytest.fixture
    def three(self, make_store: Callable[[], Store]) -> Partitioned:
        return Partitioned([make_store() for _ in range(3)])

    @pytest.fixture
    def over_three(self, digests_with: DigestsWith, three: Partitioned) -> Digests:
        return digests_with(over=three)

    @pytest.fixture
    def reports(self, over_three: Digests) -> list[Event]:
        reports: list[Event] = []
        over_three.subscribe(reports.append)
        return reports

    def test_schedule_goes_on_past_a_failing_partition(
        self, over_three: Digests, three: Partitioned, reports: list[Event]
    ) -> None:
        """Fact 14. A failing partition is reported and does not stop the others, for schedule."""
        for timeline in TIMELINES:
            let_wait(over_three, timeline)
        three.failing.add(FAILING)

        given = scheduled(over_three)

        assert sorted(given) == sorted(elsewhere(three))
        assert_reported(reports, "schedule", three)
        three.failing.clear()
        assert sorted(scheduled(over_three)) == sorted(set(TIMELINES) - set(given))

    def test_maintenance_goes_on_past_a_failing_partition(
        self, over_three: Digests, three: Partitioned, reports: list[Event]
    ) -> None:
        """Fact 14. A failing partition is reported and does not stop the others, for maintenance."""
        over_three.add_many([(timeline, "ready") for timeline in TIMELINES], now=T)
        three.failing.add(FAILING)

        moved = over_three.maintenance(T, now=T)

        assert moved == len(elsewhere(three))
        assert_reported(reports, "maintenance", three)
        three.failing.clear()
        assert over_three.maintenance(T, now=T) == len(TIMELINES) - moved

    def test_a_claim_goes_on_past_a_failing_partition(self, over_three: Digests, three: Partitioned) -> None:
        """Fact 14. A failing partition is reported and does not stop the others, for claim."""
        over_three.add_many([(timeline, "ready") for timeline in TIMELINES], now=T)
        three.failing.add(FAILING)
        events, reports = Events(), list[Event]()
        events.subscribe(reports.append)

        admissions = Admissions(Policies(Policy()), Outages(three, handlers=Handlers(), events=events))
        claims = Claims(three, admissions, lease=30_000, now=lambda: round(T * 1000), events=events)
        claimed = claims.claim(len(TIMELINES))

        assert sorted(lease.timeline for lease in claimed.leases) == sorted(elsewhere(three))
        assert_reported(reports, "claim", three)

    def test_if_all_fail_that_is_an_error(self, over_three: Digests, three: Partitioned) -> None:
        """Fact 14. Only if all partitions fail is it an error, for schedule and maintenance."""
        three.failing.update(range(3))

        with pytest.raises(StoreUnavailable):
            list(over_three.schedule(T, now=T))
        with pytest.raises(StoreUnavailable):
            over_three.maintenance(T, now=T)

    def test_one_store_that_fails_is_an_error(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 14. A store with a single partition has no others: its failure is an error."""
        single = Partitioned([store])
        digests = digests_with(over=single)
        single.failing.add(0)

        with pytest.raises(StoreUnavailable):
            list(digests.schedule(T, now=T))


def elsewhere(three: Partitioned) -> list[str]:
    """The timelines whose partition does not fail."""
    return [timeline for timeline in TIMELINES if three.part_of(timeline) != FAILING]


def assert_reported(reports: list[Event], operation: str, three: Partitioned) -> None:
    """Fail unless each partition of the failing part was reported, once."""
    failures = [report for report in reports if isinstance(report, PartitionFailed)]
    assert {report.operation for report in failures} == {operation}
    assert all(isinstance(report.error, StoreUnavailable) for report in failures)
    assert len({report.partition for report in failures}) == len(failures) == three.parts[FAILING].partitions
