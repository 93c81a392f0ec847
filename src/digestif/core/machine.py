"""The machine: how a timeline moves through its states. The one definition that every store obeys.

A `Slot` is all that a store keeps about a timeline apart from its records. Each `after_<event>` takes the slot and the
facts of the event and gives the slot that follows; stores move the records and count the fates that go with it.
"""

from bisect import bisect_left, bisect_right
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from digestif.core.records import MOST_VALUE_BYTES, VALUE_BYTES, DeadLetter, State
from digestif.core.terms import Count, Openings, Override, Terms, Time, allows, in_force, longest_delay
from digestif.core.times import Millis, instant_text, to_seconds
from digestif.errors import Busy, InvalidState


class Rule(StrEnum):
    """What decided the due time last, for `explain`."""

    FIRST = "first"  # the first record of an idle timeline goes at once
    FIRST_DELAY = "first_delay"
    COOL_DOWN = "cool_down"
    INCREMENT = "increment"
    CAP = "cap"  # last delivery + maximum_delay
    QUIET = "quiet"
    QUIET_CAP = "quiet_cap"  # first pending record + maximum_delay
    STAYS = "stays"  # an add that moves nothing
    DEADLINE = "deadline"  # the earliest `within` of the pending records
    COUNT = "count"  # max_records are pending
    PLANNED = "planned"  # another policy holds, by which it would have been due before
    RETRY = "retry"
    FLUSHED = "flushed"
    REPLAYED = "replayed"
    REQUEUED = "requeued"  # records of dead letters came back to an idle timeline, which gathers them
    MOVED = "moved"  # the time that it had where it was moved from, where rules were not kept


class Unfinished(Struct, frozen=True, omit_defaults=True):
    """A digest that was opened and has not ended. It owns its records in every state of the timeline."""

    id: str
    batch: Count  # where its records are kept
    records: Count
    opened: Time  # when it was opened first
    dropped: Count = 0
    revision: Count = 1
    attempt: Count = 1
    lapses: Count = 0  # leases that ran out
    lapses_alone: Count = 0  # of these, in a group of one: only these count against the digest
    largest: Count = 0  # group of suspects in which it may be tried next; 0: any
    fresh: bool = False  # no attempt that has ended read it as it is: it may change under its revision
    frozen: bool = False  # every further attempt carries exactly the same records
    unknown: bool = False  # an attempt that was reported as failed may have gone out
    tried: Time | None = None  # since when attempts fail for its own sake, counted or not
    deciding: bool = False  # opened again after a failure: newer records may be merged when it is read
    settled: bool = True  # prepared: merged and trimmed, so that it can be read
    weighed: bool = False  # it fits into max_bytes, checked since it was cut or merged
    heavy: bool = False  # a payload may be larger than USUAL_PAYLOAD
    merging: Count | None = None  # a batch whose records are being moved in, page by page
    replayed: bool = False  # a dead letter that was replayed: it does not expire
    served: tuple[str, ...] = ()  # recipients who have their part, and those who can't be reached, marked UNREACHABLE
    left_out: tuple[str, ...] = ()  # keys of records that a `keep` hook removed, for the history


class Push(Struct, frozen=True):
    """By how much records would have put a timeline off, if their store knew when it was delivered last."""

    by: Time  # the sum of their increments
    maximum: Time
    silence: Time | None = None  # the last arrival + quiet


