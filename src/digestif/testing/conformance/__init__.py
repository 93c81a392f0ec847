"""The conformance suite: what every store must show, in sentences, through the engine and at the level of the port."""

from digestif.testing.conformance.acceptances import Acceptances
from digestif.testing.conformance.accounts import Accounts, DeadLetters
from digestif.testing.conformance.add import Arrivals
from digestif.testing.conformance.admissions import AskedStores
from digestif.testing.conformance.backlog import BacklogCounts, UncountedAttempts
from digestif.testing.conformance.backoff import Backoffs
from digestif.testing.conformance.border import Configuration, Refusals, StoredValues
from digestif.testing.conformance.capacity import Capacity
from digestif.testing.conformance.clocks import LeasesAhead, TimelinesAhead
from digestif.testing.conformance.complete import Completions, Replays, StaleTokens
from digestif.testing.conformance.control import Flushes, Pauses, Retractions
from digestif.testing.conformance.damage import DamagedAccounts, DamagedTimelines, Repairs
from digestif.testing.conformance.delays import CallDelays, ChangedMeanwhile
from digestif.testing.conformance.deletion import Deletion
from digestif.testing.conformance.deliver import Deliveries
from digestif.testing.conformance.digest import DigestBlocks, UndecodableRecords
from digestif.testing.conformance.documents import KeptDocuments
from digestif.testing.conformance.endings import Endings
from digestif.testing.conformance.expiry import Expiry
from digestif.testing.conformance.fates import Fates
from digestif.testing.conformance.interruptions import Interruptions
from digestif.testing.conformance.keys import HostileKeys
from digestif.testing.conformance.large_values import LargeValues
from digestif.testing.conformance.leases import Claims, Openings
from digestif.testing.conformance.losses import Losses
from digestif.testing.conformance.outages import Outages
from digestif.testing.conformance.overrides import Overrides
from digestif.testing.conformance.overviews import Overviews
from digestif.testing.conformance.pages import HistoryPages, LetterPages, RecordPages, TimelinePages
from digestif.testing.conformance.partitions import Partitions
from digestif.testing.conformance.queries import Explanations, Histories, Peeks, Timelines, Traces
from digestif.testing.conformance.recipients import NoteSwaps, Removals, ServedRecipients
from digestif.testing.conformance.recovery import Recovery
from digestif.testing.conformance.requeue import Requeues
from digestif.testing.conformance.samples import BacklogOverviews, Samples
from digestif.testing.conformance.schedule import Schedules
from digestif.testing.conformance.signals import Signals
from digestif.testing.conformance.stale_leases import StaleLeases
from digestif.testing.conformance.suspects import LapsesAlone, SuspectClaims, SuspectMaintenance
from digestif.testing.conformance.take import Merges, PagesOfBytes, Quarantine, Takes
from digestif.testing.conformance.tenants import TenantRings
from digestif.testing.conformance.threads import Threads
from digestif.testing.conformance.transfer import TransferConformance
from digestif.testing.conformance.upkeep import DeletionPages, ExpiryPages, Maintenance, SchedulePages
from digestif.testing.conformance.urgency import Quiet, Urgency
from digestif.testing.conformance.weight import Weight
from digestif.testing.conformance.windows import Windows


class StoreConformance(
    Acceptances,
    Accounts,
    Arrivals,
    AskedStores,
    BacklogCounts,
    BacklogOverviews,
    Backoffs,
    CallDelays,
    Capacity,
    ChangedMeanwhile,
    Claims,
    Completions,
    Configuration,
    DamagedAccounts,
    DamagedTimelines,
    DeadLetters,
    Deletion,
    DeletionPages,
    Deliveries,
    DigestBlocks,
    Endings,
    Expiry,
    ExpiryPages,
    Explanations,
    Fates,
    Flushes,
    Histories,
    HistoryPages,
    HostileKeys,
    Interruptions,
    KeptDocuments,
    LapsesAlone,
    LargeValues,
    LeasesAhead,
    LetterPages,
    Losses,
    Maintenance,
    Merges,
    NoteSwaps,
    Openings,
    Outages,
    Overrides,
    Overviews,
    PagesOfBytes,
    Partitions,
    Pauses,
    Peeks,
    Quarantine,
    Quiet,
    RecordPages,
    Recovery,
    Refusals,
    Removals,
    Repairs,
    Replays,
    Requeues,
    Retractions,
    Samples,
    SchedulePages,
    Schedules,
    ServedRecipients,
    Signals,
    StaleLeases,
    StaleTokens,
    StoredValues,
    SuspectClaims,
    SuspectMaintenance,
    Takes,
    TenantRings,
    Threads,
    TimelinePages,
    TimelinesAhead,
    Timelines,
    Traces,
    UncountedAttempts,
    UndecodableRecords,
    Urgency,
    Weight,
    Windows,
):
    """Every fact that a store has to show. Subclass it with a fixture `store` that yields a fresh, empty Store."""


__all__ = ["StoreConformance", "TransferConformance"]
