"""Events: what happened, told once; logging, metrics and dashboards listen to the same facts."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

logger = logging.getLogger("digestif")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. Durations in seconds."""

    level: ClassVar[int] = logging.INFO  # of the line in the log


@dataclass(frozen=True, slots=True, kw_only=True)
class Added(Event):
    """Records were accepted, by one call."""

    level: ClassVar[int] = logging.DEBUG
    records: int
    ready: tuple[str, ...]  # timelines that became ready by it


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
class Claimed(Event):
    """A worker took a digest to deliver it."""

    level: ClassVar[int] = logging.DEBUG
    timeline: str
    digest_id: str
    attempt: int
    late: float  # since it was due


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Event):
    """A digest was delivered and its timeline cools down."""

    timeline: str
    digest_id: str
    attempt: int
    records: int
    dropped: int
    late: float  # from due to claimed
    took: float  # from claimed to delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """An attempt failed; the digest keeps its records and comes again."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    digest_id: str
    attempt: int
    records: int
    reason: str
    retry_in: float | None  # None: never, it was delivered at most once


@dataclass(frozen=True, slots=True, kw_only=True)
class Buried(Event):
    """A digest was given up: it is a dead letter now, to be replayed or discarded."""

    level: ClassVar[int] = logging.ERROR
    timeline: str
    digest_id: str
    attempt: int
    records: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded(Event):
    """A handler did not want a digest: its records count as deleted."""

    timeline: str
    digest_id: str
    records: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed(Event):
    """Leases ran out: their workers died, hung, or could not reach the store. Their digests come again as they were."""

    level: ClassVar[int] = logging.WARNING
    digests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(Event):
    """Records got older than their ttl before anybody delivered them."""

    level: ClassVar[int] = logging.WARNING
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhandled(Event):
    """No handler is registered for a timeline; it is put off, and the attempt does not count."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    retry_in: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Event):
    """A worker that stops gave back a digest that it could not finish."""

    timeline: str
    digest_id: str
    begun: bool  # its handler was running: it may have gone out, and comes again exactly as it was


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """A worker was done with a digest that was no longer its own: the lease had lapsed. Nothing was changed."""

    level: ClassVar[int] = logging.WARNING
    timeline: str
    digest_id: str


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


Listener = Callable[[Event], object]


class Events:
    """The one subscription point."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with every event from now on; the answer ends that."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with suppress(ValueError):  # it was ended already
                self._listeners.remove(listener)

        return unsubscribe

    def wanted(self, kind: type[Event]) -> bool:
        """True if somebody would hear of it: for events that are costly to make."""
        return bool(self._listeners) or logger.isEnabledFor(kind.level)

    def emit(self, event: Event) -> None:
        """Tell the log and the listeners. A listener that raises is logged and does not stop the others."""
        logger.log(event.level, "%s", event)
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("a listener failed on %s", event)