class Slot(Struct, frozen=True, omit_defaults=True):
    """All that a store keeps about a timeline apart from its records. Times in milliseconds."""

    state: State = State.IDLE
    at: Time = 0  # due; kept while ready and open
    since: Time = 0  # when it became ready
    last: Time | None = None  # end of the last delivery
    iteration: Count = 0
    paused: bool = False
    pending: Count = 0
    dropped: Count = 0  # by capacity, since the last digest was opened
    batch: Count | None = None  # where the pending records are kept
    first: Time | None = None  # arrival of the first pending record
    deadline: Time | None = None  # earliest arrival + within of the pending records
    expires: Time | None = None  # no record of this timeline expires before
    rule: Rule = Rule.FIRST
    was: Time | None = None  # the due time before the last move
    placed: Count = 0  # when it began to wait, in the order of the store's sequence
    token: str | None = None  # of the lease
    until: Time | None = None  # its expiry
    group: Count = 0  # size of the group of suspects that it is tried in, beside nothing else; 0: no evidence
    alone: bool = False  # how earlier releases stored a group of one
    digest: Unfinished | None = None
    parked: State | None = None  # exported or imported just now: the state that it returns to
    by_delays: Time | None = None  # the due time by the delays, where a window made `at` of it
    passes: bool = False  # no window holds it back until its next digest has ended
    override: Override | None = None  # its own policy; it survives idle
    push: Push | None = None  # of its pending records, in a store that is being moved into another
    heavy: bool = False  # a pending payload may be larger than USUAL_PAYLOAD


class Seen(NamedTuple):
    """What decides whether a timeline may be delivered. A decision holds as long as it has not changed."""

    state: State
    at: Millis
    until: Millis | None
    since: Millis | None  # of the override


def seen(slot: Slot) -> Seen:
    return Seen(slot.state, slot.at, slot.until, None if slot.override is None else slot.override.since)


class Plan(Struct, frozen=True, gc=False):
    """How a timeline goes on after a digest, by the policy in the code."""

    cool_down: Millis
    max_records: int | None = None
    openings: Openings | None = None
    given: bool = False  # the call gave the cool-down itself
    ttl: Millis | None = None


IDLE = Slot()
USUAL_PAYLOAD = VALUE_BYTES + 64  # bytes: a value, its codec and its timestamp; a larger payload is heavy
LARGEST_PAYLOAD = MOST_VALUE_BYTES + 64
USUAL_MAX_BYTES = 32 << 20  # of a policy, by default
UNREACHABLE = "\0"  # before the name of a recipient who can never be reached
MOVING = (
    "this store is being moved into another one: it accepts records and delivers nothing; "
    "`digestif move FROM TO` ends the move, `digestif move FROM --abandon` gives it up"
)


def flaw(slot: Slot) -> str | None:
    """The contradiction in a stored slot, in words; None if there is none."""
    if slot.state is State.OPEN:
        if slot.digest is None or slot.token is None or slot.until is None:
            return "it is open, without a digest or without a lease"
    elif slot.token is not None or slot.until is not None:
        return f"it is {slot.state}, with a lease"
    elif slot.state is State.IDLE and (slot.pending or slot.digest is not None):
        return "it is idle, with records"
    override = slot.override
    if override is not None and not override.cool_downs:
        return "its own policy has no cool-down"
    if override is not None and override.terms.openings is not None:
        openings = override.terms.openings
        if openings.hours and len(openings.numbers) % 2:
            return "hours of its own policy have no end"
    return None


# Adding


def after_add(
    slot: Slot, *, now: Millis, terms: Terms, pending: int, deadline: Millis | None, moving: bool = False
) -> Slot:
    """Place a timeline when a record arrives; `pending` and `deadline` already count it.

    `moving` says that the store is being moved into another, which will deliver the record.
    """
    terms = in_force(terms, slot.override)
    slot = replace(slot, pending=pending, deadline=deadline, first=slot.first if slot.pending else now)
    if moving and slot.last is None and slot.state in (State.IDLE, State.WAITING):
        slot = replace(slot, push=_further(slot.push, now=now, terms=terms))
    if slot.state is State.IDLE:
        return _awaken(slot, now=now, terms=terms, held=slot.paused or moving)
    if slot.state is not State.WAITING or slot.digest is not None or _has_come(slot, terms.openings, now=now):
        return slot
    if slot.passes:
        return _pulled_by_deadline(slot)
    at, rule = _postponed(slot, now=now, terms=terms)
    return move(slot, at, rule, now=now, max_records=terms.max_records, openings=terms.openings)


