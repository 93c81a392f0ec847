"""What happens to open digests and their records: delivered, buried, quarantined, removed, or noted as served."""

from collections.abc import Sequence

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.damage import legible
from digestif.core.machine import Unfinished
from digestif.core.records import DeadLetter, HistoryEntry, Outcome
from digestif.core.times import Millis, to_seconds
from digestif.errors import InvalidState
from digestif.stores.base import HISTORY_KEYS, Burial, Completion, Lease, QuarantinedRecord
from digestif.stores.rows.view import Rows, held_slot, put

NOTHING_LEFT = "no record was left to send"


def complete_all(rows: Rows, completions: Sequence[Completion], *, now: Millis) -> list[bool]:
    rows.concern(completion.lease.timeline for completion in completions)
    return [complete(rows, completion, now=now) for completion in completions]


def complete(rows: Rows, completion: Completion, *, now: Millis) -> bool:
    timeline = completion.lease.timeline
    slot = held_slot(rows, completion.lease, now=now)
    if slot is None or slot.digest is None:
        return False
    digest = slot.digest
    if digest.left_out and not digest.records:
        rows.remember(ended(timeline, digest, Outcome.DISCARDED, reason=NOTHING_LEFT, now=now))
    if digest.records:
        keys = newest_keys(rows, digest.batch)
        rows.remember(ended(timeline, digest, Outcome.DELIVERED, keys=keys, receipt=completion.receipt, now=now))
        delete_digest(rows, digest)
        rows.tally["digests"] += 1
    rows.tally["open"] -= digest.records
    rows.tally["delivered"] += digest.records
    after = machine.after_completion(slot, now=now, plan=completion.plan)
    put(rows, timeline, slot, after)
    return True


def bury_all(rows: Rows, burials: Sequence[Burial], *, now: Millis) -> list[bool]:
    rows.concern(burial.lease.timeline for burial in burials)
    for burial in burials:
        slot = held_slot(rows, burial.lease, now=now)
        if slot is not None and slot.digest is not None and slot.digest.merging is not None:
            raise InvalidState(f"{burial.lease.timeline!r} is being merged: take it whole before burying it")
    return [_bury(rows, burial, now=now) for burial in burials]


def _bury(rows: Rows, burial: Burial, *, now: Millis) -> bool:
    timeline = burial.lease.timeline
    slot = held_slot(rows, burial.lease, now=now)
    if slot is None or slot.digest is None:
        return False
    digest = slot.digest
    if digest.records:
        keys = newest_keys(rows, digest.batch)
        digest = replace(digest, unknown=digest.unknown or burial.unknown)
        letter = letter_of(timeline, digest, burial.reason, now=now, traceback=burial.traceback)
        rows.put_letter(letter, digest.batch)
        rows.remember(ended(timeline, digest, Outcome.DEAD, keys=keys, reason=burial.reason, now=now))
    rows.tally["open"] -= digest.records
    rows.tally["dead"] += digest.records
    after = machine.after_completion(slot, now=now, plan=burial.plan)
    put(rows, timeline, slot, after)
    return True


def quarantine(rows: Rows, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis) -> bool:
    slot = held_slot(rows, lease, now=now)
    if slot is None or slot.digest is None:
        return False
    digest = slot.digest
    gone = 0
    for record in records:
        batch = rows.next_number()
        if not rows.move_record(record.key, digest.batch, batch):
            continue
        gone += 1
        alone = replace(digest, id=record.letter_id, batch=batch, records=1, dropped=0, served=())
        rows.put_letter(letter_of(lease.timeline, alone, record.reason, now=now), batch)
    rows.tally["open"] -= gone
    rows.tally["dead"] += gone
    left = machine.after_losing(digest, gone)
    rows.put_slot(lease.timeline, replace(slot, digest=left))
    return True


def remove(rows: Rows, lease: Lease, keys: Sequence[str], *, now: Millis) -> int | None:
    slot = held_slot(rows, lease, now=now)
    if slot is None or slot.digest is None:
        return None
    digest = slot.digest
    gone = [key for key in keys if rows.remove_record(digest.batch, key)]
    rows.tally["open"] -= len(gone)
    rows.tally["deleted"] += len(gone)
    left = machine.after_losing(digest, len(gone))
    named = [key for key in gone if legible(key) == key]
    left = replace(left, left_out=(*digest.left_out, *named)[:HISTORY_KEYS])
    rows.put_slot(lease.timeline, replace(slot, digest=left))
    return left.revision


def mark_served(rows: Rows, lease: Lease, recipients: Sequence[str], *, now: Millis) -> bool:
    slot = held_slot(rows, lease, now=now)
    if slot is None or slot.digest is None:
        return False
    digest = slot.digest
    fresh = [recipient for recipient in recipients if recipient not in digest.served]
    rows.put_slot(lease.timeline, replace(slot, digest=replace(digest, served=(*digest.served, *fresh))))
    return True


def newest_keys(rows: Rows, batch: int) -> tuple[str, ...]:
    """The record keys for the history."""
    return tuple(rows.newest_keys(batch, limit=HISTORY_KEYS))


def delete_digest(rows: Rows, digest: Unfinished) -> None:
    delete_batch(rows, digest.batch, digest.records)
    if digest.merging is not None:
        rows.trash(digest.merging)


def delete_batch(rows: Rows, batch: int, records: int) -> None:
    """Delete a batch at once if it fits into the budget of this transaction, otherwise leave it to `sweep`."""
    if records <= rows.budget:
        rows.budget -= records
        rows.delete_batch(batch)
    else:
        rows.trash(batch)


def letter_of(timeline: str, digest: Unfinished, reason: str, *, now: Millis, traceback: str = "") -> DeadLetter:
    return DeadLetter(
        id=digest.id,
        timeline=timeline,
        revision=digest.revision,
        attempts=digest.attempt,
        lapses=digest.lapses,
        reason=reason,
        records=digest.records,
        dropped=digest.dropped,
        opened=to_seconds(digest.opened),
        buried=to_seconds(now),
        served=machine.who_got(digest),
        traceback=traceback,
        unknown=machine.may_have_gone_out(digest),
    )


def ended(
    timeline: str,
    digest: Unfinished,
    outcome: Outcome,
    *,
    now: Millis,
    keys: tuple[str, ...] = (),
    reason: str | None = None,
    receipt: str | None = None,
) -> HistoryEntry:
    return HistoryEntry(
        id=digest.id,
        timeline=timeline,
        outcome=outcome,
        revision=digest.revision,
        attempts=digest.attempt,
        records=digest.records,
        dropped=digest.dropped,
        opened=to_seconds(digest.opened),
        ended=to_seconds(now),
        reason=reason,
        keys=keys,
        receipt=receipt,
        left_out=digest.left_out,
    )
