"""What happens to an engine, its store and its workers."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from digestif.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Added(Event):
    """Records were accepted, by one call."""

    level: ClassVar[int] = logging.DEBUG
    records: int
    ready: tuple[str, ...]  # timelines that became ready by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Event):
    """A timeline had more records pending than its capacity after an add, and the oldest had to go."""

    level: ClassVar[int] = logging.DEBUG  # beyond capacity there is one for every add; the digest tells how many
    timeline: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched(Event):
    """The task of a timeline that a tick had given out has begun, in a worker of a task queue."""

    level: ClassVar[int] = logging.DEBUG
    timeline: str
    late: float  # since it was due


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchFailed(Event):
    """A task queue did not take the task of a timeline. Its records are safe; maintenance finds it again."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseNotRenewed(Event):
    """The store did not answer when leases were to be renewed; it is tried again until they lapse."""

    level: ClassVar[int] = logging.WARNING
    timeline: str  # of several, one
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailed(Event):
    """A partition of the store did not answer; the others were served."""

    level: ClassVar[int] = logging.WARNING
    operation: str
    partition: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed(Event):
    """The store did not answer a worker, which tries again after a pause."""

    level: ClassVar[int] = logging.WARNING
    operation: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChanged(Event):
    """The server changed under a running engine: it was emptied, set up anew, or evicts records. Calls are refused."""

    level: ClassVar[int] = logging.ERROR
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged(Event):
    """Something stored can't be read. It is passed over, and the rest goes on; `digestif repair` sets it aside."""

    level: ClassVar[int] = logging.ERROR
    timeline: str | None  # None: it belongs to no timeline, or that can't be told
    part: str  # slot, letter, history, inbox…
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Event):
    """A worker claims digests from now on."""

    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(Event):
    """A worker has ended; what it did not finish was given back."""

    worker: str
    delivered: int
    returned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed(Event):
    """A lease ran out: its worker died, hung, or could not reach the store. Its digest comes again as it was."""

    level: ClassVar[int] = logging.WARNING
    timeline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(Event):
    """Records of a timeline got older than their ttl before anybody delivered them."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchLost(Event):
    """A timeline was made ready and not claimed in time: it waits again, to be scheduled anew."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    late: float  # since it was due


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Event):
    """A task found nothing to deliver: its timeline is not ready, or another attempt has it."""

    level: ClassVar[int] = logging.DEBUG
    timeline: str
    reason: str