def _awaken(slot: Slot, *, now: Millis, terms: Terms, held: bool) -> Slot:
    rule = Rule.FIRST_DELAY if terms.first_delay else Rule.FIRST
    waiting = replace(slot, state=State.WAITING, at=now, by_delays=None)
    placed = move(
        waiting, now + terms.first_delay, rule, now=now, max_records=terms.max_records, openings=terms.openings
    )
    is_known = terms.openings is None or placed.by_delays is not None or placed.passes
    if terms.first_delay or held or placed.at > now or not is_known:
        return placed
    return replace(placed, state=State.READY, at=now, since=now, rule=Rule.FIRST, was=None)


def _further(push: Push | None, *, now: Millis, terms: Terms) -> Push:
    by = (0 if push is None else push.by) + (terms.increment or 0)
    return Push(by, terms.maximum, None if terms.quiet is None else now + terms.quiet)


def after_push(slot: Slot, push: Push) -> Slot:
    """Put a waiting timeline off by what its records would have in the store that they come from."""
    if slot.state is not State.WAITING or slot.digest is not None or slot.passes or slot.by_delays is not None:
        return slot
    if push.silence is not None:
        cap = push.silence if slot.first is None else slot.first + push.maximum
        at, rule = _capped(max(slot.at, push.silence), Rule.QUIET, max(slot.at, cap), Rule.QUIET_CAP)
    elif push.by and slot.last is not None:
        at, rule = _capped(slot.at + push.by, Rule.INCREMENT, slot.last + push.maximum, Rule.CAP)
    else:
        return slot
    return replace(slot, at=at, rule=rule, was=slot.at)


def _has_come(slot: Slot, openings: Openings | None, *, now: Millis) -> bool:
    """True if one of the calendar's times has come for the timeline: it is delivered then, however late."""
    return openings is not None and not openings.hours and slot.by_delays is not None and slot.at <= now


def _pulled_by_deadline(slot: Slot) -> Slot:
    if slot.deadline is None or slot.deadline >= slot.at:
        return slot
    return replace(slot, at=slot.deadline, rule=Rule.DEADLINE, was=slot.at)


def due_by_delays(slot: Slot) -> Millis:
    """The due time as the delays set it, before a window aligned it."""
    return slot.at if slot.by_delays is None else slot.by_delays


def _postponed(slot: Slot, *, now: Millis, terms: Terms) -> tuple[Millis, Rule]:
    at = due_by_delays(slot)
    if terms.quiet is not None:
        assert slot.first is not None  # something is pending
        return _capped(max(at, now + terms.quiet), Rule.QUIET, slot.first + terms.maximum, Rule.QUIET_CAP)
    if slot.last is None or terms.increment is None:
        return at, Rule.STAYS
    return _capped(at + terms.increment, Rule.INCREMENT, slot.last + terms.maximum, Rule.CAP)


def _capped(at: Millis, rule: Rule, cap: Millis, cap_rule: Rule) -> tuple[Millis, Rule]:
    return (at, rule) if at <= cap else (cap, cap_rule)


def move(
    slot: Slot,
    at: Millis,
    rule: Rule,
    *,
    now: Millis,
    max_records: int | None,
    openings: Openings | None,
) -> Slot:
    """Set the due time; an urgent record or a full timeline may pull it earlier; the window comes last."""
    if slot.deadline is not None and slot.deadline < at:
        at, rule = slot.deadline, Rule.DEADLINE
    if max_records is not None and slot.pending >= max_records and now < at:
        at, rule = now, Rule.COUNT
    was: Millis | None = due_by_delays(slot)
    by_delays: Millis | None = None
    passes = slot.passes
    if rule is Rule.STAYS:
        rule, was = slot.rule, slot.was
    if openings is not None:
        opening, deadline = first_opening(openings, at, last=slot.last), slot.deadline
        if openings.urgent and deadline is not None and (opening is None or deadline < opening):
            at, rule, passes = deadline, Rule.DEADLINE, True
        elif opening is not None:  # where it is not known, the timeline stays due by the delays
            at, by_delays = opening, at
    return replace(slot, at=at, by_delays=by_delays, rule=rule, was=was, passes=passes)


