"""The suite asks nothing of a store that only one with a single partition could answer."""

import pytest

from digestif import Store
from digestif.stores.memory import MemoryStore
from digestif.testing import Partitioned
from digestif.testing.conformance.accounts import Accounts, DeadLetters
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
