"""Digestif turns a flood of events into a few well-timed digests."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from digestif.aio import AsyncDigests
    from digestif.channels.base import Channel, Format, Message, Receipt
    from digestif.compose.grouping import Grouping, summarize
    from digestif.compose.renderer import Renderer, TemplateFailed
    from digestif.compose.summary import Summary
    from digestif.compose.wording import Wording
    from digestif.core.backlog import Backlog, Overview
    from digestif.core.backoff import Exponential, Intervals, Retry
    from digestif.core.cadences import Cadences, PolicyInForce, Preference
    from digestif.core.damage import Damage
    from digestif.core.explain import Explanation
    from digestif.core.failures import FailedAttempt
    from digestif.core.ledger import Ledger, Verification
    from digestif.core.outages import ChannelOutage
    from digestif.core.policy import Policy
    from digestif.core.records import (
        Acceptance,
        Addition,
        DeadLetter,
        Digest,
        Fate,
        HistoryEntry,
        Outcome,
        Record,
        ScheduleEntry,
        Sighting,
        State,
        Timeline,
        TimelinesPage,
    )
    from digestif.core.samples import Sample
    from digestif.core.secret import Secret
    from digestif.core.verdicts import DeliveryFailed, Discard, RetryLater, Unavailable
    from digestif.core.windows import Window
    from digestif.core.workers import LiveWorker
    from digestif.digests import Digests
    from digestif.errors import (
        AccessDenied,
        Busy,
        ConfigError,
        DigestifError,
        InvalidRecord,
        InvalidState,
        Overloaded,
        StaleLease,
        StoreError,
        StoreUnavailable,
    )
    from digestif.events import (
        Added,
        Buried,
        ChannelDown,
        ChannelUp,
        Claimed,
        Damaged,
        Delivered,
        Discarded,
        Dispatched,
        DispatchFailed,
        DispatchLost,
        Dropped,
        Empty,
        Ended,
        Event,
        Expired,
        Failed,
        Lapsed,
        LeaseLost,
        LeaseNotRenewed,
        PartitionFailed,
        PoliciesDiffer,
        PolicyFailed,
        PutOff,
        Quarantined,
        RecordsLost,
        Replanned,
        Returned,
        ShortWindow,
        Skipped,
        StoreChanged,
        StoreFailed,
        Unhandled,
        Unsettled,
        WorkerStarted,
        WorkerStopped,
        WorkerStopping,
    )
    from digestif.routes.archive import KeptMessage
    from digestif.routes.budget import Budget
    from digestif.stores.base import Durability, Store
    from digestif.transfer import Move
    from digestif.worker.signals import run
    from digestif.worker.worker import Worker

__all__ = [
    "Acceptance",
    "AccessDenied",
    "Added",
    "Addition",
    "AsyncDigests",
    "Backlog",
    "Budget",
    "Buried",
    "Busy",
    "Cadences",
    "Channel",
    "ChannelDown",
    "ChannelOutage",
    "ChannelUp",
    "Claimed",
    "ConfigError",
    "Damage",
    "Damaged",
    "DeadLetter",
    "Delivered",
    "DeliveryFailed",
    "Digest",
    "DigestifError",
    "Digests",
    "Discard",
    "Discarded",
    "DispatchFailed",
    "DispatchLost",
    "Dispatched",
    "Dropped",
    "Durability",
    "Empty",
    "Ended",
    "Event",
    "Expired",
    "Explanation",
    "Exponential",
    "Failed",
    "FailedAttempt",
    "Fate",
    "Format",
    "Grouping",
    "HistoryEntry",
    "Intervals",
    "InvalidRecord",
    "InvalidState",
    "KeptMessage",
    "Lapsed",
    "LeaseLost",
    "LeaseNotRenewed",
    "Ledger",
    "LiveWorker",
    "Message",
    "Move",
    "Outcome",
    "Overloaded",
    "Overview",
    "PartitionFailed",
    "PoliciesDiffer",
    "Policy",
    "PolicyFailed",
    "PolicyInForce",
    "Preference",
    "PutOff",
    "Quarantined",
    "Receipt",
    "Record",
    "RecordsLost",
    "Renderer",
    "Replanned",
    "Retry",
    "RetryLater",
    "Returned",
    "Sample",
    "ScheduleEntry",
    "Secret",
    "ShortWindow",
    "Sighting",
    "Skipped",
    "StaleLease",
    "State",
    "Store",
    "StoreChanged",
    "StoreError",
    "StoreFailed",
    "StoreUnavailable",
    "Summary",
    "TemplateFailed",
    "Timeline",
    "TimelinesPage",
    "Unavailable",
    "Unhandled",
    "Unsettled",
    "Verification",
    "Window",
    "Wording",
    "Worker",
    "WorkerStarted",
    "WorkerStopped",
    "WorkerStopping",
    "run",
    "summarize",
]

__version__ = "0.1.0"

_HOMES = {  # where each name is defined
    "digestif.aio": "AsyncDigests",
    "digestif.compose.grouping": "Grouping summarize",
    "digestif.compose.renderer": "Renderer TemplateFailed",
    "digestif.compose.summary": "Summary",
    "digestif.compose.wording": "Wording",
    "digestif.core.backlog": "Backlog Overview",
    "digestif.core.backoff": "Exponential Intervals Retry",
    "digestif.core.cadences": "Cadences PolicyInForce Preference",
    "digestif.core.damage": "Damage",
    "digestif.core.explain": "Explanation",
    "digestif.core.failures": "FailedAttempt",
    "digestif.core.ledger": "Ledger Verification",
    "digestif.core.outages": "ChannelOutage",
    "digestif.core.policy": "Policy",
    "digestif.core.records": "Acceptance Addition DeadLetter Digest Fate HistoryEntry Outcome Record ScheduleEntry "
    "Sighting State Timeline TimelinesPage",
    "digestif.core.samples": "Sample",
    "digestif.core.secret": "Secret",
    "digestif.core.verdicts": "DeliveryFailed Discard RetryLater Unavailable",
    "digestif.core.windows": "Window",
    "digestif.core.workers": "LiveWorker",
    "digestif.channels.base": "Channel Format Message Receipt",
    "digestif.digests": "Digests",
    "digestif.errors": "AccessDenied Busy ConfigError DigestifError InvalidRecord InvalidState Overloaded StaleLease "
    "StoreError StoreUnavailable",
    "digestif.events": "Added Buried ChannelDown ChannelUp Claimed Damaged Delivered Discarded DispatchFailed "
    "DispatchLost Dispatched Dropped Empty Ended Event Expired Failed Lapsed LeaseLost LeaseNotRenewed PartitionFailed "
    "PoliciesDiffer PolicyFailed PutOff Quarantined RecordsLost Replanned Returned ShortWindow Skipped StoreChanged "
    "StoreFailed Unhandled Unsettled WorkerStarted WorkerStopped WorkerStopping",
    "digestif.routes.archive": "KeptMessage",
    "digestif.routes.budget": "Budget",
    "digestif.worker.signals": "run",
    "digestif.worker.worker": "Worker",
    "digestif.stores.base": "Durability Store",
    "digestif.transfer": "Move",
}

if not _TYPE_CHECKING:
    from digestif.exports import lazy as _lazy

    __getattr__, __dir__ = _lazy(__name__, _HOMES)