def first_opening(openings: Openings, at: Millis, *, last: Millis | None) -> Millis | None:
    """The first opening at or after a time, of single times also after the last delivery. None: it is not known."""
    numbers = openings.numbers
    if openings.hours:
        place = bisect_right(numbers, at)  # odd: inside a span
        if place % 2:
            return at
        return numbers[place] if place < len(numbers) else None
    place = bisect_left(numbers, at if last is None else max(at, last + 1))
    return numbers[place] if place < len(numbers) else None


def last_opening(openings: Openings, *, now: Millis, before: Millis) -> Millis | None:
    """The latest opening from now on that begins before a time; None if there is none."""
    numbers = openings.numbers
    if openings.hours:
        spans = zip(numbers[::2], numbers[1::2], strict=True)
        found = [max(now, start) for start, end in spans if now < end and max(now, start) < before]
    else:
        found = [time for time in numbers if now <= time < before]
    return found[-1] if found else None


def next_delivery(slot: Slot) -> Millis | None:
    """When a timeline is delivered next. None if that is not known: it is open, paused or has nothing to deliver."""
    is_due = slot.state in (State.WAITING, State.READY) and not slot.paused
    return slot.at if is_due else None


# Scheduling and maintenance


def after_schedule(slot: Slot, *, now: Millis) -> Slot:
    """A due timeline becomes ready."""
    return replace(slot, state=State.READY, since=now)


def after_maintenance(slot: Slot) -> Slot:
    """Ready for too long: its dispatch got lost, so it waits to be scheduled again."""
    return replace(slot, state=State.WAITING)


def after_lapse(slot: Slot) -> Slot:
    """The lease ran out. The digest may have gone out, so it is frozen. A lapse in a group of one counts against it."""
    digest = _kept(slot.digest, freeze=True)
    if digest is not None:
        alone = digest.lapses_alone + (_tried_in(slot) == 1)
        digest = replace(digest, lapses=digest.lapses + 1, lapses_alone=alone, largest=_largest_group(slot))
    return replace(slot, state=State.WAITING, digest=digest, token=None, until=None, group=0, alone=False)


def must_be_admitted(slot: Slot, *, asks: bool) -> bool:
    """True if the caller has to say whether the timeline may be delivered: it wants to, or a stored window decides.

    A timeline without any record delivers nothing.
    """
    has_window = slot.override is not None and slot.override.terms.openings is not None
    return (asks or has_window) and not is_empty(slot)


def may_be_admitted(slot: Slot, *, now: Millis) -> bool:
    """True unless another caller was quicker: the timeline is paused or open, or has no record left."""
    return not slot.paused and not is_live(slot, now=now) and slot.parked is None and not is_empty(slot)


def after_admission_refused(slot: Slot, *, until: Millis) -> Slot:
    """It may not be delivered yet: its records stay pending, and its time by the delays is unchanged."""
    if slot.state is State.OPEN:
        slot = after_lapse(slot)
    return replace(slot, state=State.WAITING, at=until, by_delays=due_by_delays(slot))


def after_plan(slot: Slot, *, now: Millis, terms: Terms, cool_down: Millis) -> Slot:
    """Another policy holds from now on: place a waiting timeline as if it had held before.

    A timeline with an unfinished digest or a pass is not moved. Records must not expire while they wait for an opening.
    A delivery or an arrival that is later than now, because the clock was set back, counts as one of now.
    """
    if slot.state is not State.WAITING or slot.digest is not None or slot.passes:
        return slot
    slot = replace(slot, last=_not_after(slot.last, now), first=_not_after(slot.first, now))
    if slot.last is not None:
        at, rule = slot.last + cool_down, Rule.COOL_DOWN
    elif slot.first is not None:
        at, rule = slot.first + terms.first_delay, Rule.FIRST_DELAY if terms.first_delay else Rule.FIRST
    else:
        at, rule = due_by_delays(slot), slot.rule
    if at < now:
        at, rule = now, Rule.PLANNED
    planned = move(slot, at, rule, now=now, max_records=terms.max_records, openings=terms.openings)
    planned = planned if planned.at >= now else replace(planned, at=now)
    if terms.openings is None or slot.expires is None or planned.at < slot.expires:
        return planned
    earlier = last_opening(terms.openings, now=now, before=slot.expires)
    if earlier is None:
        return replace(planned, at=now, by_delays=None, passes=True)
    return replace(planned, at=earlier, by_delays=earlier)


