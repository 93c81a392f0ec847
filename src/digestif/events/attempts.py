"""What happens to attempts. They are told in `digestif.attempts` and nowhere else: one ending for each."""

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
    """A record could not be decoded: it left its digest and is a dead letter of its own. The attempt goes on."""

    level: ClassVar[int] = logging.ERROR
    timeline: str
    key: str
    letter_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhandled(Event):
    """No handler is registered for timelines; they are put off, and the attempts do not count. Told once a minute."""

    level: ClassVar[int] = logging.WARNING
    timeline: str  # of several, the last
    timelines: int  # since it was told last


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
class Failure(Ended):
    """An attempt that failed, and why."""

    records: int
    reason: str
    late: float  # from due to claimed
    took: float  # from claimed to the end
    error: BaseException | None = None  # what the handler raised, or what kept it from being called

    @property
    def trace(self) -> BaseException | None:
        """What a channel or a handler says on purpose needs no traceback."""
        return None if is_deliberate(self.error) else self.error

    def _facts(self) -> Iterator[str]:
        return (fact for fact in Event._facts(self) if not fact.startswith("error="))  # the reason tells it


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Failure):
    """An attempt failed; the digest keeps its records and comes again."""

    level: ClassVar[int] = logging.WARNING
    retry_in: float | None  # None: never, it was to be delivered at most once


@dataclass(frozen=True, slots=True, kw_only=True)
class Buried(Failure):
    """A digest was given up: it is a dead letter now, to be replayed or discarded."""

    level: ClassVar[int] = logging.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOff(Ended):
    """An attempt did not count: nothing was tried, or the receiver asked for patience. The digest comes again."""

    level: ClassVar[int] = logging.DEBUG
    records: int
    reason: str
    retry_in: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded(Ended):
    """A handler did not want a digest: its records count as deleted."""

    records: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Ended):
    """A worker, task or block that had a digest stopped and gave it back."""

    begun: bool  # its handler was running: it may have gone out, and comes again exactly as it was


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Ended):
    """An attempt ended after its lease had lapsed; another may have the digest. Nothing was changed."""

    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled(Ended):
    """The store did not answer when it was told how an attempt ended: the lease lapses, and the digest comes again."""

    level: ClassVar[int] = logging.ERROR
    ending: str  # how it was to end
    error: Exception
