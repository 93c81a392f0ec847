"""Digestif turns a flood of events into a few well-timed digests."""

from digestif.aio import AsyncDigests
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
from digestif.events import Event, LeaseNotRenewed, PartitionFailed
from digestif.stores.base import Durability, Store

__all__ = [
    "AsyncDigests",
    "Busy",
    "ConfigError",
    "DeadLetter",
    "Digest",
    "DigestifError",
    "Digests",
    "Durability",
    "Event",
    "Explanation",
    "Exponential",
    "Fate",
    "HistoryEntry",
    "Intervals",
    "InvalidRecord",
    "InvalidState",
    "LeaseNotRenewed",
    "Ledger",
    "Outcome",
    "Overloaded",
    "PartitionFailed",
    "Policy",
    "Record",
    "Retry",
    "ScheduleEntry",
    "Sighting",
    "StaleLease",
    "State",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Timeline",
    "Verification",
]

__version__ = "0.1.0"