def _not_after(time: Millis | None, now: Millis) -> Millis | None:
    return None if time is None else min(time, now)


# Leases


def is_live(slot: Slot, *, now: Millis) -> bool:
    """True while the timeline is open under a lease that has not lapsed."""
    return slot.state is State.OPEN and slot.until is not None and now < slot.until


def is_held(slot: Slot, token: str, *, now: Millis) -> bool:
    """True if the token is current and has not lapsed."""
    return slot.token == token and is_live(slot, now=now)


def is_leased_until(slot: Slot, until: Millis) -> bool:
    """True if the timeline is open under a lease with exactly this end, other than that of a move."""
    return slot.state is State.OPEN and slot.parked is None and slot.until == until


def after_early_end(slot: Slot, *, now: Millis) -> Slot:
    """The lease ends now, because its holder was not seen to renew it: the digest is a suspect."""
    return replace(slot, until=now)


def is_empty(slot: Slot) -> bool:
    """True if the timeline has no record at all."""
    return slot.pending == 0 and (slot.digest is None or slot.digest.records == 0)


def refuse_while_moving(moving: bool) -> None:
    """Raise Busy if the store is being moved into another: then it starts no delivery."""
    if moving:
        raise Busy(MOVING)


def refuse_opening(slot: Slot, timeline: str, *, now: Millis) -> None:
    """Raise InvalidState or Busy unless the timeline may be opened."""
    if slot.parked is not None:
        raise Busy(f"{timeline!r} is on its way from or to another store; `digestif move`, called again, ends that")
    if is_live(slot, now=now):
        raise Busy(
            f"{timeline!r} is open under a lease that is alive until {instant_text(to_seconds(slot.until or 0))}"
        )
    if slot.paused:
        raise InvalidState(f"{timeline!r} is paused; resume it first")
    if slot.state not in (State.READY, State.OPEN):
        hint = f": due at {instant_text(to_seconds(slot.at))}, then schedule() makes it ready; flush() at once"
        raise InvalidState(f"{timeline!r} is {slot.state}, not ready{hint if slot.state is State.WAITING else ''}")


def is_suspect(slot: Slot, *, now: Millis) -> bool:
    """True if the lease has lapsed and the timeline is still open: its digest may have ended the worker."""
    return slot.state is State.OPEN and slot.digest is not None and not is_live(slot, now=now)


def group_size(first: Slot, *, size: int) -> int:
    """Return the size of a group of suspects, at most what the worker tries together: the first to lapse decides.

    A worker that dies leaves many suspects. Trying them in groups delivers the healthy ones soon; groups that shrink
    with each lapse find the one that ends its workers.
    """
    return min(size, _largest_group(first) or size)


def may_join(suspect: Slot, *, size: int) -> bool:
    """True if the suspect may be tried in a group of this size."""
    return group_size(suspect, size=size) == size


