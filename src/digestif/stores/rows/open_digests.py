"""Open digests are merged, trimmed and read, a page at a time."""

from collections.abc import Sequence

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.capacity import Cursor, Stored, age_order, weight_of
from digestif.core.machine import Slot, Unfinished
from digestif.core.times import Millis
from digestif.stores.base import PAGE_BYTES, PAGE_RECORDS, Take, Taken
from digestif.stores.damage import Loss
from digestif.stores.rows.expiry import expirable
from digestif.stores.rows.leases import move_to_open
from digestif.stores.rows.losses import is_miscounted, recounted
from digestif.stores.rows.view import Rows, held_slot


def take_prepared(rows: Rows, requests: Sequence[Take], *, now: Millis) -> list[Taken | None] | None:
    """The pages; None if a digest has to be prepared first, or counted again, which writes."""
    rows.concern(request.lease.timeline for request in requests)
    if any(_needs_preparation(rows, request, now=now) for request in requests):
        return None
    return take_counted(rows, requests, now=now)


def take_counted(rows: Rows, requests: Sequence[Take], *, now: Millis) -> list[Taken | None] | None:
    """The pages; None if a digest that is read to its end has to be counted again, which writes."""
    answers = take_all(rows, requests, now=now)
    if any(_lacks_records(rows, *each) for each in zip(requests, answers, strict=True)):
        return None
    return answers


def _lacks_records(rows: Rows, request: Take, answer: Taken | None) -> bool:
    """True if a digest that was read to its end has another number of records than its slot notes."""
    if answer is None or not answer.complete:
        return False
    slot = rows.slot(request.lease.timeline)
    if request.after is None and slot.digest is not None:
        return len(answer.records) != slot.digest.records
    return is_miscounted(rows, slot)


def _needs_preparation(rows: Rows, request: Take, *, now: Millis) -> bool:
    slot = held_slot(rows, request.lease, now=now)
    if slot is None or slot.digest is None:
        return False
    digest = slot.digest
    return digest.deciding or not digest.settled or _is_to_be_trimmed(slot, request)


def prepare_all(rows: Rows, requests: Sequence[Take], *, now: Millis) -> list[Loss]:
    """Prepare digests, a page of records at most. The answer is which timelines turned out to have lost how many."""
    rows.concern(request.lease.timeline for request in requests)
    allowed, losses = PAGE_RECORDS, list[Loss]()
    for request in requests:
        if allowed > 0 and _needs_preparation(rows, request, now=now):
            work, lost = _prepare(rows, request, limit=allowed)
            allowed -= work
        else:
            lost = _count_again(rows, request, now=now)
        if lost:
            losses.append((request.lease.timeline, lost))
    return losses


def _count_again(rows: Rows, request: Take, *, now: Millis) -> int:
    slot = held_slot(rows, request.lease, now=now)
    if slot is None or not is_miscounted(rows, slot):
        return 0
    counted, lost = recounted(rows, slot)
    rows.put_slot(request.lease.timeline, expirable(rows, counted))
    return lost


def _prepare(rows: Rows, request: Take, *, limit: int) -> tuple[int, int]:
    """Prepare a digest by one page: end the last merge, decide what this attempt carries, merge, count, trim, weigh."""
    timeline = request.lease.timeline
    slot, work = _merge_page(rows, rows.slot(timeline), limit=limit)
    if slot.digest is not None and slot.digest.deciding and slot.digest.merging is None:
        decided = machine.after_decision(slot, merge=request.merge)
        move_to_open(rows, slot, decided)
        slot, merged = _merge_page(rows, decided, limit=limit - work)
        work += merged
    slot, lost = _count_before_trim(rows, slot, request)
    slot, dropped = _trim(rows, slot, request, limit=limit - work)
    rows.put_slot(timeline, expirable(rows, slot))
    return work + dropped, lost


def _count_before_trim(rows: Rows, slot: Slot, request: Take) -> tuple[Slot, int]:
    """Count a digest that is to be trimmed: by a wrong number it would lose what is whole. To count takes long."""
    return recounted(rows, slot) if _is_to_be_trimmed(slot, request) else (slot, 0)


def _is_to_be_trimmed(slot: Slot, request: Take) -> bool:
    digest = slot.digest
    if digest is None:
        return False
    return machine.excess(digest, request.capacity) > 0 or machine.must_be_weighed(digest, request.max_bytes)


def _merge_page(rows: Rows, slot: Slot, *, limit: int) -> tuple[Slot, int]:
    digest = slot.digest
    if digest is None or digest.merging is None or limit == 0:
        return slot, 0
    moved, superseded = rows.merge(digest.merging, digest.batch, limit=limit)
    rows.tally["open"] -= superseded
    rows.tally["superseded"] += superseded
    done = moved < limit
    merged = replace(digest, records=digest.records - superseded, merging=None if done else digest.merging)
    return replace(slot, digest=merged), moved


def _trim(rows: Rows, slot: Slot, request: Take, *, limit: int) -> tuple[Slot, int]:
    """Once the digest is merged, drop the oldest records above capacity, then those above max_bytes."""
    digest = slot.digest
    if digest is None or digest.merging is not None:
        return slot, 0
    dropped = _drop(rows, digest, min(machine.excess(digest, request.capacity), limit))
    digest = replace(digest, records=digest.records - dropped, dropped=digest.dropped + dropped)
    if machine.excess(digest, request.capacity) == 0 and machine.must_be_weighed(digest, request.max_bytes):
        assert request.max_bytes is not None
        excess = digest.records - rows.fitting(digest.batch, request.max_bytes)
        heavy = _drop(rows, digest, min(excess, limit - dropped))
        digest = machine.after_weighing(digest, heavy, fits=heavy == excess)
        dropped += heavy
    settled = machine.excess(digest, request.capacity) == 0 and not machine.must_be_weighed(digest, request.max_bytes)
    return replace(slot, digest=replace(digest, settled=settled)), dropped


def _drop(rows: Rows, digest: Unfinished, count: int) -> int:
    dropped = rows.drop_oldest(digest.batch, count)
    rows.tally["open"] -= dropped
    rows.tally["dropped"] += dropped
    return dropped


def take_all(rows: Rows, requests: Sequence[Take], *, now: Millis) -> list[Taken | None]:
    rows.concern(request.lease.timeline for request in requests)
    allowed, room = PAGE_RECORDS, PAGE_BYTES
    answers: list[Taken | None] = []
    for request in requests:
        answer = _take(rows, request, limit=allowed if room > 0 else 0, room=room, now=now)
        answers.append(answer)
        if answer is not None:
            allowed -= len(answer.records)
            room -= weight_of(answer.records)
    return answers


def _take(rows: Rows, request: Take, *, limit: int, room: int, now: Millis) -> Taken | None:
    slot = held_slot(rows, request.lease, now=now)
    if slot is None or slot.digest is None:
        return None
    digest = slot.digest
    if limit == 0 or _needs_preparation(rows, request, now=now):
        return Taken(digest.revision, digest.dropped, [], request.after, complete=False)
    records = rows.page(digest.batch, after=request.after, limit=limit, room=room)
    is_last = len(records) < limit and not _may_fill(records, room)
    return Taken(digest.revision, digest.dropped, records, _cursor(records) or request.after, complete=is_last)


def _may_fill(records: Sequence[Stored], room: int) -> bool:
    """True if the page may have ended because of its bytes; those of a record without a value are unknown."""
    return weight_of(records) >= room or any(record.payload is None for record in records)


def _cursor(records: Sequence[Stored]) -> Cursor | None:
    return age_order(records[-1]) if records else None
