"""`Rows`, one transaction's view of the tables, which a store of rows provides; and the times that index timelines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored
from digestif.core.damage import Damage
from digestif.core.ledger import Ledger
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter, HistoryEntry, State
from digestif.core.removals import Removals
from digestif.core.tenants import Tenants
from digestif.core.times import Millis
from digestif.stores.base import Arrival, Lease, LeaseEnd
from digestif.stores.damage import Unreadable
from digestif.stores.documents import Document
from digestif.stores.reader import UNLEASED
from digestif.stores.transfer import ExportedRecord

UNBOUNDED = 2**62  # bytes: room for any page
NEVER: Millis = 2**62  # the expiry of a record without a ttl


class Waiting(NamedTuple):
    """A waiting timeline, in the order of the schedule."""

    at: Millis
    number: int  # of its row, to break ties
    timeline: str


class Found(NamedTuple):
    """A timeline that an index found; its slot is None if it is damaged."""

    at: Millis
    number: int  # of its row, to break ties
    timeline: str
    slot: Slot | None


class DocumentRow(NamedTuple):
    """A document's row."""

    number: int  # rises with each document that is kept
    collection: str
    expires: Millis
    size: int  # of its body
    document: Document


class Marks(NamedTuple):
    """The times that index a timeline; None keeps it out of that index."""

    waiting: Millis | None = None  # due, not paused
    ready: Millis | None = None  # was due, not paused
    since: Millis | None = None  # ready since
    until: Millis | None = None  # the lease's expiry, not paused
    paused_until: Millis | None = None  # the lease's expiry, paused meanwhile; UNLEASED if it is paused and not open
    expires: Millis | None = None


def marks(slot: Slot) -> Marks:
    """The index times of a slot."""
    expires = None if slot.expires == NEVER else slot.expires
    paused = UNLEASED if slot.paused else None
    if slot.state is State.WAITING:
        return Marks(None if slot.paused else slot.at, None, None, None, paused, expires)
    if slot.state is State.READY:
        return Marks(None, None if slot.paused else slot.at, slot.since, None, paused, expires)
    if slot.state is State.OPEN:
        until, paused_until = (None, slot.until) if slot.paused else (slot.until, None)
        return Marks(until=until, paused_until=paused_until, expires=expires)
    return Marks(paused_until=paused)


class TimelineRow(NamedTuple):
    """A timeline's row, damaged or not. Bytes of its name that are not UTF-8 are lone surrogates."""

    name: str
    marks: Marks
    slot: Slot | None
    damage: Damage | None = None  # why the slot can't be read
    raw: bytes = b""  # the body that can't be read


class LetterRow(NamedTuple):
    """A dead letter's row, damaged or not."""

    number: int
    id: str
    timeline: str
    batch: int
    letter: DeadLetter | None
    damage: Damage | None = None


class Size(NamedTuple):
    """What a batch holds."""

    records: int = 0
    valueless: int = 0  # of these, records without a value


