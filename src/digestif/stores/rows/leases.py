"""Leases: claim, open, extend, and release after a failed attempt."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Slot
from digestif.core.records import State
from digestif.core.times import Millis
from digestif.ids import derived_id
from digestif.stores.base import (
    PAGE_TIMELINES,
    Admission,
    Admitted,
    Candidate,
    ClaimPage,
    Due,
    Lease,
    LeaseEnd,
    Release,
    SuspectGroup,
    Unadmitted,
)
from digestif.stores.rows.expiry import expirable
from digestif.stores.rows.view import Rows, held_slot, put, readable


class Grant(NamedTuple):
    """The lease that is to be given."""

    token: str
    until: Millis
    now: Millis
    group: int = 0  # size of the group of suspects that it is noted with


def claim(rows: Rows, limit: int, grant: Grant, *, asks: bool) -> ClaimPage:
    found, suspect = rows.claimable(grant.now, limit=limit)
    if rows.is_moving():
        return ClaimPage([], 0)
    page = _open_all(rows, list(readable(rows, found)), grant, asks=asks)
    retired = len(found) - len(page.leases) - len(page.candidates)
    return page._replace(retired=retired, suspect=suspect)


def claim_suspects(rows: Rows, group: SuspectGroup, grant: Grant, *, asks: bool) -> ClaimPage:
    if rows.is_moving():
        return ClaimPage([], 0, size=group.size)
    wanted = min(group.limit, PAGE_TIMELINES)
    found = rows.suspects(grant.now, skip=group.skip, limit=wanted)
    suspects = [each for each in readable(rows, found) if machine.is_suspect(each[1], now=grant.now)]
    size = group.size
    if suspects and not group.is_decided:
        size = machine.group_size(suspects[0][1], size=size)
    chosen = [each for each in suspects if machine.may_join(each[1], size=size)][:size]
    page = _open_all(rows, chosen, grant._replace(group=size if group.alone else 0), asks=asks)
    opened = len(page.leases) + len(page.candidates)
    return page._replace(
        retired=len(found) - len(suspects) + len(chosen) - opened,
        more=len(found) == wanted,
        size=size,
        passed_over=len(suspects) - len(chosen),
    )


def _open_all(rows: Rows, timelines: Sequence[tuple[str, Slot]], grant: Grant, *, asks: bool) -> ClaimPage:
    """Leases for the timelines that have records, or candidates; the others become idle."""
    leases: list[Lease] = []
    candidates: list[Candidate] = []
    for timeline, slot in timelines:
        if machine.is_empty(slot):
            rows.put_slot(timeline, machine.after_retirement(slot))
        elif machine.must_be_admitted(slot, asks=asks):
            candidates.append(Candidate(timeline, slot, grant.now))
        else:
            leases.append(_open(rows, timeline, slot, grant, fresh_id=derived_id(grant.token, timeline)))
    return ClaimPage(leases, 0, candidates=tuple(candidates))


def admit(rows: Rows, admissions: Sequence[Admission], grant: Grant | None, *, now: Millis) -> Admitted:
    """Open candidates, or without a grant make them ready; those with an `until` wait."""
    rows.concern(admission.timeline for admission in admissions)
    if rows.is_moving():
        return Admitted([], [])
    leases: list[Lease] = []
    ready: list[Due] = []
    kept = 0
    for timeline, seen, until, group in admissions:
        for _, slot in readable(rows, [timeline]):
            if machine.seen(slot) != seen or not machine.may_be_admitted(slot, now=now):
                continue
            if until is not None:
                refused = machine.after_admission_refused(slot, until=until)
                put(rows, timeline, slot, expirable(rows, refused) if slot.state is State.OPEN else refused)
                kept += 1
            elif grant is not None:
                noted = grant._replace(group=group)
                leases.append(_open(rows, timeline, slot, noted, fresh_id=derived_id(grant.token, timeline)))
            elif slot.state is State.WAITING:
                rows.put_slot(timeline, machine.after_schedule(slot, now=now))
                ready.append(Due(timeline, slot.at))
    return Admitted(leases, ready, kept)


def open_ready(rows: Rows, timeline: str, grant: Grant, *, asks: bool) -> Lease:
    slot = rows.slot(timeline)
    machine.refuse_while_moving(rows.is_moving())
    machine.refuse_opening(slot, timeline, now=grant.now)
    if machine.must_be_admitted(slot, asks=asks):
        raise Unadmitted(Candidate(timeline, slot, grant.now))
    return _open(rows, timeline, slot, grant, fresh_id=grant.token)


def _open(rows: Rows, timeline: str, slot: Slot, grant: Grant, *, fresh_id: str) -> Lease:
    token, until, now, group = grant
    batch = rows.next_number() if slot.batch is None else slot.batch
    after = machine.after_open(
        slot, now=now, token=token, until=until, fresh_id=fresh_id, fresh_batch=batch, group=group
    )
    if slot.digest is not None:
        after = expirable(rows, after)
    move_to_open(rows, slot, after)
    rows.put_slot(timeline, after)
    digest = after.digest
    assert digest is not None
    return Lease(
        timeline,
        token,
        until,
        digest.id,
        digest.attempt,
        digest.lapses,
        slot.iteration,
        slot.at,
        lapsed=slot.state is State.OPEN,
        lapses_alone=digest.lapses_alone,
        override=slot.override,
        passes=slot.passes,
        tried=digest.tried,
        frozen=digest.frozen,
    )


def move_to_open(rows: Rows, before: Slot, after: Slot) -> None:
    rows.tally["open"] += before.pending - after.pending
    rows.tally["pending"] -= before.pending - after.pending


def extend_all(rows: Rows, leases: Sequence[Lease], *, until: Millis, now: Millis, alone: bool) -> list[bool]:
    rows.concern(lease.timeline for lease in leases)
    return [extend(rows, lease, until=until, now=now, alone=alone) for lease in leases]


def extend(rows: Rows, lease: Lease, *, until: Millis, now: Millis, alone: bool) -> bool:
    slot = held_slot(rows, lease, now=now)
    if slot is None:
        return False
    extended = replace(slot, until=until) if alone else replace(slot, until=until, group=0, alone=False)
    rows.put_slot(lease.timeline, extended)
    return True


def end_leases(rows: Rows, leases: Sequence[LeaseEnd], *, now: Millis) -> list[bool]:
    rows.concern(lease.timeline for lease in leases)
    return [_end_lease(rows, lease, now=now) for lease in leases]


def _end_lease(rows: Rows, lease: LeaseEnd, *, now: Millis) -> bool:
    for timeline, slot in readable(rows, [lease.timeline]):
        if machine.is_leased_until(slot, lease.until):
            rows.put_slot(timeline, machine.after_early_end(slot, now=now))
            return True
    return False


def release_all(rows: Rows, releases: Sequence[Release], *, now: Millis) -> list[bool]:
    rows.concern(release.lease.timeline for release in releases)
    return [_release(rows, release, now=now) for release in releases]


def _release(rows: Rows, release: Release, *, now: Millis) -> bool:
    timeline = release.lease.timeline
    slot = held_slot(rows, release.lease, now=now)
    if slot is None:
        return False
    facts = release._asdict()
    del facts["lease"]
    if release.until is None:
        del facts["until"]
        after = machine.after_failure(slot, **facts)
    else:
        after = machine.after_release(slot, **facts)
    put(rows, timeline, slot, expirable(rows, after))
    return True
