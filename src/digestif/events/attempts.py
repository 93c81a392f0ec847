"""Events of attempts. Only `digestif.attempts` emits them, and for each attempt exactly one kind of `Ended`."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from digestif.core.verdicts import is_deliberate
from digestif.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """Something that happened to an attempt to deliver a digest."""

    timeline: str
    digest_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(AttemptEvent):
    """An attempt has begun: it has the lease of a digest."""

    level: ClassVar[int] = logging.DEBUG
    late: float  # since it was due


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined(Event):
    """A record could not be decoded, or its value is missing: it left its digest and is a dead letter of its own.

    The attempt goes on.
    """

    level: ClassVar[int] = logging.ERROR
    timeline: str
    key: str
    letter_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhandled(Event):
    """Timelines without a handler were put off; their attempts do not count. Emitted once a minute."""

    level: ClassVar[int] = logging.WARNING
    timeline: str  # the last of them
    timelines: int  # how many, since the last event


# How attempts end


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(AttemptEvent):
    """An attempt has ended. Every attempt ends with exactly one event of those below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Ended):
    """A digest was delivered and its timeline cools down."""

    records: int
    dropped: int
    late: float  # from due to claimed
    took: float  # from claimed to delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty(Ended):
    """There was no record to deliver."""

    level: ClassVar[int] = logging.DEBUG


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureEvent(Ended):
    """An attempt failed: what `Failed` and `Buried` have in common."""

    records: int
    reason: str
    late: float  # from due to claimed
    took: float  # from claimed to the end
    error: BaseException | None = None  # of the handler, or why it could not be called

    @property
    def trace(self) -> BaseException | None:
        """None for an error that a channel or handler raised on purpose."""
        return None if is_deliberate(self.error) else self.error

    def _facts(self) -> Iterator[str]:
        return (fact for fact in Event._facts(self) if not fact.startswith("error="))  # the reason says the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(FailureEvent):
    """An attempt failed; the digest keeps its records and comes again."""

    level: ClassVar[int] = logging.WARNING
    retry_in: float | None  # None: never, its handler is called at most once


@dataclass(frozen=True, slots=True, kw_only=True)
class Buried(FailureEvent):
    """A digest became a dead letter, which can be replayed, requeued or discarded."""

    level: ClassVar[int] = logging.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOff(Ended):
    """An attempt that does not count: nothing was tried, or the receiver asked for patience. The digest comes again."""

    level: ClassVar[int] = logging.DEBUG
    records: int
    reason: str
    retry_in: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded(Ended):
    """A handler discarded a digest: its records count as deleted."""

    records: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Ended):
    """A worker, task or block that had a digest stopped and gave it back."""

    begun: bool  # its handler was running: it may have been sent, so it is frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Ended):
    """An attempt ended after its lease had lapsed; another may have the digest. Nothing was changed."""

    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled(Ended):
    """The attempt could not be ended in the store: the lease lapses, and the digest comes again."""

    level: ClassVar[int] = logging.ERROR
    ending: str  # that was to be stored
    error: Exception