class Rows(Protocol):
    """One transaction's view of the tables. A batch of records has a number, and exists from its first record on.

    `merge` and `requeue` move a page of records into another batch. Of two versions of a key the one that arrived later
    stays. A requeue removes deadlines and sets the expiry.

    `expect` and `concern` announce what a unit of work needs, so that a server is asked once, and all transactions lock
    rows in the same order. `slot`, `letter` and `letter_with` raise Unreadable; `scan` and `letters` note damage and
    give None for it, `history` leaves it out.
    """

    tenants: Tenants  # by which `remember` and `put_removals` file
    tally: dict[str, int]  # changes to the ledger's counters
    budget: int  # records that this transaction may still delete

    def expect(self, arrivals: Sequence[Arrival]) -> None: ...
    def concern(self, timelines: Iterable[str]) -> None: ...
    def next_number(self) -> int: ...
    def sequence(self) -> int: ...

    # timelines
    def slot(self, timeline: str) -> Slot: ...
    def put_slot(self, timeline: str, slot: Slot) -> None: ...
    def waiting(self, deadline: Millis, *, after: tuple[int, int] | None, limit: int) -> list[Waiting]: ...
    def stale_ready(self, deadline: Millis, *, limit: int) -> list[str]: ...
    def lapsed(self, now: Millis, *, limit: int) -> list[str]: ...
    def lapsed_while_paused(self, now: Millis, *, limit: int) -> list[str]: ...
    def suspects(self, now: Millis, *, skip: int, limit: int) -> list[str]: ...  # lapsed and not paused
    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]: ...
    def expiring(self, now: Millis, *, limit: int) -> list[str]: ...
    def claimable(self, now: Millis, *, limit: int) -> tuple[list[str], Millis | None]: ...  # and the first lapse
    def due(self, now: Millis, *, limit: int) -> list[str]: ...  # what `claimable` gives, locked or not
    def in_order(self, mark: str, *, after: tuple[int, int] | None, limit: int) -> list[Found]: ...  # `mark` of Marks
    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot | None]]: ...

    # damage
    def note_damage(self, damage: Damage) -> None: ...
    def unindex(self, timeline: str) -> None: ...  # out of all indexes
    def reindex(self, timeline: str) -> None: ...  # into all indexes, as its slot says
    def remove_timeline(self, timeline: str) -> None: ...  # its row alone
    def timeline_rows(self, *, after: str | None, limit: int) -> list[TimelineRow]: ...
    def letter_rows(self, *, after: int, limit: int) -> list[LetterRow]: ...
    def replace_letter(self, row: LetterRow, letter: DeadLetter | None) -> None: ...
    def damaged_entries(self) -> list[tuple[int, Damage]]: ...  # of the history, by their places
    def remove_entry(self, place: int) -> None: ...
    def notes(self) -> dict[str, bytes]: ...
    def batches(self) -> dict[int, int]: ...  # number → records, without those in the trash
    def valueless_keys(self, batch: int, *, limit: int) -> list[str]: ...  # of records without a value

    # records
    def put_record(self, batch: int, record: Stored, *, deadline: Millis | None, expires: Millis) -> bool: ...
    def record(self, batch: int, key: str) -> Stored | None: ...
    def page(self, batch: int, *, after: Cursor | None, limit: int, room: int = UNBOUNDED) -> list[Stored]: ...
    def newest_keys(self, batch: int, *, limit: int) -> list[str]: ...
    def fitting(self, batch: int, max_bytes: int) -> int: ...  # how many of the newest records, at least one
    def remove_record(self, batch: int, key: str) -> bool: ...
    def drop_oldest(self, batch: int, count: int) -> int: ...
    def expire(self, batch: int, now: Millis, *, limit: int) -> int: ...
    def move_record(self, key: str, source: int, target: int) -> bool: ...
    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]: ...  # how many moved, and superseded
    def requeue(self, source: int, target: int, *, expires: Millis, limit: int) -> tuple[int, int]: ...  # the oldest
    def earliest_deadline(self, batch: int) -> Millis | None: ...
    def earliest_expiry(self, batch: int) -> Millis: ...
    def latest_expiry(self, batch: int) -> Millis: ...
    def sizes(self, batches: Sequence[int]) -> dict[int, Size]: ...
    def delete_batch(self, batch: int) -> None: ...
    def trash(self, batch: int) -> None: ...
    def sweep(self, limit: int) -> bool: ...

    # exports and imports
    def read_export(self, batch: int, *, after: Cursor | None, limit: int) -> list[ExportedRecord]: ...
    def import_records(self, batch: int, records: Sequence[ExportedRecord]) -> int: ...
    def lock_note(self, name: str) -> None: ...  # other transactions that lock it wait until this one has ended
    def note(self, name: str) -> bytes | None: ...
    def put_note(self, name: str, body: bytes | None) -> None: ...
    def remove_notes(self, prefix: str) -> None: ...
    def is_moving(self) -> bool: ...  # the store is being moved into another
    def moving(self) -> str | None: ...  # since when, and the id of the move
    def put_moving(self, moving: str | None) -> None: ...

    # dead letters and history
    def letter(self, letter_id: str) -> DeadLetter | None: ...
    def letter_batch(self, letter_id: str) -> int: ...
    def put_letter(self, letter: DeadLetter, batch: int) -> None: ...
    def update_letter(self, letter: DeadLetter) -> None: ...
    def remove_letter(self, letter_id: str) -> None: ...
    def letters(
        self, timeline: str | None, *, after: str | None, limit: int
    ) -> list[tuple[str, DeadLetter | None]]: ...
    def letter_with(self, timeline: str, key: str) -> DeadLetter | None: ...
    def remember(self, ended: HistoryEntry) -> None: ...
    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]: ...
    def delete_history(self, timeline: str) -> None: ...
    def oldest_entry(self, ring: str) -> HistoryEntry | None: ...  # None if no older one was forgotten
    def removals(self, timeline: str) -> Removals: ...
    def put_removals(self, timeline: str, removals: Removals) -> None: ...  # HISTORY_LIMIT timelines of a ring
    def delete_removals(self, timeline: str) -> None: ...
    def oldest_removals(self, ring: str) -> Removals | None: ...  # likewise

    # documents
    def document(self, collection: str, key: str) -> DocumentRow | None: ...
    def put_document(self, row: DocumentRow) -> None: ...
    def remove_document(self, row: DocumentRow) -> None: ...
    def oldest_document(
        self, collection: str, ring: str | None
    ) -> DocumentRow | None: ...  # of one ring or all; its body may be left out
    def newest_documents(
        self, collection: str, *, timeline: str | None, before: int, limit: int
    ) -> list[DocumentRow]: ...
    def documents_of(self, timeline: str, *, limit: int) -> list[DocumentRow]: ...

    # counts
    def ledger(self) -> Ledger: ...
    def reset_counters(self, counters: Sequence[str]) -> None: ...  # to 0: no difference could be added to them
    def digests_delivered(self) -> int: ...
    def standing(self, now: Millis, most: int | None = None) -> Standing: ...  # counts end at `most`
    def count_timelines(self, prefix: str, most: int) -> int: ...
    def footprint(self) -> Mapping[str, int]: ...
    def trashed_records(self) -> int: ...


