"""Explanations: why a timeline is due when it is, from what is stored about it and the policy in force."""

import re
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, tzinfo
from typing import Any

from digestif.core.cadences import PolicyInForce
from digestif.core.machine import Rule, Slot, due_by_delays, is_empty, is_live
from digestif.core.outages import ChannelOutage
from digestif.core.policy import Policy
from digestif.core.records import State
from digestif.core.times import Millis, to_seconds
from digestif.core.windows import admission
from digestif.core.windows.zones import zone_of
from digestif.errors import ConfigError

DAY = 86_400_000  # milliseconds
DEFAULT = Policy()
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """When a timeline is delivered next, and why: `str()` for people, `to_dict()` for JSON. Times in seconds."""

    timeline: str
    state: State
    facts: dict[str, Any]
    rule: Rule | None  # what decided the due time last
    arithmetic: str
    next: float | None  # the next time at which something happens without a call
    summary: str
    policy: str  # that is in force, as text
    source: str  # where it comes from
    window: str | None  # the policy's, as text
    zone: str | None  # of the window; texts show times in it
    by_delays: float | None  # due time by the delays
    aligned: float | None  # what the window made of it; None: there is none, or it has a pass
    latest: float | None  # due then at the latest, whatever is added; None unless it waits
    passes: str | None  # why the window does not hold it back
    outage: ChannelOutage | None  # of its channel
    unhandled: bool  # live workers are known, and none has a handler for it
    changes: tuple[str, ...]  # what would change the due time

    def to_dict(self) -> dict[str, Any]:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        rule = None if self.rule is None else str(self.rule)
        outage = None if self.outage is None else {**asdict(self.outage), "patterns": list(self.outage.patterns)}
        return {**found, "state": str(self.state), "rule": rule, "outage": outage, "changes": list(self.changes)}

    def __str__(self) -> str:
        """One paragraph."""
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """The explanation, sentence by sentence."""
        told = [f"{self.timeline}: {self.summary}."]
        if self.arithmetic:
            told.append(f"{_capital(self.arithmetic)}.")
        if self.outage is not None:
            told.append(_told_of(self.outage, _zone(self.zone)))
        if self.unhandled and self.state is not State.IDLE:
            told.append("No worker that is running has a handler for it.")
        if self.passes is not None:
            told.append(f"No window holds it back: {self.passes}.")
        if self.latest is not None and self.latest != self.facts["due"]:
            told.append(f"Whatever is added, it is due {_instant(self.latest, _zone(self.zone))} at the latest.")
        told.append(f"Its policy is {self.policy}, from {_from(self.source)}.")
        if self.changes:
            told.append(f"{_capital('; '.join(self.changes))}.")
        return told


def explain(
    timeline: str,
    slot: Slot,
    *,
    now: Millis,
    found: PolicyInForce,
    outage: ChannelOutage | None = None,
    moving: bool = False,
    unhandled: bool = False,
) -> Explanation:
    """The facts, the rule that set the due time, its arithmetic, and the next time something happens.

    `moving` says that the store is being moved into another, `unhandled` that no live worker has a handler.
    """
    policy = found.policy
    zone = None if found.off else policy.zone_of(timeline)
    view = _View(timeline, slot, found, now, _zone(zone), outage=outage, moving=moving)
    moment, latest = view.held_until() or _next(slot, now=now), view.latest()
    if moving and slot.state is not State.OPEN:
        moment = None
    is_idle = slot.state is State.IDLE
    return Explanation(
        timeline=timeline,
        state=slot.state,
        facts=_facts(slot),
        rule=None if is_idle else slot.rule,
        arithmetic="" if is_idle else view.arithmetic(),
        next=None if moment is None else to_seconds(moment),
        summary=view.summary(),
        policy="off" if found.off else policy_text(policy),
        source=found.source,
        window=None if found.off or policy.window is None else _text(policy.window),
        zone=zone,
        by_delays=None if is_idle else to_seconds(due_by_delays(slot)),
        aligned=None if is_idle or slot.by_delays is None else to_seconds(slot.at),
        latest=_seconds(latest),
        passes=_pass(slot),
        outage=outage,
        unhandled=unhandled,
        changes=tuple(view.changes()),
    )


