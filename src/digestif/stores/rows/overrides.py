"""Overrides: a policy that is stored for one timeline, and other policies for timelines that wait."""

from collections.abc import Sequence

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Slot
from digestif.core.records import State
from digestif.core.terms import Override, Terms
from digestif.core.times import Millis
from digestif.stores.base import Replan
from digestif.stores.rows.endings import delete_batch, delete_digest
from digestif.stores.rows.expiry import expirable
from digestif.stores.rows.view import Rows, put, readable


def set_override(rows: Rows, timeline: str, override: Override, *, now: Millis) -> None:
    before = rows.slot(timeline)
    slot = replace(before, override=override)
    if override.off:
        after = emptied(rows, slot)
    else:
        after = planned_by(rows, slot, override, now=now)
    put(rows, timeline, before, after)


def planned_by(rows: Rows, slot: Slot, override: Override, *, now: Millis) -> Slot:
    """The slot by a policy that was stored for it."""
    return _planned(rows, slot, override.terms, cool_down=override.cool_down(slot.iteration), now=now)


def _planned(rows: Rows, slot: Slot, terms: Terms, *, cool_down: Millis, now: Millis) -> Slot:
    """The slot by another policy. The earliest expiry has to be exact: records that left may have been the first."""
    if terms.openings is not None and slot.state is State.WAITING:
        slot = expirable(rows, slot)
    return machine.after_plan(slot, now=now, terms=terms, cool_down=cool_down)


def emptied(rows: Rows, slot: Slot) -> Slot:
    """Delete the pending records of a timeline that is off, and its digest unless that is open: counted as deleted."""
    pending, open_ = slot.pending, 0
    if slot.batch is not None:
        delete_batch(rows, slot.batch, pending)
        slot = machine.without_pending(slot)
    if slot.digest is not None and slot.state is not State.OPEN:
        open_ = slot.digest.records
        delete_digest(rows, slot.digest)
        slot = replace(slot, digest=None)
    rows.tally["pending"] -= pending
    rows.tally["open"] -= open_
    rows.tally["deleted"] += pending + open_
    return machine.after_switched_off(expirable(rows, slot))


def clear_override(rows: Rows, timeline: str, *, terms: Terms, cool_down: Millis, now: Millis) -> bool:
    before = rows.slot(timeline)
    if before.override is None:
        return False
    slot = replace(before, override=None)
    put(rows, timeline, before, _planned(rows, slot, terms, cool_down=cool_down, now=now))
    return True


def refresh_override(rows: Rows, timeline: str, override: Override) -> bool:
    slot = rows.slot(timeline)
    if slot.override is None or slot.override.since != override.since:
        return False
    rows.put_slot(timeline, replace(slot, override=override))
    return True


def replan(rows: Rows, replans: Sequence[Replan], *, now: Millis) -> list[bool]:
    rows.concern(each.timeline for each in replans)
    return [_replan(rows, each, now=now) for each in replans]


def _replan(rows: Rows, wanted: Replan, *, now: Millis) -> bool:
    for timeline, slot in readable(rows, [wanted.timeline]):
        if machine.seen(slot) != wanted.seen:
            return False
        after = _planned(rows, slot, wanted.terms, cool_down=wanted.cool_down, now=now)
        if after != slot:
            rows.put_slot(timeline, after)
        return after.at != slot.at
    return False
