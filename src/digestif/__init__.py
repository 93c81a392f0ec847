"""Digestif turns a flood of events into a few well-timed digests."""

from digestif.aio import AsyncDigests
from digestif.core.backlog import Backlog
from digestif.core.backoff import Exponential, Intervals, Retry
from digestif.core.explain import Explanation
from digestif.core.ledger import Ledger, Verification
from digestif.core.policy import Policy
from digestif.core.records import (
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
)
from digestif.core.verdicts import Discard, RetryLater
from digestif.engine import Digests
from digestif.errors import (
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
    Claimed,
    Delivered,
    Discarded,
    Event,
    Expired,
    Failed,
    Lapsed,
    LeaseLost,
    LeaseNotRenewed,
    PartitionFailed,
    Returned,
    StoreFailed,
    Unhandled,
    WorkerStarted,
    WorkerStopped,
)
from digestif.runtime.running import run
from digestif.runtime.worker import Worker
from digestif.stores.base import Durability, Store

__all__ = [
    "Added",
    "AsyncDigests",
    "Backlog",
    "Buried",
    "Busy",
    "Claimed",
    "ConfigError",
    "DeadLetter",
    "Delivered",
    "Digest",
    "DigestifError",
    "Digests",
    "Discard",
    "Discarded",
    "Durability",
    "Event",
    "Expired",
    "Explanation",
    "Exponential",
    "Failed",
    "Fate",
    "HistoryEntry",
    "Intervals",
    "InvalidRecord",
    "InvalidState",
    "Lapsed",
    "LeaseLost",
    "LeaseNotRenewed",
    "Ledger",
    "Outcome",
    "Overloaded",
    "PartitionFailed",
    "Policy",
    "Record",
    "Retry",
    "RetryLater",
    "Returned",
    "ScheduleEntry",
    "Sighting",
    "StaleLease",
    "State",
    "Store",
    "StoreError",
    "StoreFailed",
    "StoreUnavailable",
    "Timeline",
    "Unhandled",
    "Verification",
    "Worker",
    "WorkerStarted",
    "WorkerStopped",
    "run",
]

__version__ = "0.1.0"
