"""Explanations: why a timeline is due when it is, from what is stored about it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from digestif.core.machine import Rule, Slot, is_live
from digestif.core.records import State
from digestif.core.times import Millis, to_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """When a timeline is delivered next, and why: `str()` for people, `to_dict()` for JSON."""

    timeline: str
    state: State
    facts: dict[str, Any]  # times in seconds
    rule: Rule | None  # what decided the due time last
    arithmetic: str
    next: float | None  # the next time, in seconds, at which something happens without a call
    summary: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "timeline": self.timeline,
            "state": str(self.state),
            "facts": self.facts,
            "rule": None if self.rule is None else str(self.rule),
            "arithmetic": self.arithmetic,
            "next": self.next,
            "summary": self.summary,
        }

    def __str__(self) -> str:
        facts = [f"  {name}: {_shown(name, value)}" for name, value in self.facts.items()]
        rule = [] if self.rule is None else [f"rule: {self.rule}", f"  {self.arithmetic}"]
        return "\n".join([f"{self.timeline}: {self.summary}", "facts:", *facts, *rule, f"next: {_instant(self.next)}"])


def explain(timeline: str, slot: Slot, *, now: Millis) -> Explanation:
    """The facts, the rule that set the due time, its arithmetic, and the next time something happens."""
    moment = _next(slot, now=now)
    return Explanation(
        timeline=timeline,
        state=slot.state,
        facts=_facts(slot),
        rule=None if slot.state is State.IDLE else slot.rule,
        arithmetic="" if slot.state is State.IDLE else _arithmetic(slot),
        next=None if moment is None else to_seconds(moment),
        summary=_summary(slot, now=now),
    )


def _facts(slot: Slot) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "due": _seconds(slot.at) if slot.state is not State.IDLE else None,
        "last": _seconds(slot.last),
        "iteration": slot.iteration,
        "pending": slot.pending,
        "first_pending": _seconds(slot.first),
        "deadline": _seconds(slot.deadline),
        "dropped": slot.dropped,
        "paused": slot.paused,
        "lease_until": _seconds(slot.until),
    }
    if slot.digest is not None:
        digest = slot.digest
        facts["digest"] = {
            "id": digest.id,
            "revision": digest.revision,
            "attempt": digest.attempt,
            "lapses": digest.lapses,
            "records": digest.records,
            "frozen": digest.frozen,
        }
    return facts


def _arithmetic(slot: Slot) -> str:
    due = f"due {_clock(slot.at)}"
    moved = "" if slot.was is None else f"{_clock(slot.was)} + {_span(slot.at - slot.was)}"
    last = "" if slot.last is None else _clock(slot.last)
    match slot.rule:
        case Rule.FIRST:
            return f"first record of an idle timeline at {_clock(slot.at)}: {due}, at once"
        case Rule.FIRST_DELAY:
            return f"first record at {moved} of first_delay = {due}"
        case Rule.COOL_DOWN if slot.last is not None and slot.last <= slot.at:
            return f"last delivery {last} + {_span(slot.at - slot.last)} of cool-down = {due}"
        case Rule.COOL_DOWN:
            return f"cool-down after an empty digest = {due}"
        case Rule.INCREMENT:
            return f"{moved} of increment_delay = {due}"
        case Rule.CAP if slot.last is not None:
            return f"last delivery {last} + {_span(slot.at - slot.last)} of maximum_delay = {due}, the cap"
        case Rule.QUIET:
            return f"{moved}, for silence since the latest record = {due}"
        case Rule.QUIET_CAP if slot.first is not None:
            first = _clock(slot.first)
            return f"first pending record {first} + {_span(slot.at - slot.first)} of maximum_delay = {due}, the cap"
        case Rule.DEADLINE:
            return f"a pending record asked to go by {_clock(slot.at)}: {due}"
        case Rule.COUNT:
            return f"max_records were pending at {_clock(slot.at)}: {due}, at once"
        case Rule.RETRY:
            return f"an attempt failed; the next one is {due}"
        case Rule.FLUSHED:
            return f"flushed at {_clock(slot.at)}: {due}"
        case Rule.REPLAYED:
            return f"a dead letter was replayed at {_clock(slot.at)}: {due}"
    return due


def _summary(slot: Slot, *, now: Millis) -> str:
    paused = "paused; " if slot.paused else ""
    if slot.state is State.IDLE:
        return f"{paused}idle: nothing is stored, the next record starts a new round"
    records = f"{slot.pending} pending"
    if slot.state is State.WAITING:
        when = f"due in {_span(slot.at - now)}" if slot.at > now else "due"
        return f"{paused}waiting with {records}, {when}"
    if slot.state is State.READY:
        return f"{paused}ready with {records}: waits to be opened since {_clock(slot.since)}"
    if slot.parked is not None:
        return f"{paused}on its way from or to another store: `digestif move`, called again, brings it there; {records}"
    if is_live(slot, now=now):
        return f"{paused}open: a digest is being delivered, its lease ends at {_clock(slot.until or 0)}; {records}"
    return f"{paused}open, but its lease ended at {_clock(slot.until or 0)}: it can be taken over; {records}"


def _next(slot: Slot, *, now: Millis) -> Millis | None:
    if slot.parked is not None:
        return None
    if slot.state is State.OPEN and slot.until is not None:
        return max(slot.until, now)
    if slot.paused or slot.state is State.IDLE:
        return None
    return max(slot.at, now) if slot.state is State.WAITING else now


def _seconds(millis: Millis | None) -> float | None:
    return None if millis is None else to_seconds(millis)


def _span(millis: Millis) -> str:
    return f"{millis / 1000:g} s"


def _clock(millis: Millis) -> str:
    return _instant(millis / 1000)


def _instant(seconds: float | None) -> str:
    if seconds is None:
        return "never by itself"
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # outside of the calendar, as the clock of a test may be
        return f"{seconds:.3f}"


def _shown(name: str, value: object) -> object:
    times = ("due", "last", "first_pending", "deadline", "lease_until")
    return _instant(value) if name in times and isinstance(value, float) else value
