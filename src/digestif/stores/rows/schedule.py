"""Schedule and maintenance: due timelines become ready; lost and lapsed ones wait again; records expire."""

from collections.abc import Sequence

from digestif.core import machine
from digestif.core.records import State
from digestif.core.times import Millis
from digestif.stores.base import PAGE_RECORDS, Candidate, Due, Maintained, SchedulePage
from digestif.stores.rows.expiry import expirable, expire
from digestif.stores.rows.view import Rows, marks, put, readable


def schedule(
    rows: Rows, deadline: Millis, *, after: tuple[int | str, ...] | None, limit: int, now: Millis, asks: bool
) -> SchedulePage:
    if rows.is_moving():
        return SchedulePage([], None)
    began, *place = (rows.sequence(),) if after is None else [int(number) for number in after]
    cursor = (place[0], place[1]) if place else None
    found = rows.waiting(deadline, after=cursor, limit=limit)
    due = {timeline: at for at, _, timeline in found}
    entries: list[Due] = []
    candidates: list[Candidate] = []
    for timeline, slot in readable(rows, due):
        at = due[timeline]
        if slot.placed > began or marks(slot).waiting != at:  # another transaction may have changed it
            continue
        if machine.must_be_admitted(slot, asks=asks):
            candidates.append(Candidate(timeline, slot, now))
        else:
            rows.put_slot(timeline, machine.after_schedule(slot, now=now))
            entries.append(Due(timeline, at))
    last = found[-1] if len(found) == limit else None
    return SchedulePage(entries, None if last is None else (began, last.at, last.number), tuple(candidates))


def maintain(rows: Rows, deadline: Millis | None, *, limit: int, now: Millis) -> Maintained:
    stale = [] if deadline is None else rows.stale_ready(deadline, limit=limit)
    lapsed = (rows.lapsed_while_paused if deadline is None else rows.lapsed)(now, limit=limit)
    expiring = rows.expiring(now, limit=limit)
    rows.concern([*stale, *lapsed, *expiring])  # at once: locked in groups, two transactions could wait for each other
    full = limit in (len(stale), len(lapsed), len(expiring))
    moved = [] if deadline is None else _move_back(rows, stale, deadline)
    ended = _end_leases(rows, lapsed, now=now)
    expired = _expire(rows, [*expiring, *lapsed], now=now)  # records of an open digest expire only after it lapsed
    dirty = rows.sweep(PAGE_RECORDS)
    more = full or dirty or sum(count for _, count in expired) >= PAGE_RECORDS
    return Maintained(moved, ended, expired, more)


# Each checks again what was found: another transaction may have changed it before it was locked.


def _move_back(rows: Rows, timelines: Sequence[str], deadline: Millis) -> list[Due]:
    moved = []
    for timeline, slot in readable(rows, timelines):
        if slot.state is State.READY and slot.since <= deadline:
            put(rows, timeline, slot, machine.after_maintenance(slot))
            moved.append(Due(timeline, slot.at))
    return moved


def _end_leases(rows: Rows, timelines: Sequence[str], *, now: Millis) -> list[str]:
    ended = []
    for timeline, slot in readable(rows, timelines):
        if slot.state is State.OPEN and not machine.is_live(slot, now=now):
            put(rows, timeline, slot, expirable(rows, machine.after_lapse(slot)))
            ended.append(timeline)
    return ended


def _expire(rows: Rows, timelines: Sequence[str], *, now: Millis) -> list[tuple[str, int]]:
    allowed = PAGE_RECORDS
    expired = []
    for timeline, slot in readable(rows, timelines):
        expires = marks(slot).expires
        if allowed > 0 and expires is not None and expires <= now:
            count = expire(rows, timeline, now=now, limit=allowed)
            allowed -= count
            if count:
                expired.append((timeline, count))
    return expired
