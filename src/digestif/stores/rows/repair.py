"""Repairs: records of damaged timelines become dead letters, and counts follow from the data.

Every repair takes the transaction and the time first, so that a survey can list them as partial functions.
"""

from collections.abc import Sequence
from dataclasses import replace as changed

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.damage import LOST_AND_FOUND, legible
from digestif.core.machine import Slot, Unfinished
from digestif.core.records import DeadLetter, State
from digestif.core.texts import LONGEST_TEXT
from digestif.core.times import Millis, to_seconds
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS
from digestif.stores.rows.endings import letter_of
from digestif.stores.rows.expiry import expirable, with_fewer_pending
from digestif.stores.rows.view import LetterRow, Rows, Size, TimelineRow


def quarantine(rows: Rows, now: Millis, *, row: TimelineRow, pending: Sequence[int], in_digest: Sequence[int]) -> None:
    """Turn the records of a damaged timeline into dead letters, and remove its row, apart from what people chose.

    Records of its digest may have gone out, which a lapse notes; pending ones have not.
    """
    reason = "its row was damaged" if row.damage is None else row.damage.problem
    timeline = row.name if legible(row.name) == row.name else LOST_AND_FOUND
    for batch in pending:
        _bury_batch(rows, now, timeline, batch, f"these records were pending: {reason}")
    for batch in in_digest:
        _bury_batch(rows, now, timeline, batch, f"these records were in a digest: {reason}", lapses=1)
    if row.slot is None:
        rows.remove_timeline(row.name)
    else:
        rows.put_slot(row.name, machine.after_retirement(row.slot))
        rows.reindex(row.name)


def adopt(rows: Rows, now: Millis, *, batch: int, reason: str) -> None:
    """Bury records that nothing owns, in a timeline of their own."""
    _bury_batch(rows, now, LOST_AND_FOUND, batch, reason, lapses=1)


def _bury_batch(rows: Rows, now: Millis, timeline: str, batch: int, reason: str, *, lapses: int = 0) -> None:
    gone = _quarantine_keys(rows, now, timeline, batch)
    rows.tally["dead"] -= gone  # `repair_page` counts them with the others
    size = rows.sizes([batch]).get(batch, Size())
    digest = Unfinished(id=fresh_id(), batch=batch, records=size.records, opened=now, attempt=lapses, lapses=lapses)
    if digest.records:
        rows.put_letter(letter_of(timeline, digest, reason[:LONGEST_TEXT], now=now), batch)


def write_letter_anew(rows: Rows, now: Millis, *, row: LetterRow, records: int, reason: str) -> None:
    """Write a dead letter again with the right number of records; if it could be read, with the rest as before."""
    letter = row.letter
    names = {name: value for name, value in (("id", row.id), ("timeline", row.timeline)) if legible(value) == value}
    at = to_seconds(now)
    fresh = DeadLetter(
        id=names.get("id", fresh_id()),
        timeline=names.get("timeline", LOST_AND_FOUND),
        revision=1 if letter is None else letter.revision,
        attempts=1 if letter is None else letter.attempts,
        lapses=1 if letter is None else letter.lapses,  # it may have gone out
        reason=reason[:LONGEST_TEXT] if letter is None else letter.reason,
        records=records,
        dropped=0 if letter is None else letter.dropped,
        opened=at if letter is None else letter.opened,
        buried=at if letter is None else letter.buried,
        served=() if letter is None else letter.served,
    )
    rows.replace_letter(row, fresh if records else None)


def remove_entry(rows: Rows, now: Millis, *, place: int) -> None:  # noqa: ARG001
    rows.remove_entry(place)


def remove_note(rows: Rows, now: Millis, *, name: str) -> None:  # noqa: ARG001
    rows.put_note(name, None)


def leave(rows: Rows, now: Millis) -> None:
    """Do nothing: `repair_page` corrects the ledger after the last page."""


def reindex(rows: Rows, now: Millis, *, timeline: str) -> None:  # noqa: ARG001
    rows.reindex(timeline)


def count_anew(rows: Rows, now: Millis, *, timeline: str) -> None:  # noqa: ARG001
    """Correct the numbers of records in a slot."""
    slot = rows.slot(timeline)
    if slot.batch is not None:
        slot = _with_pending(slot, _records(rows, [slot.batch]))
    if slot.digest is not None:
        batches = [batch for batch in (slot.digest.batch, slot.digest.merging) if batch is not None]
        slot = _with_digest(slot, replace(slot.digest, records=_records(rows, batches)))
    rows.put_slot(timeline, expirable(rows, slot))


def _records(rows: Rows, batches: Sequence[int]) -> int:
    return sum(size.records for size in rows.sizes(batches).values())


def _with_pending(slot: Slot, pending: int) -> Slot:
    if pending == 0:
        return replace(machine.without_pending(slot), dropped=slot.dropped)
    return replace(slot, pending=pending)


def _with_digest(slot: Slot, digest: Unfinished) -> Slot:
    gone = digest.records == 0 and slot.state is not State.OPEN
    return replace(slot, digest=None if gone else digest)


def quarantine_valueless(rows: Rows, now: Millis, *, timeline: str) -> None:
    """Quarantine records without a value. Those of a digest under a live lease are left to its holder."""
    slot = rows.slot(timeline)
    if slot.batch is not None:
        gone = _quarantine_keys(rows, now, timeline, slot.batch)
        rows.tally["pending"] -= gone
        slot = with_fewer_pending(rows, slot, gone) if gone else slot
    if slot.digest is not None and not machine.is_live(slot, now=now):
        gone = _quarantine_keys(rows, now, timeline, slot.digest.batch)
        rows.tally["open"] -= gone
        slot = _with_digest(slot, machine.after_losing(slot.digest, gone))
    rows.put_slot(timeline, expirable(rows, slot))


def divide_letter(rows: Rows, now: Millis, *, row: LetterRow) -> None:
    """Quarantine the records of a dead letter that have no value: the others can be replayed and requeued."""
    letter = rows.letter(row.id)
    if letter is None:
        return
    gone = _quarantine_keys(rows, now, letter.timeline, rows.letter_batch(row.id))
    rows.tally["dead"] -= gone  # they were dead before
    left = letter.records - gone
    if left > 0:
        rows.update_letter(changed(letter, records=left, revision=letter.revision + 1))
    else:
        rows.replace_letter(row, None)


def _quarantine_keys(rows: Rows, now: Millis, timeline: str, batch: int) -> int:
    keys = rows.valueless_keys(batch, limit=PAGE_RECORDS)
    for key in keys:
        alone = Unfinished(id=fresh_id(), batch=rows.next_number(), records=1, opened=now, attempt=0)
        rows.move_record(key, batch, alone.batch)
        rows.put_letter(letter_of(timeline, alone, "the stored value is missing", now=now), alone.batch)
    rows.tally["dead"] += len(keys)
    return len(keys)
