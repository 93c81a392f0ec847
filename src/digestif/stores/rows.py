"""The verbs of a store that keeps rows: each loads slots, asks the machine, moves records and counts their fates.

`Rows` is one transaction's view of the tables; a store of this kind provides it and the two ways to run a unit of work
on it. The verbs themselves are the same for every such store.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.capacity import Cursor, Stored, age_order
from digestif.core.ledger import Ledger, Verification
from digestif.core.machine import IDLE, Phase, Slot, Unfinished
from digestif.core.records import DeadLetter, HistoryEntry, Outcome, State
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.errors import Busy, InvalidState
from digestif.stores.base import (
    HISTORY_KEYS,
    PAGE_RECORDS,
    PAGE_TIMELINES,
    Arrival,
    Burial,
    Claimed,
    Closing,
    Due,
    Lease,
    Maintained,
    Part,
    Release,
    SchedulePage,
    SetAside,
    Store,
    Take,
    Taken,
)
from digestif.stores.recount import recount

T = TypeVar("T")

NEVER: Millis = 2**62  # the expiry of a record without a ttl


class Waiting(NamedTuple):
    """A waiting timeline in the order of the schedule."""

    at: Millis
    number: int  # of its row, to break ties
    timeline: str


class Marks(NamedTuple):
    """The times of a slot by which timelines are looked up; None keeps it out of that order."""

    waiting: Millis | None = None  # due, not paused
    ready: Millis | None = None  # was due, not paused
    since: Millis | None = None  # ready since
    until: Millis | None = None  # the lease's expiry
    expires: Millis | None = None


def marks(slot: Slot) -> Marks:
    """Where a timeline stands in each order."""
    expires = None if slot.expires == NEVER else slot.expires
    if slot.state is State.WAITING:
        return Marks(waiting=None if slot.paused else slot.at, expires=expires)
    if slot.state is State.READY:
        return Marks(ready=None if slot.paused else slot.at, since=slot.since, expires=expires)
    if slot.state is State.OPEN:
        return Marks(until=slot.until, expires=expires)
    return Marks()


class Rows(Protocol):
    """One transaction's view of the tables. Batches are named by number and come to be with their first record."""

    tally: dict[str, int]  # changes to the ledger's counters
    budget: int  # records that this transaction may still erase

    def next_number(self) -> int: ...
    def sequence(self) -> int: ...

    # timelines
    def slot(self, timeline: str) -> Slot: ...
    def put_slot(self, timeline: str, slot: Slot) -> None: ...
    def waiting(self, deadline: Millis, *, after: tuple[int, int] | None, limit: int) -> list[Waiting]: ...
    def stale_ready(self, deadline: Millis, *, limit: int) -> list[str]: ...
    def lapsed(self, now: Millis, *, limit: int) -> list[str]: ...
    def expiring(self, now: Millis, *, limit: int) -> list[str]: ...
    def claimable(self, now: Millis, *, limit: int) -> list[str]: ...
    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]: ...

    # records
    def put_record(self, batch: int, record: Stored, *, deadline: Millis | None, expires: Millis) -> bool: ...
    def record(self, batch: int, key: str) -> Stored | None: ...
    def page(self, batch: int, *, after: Cursor | None, limit: int) -> list[Stored]: ...
    def remove_record(self, batch: int, key: str) -> bool: ...
    def drop_oldest(self, batch: int, count: int) -> int: ...
    def expire(self, batch: int, now: Millis, *, limit: int) -> int: ...
    def move_record(self, key: str, source: int, target: int) -> bool: ...
    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]: ...
    def earliest_deadline(self, batch: int) -> Millis | None: ...
    def earliest_expiry(self, batch: int) -> Millis: ...
    def latest_expiry(self, batch: int) -> Millis: ...
    def sizes(self, batches: Sequence[int]) -> dict[int, int]: ...
    def erase(self, batch: int) -> None: ...
    def trash(self, batch: int) -> None: ...
    def sweep(self, limit: int) -> bool: ...

    # dead letters and history
    def letter(self, letter_id: str) -> DeadLetter | None: ...
    def letter_batch(self, letter_id: str) -> int: ...
    def put_letter(self, letter: DeadLetter, batch: int) -> None: ...
    def remove_letter(self, letter_id: str) -> None: ...
    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]: ...
    def letter_with(self, timeline: str, key: str) -> DeadLetter | None: ...
    def remember(self, ended: HistoryEntry) -> None: ...
    def history(self, timeline: str | None, *, limit: int) -> list[HistoryEntry]: ...
    def forget(self, timeline: str) -> None: ...

    # counts
    def ledger(self) -> Ledger: ...
    def footprint(self) -> Mapping[str, int]: ...
    def trashed_records(self) -> int: ...


