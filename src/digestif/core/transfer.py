"""The transitions of a move between stores: how a timeline leaves one store and comes into another.

Each takes a slot and gives the slot that follows, as in `machine`. An export holds the timeline under a lease that
never lapses, with the state it had in `parked`; an import holds an unfinished digest in the same way until it is whole.
"""

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Rule, Slot, Unfinished
from digestif.core.records import State
from digestif.core.terms import Override
from digestif.core.times import Millis

FOREVER: Millis = 253_402_300_800_000  # the year 10000: the lease of an export or import does not lapse
OUTGOING = "leaving:"  # begins the token of a timeline that is being exported…
INCOMING = "coming:"  # …and of a digest, or the id of a dead letter, that is imported and not whole yet


def move_mark(move_id: str, *, now: Millis) -> str:
    """What a store keeps while it is being moved: since when, and the id of the move."""
    return f"{now} {move_id}"


def move_start(mark: str) -> Millis | None:
    """When the move began; None if the mark is damaged."""
    since = mark.partition(" ")[0]
    return int(since) if since.isdecimal() else None


def is_of_move(mark: str | None, move_id: str) -> bool:
    return mark is not None and mark.partition(" ")[2] == move_id


def is_incoming(name: str) -> bool:
    """True for the token of a digest, or the id of a dead letter, that is imported and not whole yet."""
    return name.startswith(INCOMING)


def exports_pending(slot: Slot) -> bool:
    """True if the export carries what was pending, not an unfinished digest."""
    return slot.digest is not None and slot.digest.id == slot.token


def after_begin_export(slot: Slot, *, now: Millis, token: str, fresh_batch: int) -> Slot:
    """Hold the timeline, so that it can't be opened. It exports its unfinished digest; without one, what is pending."""
    if slot.state is State.OPEN:
        slot = machine.after_lapse(slot)
    parked, push = slot.state, slot.push
    if slot.digest is None:
        opened = now if slot.first is None else slot.first
        slot = machine.cut(slot, now=opened, fresh_id=token, fresh_batch=fresh_batch)
    return replace(slot, state=State.OPEN, token=token, until=FOREVER, group=0, alone=False, parked=parked, push=push)


def after_commit_export(slot: Slot, exported: Slot, *, now: Millis) -> Slot:
    """The other store has the parcel: what remains was added, paused or chosen during the export, and follows."""
    if slot.pending == 0:
        is_new = slot.override is not None and _since(slot.override) != _since(exported.override)
        return Slot(paused=slot.paused and not exported.paused, override=slot.override if is_new else None)
    return _due_if_idle(_unparked(replace(slot, digest=None)), now=now)


def after_abort_export(slot: Slot) -> Slot:
    """Keep the timeline here. The records of the export stay an unfinished digest, also those that were pending."""
    digest = slot.digest if slot.digest is not None and slot.digest.records else None
    kept = _unparked(replace(slot, digest=digest))
    if kept.state is State.IDLE and (digest is not None or slot.pending):
        kept = replace(kept, state=State.WAITING)
    return kept


def after_import_of_timeline(slot: Slot, exported: Slot) -> Slot:
    """Take over the times of an imported timeline; one of the same name that exists here goes on by its own due time.

    Records that were added in the other store put that off as they would have here. If the timeline was delivered in
    the other store later, it waits for the cool-down that began there.
    """
    paused = slot.paused or exported.paused
    override = _later(slot.override, exported.override)
    if slot.state is State.IDLE:
        bare = replace(exported, digest=None, expires=None, placed=0, paused=paused, override=override)
        return _unparked(machine.without_pending(bare))
    slot = replace(slot, iteration=max(slot.iteration, exported.iteration), paused=paused, override=override)
    if exported.push is not None:
        slot = _pulled_by_deadline(machine.after_push(slot, exported.push))
    if exported.last is None or (slot.last is not None and slot.last >= exported.last):
        return slot
    return _cooling_down(replace(slot, last=exported.last), exported)


def _cooling_down(slot: Slot, exported: Slot) -> Slot:
    """Put a waiting timeline off to the due time that it has in the other store; a full one stays due."""
    is_bound = slot.digest is not None or slot.passes or slot.rule is Rule.COUNT
    if slot.state is not State.WAITING or is_bound or exported.parked is not State.WAITING:
        return slot
    if machine.due_by_delays(exported) <= machine.due_by_delays(slot):
        return slot
    times = {"at": exported.at, "by_delays": exported.by_delays, "rule": exported.rule, "was": exported.was}
    return _pulled_by_deadline(replace(slot, **times))


def _pulled_by_deadline(slot: Slot) -> Slot:
    """An urgent record pulls the due time of a waiting timeline earlier."""
    was = machine.due_by_delays(slot)
    if slot.state is not State.WAITING or slot.digest is not None or slot.deadline is None or slot.deadline >= was:
        return slot
    return replace(slot, at=slot.deadline, by_delays=None, rule=Rule.DEADLINE, was=was)


def brings_override(before: Slot, after: Slot) -> bool:
    """True if a timeline that waited here has got another policy by an import, so that it has to be planned again."""
    return before.state is State.WAITING and _since(before.override) != _since(after.override)


def _since(override: Override | None) -> Millis | None:
    return None if override is None else override.since


def _later(one: Override | None, other: Override | None) -> Override | None:
    """The override that was set last."""
    if one is None or (other is not None and one.since < other.since):
        return other
    return one


def after_import_of_pending(
    slot: Slot, *, now: Millis, pending: int, dropped: int, first: Millis, deadline: Millis | None, heavy: bool
) -> Slot:
    """Records that were pending there are pending here; an urgent one pulls the due time earlier."""
    first = first if slot.first is None else min(slot.first, first)
    dropped, heavy = slot.dropped + dropped, slot.heavy or heavy
    slot = replace(slot, pending=pending, dropped=dropped, first=first, deadline=deadline, heavy=heavy)
    return _pulled_by_deadline(_due_if_idle(slot, now=now))


def after_import_of_digest(slot: Slot, exported: Slot, digest: Unfinished, *, token: str) -> Slot:
    """Begin to import an unfinished digest, with the time of its retry. It can't be opened before it is whole."""
    settled = digest.settled or digest.merging is not None  # an import ends a merge: all records come into one batch
    return replace(
        slot,
        state=State.OPEN,
        parked=exported.parked,
        at=exported.at,
        since=exported.since,
        rule=exported.rule,
        was=exported.was,
        token=token,
        until=FOREVER,
        digest=replace(digest, settled=settled, merging=None, deciding=False),
    )


def after_import_completed(slot: Slot) -> Slot:
    """The digest is whole: the timeline gets the state that it had in the other store."""
    return _unparked(slot)


def _unparked(slot: Slot) -> Slot:
    state = slot.parked or State.WAITING
    return replace(slot, state=state, parked=None, token=None, until=None, group=0, alone=False, push=None)


def _due_if_idle(slot: Slot, *, now: Millis) -> Slot:
    """Make an idle timeline due at once: it has records."""
    if slot.state is not State.IDLE:
        return slot
    state = State.WAITING if slot.paused else State.READY
    return replace(slot, state=state, at=now, since=now, rule=Rule.FIRST, was=None)
