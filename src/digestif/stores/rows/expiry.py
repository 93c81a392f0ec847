"""Expiry: records older than their ttl are found by their timeline's earliest expiry, deleted and counted."""

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Slot, Unfinished
from digestif.core.records import Outcome, State
from digestif.core.removals import after_expiry
from digestif.core.times import Millis
from digestif.stores.rows.endings import delete_digest, ended, newest_keys
from digestif.stores.rows.view import NEVER, Rows


def expire(rows: Rows, timeline: str, *, now: Millis, limit: int) -> int:
    slot = rows.slot(timeline)
    expired = 0
    if slot.batch is not None:
        expired = rows.expire(slot.batch, now, limit=limit)
        rows.tally["pending"] -= expired
        if expired:
            slot = with_fewer_pending(rows, slot, expired)
    if slot.digest is not None and slot.state is not State.OPEN:
        digest, gone = _expire_digest(rows, timeline, slot.digest, now=now, limit=limit - expired)
        rows.tally["open"] -= gone
        expired += gone
        slot = replace(slot, digest=digest)
    rows.tally["expired"] += expired
    if expired:
        rows.put_removals(timeline, after_expiry(rows.removals(timeline), expired, now=now))
    slot = machine.after_expiry(expirable(rows, slot), now=now)
    rows.put_slot(timeline, slot)
    return expired


def _expire_digest(rows: Rows, timeline: str, digest: Unfinished, *, now: Millis, limit: int) -> tuple[Unfinished, int]:
    """Expire records of an unfinished digest one by one; a frozen digest as a whole, when its last record expires."""
    if digest.frozen:
        if _digest_expiry(rows, digest) > now or limit == 0:
            return digest, 0
        keys = newest_keys(rows, digest.batch)
        delete_digest(rows, digest)
        rows.remember(ended(timeline, digest, Outcome.EXPIRED, keys=keys, now=now))
        return replace(digest, records=0, merging=None), digest.records
    gone = rows.expire(digest.batch, now, limit=limit)
    if digest.merging is not None:
        gone += rows.expire(digest.merging, now, limit=limit - gone)
    return machine.after_losing(digest, gone), gone


def expirable(rows: Rows, slot: Slot) -> Slot:
    """The slot with the time when its next record expires."""
    return replace(slot, expires=next_expiry(rows, slot, pending=True))


def next_expiry(rows: Rows, slot: Slot, *, pending: bool) -> Millis | None:
    expiry = NEVER
    if pending and slot.batch is not None and slot.pending:
        expiry = rows.earliest_expiry(slot.batch)
    if slot.digest is not None and slot.state is not State.OPEN:
        expiry = min(expiry, _digest_expiry(rows, slot.digest))
    return None if expiry == NEVER else expiry


def _digest_expiry(rows: Rows, digest: Unfinished) -> Millis:
    if digest.replayed or digest.records == 0:
        return NEVER
    batches = [digest.batch] if digest.merging is None else [digest.batch, digest.merging]
    if digest.frozen:
        return max(rows.latest_expiry(batch) for batch in batches)
    return min(rows.earliest_expiry(batch) for batch in batches)


def with_fewer_pending(rows: Rows, slot: Slot, count: int) -> Slot:
    assert slot.batch is not None
    if slot.pending == count:
        return replace(
            machine.without_pending(slot), dropped=slot.dropped, expires=next_expiry(rows, slot, pending=False)
        )
    deadline = rows.earliest_deadline(slot.batch) if slot.deadline is not None else None
    return replace(slot, pending=slot.pending - count, deadline=deadline)
