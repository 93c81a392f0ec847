"""The vectors of `digestif.testing.vectors` as the machine takes them, for each language that it is written in."""

from typing import Any

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Plan, Slot, Unfinished
from digestif.core.records import State
from digestif.core.terms import FIRST_DELAY, INCREMENT, MAXIMUM, Openings, Override, Terms
from digestif.testing.vectors import Add, Calendar, Complete, OwnPolicy, Placed, Refuse, Replan, Requeue

GIVEN = {"first_delay": FIRST_DELAY, "increment": INCREMENT, "maximum": MAXIMUM}


def add_facts(vector: Add) -> dict[str, Any]:
    slot = Slot(
        state=State(vector.state),
        at=vector.at,
        by_delays=vector.by_delays,
        passes=vector.passes,
        last=vector.last,
        first=vector.first,
        paused=vector.paused,
        pending=vector.pending - 1 or int(vector.first is not None),
        digest=_digest() if vector.unfinished else None,
        override=_override(vector.own),
    )
    terms = Terms(
        first_delay=vector.first_delay,
        increment=vector.increment,
        maximum=vector.maximum,
        quiet=vector.quiet,
        max_records=vector.max_records,
        openings=_openings(vector.calendar),
        ttl=vector.ttl,
        given=sum(GIVEN[name] for name in vector.given),
    )
    return {
        "slot": slot,
        "now": vector.now,
        "terms": terms,
        "pending": vector.pending,
        "deadline": vector.deadline,
        "moving": vector.moving,
    }


def completion_facts(vector: Complete) -> dict[str, Any]:
    slot = Slot(
        state=State.OPEN,
        pending=vector.pending,
        deadline=vector.deadline,
        last=vector.last,
        iteration=vector.iteration,
        passes=vector.passes,
        digest=_digest(records=vector.records),
        token="t",
        until=vector.now + 1,
        override=_override(vector.own),
    )
    plan = Plan(vector.cool_down, vector.max_records, _openings(vector.calendar), vector.given, vector.ttl)
    return {"slot": slot, "now": vector.now, "plan": plan}


def plan_facts(vector: Replan) -> dict[str, Any]:
    slot = Slot(
        state=State(vector.state),
        at=vector.at,
        by_delays=vector.by_delays,
        passes=vector.passes,
        last=vector.last,
        first=vector.first,
        deadline=vector.deadline,
        pending=vector.pending,
        expires=vector.expires,
        digest=_digest() if vector.unfinished or vector.state == "open" else None,
    )
    terms = Terms(first_delay=vector.first_delay, max_records=vector.max_records, openings=_openings(vector.calendar))
    return {"slot": slot, "now": vector.now, "terms": terms, "cool_down": vector.cool_down}


def requeue_facts(vector: Requeue) -> dict[str, Any]:
    slot = Slot(
        state=State(vector.state),
        at=vector.at,
        by_delays=vector.by_delays,
        passes=vector.passes,
        paused=vector.paused,
        pending=0 if vector.state == "idle" else vector.pending - 1,
        digest=_digest() if vector.unfinished or vector.state == "open" else None,
        override=_override(vector.own),
    )
    if slot.state is State.OPEN:
        slot = replace(slot, token="t", until=vector.now + 1)
    terms = Terms(max_records=vector.max_records, openings=_openings(vector.calendar))
    return {"slot": slot, "now": vector.now, "terms": terms, "delay": vector.delay, "pending": vector.pending}


def refusal_facts(vector: Refuse) -> dict[str, Any]:
    slot = Slot(
        state=State(vector.state),
        at=vector.at,
        by_delays=vector.by_delays,
        passes=vector.passes,
        pending=1,
        digest=_digest() if vector.unfinished else None,
    )
    if slot.state is State.OPEN:
        slot = replace(slot, token="t", until=vector.at + 1)
    return {"slot": slot, "until": vector.until}


def refused(after: Slot) -> tuple[Placed, int, bool]:
    lapses, frozen = (0, False) if after.digest is None else (after.digest.lapses, after.digest.frozen)
    return placed(after), lapses, frozen


def placed(slot: Slot) -> Placed:
    if slot.state is State.IDLE:
        return Placed("idle", None, None)
    return Placed(str(slot.state), slot.at, machine.due_by_delays(slot), slot.passes)


def _digest(*, records: int = 1) -> Unfinished:
    return Unfinished(id="x", batch=0, records=records, opened=0)


def _openings(calendar: Calendar | None) -> Openings | None:
    return None if calendar is None else Openings(*calendar)


def _override(own: OwnPolicy | None) -> Override | None:
    if own is None:
        return None
    terms = Terms(
        first_delay=own.first_delay,
        increment=own.increment,
        maximum=own.maximum,
        quiet=own.quiet,
        max_records=own.max_records,
        ttl=own.ttl,
        openings=_openings(own.calendar),
    )
    return Override(text="", since=0, terms=terms, cool_downs=own.cool_downs)
