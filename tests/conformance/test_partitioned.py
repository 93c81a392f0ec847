"""The suite asks nothing of a store that only one with a single partition could answer."""

import pytest

from digestif import Store
from digestif.stores.memory import MemoryStore
from digestif.testing import Partitioned
from digestif.testing.conformance.accounts import Accounts, DeadLetters
from digestif.testing.conformance.keys import HostileKeys
from digestif.testing.conformance.leases import Claiming
from digestif.testing.conformance.pages import Letters, Remembering, Scanning
from digestif.testing.conformance.recovery import Recovery
from digestif.testing.conformance.schedule import Scheduling
from digestif.testing.conformance.suspects import LapsesAlone, MaintainingSuspects, Suspects
from digestif.testing.conformance.upkeep import Expiring, Maintaining, SchedulingInPages

ALL_THAT_VISIT_PARTITIONS = (
    *(Accounts, Claiming, DeadLetters, Expiring, HostileKeys, LapsesAlone, Letters, Maintaining, MaintainingSuspects),
    *(Recovery, Remembering, Scanning, Scheduling, SchedulingInPages, Suspects),
)


class TestPartitioned(*ALL_THAT_VISIT_PARTITIONS):  # type: ignore[misc]  # a tuple of bases
    test_a_hundred_thousand_due_timelines_are_scheduled = None  # says nothing about partitions

    test_a_damaged_suspect_keeps_no_other_from_being_tried = None  # nothing in memory can be damaged

    @pytest.fixture
    def store(self) -> Store:
        return Partitioned([MemoryStore(namespace="d") for _ in range(3)])
