"""Exports and imports of timelines, dead letters and counts."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from digestif.core import machine
from digestif.core.capacity import Cursor, age_order
from digestif.core.ledger import FATES
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter
from digestif.core.times import Millis
from digestif.core.transfer import (
    INCOMING,
    OUTGOING,
    after_abort_export,
    after_begin_export,
    after_commit_export,
    after_import_completed,
    after_import_of_digest,
    after_import_of_pending,
    after_import_of_timeline,
    brings_override,
    is_of_move,
    move_mark,
    move_start,
)
from digestif.errors import Busy
from digestif.stores.damage import Loss, Unreadable, decoded_note
from digestif.stores.rows.endings import delete_batch, delete_digest
from digestif.stores.rows.expiry import expirable
from digestif.stores.rows.leases import move_to_open
from digestif.stores.rows.losses import count_lost, held, recounted
from digestif.stores.rows.overrides import emptied, planned_by
from digestif.stores.rows.view import Rows, put
from digestif.stores.transfer import PAST, ExportedRecord, Fence, ImportPage, ImportProgress, Parcel, ParcelKind

_encode = msgspec.json.Encoder().encode
_progress = msgspec.json.Decoder(ImportProgress).decode
_counts = msgspec.json.Decoder(dict[str, int]).decode

MOVE_LOCK = "moving"  # the name of a note that is never written: its lock keeps two calls apart

# The move


def begin_move(rows: Rows, move_id: str, *, now: Millis) -> None:
    rows.lock_note(MOVE_LOCK)
    if not is_of_move(rows.moving(), move_id):
        rows.put_moving(move_mark(move_id, now=now))


def end_move(rows: Rows, move_id: str | None) -> bool:
    rows.lock_note(MOVE_LOCK)
    moving = rows.moving()
    if moving is None or (move_id is not None and not is_of_move(moving, move_id)):
        return False
    rows.put_moving(None)
    return True


def moving_since(rows: Rows) -> Millis | None:
    moving = rows.moving()
    return None if moving is None else move_start(moving)


# Exports


def due(rows: Rows, *, limit: int, now: Millis) -> list[tuple[str, Slot]]:
    found = rows.due(now, limit=limit)
    rows.concern(found)
    slots = [(timeline, _slot(rows, timeline)) for timeline in found]
    return [(timeline, slot) for timeline, slot in slots if slot is not None]


def _slot(rows: Rows, timeline: str) -> Slot | None:
    """The slot of a timeline; None if it is damaged, which is noted."""
    try:
        return rows.slot(timeline)
    except Unreadable as error:
        rows.note_damage(error.damage)
        return None


def begin_export(
    rows: Rows, timelines: Sequence[str], *, token: str, now: Millis
) -> tuple[list[Parcel | None], list[Loss]]:
    """Hold timelines and count their parcels: the second answer is what they have lost."""
    rows.concern(timelines)
    losses: list[Loss] = []
    parcels = [
        _begin_export(rows, timeline, losses, token=f"{OUTGOING}{token}-{place}", now=now)
        for place, timeline in enumerate(timelines)
    ]
    return parcels, losses


def _begin_export(rows: Rows, timeline: str, losses: list[Loss], *, token: str, now: Millis) -> Parcel | None:
    slot = rows.slot(timeline)
    is_outgoing = slot.token is not None and slot.token.startswith(OUTGOING)
    if slot == IDLE or (machine.is_live(slot, now=now) and not is_outgoing):
        return None
    if not is_outgoing:
        fresh_batch = rows.next_number() if slot.batch is None else slot.batch
        leaving = after_begin_export(slot, now=now, token=token, fresh_batch=fresh_batch)
        move_to_open(rows, slot, leaving)
        slot = expirable(rows, leaving)
        rows.put_slot(timeline, slot)
    counted, lost = recounted(rows, slot)  # a parcel that lacks records would never be whole
    if counted is not slot:
        slot = counted
        rows.put_slot(timeline, slot)
    if lost:
        losses.append((timeline, lost))
    return Parcel.of(timeline, slot)


def read_export(
    rows: Rows, requests: Sequence[tuple[Parcel, Cursor | None]], *, limit: int
) -> list[list[ExportedRecord]]:
    rows.concern(parcel.timeline for parcel, _ in requests)
    pages = []
    for parcel, after in requests:
        batch = _batch(rows, parcel)
        page = rows.read_export(batch, after=after, limit=limit) if batch is not None and limit else []
        limit -= len(page)
        pages.append(page)
    return pages


def _batch(rows: Rows, parcel: Parcel) -> int | None:
    if parcel.letter is not None:
        return rows.letter_batch(parcel.letter.id) if rows.letter(parcel.letter.id) is not None else None
    slot = rows.slot(parcel.timeline)
    return slot.digest.batch if slot.digest is not None and slot.token == parcel.id else None


def commit_export(rows: Rows, parcels: Sequence[Parcel], *, now: Millis) -> list[bool]:
    rows.concern(parcel.timeline for parcel in parcels)
    return [
        _delete_held(rows, parcel, parcel.id, now=now)
        if parcel.letter is None
        else _delete_letter(rows, parcel.letter.id)
        for parcel in parcels
    ]


def _delete_held(rows: Rows, parcel: Parcel, token: str, *, now: Millis) -> bool:
    """Delete a digest that an export or import holds; its records no longer count as accepted."""
    slot = rows.slot(parcel.timeline)
    digest = slot.digest
    if digest is None or slot.token != token:
        return False
    delete_digest(rows, digest)
    rows.tally["open"] -= digest.records
    rows.tally["accepted"] -= digest.records
    put(rows, parcel.timeline, slot, after_commit_export(slot, parcel.slot, now=now))
    return True


def _delete_letter(rows: Rows, letter_id: str) -> bool:
    """Delete a dead letter, or the imported part of one; its records no longer count as accepted."""
    letter = rows.letter(letter_id)
    if letter is None:
        return False
    batch = rows.letter_batch(letter_id)
    moved = letter.records - count_lost(rows, letter, found=held(rows, batch))
    delete_batch(rows, batch, letter.records)
    rows.remove_letter(letter_id)
    rows.tally["dead"] -= moved
    rows.tally["accepted"] -= moved
    return True


def abort_export(rows: Rows, timelines: Sequence[str]) -> list[bool]:
    rows.concern(timelines)
    return [_abort_export(rows, timeline) for timeline in timelines]


def _abort_export(rows: Rows, timeline: str) -> bool:
    slot = rows.slot(timeline)
    if slot.token is None or not slot.token.startswith(OUTGOING):
        return False
    put(rows, timeline, slot, expirable(rows, after_abort_export(slot)))
    return True


def export_counts(rows: Rows, name: str) -> Mapping[str, int]:
    rows.lock_note(name)
    noted = rows.note(name)
    if noted is not None:
        return _counts(noted)
    ledger = rows.ledger()
    counts = {fate: getattr(ledger, fate) for fate in PAST}
    rows.put_note(name, _encode(counts))
    for fate, count in counts.items():
        rows.tally[fate] -= count
        rows.tally["accepted"] -= count if fate in FATES else 0
    return counts


# Imports


def _check_fence(rows: Rows, fence: Fence | None) -> None:
    """Raise Busy unless the note of the fence names its holder."""
    if fence is not None and rows.note(fence.name) != fence.holder:
        raise Busy("move: this process was away for too long, and another one went on with the move")


def import_pages(
    rows: Rows, pages: Sequence[ImportPage], *, fence: Fence | None, now: Millis
) -> list[ImportProgress | None]:
    _check_fence(rows, fence)
    rows.concern(page.parcel.timeline for page in pages)
    return [_import_page(rows, page, now=now) for page in pages]


def progress_of(rows: Rows, parcel: Parcel) -> ImportProgress:
    noted = rows.note(parcel.id)
    return ImportProgress() if noted is None else decoded_note(parcel.id, noted, _progress)


def delete_progress(rows: Rows, parcels: Sequence[Parcel]) -> None:
    for parcel in parcels:
        rows.put_note(parcel.id, None)


def _import_page(rows: Rows, page: ImportPage, *, now: Millis) -> ImportProgress | None:
    parcel, records = page.parcel, page.records
    progress = progress_of(rows, parcel)
    if progress.whole or progress.done != page.done:
        return progress
    done = page.done + len(records)
    after = age_order(records[-1].record) if records else progress.after
    arrived = ImportProgress(done=done, after=after, whole=done >= parcel.records)
    try:
        if not _import_records(rows, page, whole=arrived.whole, now=now):
            return None
    except _Deleted:
        rows.put_note(parcel.id, None)
        return ImportProgress()
    rows.tally["accepted"] += len(records)
    rows.put_note(parcel.id, _encode(arrived))
    return arrived


class _Deleted(Exception):
    """The imported part was deleted meanwhile: the import starts over."""


def _import_records(rows: Rows, page: ImportPage, *, whole: bool, now: Millis) -> bool:
    """Import the records of a page; False if its digest has to wait."""
    match page.parcel.kind:
        case ParcelKind.PENDING:
            _import_pending(rows, page, now=now)
        case ParcelKind.LETTER:
            _import_letter(rows, page, whole=whole)
        case ParcelKind.DIGEST:
            return _import_digest(rows, page, whole=whole)
    return True


def _import_pending(rows: Rows, page: ImportPage, *, now: Millis) -> None:
    timeline, exported = page.parcel.timeline, page.parcel.slot
    before = rows.slot(timeline)
    slot = before if page.done else after_import_of_timeline(before, exported)
    if machine.is_off(slot):
        rows.tally["deleted"] += len(page.records)
    else:
        if page.records:
            slot = _with_records(rows, slot, page, now=now)
        if slot.override is not None and brings_override(before, slot):
            slot = planned_by(rows, slot, slot.override, now=now)
    _put_arrived(rows, timeline, before, slot)


def _with_records(rows: Rows, slot: Slot, page: ImportPage, *, now: Millis) -> Slot:
    batch = rows.next_number() if slot.batch is None else slot.batch
    fresh = rows.import_records(batch, page.records)
    rows.tally["pending"] += fresh
    rows.tally["superseded"] += len(page.records) - fresh
    held = page.parcel.slot.digest
    assert held is not None
    joined = after_import_of_pending(
        replace(slot, batch=batch),
        now=now,
        pending=slot.pending + fresh,
        dropped=0 if page.done else held.dropped,
        first=held.opened,
        deadline=rows.earliest_deadline(batch),
        heavy=held.heavy,
    )
    return expirable(rows, joined)


def _import_digest(rows: Rows, page: ImportPage, *, whole: bool) -> bool:
    timeline, exported = page.parcel.timeline, page.parcel.slot
    before = rows.slot(timeline)
    slot = before
    if page.done == 0:
        if slot.digest is not None:
            return False
        assert exported.digest is not None
        empty = replace(exported.digest, batch=rows.next_number(), records=0)
        slot = after_import_of_digest(
            after_import_of_timeline(slot, exported), exported, empty, token=INCOMING + page.parcel.id
        )
    elif slot.token != INCOMING + page.parcel.id:
        raise _Deleted
    assert slot.digest is not None
    rows.import_records(slot.digest.batch, page.records)
    rows.tally["open"] += len(page.records)
    slot = replace(slot, digest=replace(slot.digest, records=slot.digest.records + len(page.records)))
    if whole:
        slot = expirable(rows, after_import_completed(slot))
    _put_arrived(rows, timeline, before, slot)
    return True


def _put_arrived(rows: Rows, timeline: str, before: Slot, slot: Slot) -> None:
    """Save a timeline into which an import brought something, empty if it is off.

    The choice of `off` came along, or was made here before the import was whole.
    """
    put(rows, timeline, before, emptied(rows, slot) if machine.is_off(slot) else slot)


def _import_letter(rows: Rows, page: ImportPage, *, whole: bool) -> None:
    """A dead letter has another id until it is whole, so that a part of it can't be replayed."""
    letter = page.parcel.letter
    assert letter is not None
    incoming = INCOMING + page.parcel.id
    if page.done:
        if rows.letter(incoming) is None:
            raise _Deleted
        batch = rows.letter_batch(incoming)
        rows.remove_letter(incoming)
    else:
        _delete_letter(rows, incoming)  # an earlier import may have left a part
        batch = rows.next_number()
    rows.import_records(batch, page.records)
    rows.tally["dead"] += len(page.records)
    arrived = page.done + len(page.records)
    rows.put_letter(letter if whole else _part_of(letter, incoming, arrived), batch)


def abort_import(rows: Rows, parcels: Sequence[Parcel], *, now: Millis) -> None:
    rows.concern(parcel.timeline for parcel in parcels)
    for parcel in parcels:
        incoming = INCOMING + parcel.id
        _delete_letter(rows, incoming)
        _delete_held(rows, parcel, incoming, now=now)
        rows.put_note(parcel.id, None)


def _part_of(letter: DeadLetter, name: str, records: int) -> DeadLetter:
    return msgspec.convert({**msgspec.to_builtins(letter), "id": name, "records": records}, DeadLetter)


def import_counts(rows: Rows, name: str, counts: Mapping[str, int], *, fence: Fence | None) -> None:
    rows.lock_note(name)
    _check_fence(rows, fence)
    if rows.note(name) is None:
        rows.put_note(name, b"1")
        for fate, count in counts.items():
            rows.tally[fate] += count
            rows.tally["accepted"] += count if fate in FATES else 0


# Notes


def swap_note(rows: Rows, name: str, old: bytes | None, new: bytes | None) -> bool:
    rows.lock_note(name)
    if rows.note(name) != old:
        return False
    rows.put_note(name, new)
    return True
