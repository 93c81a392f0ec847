"""The verbs of operators: delete, flush, pause, replay, discard."""

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import IDLE, Unfinished
from digestif.core.records import DeadLetter, Outcome, State
from digestif.core.times import Millis, to_millis
from digestif.errors import Busy
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.rows.endings import delete_batch, delete_digest, ended, newest_keys
from digestif.stores.rows.view import Rows


def delete(rows: Rows, timeline: str) -> bool:
    slot = rows.slot(timeline)
    found = rows.letters(timeline, after=None, limit=PAGE_TIMELINES)
    letters = [letter for _, letter in found if letter is not None]  # a damaged one stays for `repair`
    rows.delete_history(timeline)
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
    if slot.digest is not None:
        raise Busy(f"{letter.timeline!r} has an unfinished digest; replay {letter_id} when that has ended")
    digest = _revived(letter, rows.letter_batch(letter_id))
    rows.remove_letter(letter_id)
    rows.tally["dead"] -= letter.records
    rows.tally["open"] += letter.records
    rows.put_slot(letter.timeline, machine.after_replay(slot, digest, now=now))
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
    )
