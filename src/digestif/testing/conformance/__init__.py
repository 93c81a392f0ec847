"""The conformance suite: what every store must show, in sentences, through the engine and at the level of the port."""

from digestif.testing.conformance.accounts import Accounts, DeadLetters
from digestif.testing.conformance.add import Adding
from digestif.testing.conformance.backlog import BacklogCounts, Uncounted
from digestif.testing.conformance.backoff import BackingOff
from digestif.testing.conformance.border import Configuring, ReadingBack, Refusing
from digestif.testing.conformance.capacity import Capacity
from digestif.testing.conformance.complete import Finishing, Replaying, StaleTokens
from digestif.testing.conformance.control import Flushing, Pausing, Retracting
from digestif.testing.conformance.damage import Damaged, DamagedAccounts, Repairing
from digestif.testing.conformance.deletion import Deletion
from digestif.testing.conformance.deliver import Delivering
from digestif.testing.conformance.digest import Digesting, Undecodable
from digestif.testing.conformance.endings import Endings
from digestif.testing.conformance.expiry import Expiry
from digestif.testing.conformance.interruptions import Interruptions
from digestif.testing.conformance.keys import HostileKeys
from digestif.testing.conformance.leases import Claiming, Opening
from digestif.testing.conformance.pages import Letters, ReadingRecords, Remembering, Scanning
from digestif.testing.conformance.partitions import Partitions
from digestif.testing.conformance.queries import Explaining, LookingAtTimelines, LookingBack, Peeking, Tracing
from digestif.testing.conformance.recipients import Noting, Serving, Withdrawing
from digestif.testing.conformance.recovery import Recovery
from digestif.testing.conformance.schedule import Scheduling
from digestif.testing.conformance.signals import Signals
from digestif.testing.conformance.stale_leases import Fencing
from digestif.testing.conformance.suspects import LapsesAlone, MaintainingSuspects, Suspects
from digestif.testing.conformance.take import Merging, PagesOfBytes, SettingAside, Taking
from digestif.testing.conformance.threads import Threads
from digestif.testing.conformance.transfer import TransferConformance
from digestif.testing.conformance.upkeep import DeletingInPages, Expiring, Maintaining, SchedulingInPages
from digestif.testing.conformance.urgency import Quiet, Urgency
from digestif.testing.conformance.weight import Weight


class StoreConformance(
    Accounts,
    Adding,
    BackingOff,
    Capacity,
    Claiming,
    Configuring,
    Damaged,
    DamagedAccounts,
    DeadLetters,
    DeletingInPages,
    Deletion,
    Delivering,
    Digesting,
    Endings,
    Expiring,
    Expiry,
    Explaining,
    Fencing,
    Finishing,
    Flushing,
    HostileKeys,
    Interruptions,
    LapsesAlone,
    Letters,
    LookingAtTimelines,
    LookingBack,
    Maintaining,
    MaintainingSuspects,
    Merging,
    Noting,
    Opening,
    PagesOfBytes,
    Partitions,
    Pausing,
    Peeking,
    Quiet,
    ReadingBack,
    ReadingRecords,
    Recovery,
    Refusing,
    Remembering,
    Repairing,
    Replaying,
    Retracting,
    Scanning,
    Scheduling,
    SchedulingInPages,
    Serving,
    SettingAside,
    Signals,
    StaleTokens,
    BacklogCounts,
    Suspects,
    Taking,
    Threads,
    Tracing,
    Uncounted,
    Undecodable,
    Urgency,
    Withdrawing,
    Weight,
):
    """Every fact that a store has to show. Subclass it with a fixture `store` that yields a fresh, empty Store."""


__all__ = ["StoreConformance", "TransferConformance"]