def _largest_group(lapsed: Slot) -> int:
    """Return the largest group in which a digest whose lease ran out may be tried next; 0: any.

    One of the group that it was tried in may have ended the worker: that is half the group now, or the digest itself.
    """
    group = _tried_in(lapsed)
    if group:
        return max(1, group // 2)
    return 0 if lapsed.digest is None else lapsed.digest.largest


def _tried_in(slot: Slot) -> int:
    """Return the size of the group that an open digest is tried in; 0: other attempts may run beside it."""
    return slot.group or int(slot.alone)


def after_open(
    slot: Slot, *, now: Millis, token: str, until: Millis, fresh_id: str, fresh_batch: int, group: int = 0
) -> Slot:
    """Give a lease on the unfinished digest; if there is none, on a new one that takes all pending records.

    `group` is noted only for a digest that has lapsed before: the first lapse of a digest proves nothing.
    """
    since = now if slot.state is State.WAITING else slot.since
    if slot.state is State.OPEN:
        slot = after_lapse(slot)
    if slot.digest is None:
        slot = cut(slot, now=now, fresh_id=fresh_id, fresh_batch=fresh_batch)
    else:
        again = replace(slot.digest, attempt=slot.digest.attempt + 1, deciding=not slot.digest.frozen)
        slot = replace(slot, digest=again)
    assert slot.digest is not None  # one or the other
    group = group if slot.digest.lapses else 0
    return replace(slot, state=State.OPEN, since=since, token=token, until=until, group=group, alone=False)


def cut(slot: Slot, *, now: Millis, fresh_id: str, fresh_batch: int) -> Slot:
    """Make a new digest of all pending records."""
    batch = fresh_batch if slot.batch is None else slot.batch
    digest = Unfinished(
        id=fresh_id,
        batch=batch,
        records=slot.pending,
        dropped=slot.dropped,
        opened=now,
        fresh=True,
        settled=not _may_exceed(slot.pending, USUAL_MAX_BYTES, heavy=slot.heavy),
        heavy=slot.heavy,
    )
    return without_pending(replace(slot, digest=digest, expires=None))


def without_pending(slot: Slot) -> Slot:
    """The slot without any pending record."""
    return replace(slot, pending=0, dropped=0, batch=None, first=None, deadline=None, push=None, heavy=False)


def after_decision(slot: Slot, *, merge: bool) -> Slot:
    """Decide what a digest that was opened again carries: with `merge`, the pending records as well.

    A digest that nothing joins stays as it is, under its idempotency key.
    """
    digest = slot.digest
    assert digest is not None
    if not merge or not (slot.pending or slot.dropped):
        return replace(slot, digest=replace(digest, deciding=False))
    joined = replace(
        digest,
        deciding=False,
        fresh=True,
        settled=False,
        weighed=False,
        revision=digest.revision + 1,
        merging=slot.batch,
        records=digest.records + slot.pending,
        dropped=digest.dropped + slot.dropped,
        heavy=digest.heavy or slot.heavy,
    )
    return without_pending(replace(slot, digest=joined))


def excess(digest: Unfinished, capacity: int | None) -> int:
    """How many records exceed the capacity; 0 if the digest must not be trimmed any more."""
    if capacity is None or digest.records <= capacity or not _is_unread(digest):
        return 0
    return digest.records - capacity


def _is_unread(digest: Unfinished) -> bool:
    """True if no attempt can have read all of it."""
    return not digest.settled or digest.fresh


def must_be_weighed(digest: Unfinished, max_bytes: int | None) -> bool:
    """True if the digest may exceed `max_bytes`, and may still be trimmed."""
    may_exceed = max_bytes is not None and _may_exceed(digest.records, max_bytes, heavy=digest.heavy)
    return may_exceed and _is_unread(digest) and not digest.weighed


def _may_exceed(records: int, max_bytes: int, *, heavy: bool) -> bool:
    """Return True if this number of records could exceed `max_bytes`. Their payloads are not read."""
    return records * (LARGEST_PAYLOAD if heavy else USUAL_PAYLOAD) > max_bytes


def after_weighing(digest: Unfinished, dropped: int, *, fits: bool) -> Unfinished:
    """The oldest records were dropped; `fits` says that the rest fits into max_bytes."""
    return replace(digest, weighed=fits, records=digest.records - dropped, dropped=digest.dropped + dropped)


def after_completion(slot: Slot, *, now: Millis, plan: Plan) -> Slot:
    """The digest ended: the timeline cools down, or is idle after an empty one with nothing pending."""
    assert slot.digest is not None
    delivered = slot.digest.records > 0
    slot = replace(slot, digest=None, token=None, until=None, group=0, passes=False)
    if not delivered and slot.pending == 0:
        return after_retirement(slot)
    slot = replace(
        slot,
        state=State.WAITING,
        last=now if delivered else slot.last,
        iteration=slot.iteration + 1 if delivered else 0,
    )
    plan = plan_in_force(plan, slot)
    return move(
        slot,
        now + plan.cool_down,
        Rule.COOL_DOWN,
        now=now,
        max_records=plan.max_records,
        openings=plan.openings,
    )


def plan_in_force(plan: Plan, slot: Slot) -> Plan:
    """How a timeline goes on: by a cool-down given to the call, by its override, or by the policy in the code.

    A given cool-down that the ttl does not allow was checked before the policy changed, as a delay in `in_force`.
    """
    override = slot.override
    if override is None:
        if not plan.given or plan.ttl is None:
            return plan
        return replace(plan, cool_down=min(plan.cool_down, longest_delay(plan.ttl)))
    is_given = plan.given and allows(override.terms.ttl, plan.cool_down)
    cool_down = plan.cool_down if is_given else override.cool_down(slot.iteration)
    return Plan(cool_down, override.terms.max_records, override.terms.openings)


def after_failure(
    slot: Slot,
    *,
    freeze: bool,
    counted: bool = True,
    unknown: bool = False,
    tried: Millis | None = None,
    read: bool = True,
) -> Slot:
    """The block raised: the timeline is ready again, at the same times. `read` says that it had the whole digest."""
    digest = _kept(slot.digest, freeze=freeze, counted=counted)
    if digest is not None:
        fresh = digest.fresh and not read
        digest = replace(digest, unknown=digest.unknown or unknown, tried=tried, fresh=fresh)
    return replace(slot, state=State.READY, token=None, until=None, group=0, digest=digest)


def after_release(
    slot: Slot,
    *,
    until: Millis,
    freeze: bool,
    counted: bool = True,
    unknown: bool = False,
    tried: Millis | None = None,
    read: bool = True,
) -> Slot:
    """The attempt failed: the timeline waits until the next one."""
    was = slot.at
    slot = after_failure(slot, freeze=freeze, counted=counted, unknown=unknown, tried=tried, read=read)
    return replace(slot, state=State.WAITING, at=until, was=was, rule=Rule.RETRY, by_delays=None)


def _kept(digest: Unfinished | None, *, freeze: bool, counted: bool = True) -> Unfinished | None:
    """The digest after an attempt that did not succeed; an empty one is dropped.

    Freeze a digest that some recipients already have: merged records would never reach them.
    """
    if digest is None or digest.records == 0:
        return None
    if not counted:
        digest = replace(digest, attempt=digest.attempt - 1)
    return replace(digest, frozen=True, deciding=False, fresh=False) if freeze or digest.served else digest


# On request


def after_retirement(slot: Slot) -> Slot:
    """The timeline is idle; only its flag `paused` and its override remain."""
    return Slot(paused=slot.paused, override=slot.override)


def after_flush(slot: Slot, *, now: Millis) -> Slot:
    """A waiting timeline is ready at once, on request, whatever its window says."""
    was = slot.at
    return replace(slot, state=State.READY, at=now, since=now, was=was, rule=Rule.FLUSHED, by_delays=None, passes=True)


def after_replay(slot: Slot, digest: Unfinished, *, now: Millis) -> Slot:
    """A dead letter becomes the unfinished digest: the same records, attempts counted from 1."""
    counts = {"attempt": 0, "lapses": 0, "lapses_alone": 0, "largest": 0}
    revived = replace(digest, **counts, frozen=True, weighed=True, replayed=True, tried=None)
    was = slot.at if slot.state is not State.IDLE else None
    slot = replace(slot, by_delays=None, passes=True)
    return replace(slot, state=State.READY, at=now, since=now, was=was, rule=Rule.REPLAYED, digest=revived)


def refuse_requeue(slot: Slot, letter: DeadLetter, *, force: bool) -> None:
    """Raise Busy or InvalidState unless the records of a dead letter may be pending again."""
    if slot.parked is not None:
        raise Busy(
            f"{letter.timeline!r} is on its way from or to another store; requeue {letter.id} when that has ended"
        )
    if is_off(slot):
        raise InvalidState(f"{letter.timeline!r} is switched off: prefer() another cadence before you requeue")
    if force:
        return
    instead = "replay it, which keeps its idempotency key, or force the requeue"
    if may_have_gone_out(letter):
        raise InvalidState(f"{letter.id} may have gone out, and its records would go out again; {instead}")
    if letter.served:
        raise InvalidState(f"{letter.id} has reached some recipients, who would get its records again; {instead}")


def refuse_without_value(letter: DeadLetter, *, is_missing: bool) -> None:
    """Raise InvalidState if nothing is left of a dead letter's record but its key: it can't be delivered again."""
    if is_missing:
        raise InvalidState(f"{letter.id}: the stored value of its record is missing; it can only be discarded")


def after_requeue(
    slot: Slot, *, now: Millis, terms: Terms, delay: Millis, pending: int, deadline: Millis | None
) -> Slot:
    """Records of a dead letter are pending again; `pending` and `deadline` already count them.

    Their sizes are not known. An idle timeline waits for its cool-down, so that other letters can join. Any other
    keeps its time, except that enough records make it due, as at an add.
    """
    own = slot.override
    terms = in_force(terms, own)
    first = slot.first if slot.pending else now
    slot = replace(slot, pending=pending, deadline=deadline, first=first, heavy=True)
    if slot.state is State.IDLE:
        waiting = replace(slot, state=State.WAITING, at=now, by_delays=None)
        at = now + (delay if own is None else own.cool_down(slot.iteration))
        return move(waiting, at, Rule.REQUEUED, now=now, max_records=terms.max_records, openings=terms.openings)
    is_full = terms.max_records is not None and pending >= terms.max_records
    if slot.state is not State.WAITING or slot.digest is not None or slot.passes or not is_full:
        return slot
    if due_by_delays(slot) <= now:
        return slot
    return move(slot, now, Rule.COUNT, now=now, max_records=None, openings=terms.openings)


def who_got(digest: Unfinished) -> tuple[str, ...]:
    """The recipients who have their part of the digest; a replay leaves them out."""
    return tuple(name for name in digest.served if not name.startswith(UNREACHABLE))


def may_have_gone_out(digest: Unfinished | DeadLetter) -> bool:
    """True if a message with these records may have reached its receiver. Older dead letters note only lapses."""
    return digest.unknown or digest.lapses > 0


def who_never_can(digest: Unfinished) -> tuple[str, ...]:
    """The recipients who can't be reached."""
    return tuple(name.removeprefix(UNREACHABLE) for name in digest.served if name.startswith(UNREACHABLE))


def unreachable(recipient: str) -> str:
    """The name by which `served` lists a recipient who can't be reached."""
    return UNREACHABLE + recipient


def after_losing(digest: Unfinished, lost: int) -> Unfinished:
    """An unfinished digest lost records. If an earlier attempt may have carried them, it gets another revision."""
    raised = 1 if lost and not digest.fresh else 0
    return replace(digest, records=digest.records - lost, revision=digest.revision + raised)


def is_off(slot: Slot) -> bool:
    """True if people switched the timeline off."""
    return slot.override is not None and slot.override.off


def after_switched_off(slot: Slot) -> Slot:
    """All records were deleted, except those of an open digest: the timeline is idle, unless it cools down."""
    cools_down = slot.state is State.WAITING and slot.last is not None
    return slot if slot.state is State.OPEN or cools_down else after_retirement(slot)


def after_expiry(slot: Slot, *, now: Millis) -> Slot:
    """Records expired. A digest that lost its last record ends, and a due timeline without any becomes idle."""
    if slot.digest is not None and slot.digest.records == 0 and slot.state is not State.OPEN:
        slot = replace(slot, digest=None)
    due = slot.state is State.READY or (slot.state is State.WAITING and slot.at <= now)
    return after_retirement(slot) if is_empty(slot) and due else slot
