"""The reader's part of the port: queries, which change no record and no timeline.

Commands, dashboards and metrics need no more than this. `limit` bounds a page; the caller passes the last entry of a
page as the `after` of the next.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple

from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored
from digestif.core.ledger import Ledger, Verification
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter, HistoryEntry, State
from digestif.core.removals import Removals
from digestif.core.terms import Override
from digestif.core.texts import shortened
from digestif.core.times import Millis
from digestif.errors import ConfigError
from digestif.stores.damage import Damages


class Part(StrEnum):
    """Where a record of a timeline is: pending, or in its unfinished digest."""

    PENDING = "pending"
    DIGEST = "digest"


PAGE_READ = 500  # rows or keys that a page of `look_over` reads

PAUSED: Literal["paused"] = "paused"
DUE: Literal["due"] = "due"
Order = State | Literal["paused", "due"]  # in which timelines are listed
UNLEASED: Millis = 2**54  # where a lease ends, for a paused timeline that is not open: it has none that could lapse

Place = tuple[int | str, ...]  # of a timeline in an order of the store's own


class TimelinePage(NamedTuple):
    """Timelines that one call of `look_over` found."""

    timelines: list[tuple[str, Slot]]
    after: Place | None  # where the next page begins; None: this was the last page


class StoreReader(ABC):
    """The timelines of one namespace, read only.

    Damage that a query meets is noted in `damages`. A query over many timelines skips those whose slot is damaged; a
    query that names one raises StoreError.
    """

    namespace: str
    partitions: int = 1
    counts_at_once: bool = False  # `standing` reads counters, however many timelines there are

    @cached_property
    def damages(self) -> Damages:
        """The damage that this store has met."""
        return Damages()

    @abstractmethod
    def time(self, partition: int) -> Millis:
        """The clock of a partition, which is used where `now` is None."""

    def partition_of(self, timeline: str) -> int:
        """The partition that a timeline belongs to. By default there is only one."""
        return 0

    @property
    def is_divided(self) -> bool:
        """True if several servers have the partitions, so that some may answer while another one does not."""
        return False

    def is_silent(self, timeline: str) -> bool:
        """True if the timeline's server, one of several, does not answer just now: calls would wait for it."""
        return False

    def reach(self) -> None:
        """Try once, for a few seconds, whether the store answers; StoreError says why it does not.

        Other calls retry for longer. A program that starts asks here first, to show the reason before it waits.
        """
        self.time(0)

    def products(self) -> Mapping[str, str]:
        """What is behind the store, by name and version: {"PostgreSQL": "17.2"}."""
        return {}

    @abstractmethod
    def inspect(self, timeline: str) -> Slot:
        """The timeline as it is; IDLE if nothing is stored."""

    def overrides(self, timelines: Sequence[str]) -> list[Override | None]:
        """The policies that are stored for timelines, None for one that has none; at most PAGE_TIMELINES."""
        return [self.inspect(timeline).override for timeline in timelines]

    @abstractmethod
    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        """Stored timelines in the order of their keys, by code points; fewer than `limit` were the last."""

    def count_timelines(self, prefix: str, *, most: int) -> int:
        """How many stored timelines begin with the prefix; counting may end at `most`."""
        count, after = 0, None
        while count < most and (page := self.scan(prefix=prefix, after=after, limit=PAGE_READ)):
            count, after = count + len(page), page[-1][0]
        return count

    @abstractmethod
    def look_over(self, order: Order | None, *, prefix: str, after: Place | None, limit: int) -> TimelinePage:
        """A page of timelines that wait, are ready or open and not paused, by their due times or lease ends.

        Or of those that are paused, open ones first; with DUE of those that wait and those that are ready in one order.
        Without an order, or for idle ones, all timelines that begin with the prefix, by their keys; otherwise the
        prefix is ignored. Reads at most PAGE_READ rows or keys, however many timelines there are, so a page may be
        short or empty although more follow. ConfigError if `after` is no place of this order.
        """

    @abstractmethod
    def records(self, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
        """A page of a timeline's records, newest first."""

    @abstractmethod
    def find(self, timeline: str, key: str) -> dict[Part, Stored]:
        """The versions of one record that the timeline holds."""

    @abstractmethod
    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        """Dead letters in the order in which they were buried, those after the one with id `after`."""

    @abstractmethod
    def letter(self, letter_id: str) -> DeadLetter | None:
        """One dead letter."""

    @abstractmethod
    def letter_records(self, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
        """A page of a dead letter's records, newest first."""

    @abstractmethod
    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        """The latest dead letter of the timeline that contains this record."""

    @abstractmethod
    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        """Digests that ended, at most the last HISTORY_LIMIT of each ring, the latest first.

        Without a timeline, those of timelines that begin with the prefix.
        """

    def removals(self, timeline: str) -> Removals:
        """What is remembered of records that were retracted or expired; by default nothing.

        At most about HISTORY_LIMIT timelines of a ring are remembered; those that were remembered first are forgotten
        first.
        """
        return Removals()

    def kept_since(self, timeline: str) -> Millis | None:
        """When the oldest entry of the history, or the oldest removal, was made; None: none was forgotten, by default.

        Only what is kept together with this timeline counts: its ring, as `Tenants.kept_since` says.
        """
        return None

    @abstractmethod
    def standing(self, *, now: Millis, most: int | None = None) -> Standing:
        """How many timelines there are, in which state, and which is due first.

        A store that has to count rows reads at most `most` for each number, which is then too low; by default all.
        """

    def moving_since(self) -> Millis | None:
        """When a move of this store into another began; None if none is under way, as by default."""
        return None

    @abstractmethod
    def ledger(self) -> Ledger:
        """The number of records with each fate."""

    @abstractmethod
    def digests_delivered(self) -> int:
        """How many digests ended as delivered, since the store counts them. Changes with the ledger."""

    @abstractmethod
    def verify(self) -> Verification:
        """Recount pending, open and dead records, compare, and list damage. Reads everything, in pages."""

    @abstractmethod
    def footprint(self) -> Mapping[str, int]:
        """How many rows or keys of each kind are stored, apart from counters, settings and history."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. The store can't be used afterwards."""


def beyond(prefix: str) -> bytes:
    """The first bytes behind all names that begin with a prefix: no UTF-8 has this byte."""
    return prefix.encode() + b"\xff"


def place_of(after: Place, *kinds: type) -> Any:
    """The place itself. ConfigError unless it has parts of these kinds: it came from a caller."""
    if len(after) != len(kinds) or not all(type(part) is kind for part, kind in zip(after, kinds, strict=True)):
        raise ConfigError(f"after: {shortened(after)} is no place in this list of timelines")
    return after