def policy_text(policy: Policy) -> str:
    """A policy as text; if it holds a function, the fields that differ from the default as they look in the code."""
    try:
        return str(policy)
    except ConfigError:
        own = [(field.name, getattr(policy, field.name)) for field in fields(Policy)]
        shown = [f"{name}={value!r}" for name, value in own if value != getattr(DEFAULT, name)]
        return _ADDRESS.sub("", f"Policy({', '.join(shown)})")


def _text(written: object) -> str:
    try:
        return str(written)
    except ConfigError:
        return _ADDRESS.sub("", repr(written))


def _zone(name: str | None) -> tzinfo:
    return UTC if name is None else zone_of(name)


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


class _View:
    """A timeline as people see it now, in a time zone."""

    def __init__(
        self,
        timeline: str,
        slot: Slot,
        found: PolicyInForce,
        now: Millis,
        zone: tzinfo,
        *,
        outage: ChannelOutage | None,
        moving: bool,
    ) -> None:
        self._timeline = timeline
        self._slot = slot
        self._policy = found.policy
        self._is_off = found.off
        self._outage = outage  # of its channel
        self._now = now
        self._zone = zone
        self._moving = moving

    def _clock(self, millis: Millis) -> str:
        return _instant(millis / 1000, self._zone)

    # The sum

    def arithmetic(self) -> str:
        """How the delays made the due time, and what the window made of that."""
        return self._sum() + self._wait_for_window()

    def _sum(self) -> str:
        slot, at = self._slot, due_by_delays(self._slot)
        due, at_once = f"due {self._clock(at)}", ", at once" if slot.at <= at else ""
        moved = "" if slot.was is None else f"{self._clock(slot.was)} + {_span(at - slot.was)}"
        last = "" if slot.last is None else self._clock(slot.last)
        match slot.rule:
            case Rule.FIRST:
                return f"first record of an idle timeline at {self._clock(at)}: {due}{at_once}"
            case Rule.FIRST_DELAY if slot.first is not None and slot.first <= at:
                return f"first record at {self._clock(slot.first)} + {_span(at - slot.first)} of first_delay = {due}"
            case Rule.FIRST_DELAY:
                return f"first record at {moved} of first_delay = {due}"
            case Rule.COOL_DOWN if slot.last is not None and slot.last <= at:
                return f"last delivery {last} + {_span(at - slot.last)} of cool-down = {due}"
            case Rule.COOL_DOWN:
                return f"cool-down after an empty digest = {due}"
            case Rule.INCREMENT:
                return f"{moved} of increment_delay = {due}"
            case Rule.CAP if slot.last is not None:
                return f"last delivery {last} + {_span(at - slot.last)} of maximum_delay = {due}, the cap"
            case Rule.QUIET:
                return f"{moved}, for silence since the latest record = {due}"
            case Rule.QUIET_CAP if slot.first is not None:
                first = self._clock(slot.first)
                return f"first pending record {first} + {_span(at - slot.first)} of maximum_delay = {due}, the cap"
            case Rule.DEADLINE:
                return f"a pending record asked to go by {self._clock(at)}: {due}"
            case Rule.COUNT:
                return f"max_records were pending at {self._clock(at)}: {due}{at_once}"
            case Rule.PLANNED:
                return f"another policy holds since {self._clock(at)}, by which it was due before: {due}{at_once}"
            case Rule.RETRY:
                return f"{self._setback()} {due}"
            case Rule.FLUSHED:
                return f"flushed at {self._clock(at)}: {due}"
            case Rule.REPLAYED:
                return f"a dead letter was replayed at {self._clock(at)}: {due}"
            case Rule.REQUEUED:
                return f"dead letters were requeued at {moved} of cool-down = {due}"
            case Rule.MOVED:
                return f"{due}, as it was where the timeline was moved from"
        return due

    def _setback(self) -> str:
        """Why there has to be another attempt. A digest that met an outage or was put off has not failed."""
        slot, outage = self._slot, self._outage
        failed = 0 if slot.digest is None else slot.digest.attempt - (slot.state is State.OPEN)
        before = f", after {failed} failed attempt{'s' * (failed > 1)}" if failed else ""
        if outage is not None:
            is_back = outage.next_probe is None
            return f"it {'waited' if is_back else 'waits'} for its channel{before}; its next attempt is"
        if slot.digest is not None and not failed:
            return "an attempt was put off, which counts as no failure; the next one is"
        return "an attempt failed; the next one is"

    def _wait_for_window(self) -> str:
        slot, window = self._slot, self._policy.window
        if slot.by_delays is None or slot.at == slot.by_delays:
            return ""
        until = self._short(slot.at)
        if window is None or self._is_off or self._outage is not None:
            return f", kept back until {until}"
        if window.has_times and window.has_hours:
            return f", its window {_text(window)} holds it back until {until}"
        if window.has_times:
            return f", the next time of {_text(window)} is {until}"
        return f", {'quiet hours' if _text(window).startswith('quiet@') else 'outside of its hours'} until {until}"

    def _short(self, millis: Millis) -> str:
        """A time with the name of its zone, and with its date unless it is near."""
        try:
            moment = datetime.fromtimestamp(millis / 1000, self._zone)
        except (ValueError, OverflowError, OSError):
            return self._clock(millis)
        day = "" if abs(millis - self._now) < DAY else f"{moment:%a %Y-%m-%d} "
        return f"{day}{moment:{'%H:%M:%S' if moment.second else '%H:%M'}} {self._zone}"

    # The bounds

    def latest(self) -> Millis | None:
        """When the timeline is due whatever is added; None unless records of it wait."""
        slot = self._slot
        if slot.state is not State.WAITING or slot.paused or not (slot.pending or slot.digest):
            return None
        if slot.digest is not None or slot.passes:
            return slot.at
        at = max(due_by_delays(slot), self._cap() or due_by_delays(slot))
        at = at if slot.deadline is None else min(at, slot.deadline)
        aligned = at if self._policy.window is None else self._aligned(at)
        return None if aligned is None else max(aligned, slot.at)

    def _cap(self) -> Millis | None:
        slot, terms = self._slot, self._policy.terms()
        if terms.quiet is not None:
            return None if slot.first is None else slot.first + terms.maximum
        return None if slot.last is None or terms.increment is None else slot.last + terms.maximum

    def _aligned(self, at: Millis) -> Millis | None:
        slot, window = self._slot, self._policy.window
        assert window is not None
        try:
            opening = window.first(self._timeline, at, slot.last)
        except ConfigError:  # the function that gives its zone fails
            return None
        if opening is None or slot.deadline is None or not window.urgent:
            return opening
        return min(opening, slot.deadline)

    # The state

    def summary(self) -> str:
        slot = self._slot
        off = "off: no record is accepted; " if self._is_off else ""
        moving = "its store is being moved into another, and starts no delivery; " if self._moving else ""
        return moving + off + ("paused; " if slot.paused else "") + self._state()

    def _state(self) -> str:
        slot = self._slot
        if slot.state is State.IDLE:
            return "idle: nothing is stored" + ("" if self._is_off else ", the next record starts a new round")
        records = f"{slot.pending} pending"
        if slot.digest is not None and slot.digest.records:
            records += f" and {slot.digest.records} of an unfinished digest"
        if slot.state is State.WAITING:
            when = f"due in {_span(slot.at - self._now)}" if slot.at > self._now else f"due{self._held()}"
            return f"waiting with {records}, {when}"
        if slot.state is State.READY:
            return f"ready with {records}: waits to be opened since {self._clock(slot.since)}{self._held()}"
        if slot.parked is not None:
            return f"on its way from or to another store: `digestif move`, called again, brings it there; {records}"
        ends = self._clock(slot.until or 0)
        if is_live(slot, now=self._now):
            return f"open: a digest is being delivered, its lease ends at {ends}; {records}"
        return f"open, but its lease ended at {ends}: it can be taken over; {records}"

    def held_until(self) -> Millis | None:
        """When the window lets a timeline leave that is due; None if nothing holds it back."""
        slot = self._slot
        is_due = slot.state is State.READY or (slot.state is State.WAITING and slot.at <= self._now)
        if self._is_off or not is_due or is_empty(slot):
            return None
        try:
            return admission(slot, self._policy.window, self._timeline, now=self._now)
        except ConfigError:  # the function that gives its zone fails
            return None

    def _held(self) -> str:
        until = self.held_until()
        return "" if until is None else f", but its window holds it back until {self._short(until)}"

    # What would change it

    def changes(self) -> list[str]:
        slot = self._slot
        if self._moving:
            return ["`digestif move FROM TO` ends the move, `digestif move FROM --abandon` gives it up"]
        changes = ["`prefer` or `clear_policy` switches it on again"] if self._is_off else []
        changes += ["`resume` lets it go on"] if slot.paused else []
        if slot.state is not State.WAITING or slot.paused:
            return changes
        window = self._policy.window
        if self._outage is not None:
            return [*changes, "nothing passes a closed channel; `retract` and `delete` take records back"]
        changes.append("`flush` makes it ready now" + (", whatever its window says" if window is not None else ""))
        if slot.digest is not None or slot.passes:
            return changes
        return [*changes, *self._by_records(), "`set_policy` or `prefer` plans it anew"]

    def _by_records(self) -> list[str]:
        slot, terms, window = self._slot, self._policy.terms(), self._policy.window
        latest, changes = self.latest(), []
        if latest is not None and slot.at < latest and self._cap() is not None and (terms.increment or terms.quiet):
            by = f"by {_span(terms.increment or 0)}" if terms.quiet is None else "until there is silence"
            by = by if window is None else "to a later opening of its window"
            changes.append(f"a further record moves it {by}, at most to {self._clock(latest)}")
        if terms.max_records is not None:
            changes.append(f"{terms.max_records} pending records make it due at once")
        if window is None:
            changes.append("a record with a deadline (`within`) pulls it forward")
        elif window.urgent:
            changes.append("a record with a deadline (`within`) passes its window")
        return changes


