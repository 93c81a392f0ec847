"""The verbs of operators: delete, flush, pause, replay, requeue, discard."""

from dataclasses import replace as changed

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import IDLE, Unfinished
from digestif.core.records import DeadLetter, Outcome, State
from digestif.core.terms import in_force
from digestif.core.times import Millis, to_millis
from digestif.errors import Busy
from digestif.stores.base import PAGE_RECORDS, PAGE_TIMELINES, Requeue, Requeued
from digestif.stores.damage import Loss
from digestif.stores.rows.endings import delete_batch, delete_digest, ended, newest_keys
from digestif.stores.rows.losses import count_lost
from digestif.stores.rows.view import NEVER, Rows, put


def delete(rows: Rows, timeline: str, *, token: str | None, now: Millis) -> bool:
    slot = rows.slot(timeline)
    if token is not None and not machine.is_held(slot, token, now=now):
        return False
    letters = _letters_to_delete(rows, timeline)
    rows.delete_history(timeline)
    rows.delete_removals(timeline)
    if slot == IDLE and not letters:
        return False
    in_digest = slot.digest.records if slot.digest is not None else 0
    in_letters = sum(letter.records for letter in letters)
    if slot.batch is not None:
        delete_batch(rows, slot.batch, slot.pending)
    if slot.digest is not None:
        delete_digest(rows, slot.digest)
    for letter in letters:
        delete_batch(rows, rows.letter_batch(letter.id), letter.records)
        rows.remove_letter(letter.id)
    rows.tally["pending"] -= slot.pending
    rows.tally["open"] -= in_digest
    rows.tally["dead"] -= in_letters
    rows.tally["deleted"] += slot.pending + in_digest + in_letters
    rows.put_slot(timeline, IDLE)
    return True


def _letters_to_delete(rows: Rows, timeline: str) -> list[DeadLetter]:
    """The dead letters that go with a timeline, a page of them. A damaged one stays for `repair`."""
    found = rows.letters(timeline, after=None, limit=PAGE_TIMELINES)
    return [letter for _, letter in found if letter is not None]


def flush(rows: Rows, timeline: str, *, now: Millis) -> bool:
    slot = rows.slot(timeline)
    machine.refuse_while_moving(rows.is_moving())
    if slot.state is not State.WAITING:
        return False
    rows.put_slot(timeline, machine.after_flush(slot, now=now))
    return True


def pause(rows: Rows, timeline: str, paused: bool) -> bool:
    slot = rows.slot(timeline)
    if slot.paused == paused:
        return False
    rows.put_slot(timeline, replace(slot, paused=paused))
    return True


def replay(rows: Rows, letter_id: str, *, now: Millis) -> bool:
    letter = rows.letter(letter_id)
    if letter is None:
        return False
    slot = rows.slot(letter.timeline)
    machine.refuse_while_moving(rows.is_moving())
    batch = rows.letter_batch(letter_id)
    machine.refuse_without_value(letter, is_missing=_lacks_its_value(rows, letter, batch))
    if slot.digest is not None:
        raise Busy(f"{letter.timeline!r} has an unfinished digest; replay {letter_id} when that has ended")
    digest = _revived(letter, batch)
    rows.remove_letter(letter_id)
    rows.tally["dead"] -= letter.records
    rows.tally["open"] += letter.records
    rows.put_slot(letter.timeline, machine.after_replay(slot, digest, now=now))
    return True


def requeue(rows: Rows, request: Requeue, *, limit: int, now: Millis) -> tuple[Requeued | None, list[Loss]]:
    """Requeue a page of a dead letter. The second answer is what the letter has lost, known with its last page."""
    letter = rows.letter(request.letter_id)
    if letter is None:
        return None, []
    before = rows.slot(letter.timeline)
    machine.refuse_while_moving(rows.is_moving())
    source = rows.letter_batch(letter.id)
    machine.refuse_without_value(letter, is_missing=_lacks_its_value(rows, letter, source))
    machine.refuse_requeue(before, letter, force=request.force)
    terms = in_force(request.terms, before.override)
    expires = NEVER if terms.ttl is None else now + terms.ttl
    batch = rows.next_number() if before.batch is None else before.batch
    moved, superseded = rows.requeue(source, batch, expires=expires, limit=limit)
    more = _shrink(rows, letter, source, moved)
    gone = 0 if more else count_lost(rows, letter, found=moved)
    losses = [(letter.timeline, gone)] if gone else []
    if not moved:
        return Requeued(0, 0, more=False), losses
    pending = before.pending + moved - superseded
    dropped = 0
    if terms.capacity is not None and pending > terms.capacity:
        dropped = rows.drop_oldest(batch, min(pending - terms.capacity, PAGE_RECORDS))
        pending -= dropped
    rows.tally["dead"] -= moved
    rows.tally["pending"] += pending - before.pending
    rows.tally["superseded"] += superseded
    rows.tally["dropped"] += dropped
    kept = replace(
        before,
        batch=batch,
        dropped=before.dropped + letter.dropped + dropped,
        expires=expires if before.expires is None else min(before.expires, expires),
    )
    deadline = None if before.deadline is None else rows.earliest_deadline(batch)
    after = machine.after_requeue(
        kept, now=now, terms=request.terms, delay=request.delay, pending=pending, deadline=deadline
    )
    put(rows, letter.timeline, before, after)
    return Requeued(moved, dropped, more), losses


def _lacks_its_value(rows: Rows, letter: DeadLetter, batch: int) -> bool:
    """True if the only record of a dead letter has lost its value."""
    return letter.records == 1 and bool(rows.valueless_keys(batch, limit=1))


def _shrink(rows: Rows, letter: DeadLetter, batch: int, gone: int) -> bool:
    """Note how many records are left in a letter, or remove it; True if there are any.

    The rest gets another revision: under the old one other records may have gone out.
    """
    if not rows.newest_keys(batch, limit=1):
        rows.remove_letter(letter.id)
        return False
    left = max(1, letter.records - gone)
    rows.update_letter(changed(letter, records=left, dropped=0, revision=letter.revision + 1))
    return True


def discard(rows: Rows, letter_id: str, *, now: Millis) -> bool:
    letter = rows.letter(letter_id)
    if letter is None:
        return False
    batch = rows.letter_batch(letter_id)
    keys = newest_keys(rows, batch)
    delete_batch(rows, batch, letter.records)
    rows.remove_letter(letter_id)
    rows.tally["dead"] -= letter.records
    rows.tally["deleted"] += letter.records
    digest = _revived(letter, batch)
    rows.remember(ended(letter.timeline, digest, Outcome.DISCARDED, keys=keys, reason=letter.reason, now=now))
    return True


def _revived(letter: DeadLetter, batch: int) -> Unfinished:
    return Unfinished(
        id=letter.id,
        batch=batch,
        records=letter.records,
        opened=to_millis(letter.opened),
        dropped=letter.dropped,
        revision=letter.revision,
        attempt=letter.attempts,
        lapses=letter.lapses,
        served=letter.served,
        unknown=letter.unknown,
    )
