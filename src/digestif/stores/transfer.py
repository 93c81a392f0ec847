"""The part of the port that moves need: a store exports parcels, and another imports them page by page.

A parcel holds a timeline's pending records, its unfinished digest, or one dead letter. It stays in the source, where it
can't be opened, until the target has it whole; then the export is committed. The target notes its progress with each
page, so that a move can be interrupted at any point and goes on from there.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct

from digestif.core.capacity import Cursor, Stored
from digestif.core.damage import Damage
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter
from digestif.core.times import Millis
from digestif.core.transfer import OUTGOING, exports_pending
from digestif.stores.base import Notes
from digestif.stores.damage import Unreadable, decoded_note

# Fates of records that are not stored any more, and of those that were never accepted.
PAST = ("delivered", "superseded", "dropped", "expired", "deleted", "lost", "declined")


class ParcelKind(StrEnum):
    """What a parcel holds."""

    PENDING = "pending"
    DIGEST = "digest"
    LETTER = "letter"


class Parcel(NamedTuple):
    """What one export carries."""

    id: str
    timeline: str
    kind: ParcelKind
    records: int
    slot: Slot  # as exported; IDLE for a dead letter
    letter: DeadLetter | None = None

    @classmethod
    def of(cls, timeline: str, slot: Slot) -> "Parcel":
        """The parcel of a timeline whose export has begun."""
        assert slot.digest is not None
        assert slot.token is not None
        kind = ParcelKind.PENDING if exports_pending(slot) else ParcelKind.DIGEST
        return cls(slot.token, timeline, kind, slot.digest.records, slot)


class ExportedRecord(NamedTuple):
    """A record of a parcel, with its times."""

    record: Stored
    deadline: Millis | None
    expires: Millis | None  # None: never


class ImportPage(NamedTuple):
    """Some records of a parcel, to be imported."""

    parcel: Parcel
    done: int  # records of the parcel that were imported before
    records: Sequence[ExportedRecord]


class Fence(NamedTuple):
    """A note in the target that names the process that moves. A process whose name is not there imports nothing."""

    name: str
    holder: bytes


class ImportProgress(Struct, frozen=True, omit_defaults=True):
    """How much of a parcel was imported."""

    done: int = 0
    after: Cursor | None = None  # of the last record, in the source
    whole: bool = False


def damage_of_note(name: str, body: bytes, *, decode_progress: Callable[[bytes], object]) -> Damage | None:
    """Return the damage of a note that a move wrote; the form of other notes is not known."""
    try:
        if name == "move":
            decoded_note(name, body, msgspec.json.Decoder(dict[str, object]).decode)
        elif name.startswith(OUTGOING) and not name.endswith("-target") and "-past-" not in name:
            decoded_note(name, body, decode_progress)
    except Unreadable as error:
        return error.damage
    return None


class ExportSource(Notes):
    """A store, or something like one, that can be moved into a store."""

    page_records: int  # the most that one call exports or imports

    @abstractmethod
    def time(self, partition: int) -> Millis:
        """The clock by which every process that moves this store measures."""

    @abstractmethod
    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        """Stored timelines in the order of their keys; a page shorter than `limit` is the last."""

    @abstractmethod
    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        """Dead letters, in the order in which they were buried."""

    def due(self, *, limit: int, now: Millis | None) -> list[tuple[str, Slot]]:
        """Timelines that are ready, or waiting and due; not paused. The earliest first, within each partition.

        They are moved before the others. By default none is.
        """
        return []

    def begin_move(self, partition: int, move_id: str, *, now: Millis | None) -> None:
        """Deliver nothing from this partition until the move ends; repeated, it changes nothing.

        `add` accepts records and answers False. `claim`, `claim_suspects`, `schedule` and `admit` give nothing; `open`,
        `flush` and `replay` raise Busy. Attempts whose lease was given before may end. By default a source delivers
        nothing anyway.
        """

    def end_move(self, partition: int, move_id: str | None) -> None:
        """Deliver again from this partition, unless another move than this one has begun; None ends any move."""

    @abstractmethod
    def begin_export(self, timelines: Sequence[str], *, token: str, now: Millis | None) -> list[Parcel | None]:
        """Hold timelines, so that they can't be opened, and give their parcels; at most PAGE_TIMELINES.

        None for one that is idle, or open under a lease. A timeline that is held already gives the same parcel again.
        Records can still be added; they are not part of the parcel.
        """

    @abstractmethod
    def read_export(
        self, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int
    ) -> list[list[ExportedRecord]]:
        """Records of parcels, each after its cursor, oldest first; at most `limit` in all."""

    @abstractmethod
    def commit_export(self, parcels: Sequence[Parcel], *, now: Millis | None) -> list[bool]:
        """Delete parcels that the target has whole; they no longer count as accepted here. False for one not held."""

    @abstractmethod
    def abort_export(self, timelines: Sequence[str], *, now: Millis | None) -> list[bool]:
        """End exports without a move: the parcels stay, as unfinished digests. False for timelines not held."""

    def left_behind(self) -> Iterable[str]:
        """Sentences about what can't be moved, and why. By default everything can."""
        return ()

    @abstractmethod
    def export_counts(self, partition: int, name: str) -> Mapping[str, int]:
        """Move the counts of PAST fates from a partition's ledger into a note; repeated, give the same counts."""


class TransferStore(ExportSource):
    """A store that exports and imports."""

    @abstractmethod
    def due(self, *, limit: int, now: Millis | None) -> list[tuple[str, Slot]]: ...

    @abstractmethod
    def begin_move(self, partition: int, move_id: str, *, now: Millis | None) -> None: ...

    @abstractmethod
    def end_move(self, partition: int, move_id: str | None) -> None: ...

    @abstractmethod
    def import_pages(
        self, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis | None
    ) -> list[ImportProgress | None]:
        """Import pages, each of another parcel; at most `page_records` in all. The records count as accepted here.

        A page that is not the next one of its parcel changes nothing. None for a digest whose timeline has another
        unfinished digest here: it has to wait. Of two versions of a pending record the one with the later timestamp
        stays; records for a timeline that is off here count as deleted. Busy, with nothing done, if the fence names
        another holder.
        """

    @abstractmethod
    def abort_import(self, parcels: Sequence[Parcel], *, now: Millis | None) -> None:
        """Delete the imported part of digests and dead letters whose rest will not come; it no longer counts here."""

    @abstractmethod
    def progress(self, parcels: Sequence[Parcel]) -> list[ImportProgress]:
        """How much of each parcel was imported."""

    @abstractmethod
    def delete_progress(self, parcels: Sequence[Parcel]) -> None:
        """Delete the progress of these parcels."""

    @abstractmethod
    def delete_notes(self, prefix: str) -> None:
        """Delete all notes whose names begin with the prefix."""

    @abstractmethod
    def import_counts(self, name: str, counts: Mapping[str, int], *, fence: Fence | None) -> None:
        """Add counts of PAST fates to the ledger, once for each name. Busy if the fence names another holder."""