class RowStore(Store):
    """A store whose verbs run on rows."""

    clock: Callable[[], float]

    @abstractmethod
    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1) -> T:
        """Run a unit of work in one transaction and return when it is safe; `weight` is about how much it does.

        A unit raises an error of ours only before it has changed anything.
        """

    @abstractmethod
    def _read(self, unit: Callable[[Rows], T]) -> T:
        """Run a unit of work that only reads, on one state of the data."""

    def _now(self, now: Millis | None) -> Millis:
        return to_millis(self.clock()) if now is None else now

    # Producing

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: [_add(rows, arrival, now=at) for arrival in batch], weight=len(batch))

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        return self._write(lambda rows: _retract(rows, timeline, key))

    # Dispatching

    def schedule(
        self, partition: int, deadline: Millis, *, after: tuple[int, ...] | None, limit: int, now: Millis | None
    ) -> SchedulePage:
        at = self._now(now)
        return self._write(lambda rows: _schedule(rows, deadline, after=after, limit=limit, now=at))

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        at = self._now(now)
        return self._write(lambda rows: _maintain(rows, deadline, limit=limit, now=at))

    # Delivering

    def claim(self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None) -> Claimed:
        at = self._now(now)
        return self._write(lambda rows: _claim(rows, limit, token=token, until=at + lease, now=at))

    def open(self, timeline: str, *, token: str, lease: Millis, now: Millis | None) -> Lease:
        at = self._now(now)
        return self._write(lambda rows: _open_ready(rows, timeline, token=token, until=at + lease, now=at))

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        at = self._now(now)
        if self._read(lambda rows: any(_needs_settling(rows, request, now=at) for request in requests)):
            self._write(lambda rows: _settle_all(rows, requests, now=at))
        return self._read(lambda rows: _take_all(rows, requests, now=at))

    def set_aside(self, lease: Lease, records: Sequence[SetAside], *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(lambda rows: _set_aside(rows, lease, records, now=at))

    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: [_extend(rows, held, until=at + lease, now=at) for held in leases])

    def close(self, closings: Sequence[Closing], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: [_close(rows, closing, now=at) for closing in closings])

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: [_release(rows, release, now=at) for release in releases])

    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        at = self._now(now)
        return self._write(lambda rows: _bury_all(rows, burials, now=at))

    # Operating

    def delete(self, timeline: str, *, now: Millis | None) -> bool:
        return self._write(lambda rows: _delete(rows, timeline))

    def sweep(self) -> bool:
        return self._write(lambda rows: rows.sweep(PAGE_RECORDS))

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(lambda rows: _flush(rows, timeline, now=at))

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        return self._write(lambda rows: _pause(rows, timeline, paused))

    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(lambda rows: _replay(rows, letter_id, now=at))

    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        at = self._now(now)
        return self._write(lambda rows: _discard(rows, letter_id, now=at))

    # Looking

    def inspect(self, timeline: str) -> Slot:
        return self._read(lambda rows: rows.slot(timeline))

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        return self._read(lambda rows: rows.scan(prefix=prefix, after=after, limit=limit))

    def records(self, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
        return self._read(lambda rows: _records(rows, timeline, part, after=after, limit=limit))

    def find(self, timeline: str, key: str) -> dict[Part, Stored]:
        return self._read(lambda rows: _find(rows, timeline, key))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        return self._read(lambda rows: rows.letters(timeline, after=after, limit=limit))

    def letter(self, letter_id: str) -> DeadLetter | None:
        return self._read(lambda rows: rows.letter(letter_id))

    def letter_records(self, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
        return self._read(lambda rows: _letter_records(rows, letter_id, after=after, limit=limit))

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        return self._read(lambda rows: rows.letter_with(timeline, key))

    def history(self, timeline: str | None, *, limit: int) -> list[HistoryEntry]:
        return self._read(lambda rows: rows.history(timeline, limit=limit))

    def ledger(self) -> Ledger:
        return self._read(lambda rows: rows.ledger())

    def verify(self) -> Verification:
        return self._read(recount)

    def footprint(self) -> Mapping[str, int]:
        return self._read(lambda rows: rows.footprint())


# Adding


def _add(rows: Rows, arrival: Arrival, *, now: Millis) -> bool:
    before = rows.slot(arrival.timeline)
    terms = arrival.terms
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
    after = machine.after_add(kept, now=now, terms=terms, pending=pending, deadline=deadline)
    _put(rows, arrival.timeline, before, after)
    return after.state is State.READY and before.state is State.IDLE


def _put(rows: Rows, timeline: str, before: Slot, after: Slot) -> None:
    """Save a slot, noting when it began to wait: a call of `schedule` gives only what waited when the call began."""
    if after.state is State.WAITING and before.state is not State.WAITING:
        after = replace(after, placed=rows.next_number())
    rows.put_slot(timeline, after)


def _retract(rows: Rows, timeline: str, key: str) -> bool:
    slot = rows.slot(timeline)
    if slot.batch is None or not rows.remove_record(slot.batch, key):
        return False
    rows.tally["pending"] -= 1
    rows.tally["deleted"] += 1
    rows.put_slot(timeline, _with_fewer_pending(rows, slot, 1))
    return True


def _with_fewer_pending(rows: Rows, slot: Slot, count: int) -> Slot:
    assert slot.batch is not None
    if slot.pending == count:
        return replace(
            machine.without_pending(slot), dropped=slot.dropped, expires=_next_expiry(rows, slot, pending=False)
        )
    deadline = rows.earliest_deadline(slot.batch) if slot.deadline is not None else None
    return replace(slot, pending=slot.pending - count, deadline=deadline)


# Dispatching


def _schedule(rows: Rows, deadline: Millis, *, after: tuple[int, ...] | None, limit: int, now: Millis) -> SchedulePage:
    began, *place = (rows.sequence(),) if after is None else after
    cursor = (place[0], place[1]) if place else None
    found = rows.waiting(deadline, after=cursor, limit=limit)
    entries = []
    for at, _, timeline in found:
        slot = rows.slot(timeline)
        if slot.placed <= began:
            rows.put_slot(timeline, machine.after_schedule(slot, now=now))
            entries.append(Due(timeline, at))
    last = found[-1] if len(found) == limit else None
    return SchedulePage(entries, None if last is None else (began, last.at, last.number))


def _maintain(rows: Rows, deadline: Millis | None, *, limit: int, now: Millis) -> Maintained:
    stale = [] if deadline is None else rows.stale_ready(deadline, limit=limit)
    for timeline in stale:
        slot = rows.slot(timeline)
        _put(rows, timeline, slot, machine.after_maintenance(slot))
    lapsed = rows.lapsed(now, limit=limit)
    for timeline in lapsed:
        slot = rows.slot(timeline)
        _put(rows, timeline, slot, _expirable(rows, machine.after_lapse(slot)))
    expiring = rows.expiring(now, limit=limit)
    allowed = PAGE_RECORDS
    for timeline in expiring:
        allowed -= _expire(rows, timeline, now=now, limit=allowed)
    dirty = rows.sweep(PAGE_RECORDS)
    more = dirty or allowed == 0 or limit in (len(stale), len(lapsed), len(expiring))
    return Maintained(moved=len(stale), lapsed=len(lapsed), expired=PAGE_RECORDS - allowed, more=more)


def _expire(rows: Rows, timeline: str, *, now: Millis, limit: int) -> int:
    slot = rows.slot(timeline)
    expired = 0
    if slot.batch is not None:
        expired = rows.expire(slot.batch, now, limit=limit)
        rows.tally["pending"] -= expired
        if expired:
            slot = _with_fewer_pending(rows, slot, expired)
    if slot.digest is not None and slot.state is not State.OPEN:
        digest, gone = _expire_digest(rows, timeline, slot.digest, now=now, limit=limit - expired)
        rows.tally["open"] -= gone
        expired += gone
        slot = replace(slot, digest=digest)
    rows.tally["expired"] += expired
    slot = machine.after_expiry(_expirable(rows, slot), now=now)
    rows.put_slot(timeline, slot)
    return expired


def _expire_digest(rows: Rows, timeline: str, digest: Unfinished, *, now: Millis, limit: int) -> tuple[Unfinished, int]:
    """Expire records of an unfinished digest one by one; a frozen one only as a whole, once its last has expired."""
    if digest.frozen:
        if _digest_expiry(rows, digest) > now or limit == 0:
            return digest, 0
        _erase_digest(rows, digest)
        rows.remember(_ended(timeline, digest, Outcome.EXPIRED, now=now))
        return replace(digest, records=0, merging=None), digest.records
    gone = rows.expire(digest.batch, now, limit=limit)
    if digest.merging is not None:
        gone += rows.expire(digest.merging, now, limit=limit - gone)
    return replace(digest, records=digest.records - gone), gone


def _expirable(rows: Rows, slot: Slot) -> Slot:
    """Note when the next record of the timeline expires."""
    return replace(slot, expires=_next_expiry(rows, slot, pending=True))


def _next_expiry(rows: Rows, slot: Slot, *, pending: bool) -> Millis | None:
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


# Delivering


def _claim(rows: Rows, limit: int, *, token: str, until: Millis, now: Millis) -> Claimed:
    leases: list[Lease] = []
    retired = 0
    for timeline in rows.claimable(now, limit=limit):
        slot = rows.slot(timeline)
        if machine.is_empty(slot):
            rows.put_slot(timeline, machine.after_retirement(slot))
            retired += 1
        else:
            fresh_id = f"{token}-{len(leases)}"
            leases.append(_open(rows, timeline, slot, token=token, until=until, fresh_id=fresh_id, now=now))
    return Claimed(leases, retired)


def _open_ready(rows: Rows, timeline: str, *, token: str, until: Millis, now: Millis) -> Lease:
    slot = rows.slot(timeline)
    machine.refuse_opening(slot, timeline, now=now)
    return _open(rows, timeline, slot, token=token, until=until, fresh_id=token, now=now)


def _open(rows: Rows, timeline: str, slot: Slot, *, token: str, until: Millis, fresh_id: str, now: Millis) -> Lease:
    fresh_batch = rows.next_number() if slot.batch is None else slot.batch
    after = machine.after_open(slot, now=now, token=token, until=until, fresh_id=fresh_id, fresh_batch=fresh_batch)
    if slot.digest is not None:
        after = _expirable(rows, after)
    _move_to_open(rows, slot, after)
    rows.put_slot(timeline, after)
    digest = after.digest
    assert digest is not None
    return Lease(timeline, token, until, digest.id, digest.attempt, digest.lapses, slot.iteration, slot.at)


def _move_to_open(rows: Rows, before: Slot, after: Slot) -> None:
    rows.tally["open"] += before.pending - after.pending
    rows.tally["pending"] -= before.pending - after.pending


def _needs_settling(rows: Rows, request: Take, *, now: Millis) -> bool:
    slot = rows.slot(request.lease.timeline)
    digest = slot.digest
    if digest is None or not machine.is_held(slot, request.lease.token, now=now):
        return False
    return digest.phase is not Phase.SETTLED or machine.excess(digest, request.capacity) > 0


def _settle_all(rows: Rows, requests: Sequence[Take], *, now: Millis) -> None:
    allowed = PAGE_RECORDS
    for request in requests:
        if allowed > 0 and _needs_settling(rows, request, now=now):
            allowed -= _settle(rows, request, limit=allowed)


def _settle(rows: Rows, request: Take, *, limit: int) -> int:
    """One page of: finish a merge that was begun, decide what this attempt carries, merge that, trim."""
    timeline = request.lease.timeline
    slot, work = _merge_page(rows, rows.slot(timeline), limit=limit)
    if slot.digest is not None and slot.digest.phase is Phase.UNDECIDED and slot.digest.merging is None:
        decided = machine.after_decision(slot, merge=request.merge)
        _move_to_open(rows, slot, decided)
        slot, merged = _merge_page(rows, decided, limit=limit - work)
        work += merged
    slot, trimmed = _trim(rows, slot, request.capacity, limit=limit - work)
    rows.put_slot(timeline, _expirable(rows, slot))
    return work + trimmed


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


def _trim(rows: Rows, slot: Slot, capacity: int | None, *, limit: int) -> tuple[Slot, int]:
    digest = slot.digest
    if digest is None or digest.merging is not None:
        return slot, 0
    dropped = rows.drop_oldest(digest.batch, min(machine.excess(digest, capacity), limit))
    rows.tally["open"] -= dropped
    rows.tally["dropped"] += dropped
    digest = replace(digest, records=digest.records - dropped, dropped=digest.dropped + dropped)
    if machine.excess(digest, capacity) == 0:
        digest = replace(digest, phase=Phase.SETTLED)
    return replace(slot, digest=digest), dropped


def _take_all(rows: Rows, requests: Sequence[Take], *, now: Millis) -> list[Taken | None]:
    allowed = PAGE_RECORDS
    answers: list[Taken | None] = []
    for request in requests:
        answer = _take(rows, request, limit=allowed, now=now)
        answers.append(answer)
        allowed -= len(answer.records) if answer else 0
    return answers


def _take(rows: Rows, request: Take, *, limit: int, now: Millis) -> Taken | None:
    slot = rows.slot(request.lease.timeline)
    digest = slot.digest
    if digest is None or not machine.is_held(slot, request.lease.token, now=now):
        return None
    if limit == 0 or _needs_settling(rows, request, now=now):
        return Taken(digest.revision, digest.dropped, [], request.after, complete=False)
    records = rows.page(digest.batch, after=request.after, limit=limit)
    complete = len(records) < limit
    return Taken(digest.revision, digest.dropped, records, _cursor(records) or request.after, complete)


def _cursor(records: Sequence[Stored]) -> Cursor | None:
    return age_order(records[-1]) if records else None


def _set_aside(rows: Rows, lease: Lease, records: Sequence[SetAside], *, now: Millis) -> bool:
    slot = rows.slot(lease.timeline)
    digest = slot.digest
    if digest is None or not machine.is_held(slot, lease.token, now=now):
        return False
    gone = 0
    for record in records:
        batch = rows.next_number()
        if not rows.move_record(record.key, digest.batch, batch):
            continue
        gone += 1
        alone = replace(digest, id=record.letter_id, batch=batch, records=1, dropped=0)
        rows.put_letter(_letter(lease.timeline, alone, record.reason, now=now), batch)
    rows.tally["open"] -= gone
    rows.tally["dead"] += gone
    rows.put_slot(lease.timeline, replace(slot, digest=replace(digest, records=digest.records - gone)))
    return True


def _extend(rows: Rows, lease: Lease, *, until: Millis, now: Millis) -> bool:
    slot = rows.slot(lease.timeline)
    if not machine.is_held(slot, lease.token, now=now):
        return False
    rows.put_slot(lease.timeline, replace(slot, until=until))
    return True


def _close(rows: Rows, closing: Closing, *, now: Millis) -> bool:
    timeline = closing.lease.timeline
    slot = rows.slot(timeline)
    digest = slot.digest
    if digest is None or not machine.is_held(slot, closing.lease.token, now=now):
        return False
    if digest.records:
        keys = tuple(record.key for record in rows.page(digest.batch, after=None, limit=HISTORY_KEYS))
        rows.remember(_ended(timeline, digest, Outcome.DELIVERED, keys=keys, now=now))
        _erase_digest(rows, digest)
    rows.tally["open"] -= digest.records
    rows.tally["delivered"] += digest.records
    after = machine.after_close(slot, now=now, cool_down=closing.cool_down, max_records=closing.max_records)
    _put(rows, timeline, slot, after)
    return True


def _erase_digest(rows: Rows, digest: Unfinished) -> None:
    _erase(rows, digest.batch, digest.records)
    if digest.merging is not None:
        rows.trash(digest.merging)


def _erase(rows: Rows, batch: int, records: int) -> None:
    """Erase a batch at once if this transaction may still do so much, otherwise leave it to `sweep`."""
    if records <= rows.budget:
        rows.budget -= records
        rows.erase(batch)
    else:
        rows.trash(batch)


def _release(rows: Rows, release: Release, *, now: Millis) -> bool:
    timeline = release.lease.timeline
    slot = rows.slot(timeline)
    if not machine.is_held(slot, release.lease.token, now=now):
        return False
    if release.until is None:
        after = machine.after_failure(slot)
    else:
        after = machine.after_release(slot, until=release.until)
    _put(rows, timeline, slot, _expirable(rows, after))
    return True


def _bury_all(rows: Rows, burials: Sequence[Burial], *, now: Millis) -> list[bool]:
    for burial in burials:
        digest = rows.slot(burial.lease.timeline).digest
        if digest is not None and digest.merging is not None:
            raise InvalidState(f"{burial.lease.timeline!r} is being merged: take it whole before burying it")
    return [_bury(rows, burial, now=now) for burial in burials]


def _bury(rows: Rows, burial: Burial, *, now: Millis) -> bool:
    timeline = burial.lease.timeline
    slot = rows.slot(timeline)
    digest = slot.digest
    if digest is None or not machine.is_held(slot, burial.lease.token, now=now):
        return False
    if digest.records:
        keys = tuple(record.key for record in rows.page(digest.batch, after=None, limit=HISTORY_KEYS))
        rows.put_letter(_letter(timeline, digest, burial.reason, now=now), digest.batch)
        rows.remember(_ended(timeline, digest, Outcome.DEAD, keys=keys, reason=burial.reason, now=now))
    rows.tally["open"] -= digest.records
    rows.tally["dead"] += digest.records
    after = machine.after_close(slot, now=now, cool_down=burial.cool_down, max_records=burial.max_records)
    _put(rows, timeline, slot, after)
    return True


def _letter(timeline: str, digest: Unfinished, reason: str, *, now: Millis) -> DeadLetter:
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
    )


def _ended(
    timeline: str,
    digest: Unfinished,
    outcome: Outcome,
    *,
    now: Millis,
    keys: tuple[str, ...] = (),
    reason: str | None = None,
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
    )


# Operating


def _delete(rows: Rows, timeline: str) -> bool:
    slot = rows.slot(timeline)
    letters = rows.letters(timeline, after=None, limit=PAGE_TIMELINES)
    if slot == IDLE and not letters:
        return False
    in_digest = slot.digest.records if slot.digest is not None else 0
    in_letters = sum(letter.records for letter in letters)
    if slot.batch is not None:
        _erase(rows, slot.batch, slot.pending)
    if slot.digest is not None:
        _erase_digest(rows, slot.digest)
    for letter in letters:
        _erase(rows, rows.letter_batch(letter.id), letter.records)
        rows.remove_letter(letter.id)
    rows.tally["pending"] -= slot.pending
    rows.tally["open"] -= in_digest
    rows.tally["dead"] -= in_letters
    rows.tally["deleted"] += slot.pending + in_digest + in_letters
    rows.forget(timeline)
    rows.put_slot(timeline, IDLE)
    return True


def _flush(rows: Rows, timeline: str, *, now: Millis) -> bool:
    slot = rows.slot(timeline)
    if slot.state is not State.WAITING:
        return False
    rows.put_slot(timeline, machine.after_flush(slot, now=now))
    return True


def _pause(rows: Rows, timeline: str, paused: bool) -> bool:
    slot = rows.slot(timeline)
    if slot.paused == paused:
        return False
    rows.put_slot(timeline, replace(slot, paused=paused))
    return True


def _replay(rows: Rows, letter_id: str, *, now: Millis) -> bool:
    letter = rows.letter(letter_id)
    if letter is None:
        return False
    slot = rows.slot(letter.timeline)
    if slot.digest is not None:
        raise Busy(f"{letter.timeline!r} has an unfinished digest; replay {letter_id} when that has ended")
    digest = Unfinished(
        id=letter.id,
        batch=rows.letter_batch(letter_id),
        records=letter.records,
        opened=to_millis(letter.opened),
        dropped=letter.dropped,
        revision=letter.revision,
    )
    rows.remove_letter(letter_id)
    rows.tally["dead"] -= letter.records
    rows.tally["open"] += letter.records
    rows.put_slot(letter.timeline, machine.after_replay(slot, digest, now=now))
    return True


def _discard(rows: Rows, letter_id: str, *, now: Millis) -> bool:
    letter = rows.letter(letter_id)
    if letter is None:
        return False
    _erase(rows, rows.letter_batch(letter.id), letter.records)
    rows.remove_letter(letter_id)
    rows.tally["dead"] -= letter.records
    rows.tally["deleted"] += letter.records
    rows.remember(
        HistoryEntry(
            id=letter.id,
            timeline=letter.timeline,
            outcome=Outcome.DISCARDED,
            revision=letter.revision,
            attempts=letter.attempts,
            records=letter.records,
            dropped=letter.dropped,
            opened=letter.opened,
            ended=to_seconds(now),
            reason=letter.reason,
        )
    )
    return True


# Looking


def _records(rows: Rows, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
    batches = _batches(rows.slot(timeline))[part]
    pages = [record for batch in batches for record in rows.page(batch, after=after, limit=limit)]
    return pages if len(batches) < 2 else sorted(pages, key=age_order, reverse=True)[:limit]


def _find(rows: Rows, timeline: str, key: str) -> dict[Part, Stored]:
    found = {}
    for part, batches in _batches(rows.slot(timeline)).items():
        for batch in batches:
            record = rows.record(batch, key)
            if record is not None:
                found[part] = record
    return found


def _batches(slot: Slot) -> dict[Part, list[int]]:
    """Where the records of a timeline are; a digest that is being merged has two, the later one last."""
    digest = slot.digest
    parts = [] if digest is None else [digest.batch, digest.merging]
    return {
        Part.PENDING: [] if slot.batch is None else [slot.batch],
        Part.DIGEST: [batch for batch in parts if batch is not None],
    }


def _letter_records(rows: Rows, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
    letter = rows.letter(letter_id)
    return [] if letter is None else rows.page(rows.letter_batch(letter_id), after=after, limit=limit)
