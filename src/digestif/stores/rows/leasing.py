"""Leases: claimed, opened, extended, and given back after a failed attempt."""

from collections.abc import Sequence

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Slot
from digestif.core.records import State
from digestif.core.times import Millis
from digestif.stores.base import Claimed, Lease, Release
from digestif.stores.rows.expiry import expirable
from digestif.stores.rows.view import Rows, held_slot, put, readable


def claim(rows: Rows, limit: int, *, token: str, until: Millis, now: Millis) -> Claimed:
    leases: list[Lease] = []
    found = rows.claimable(now, limit=limit)
    for timeline, slot in readable(rows, found):
        if machine.is_empty(slot):
            rows.put_slot(timeline, machine.after_retirement(slot))
        else:
            fresh_id = f"{token}-{len(leases)}"
            leases.append(_open(rows, timeline, slot, token=token, until=until, fresh_id=fresh_id, now=now))
    return Claimed(leases, len(found) - len(leases))


def open_ready(rows: Rows, timeline: str, *, token: str, until: Millis, now: Millis) -> Lease:
    slot = rows.slot(timeline)
    machine.refuse_opening(slot, timeline, now=now)
    return _open(rows, timeline, slot, token=token, until=until, fresh_id=token, now=now)


def _open(rows: Rows, timeline: str, slot: Slot, *, token: str, until: Millis, fresh_id: str, now: Millis) -> Lease:
    fresh_batch = rows.next_number() if slot.batch is None else slot.batch
    after = machine.after_open(slot, now=now, token=token, until=until, fresh_id=fresh_id, fresh_batch=fresh_batch)
    if slot.digest is not None:
        after = expirable(rows, after)
    move_to_open(rows, slot, after)
    rows.put_slot(timeline, after)
    digest = after.digest
    assert digest is not None
    lapsed = slot.state is State.OPEN
    return Lease(timeline, token, until, digest.id, digest.attempt, digest.lapses, slot.iteration, slot.at, lapsed)


def move_to_open(rows: Rows, before: Slot, after: Slot) -> None:
    rows.tally["open"] += before.pending - after.pending
    rows.tally["pending"] -= before.pending - after.pending


def extend_all(rows: Rows, leases: Sequence[Lease], *, until: Millis, now: Millis) -> list[bool]:
    rows.concern(lease.timeline for lease in leases)
    return [extend(rows, lease, until=until, now=now) for lease in leases]


def extend(rows: Rows, lease: Lease, *, until: Millis, now: Millis) -> bool:
    slot = held_slot(rows, lease, now=now)
    if slot is None:
        return False
    rows.put_slot(lease.timeline, replace(slot, until=until))
    return True


def release_all(rows: Rows, releases: Sequence[Release], *, now: Millis) -> list[bool]:
    rows.concern(release.lease.timeline for release in releases)
    return [_release(rows, release, now=now) for release in releases]


def _release(rows: Rows, release: Release, *, now: Millis) -> bool:
    timeline = release.lease.timeline
    slot = held_slot(rows, release.lease, now=now)
    if slot is None:
        return False
    if release.until is None:
        after = machine.after_failure(slot, freeze=release.freeze, counted=release.counted)
    else:
        after = machine.after_release(slot, until=release.until, freeze=release.freeze, counted=release.counted)
    put(rows, timeline, slot, expirable(rows, after))
    return True
