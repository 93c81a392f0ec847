"""Events of an engine, its store and its workers."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from digestif.core.texts import in_one_line
from digestif.events.base import Event, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Added(Event):
    """One call added records."""

    level: ClassVar[int] = logging.DEBUG
    records: int
    ready: tuple[str, ...]  # timelines that it made ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Event):
    """An add or a requeue exceeded the capacity of a timeline, and its oldest pending records were dropped."""

    level: ClassVar[int] = logging.DEBUG  # a full timeline has one for every add; the digest says how many
    timeline: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched(Event):
    """A worker of a task queue began the task of a scheduled timeline."""

    level: ClassVar[int] = logging.DEBUG
    timeline: str
    late: float  # since it was due


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchFailed(Event):
    """A task queue did not accept the task of a timeline. Its records are safe; maintenance finds it again."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseNotRenewed(Event):
    """The store did not answer a renewal of leases; it is tried again until they lapse."""

    level: ClassVar[int] = logging.WARNING
    timeline: str  # one of them
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
class ChannelDown(Event):
    """A channel is unavailable: its digests go on gathering, and one at a time tries whether it is back."""

    level: ClassVar[int] = logging.ERROR
    channel: str
    reason: str
    retry_in: float  # until the first of them


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelUp(Event):
    """A channel answers again: its digests leave, the first ones one after the other."""

    level: ClassVar[int] = logging.WARNING  # as loud as its counterpart, for those who watch the log
    channel: str
    reason: str  # why it was down
    down_for: float

    def __str__(self) -> str:
        """The reason comes last, as one that is past: the line is good news."""
        was = f", was: {in_one_line(self.reason)}" if self.reason else ""
        return f"ChannelUp: channel={in_one_line(self.channel)}, down_for={shown(self.down_for)}{was}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFailed(Event):
    """A policy is unknown: a function failed, or a stored text can't be read. Another one holds meanwhile."""

    level: ClassVar[int] = logging.WARNING
    trace_level: ClassVar[int | None] = logging.DEBUG  # a program that adds records is not to be flooded
    timeline: str
    source: str  # engine, route mail:*, handler mail:*, override
    error: Exception

    @property
    def trace(self) -> BaseException | None:
        return self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Replanned(Event):
    """Timelines that wait were planned again by the policies that are in force now."""

    pattern: str
    timelines: int  # that wait and match
    moved: int  # of these, those with another due time


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged(Event):
    """Something stored can't be read. It is skipped, and the rest goes on; `digestif repair` repairs it."""

    level: ClassVar[int] = logging.ERROR
    timeline: str | None  # None: unknown, or it belongs to none
    part: str  # slot, letter, history, inbox…
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsLost(Event):
    """Stored records are gone, values and keys: something else than Digestif deleted them. They count as lost."""

    level: ClassVar[int] = logging.ERROR
    timeline: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Event):
    """A worker claims digests from now on."""

    worker: str
    store: str = ""  # without its password
    handlers: tuple[str, ...] = ()  # their patterns, and those of routes
    channels: tuple[str, ...] = ()  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortWindow(Event):
    """A worker started that may miss a window, because it looks too seldom for it."""

    level: ClassVar[int] = logging.WARNING
    source: str  # of the policy: engine, route mail:*, handler mail:*
    problem: str  # which window it is, and what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesDiffer(Event):
    """Live workers have different policies in their code for one pattern: which one holds depends on the worker."""

    level: ClassVar[int] = logging.WARNING
    pattern: str
    policies: str  # which, and the workers that have them


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopping(Event):
    """A worker was stopped: it claims nothing more, and waits for handlers that are running."""

    worker: str
    running: int  # digests whose handlers are
    timelines: tuple[str, ...]  # of these
    grace: float  # for which it waits at most

    def __str__(self) -> str:
        some = ", ".join(map(in_one_line, self.timelines[:3]))
        more = f" and {self.running - 3:,} more" if self.running > 3 else ""
        handlers = "1 handler" if self.running == 1 else f"{self.running:,} handlers"
        return (
            f"WorkerStopping: waiting up to {self.grace:g} s for {handlers}: {some}{more}; "
            "a second signal (Ctrl-C) ends it at once, and their digests come again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(Event):
    """A worker has ended and given back what it did not finish."""

    worker: str
    delivered: int
    returned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed(Event):
    """A lease lapsed: its worker died, hung, or could not reach the store. The digest is frozen and comes again."""

    level: ClassVar[int] = logging.WARNING
    timeline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(Event):
    """Records of a timeline exceeded their ttl before they were delivered."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchLost(Event):
    """A timeline was ready and not opened in time: it waits again, to be scheduled anew."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    late: float  # since it was due


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Event):
    """A task found nothing to deliver: its timeline is not ready, or another attempt holds it."""

    level: ClassVar[int] = logging.DEBUG
    timeline: str
    reason: str
