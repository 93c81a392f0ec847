"""The suite asks nothing of a store that only one with a single partition could answer."""

import pytest

from digestif import Digests, Policy, Store
from digestif.stores.memory import MemoryStore
from digestif.testing import FakeClock, Partitioned
from digestif.testing.conformance.accounts import Accounts, DeadLetters
from digestif.testing.conformance.actions import T
from digestif.testing.conformance.keys import HostileKeys
from digestif.testing.conformance.leases import Claims
from digestif.testing.conformance.pages import HistoryPages, LetterPages, TimelinePages
from digestif.testing.conformance.recovery import Recovery
from digestif.testing.conformance.schedule import Schedules
from digestif.testing.conformance.suspects import LapsesAlone, SuspectClaims, SuspectMaintenance
from digestif.testing.conformance.upkeep import ExpiryPages, Maintenance, SchedulePages

ALL_THAT_VISIT_PARTITIONS = (
    *(
        Accounts,
        Claims,
        DeadLetters,
        ExpiryPages,
        HostileKeys,
        LapsesAlone,
        LetterPages,
        Maintenance,
        SuspectMaintenance,
    ),
    *(Recovery, HistoryPages, TimelinePages, Schedules, SchedulePages, SuspectClaims),
)


class TestPartitioned(*ALL_THAT_VISIT_PARTITIONS):  # type: ignore[misc]  # a tuple of bases
    test_a_hundred_thousand_due_timelines_are_scheduled = None  # says nothing about partitions

    test_a_damaged_suspect_keeps_no_other_from_being_tried = None  # nothing in memory can be damaged

    @pytest.fixture
    def store(self) -> Store:
        return Partitioned([MemoryStore(namespace="d") for _ in range(3)])


def test_whether_a_notified_timeline_is_due_is_told_by_the_clock_of_its_own_partition() -> None:
    """The servers of a cluster differ: here by an hour."""
    clocks = [FakeClock(T + hours * 3600) for hours in range(3)]
    digests = Digests(Partitioned([MemoryStore(clock=clock) for clock in clocks]), policy=Policy.immediate())
    digests.handler("*")(lambda digest: None)

    answers = [digests.notify(f"t{number}", 1) for number in range(9) for _ in range(3)]

    assert all(answers)