def put(rows: Rows, timeline: str, before: Slot, after: Slot) -> None:
    """Save a slot. One that begins to wait gets a number: `schedule` gives only what waited when its call began."""
    if after.state is State.WAITING and before.state is not State.WAITING:
        after = replace(after, placed=rows.next_number())
    rows.put_slot(timeline, after)


def readable(rows: Rows, timelines: Iterable[str]) -> Iterator[tuple[str, Slot]]:
    """Timelines that an index found, with their slots.

    One whose slot is damaged leaves all indexes: it would be found again and again, in the place of others.
    """
    for timeline in timelines:
        try:
            slot = rows.slot(timeline)
        except Unreadable as error:
            rows.note_damage(error.damage)
            rows.unindex(timeline)
        else:
            yield timeline, slot


def within(records: Iterable[Stored], room: int) -> list[Stored]:
    """Records up to the one that fills the room (bytes of payloads)."""
    page: list[Stored] = []
    for record in records:
        page.append(record)
        room -= len(record.payload or b"")
        if room <= 0:
            break
    return page


def held_slot(rows: Rows, lease: Lease, *, now: Millis) -> Slot | None:
    """The slot of a timeline that is open under this lease; None if the token is stale or the slot damaged."""
    try:
        slot = rows.slot(lease.timeline)
    except Unreadable as error:
        rows.note_damage(error.damage)
        return None
    return slot if machine.is_held(slot, lease.token, now=now) else None
