"""Explanations: why a timeline is due when it is, from what is stored about it and the policy in force."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, tzinfo
from typing import Any

from digestif.core.cadences import PolicyInForce
from digestif.core.explain_view import View
from digestif.core.failures import FailedAttempt
from digestif.core.machine import Rule, Slot, due_by_delays, is_empty
from digestif.core.outages import ChannelOutage
from digestif.core.policy_shown import policy_text, shown
from digestif.core.records import DeadLetter, State
from digestif.core.spans import ago
from digestif.core.texts import shortened_text
from digestif.core.times import Millis, instant_in, to_seconds
from digestif.core.windows.zones import zone_of

OFF = "off"  # in the place of a policy
MOST_LETTERS = 10  # dead letters of a timeline that are counted
LONGEST_REASON = 200  # of a dead letter


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
    unattended: bool  # it can be delivered now, and no worker was seen in the last minute
    failure: str | None  # why its policy or time zone can't be told, and when that is asked again
    failed: FailedAttempt | None  # why the latest attempt of its unfinished digest failed
    changes: tuple[str, ...]  # what would change the due time
    given_up: str | None = None  # how many of its digests are dead letters, and why the latest is one

    def to_dict(self) -> dict[str, Any]:
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        rule = None if self.rule is None else str(self.rule)
        outage = None if self.outage is None else {**asdict(self.outage), "patterns": list(self.outage.patterns)}
        failed = None if self.failed is None else asdict(self.failed)
        shown = {"rule": rule, "outage": outage, "failed": failed, "changes": list(self.changes)}
        return {**found, "state": str(self.state), **shown}

    def __str__(self) -> str:
        """One paragraph."""
        return " ".join(self.sentences())

    def sentences(self) -> list[str]:
        """The explanation, sentence by sentence."""
        told = [f"{self.timeline}: {self.summary}."]
        if self.arithmetic:
            told.append(f"{_capital(self.arithmetic)}.")
        is_over = self.policy == OFF and not self.facts["pending"] and "digest" not in self.facts
        if self.outage is not None and not is_over:
            told.append(_told_of(self.outage, _zone(self.zone)))
        if self.failed is not None:
            told.append(f"{_capital(str(self.failed)).rstrip('.')}.")
        if self.given_up is not None:
            told.append(f"{_capital(self.given_up)}: `digestif dead list {shlex.quote(self.timeline)}`.")
        if self.unhandled and self.state is not State.IDLE and not is_over:
            told.append("No worker that is running has a handler for it.")
        if self.unattended:
            told.append("No worker was seen in the last minute: it waits, unless your program delivers by itself.")
        if self.failure is not None:
            told.append(f"{_capital(self.failure)}.")
        if self.passes is not None and self.window is not None:
            told.append(f"No window holds it back: {self.passes}.")
        if self.latest is not None and self.latest > max(self.facts["due"], self.next or 0):
            told.append(f"Whatever is added, it is due {instant_in(self.latest, _zone(self.zone))} at the latest.")
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
    failed: FailedAttempt | None = None,
    letters: Sequence[DeadLetter] = (),
    moving: bool = False,
    unhandled: bool = False,
    unattended: bool = False,
) -> Explanation:
    """The facts, the rule that set the due time, its arithmetic, and the next time something happens.

    `letters` are the first dead letters of the timeline, at most MOST_LETTERS, oldest first. `moving` says that the
    store is being moved into another, `unhandled` that no live worker has a handler, `unattended` that there is no
    live worker.
    """
    policy = found.policy
    zone = None if found.off else policy.zone_of(timeline)
    view = View(timeline, slot, found, now, _zone(zone), outage=outage, moving=moving, has_letters=bool(letters))
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
        policy=OFF if found.off else policy_text(policy),
        source=found.source,
        window=None if found.off or policy.window is None else shown(policy.window),
        zone=zone,
        by_delays=None if is_idle else to_seconds(due_by_delays(slot)),
        aligned=None if is_idle or slot.by_delays is None else to_seconds(slot.at),
        latest=_seconds(latest),
        passes=_pass(slot),
        outage=outage,
        unhandled=unhandled,
        unattended=unattended and moment is not None and moment <= now and not is_empty(slot),
        failure=found.failure or view.zone_failure(),
        failed=failed,
        changes=tuple(view.changes()),
        given_up=_given_up(letters, now=now),
    )


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


def _given_up(letters: Sequence[DeadLetter], *, now: Millis) -> str | None:
    """Say how many digests were given up, and when and why the latest was, or the first if there may be more."""
    if not letters:
        return None
    count, shown = "1 digest was given up", letters[-1]
    if len(letters) >= MOST_LETTERS:
        count, shown = f"at least {len(letters)} digests were given up, the first", letters[0]
    elif len(letters) > 1:
        count = f"{len(letters)} digests were given up, the latest"
    return f"{count} {ago(to_seconds(now) - shown.buried)} ({shortened_text(shown.reason, LONGEST_REASON)})"


def _told_of(outage: ChannelOutage, zone: tzinfo) -> str:
    since = instant_in(outage.since, zone)
    if outage.next_probe is None:
        return f"Its channel {outage.channel} was unavailable since {since} and answers again; its digests return."
    probe = instant_in(outage.next_probe, zone)
    return (
        f"Its channel {outage.channel} is unavailable since {since} ({outage.reason}): nothing is counted against it, "
        f"records go on gathering, and from {probe} on a digest tries whether the channel is back."
    )


def _seconds(millis: Millis | None) -> float | None:
    return None if millis is None else to_seconds(millis)


def _from(source: str) -> str:
    kind, _, name = source.partition(" ")
    return {"override": "`set_policy`", "engine": "the engine"}.get(kind, f"the {kind} {name}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
