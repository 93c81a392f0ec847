"""Timelines become ready, and wait again if nobody took them."""

from digestif.core import machine
from digestif.core.times import Millis
from digestif.stores.base import PAGE_RECORDS, Due, Maintained, SchedulePage
from digestif.stores.rows.expiry import expirable, expire
from digestif.stores.rows.view import Rows, marks, put


def schedule(
    rows: Rows, deadline: Millis, *, after: tuple[int | str, ...] | None, limit: int, now: Millis
) -> SchedulePage:
    began, *place = (rows.sequence(),) if after is None else [int(number) for number in after]
    cursor = (place[0], place[1]) if place else None
    found = rows.waiting(deadline, after=cursor, limit=limit)
    entries = []
    for at, _, timeline in found:
        slot = rows.slot(timeline)
        if slot.placed <= began and marks(slot).waiting == at:  # where others may have changed it meanwhile
            rows.put_slot(timeline, machine.after_schedule(slot, now=now))
            entries.append(Due(timeline, at))
    last = found[-1] if len(found) == limit else None
    return SchedulePage(entries, None if last is None else (began, last.at, last.number))


def maintain(rows: Rows, deadline: Millis | None, *, limit: int, now: Millis) -> Maintained:
    stale = [] if deadline is None else rows.stale_ready(deadline, limit=limit)
    for timeline in stale:
        slot = rows.slot(timeline)
        put(rows, timeline, slot, machine.after_maintenance(slot))
    lapsed = rows.lapsed(now, limit=limit)
    for timeline in lapsed:
        slot = rows.slot(timeline)
        put(rows, timeline, slot, expirable(rows, machine.after_lapse(slot)))
    expiring = rows.expiring(now, limit=limit)
    allowed = PAGE_RECORDS
    for timeline in expiring:
        if allowed > 0:
            allowed -= expire(rows, timeline, now=now, limit=allowed)
    dirty = rows.sweep(PAGE_RECORDS)
    more = dirty or allowed <= 0 or limit in (len(stale), len(lapsed), len(expiring))
    return Maintained(moved=len(stale), lapsed=len(lapsed), expired=PAGE_RECORDS - allowed, more=more)
