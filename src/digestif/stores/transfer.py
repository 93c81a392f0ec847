"""From one store to another: what is taken along, and the verbs by which stores let go of it and take it in.

A parcel is what a timeline has at one time: its pending records, or its unfinished digest, or one dead letter. It
stays in the store that it leaves, where nobody can open it, until the other has it whole; then it is let go. The store
that it comes to notes with each page how far it is. So whoever is interrupted at any point finds out what was done, and
goes on.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from digestif.core.capacity import Cursor, Stored
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter
from digestif.core.times import Millis
from digestif.core.transfer import exports_pending
from digestif.stores.base import Notes

PAST = ("delivered", "superseded", "dropped", "expired", "deleted")  # fates of records that are no longer there


class ParcelKind(StrEnum):
    """What a parcel holds."""

    PENDING = "pending"
    DIGEST = "digest"
    LETTER = "letter"


class Parcel(NamedTuple):
    """What goes to another store as one."""

    id: str
    timeline: str
    kind: ParcelKind
    records: int
    slot: Slot  # as it is on its way; of a dead letter it does not matter
    letter: DeadLetter | None = None

    @classmethod
    def of(cls, timeline: str, slot: Slot) -> "Parcel":
        """What a timeline on its way takes along."""
        assert slot.digest is not None
        assert slot.token is not None
        kind = ParcelKind.PENDING if exports_pending(slot) else ParcelKind.DIGEST
        return cls(slot.token, timeline, kind, slot.digest.records, slot)


class ExportedRecord(NamedTuple):
    """A record on its way, with its times."""

    record: Stored
    deadline: Millis | None
    expires: Millis | None  # None: never


class ImportPage(NamedTuple):
    """Some records of a parcel."""

    parcel: Parcel
    done: int  # records of it that came before
    records: Sequence[ExportedRecord]


class Fence(NamedTuple):
    """A note that says who moves: whoever was away for too long finds another name there, and does nothing more."""

    name: str
    holder: bytes


class ImportProgress(Struct, frozen=True, omit_defaults=True):
    """How much of a parcel has arrived."""

    done: int = 0
    after: Cursor | None = None  # of the last record, in the store that it left
    whole: bool = False


class ExportSource(Notes):
    """What can be moved into a store."""

    page_records: int  # that a page holds

    @abstractmethod
    def time(self, partition: int) -> Millis:
        """The clock that all who move it go by."""

    @abstractmethod
    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        """What is there, in the order of keys; fewer than `limit` were the last."""

    @abstractmethod
    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        """Dead letters, in the order in which they were buried."""

    @abstractmethod
    def begin_export(self, timelines: Sequence[str], *, token: str, now: Millis | None) -> list[Parcel | None]:
        """Hold timelines for the road; at most PAGE_TIMELINES.

        None for one that does not exist, or is open under somebody's lease. One that is held already answers as it did
        first. Records can still be added; they stay behind.
        """

    @abstractmethod
    def read_export(
        self, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int
    ) -> list[list[ExportedRecord]]:
        """Read parcels, each from its cursor on, oldest first; at most `limit` records together."""

    @abstractmethod
    def commit_export(self, parcels: Sequence[Parcel], *, now: Millis | None) -> list[bool]:
        """Forget parcels that have arrived elsewhere: no longer accepted here. False if it is not here any more."""

    @abstractmethod
    def abort_export(self, timelines: Sequence[str], *, now: Millis | None) -> list[bool]:
        """Let timelines stay that are held for the road. False for those that are not."""

    def left_behind(self) -> Iterable[str]:
        """What can't be moved, and why, in sentences. By default everything can."""
        return ()

    @abstractmethod
    def export_counts(self, partition: int, name: str) -> Mapping[str, int]:
        """Take the counts of ended records out of a partition's ledger and note them; again, the same."""


class TransferStore(ExportSource):
    """A store that can be moved into another, and another into it."""

    @abstractmethod
    def import_pages(
        self, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis | None
    ) -> list[ImportProgress | None]:
        """Take pages in, each of another parcel; at most `page_records` together. Each counts as accepted here.

        A page that is not the next one of its parcel changes nothing. None for a digest that has to wait until the
        timeline's own has ended. Of two versions of a pending record the one with the later timestamp stays. Busy, with
        nothing done, if somebody else is behind the fence.
        """

    @abstractmethod
    def abort_import(self, parcels: Sequence[Parcel], *, now: Millis | None) -> None:
        """Remove what has arrived of digests and dead letters whose rest will never come; no longer accepted here."""

    @abstractmethod
    def progress(self, parcels: Sequence[Parcel]) -> list[ImportProgress]:
        """How far each is."""

    @abstractmethod
    def delete_progress(self, parcels: Sequence[Parcel]) -> None:
        """Forget how far they were."""

    @abstractmethod
    def delete_notes(self, prefix: str) -> None:
        """Forget all notes whose names begin like this."""

    @abstractmethod
    def import_counts(self, name: str, past: Mapping[str, int], *, fence: Fence | None) -> None:
        """Count records that ended elsewhere; once for each name. Busy if somebody else is behind the fence."""