def _pass(slot: Slot) -> str | None:
    """Why no window holds the timeline back; None if it has no pass."""
    if not slot.passes:
        return None
    if slot.rule is Rule.FLUSHED:
        return "it was flushed"
    if slot.rule is Rule.REPLAYED:
        return "a dead letter was replayed"
    if slot.rule is Rule.DEADLINE:
        return "the deadline of a record comes first"
    if slot.digest is not None:
        return "its digest was let through before, and a retry keeps that"
    return "its records would expire before the window opens"


def _next(slot: Slot, *, now: Millis) -> Millis | None:
    if slot.parked is not None:
        return None
    if slot.state is State.OPEN and slot.until is not None:
        return max(slot.until, now)
    if slot.paused or slot.state is State.IDLE:
        return None
    return max(slot.at, now) if slot.state is State.WAITING else now


def _told_of(outage: ChannelOutage, zone: tzinfo) -> str:
    since = _instant(outage.since, zone)
    if outage.next_probe is None:
        return f"Its channel {outage.channel} was unavailable since {since} and answers again; its digests return."
    probe = _instant(outage.next_probe, zone)
    return (
        f"Its channel {outage.channel} is unavailable since {since} ({outage.reason}): nothing is counted against it, "
        f"records go on gathering, and from {probe} on a digest tries whether the channel is back."
    )


def _seconds(millis: Millis | None) -> float | None:
    return None if millis is None else to_seconds(millis)


def _span(millis: Millis) -> str:
    return f"{millis / 1000:g} s"


def _instant(seconds: float, zone: tzinfo) -> str:
    try:
        return datetime.fromtimestamp(seconds, zone).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # outside of the calendar, as the clock of a test may be
        return f"{seconds:.3f}"


def _from(source: str) -> str:
    kind, _, name = source.partition(" ")
    return {"override": "`set_policy`", "engine": "the engine"}.get(kind, f"the {kind} {name}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
