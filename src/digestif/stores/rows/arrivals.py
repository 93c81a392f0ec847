"""Arrivals: add records to a timeline, and retract pending ones."""

from collections.abc import Sequence

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.capacity import Stored
from digestif.core.machine import USUAL_PAYLOAD
from digestif.core.records import State
from digestif.core.removals import after_retraction
from digestif.core.terms import in_force
from digestif.core.times import Millis
from digestif.stores.base import PAGE_RECORDS, Accepted, Arrival
from digestif.stores.rows.expiry import with_fewer_pending
from digestif.stores.rows.view import NEVER, Rows, put


def add_all(rows: Rows, batch: Sequence[Arrival], *, now: Millis) -> list[Accepted]:
    rows.expect(batch)
    return [add(rows, arrival, now=now) for arrival in batch]


def add(rows: Rows, arrival: Arrival, *, now: Millis) -> Accepted:
    before = rows.slot(arrival.timeline)
    terms = in_force(arrival.terms, before.override)
    if machine.is_off(before):
        rows.tally["declined"] += 1
        return Accepted()
    batch = rows.next_number() if before.batch is None else before.batch
    deadline = None if arrival.within is None else now + arrival.within
    expires = NEVER if terms.ttl is None else now + terms.ttl
    record = Stored(arrival.key, arrival.payload, arrival.timestamp, rows.next_number())
    superseded = rows.put_record(batch, record, deadline=deadline, expires=expires)
    pending = before.pending if superseded else before.pending + 1
    dropped = 0
    if terms.capacity is not None and pending > terms.capacity:
        dropped = rows.drop_oldest(batch, min(pending - terms.capacity, PAGE_RECORDS))
        pending -= dropped
    tally = rows.tally
    tally["accepted"] += 1
    tally["pending"] += pending - before.pending
    tally["superseded"] += superseded
    tally["dropped"] += dropped
    if before.deadline is not None or deadline is not None:
        deadline = rows.earliest_deadline(batch)
    kept = replace(
        before,
        batch=batch,
        dropped=before.dropped + dropped,
        expires=expires if before.expires is None else min(before.expires, expires),
    )
    if len(arrival.payload) > USUAL_PAYLOAD:
        kept = replace(kept, heavy=True)
    after = machine.after_add(
        kept, now=now, terms=arrival.terms, pending=pending, deadline=deadline, moving=rows.is_moving()
    )
    put(rows, arrival.timeline, before, after)
    due = machine.next_delivery(after) if arrival.asks_due else None
    return Accepted(after.state is State.READY and before.state is State.IDLE, dropped, due)


def retract(rows: Rows, timeline: str, key: str, *, now: Millis) -> bool:
    slot = rows.slot(timeline)
    if slot.batch is None or not rows.remove_record(slot.batch, key):
        return False
    rows.tally["pending"] -= 1
    rows.tally["deleted"] += 1
    rows.put_slot(timeline, with_fewer_pending(rows, slot, 1))
    rows.put_removals(timeline, after_retraction(rows.removals(timeline), key, now=now))
    return True
