"""The words of an explanation: what a timeline does now, how its due time came about, and what would change it."""

from datetime import tzinfo

from digestif.core.cadences import PolicyInForce
from digestif.core.machine import Rule, Slot, due_by_delays, is_empty, is_live
from digestif.core.outages import ChannelOutage
from digestif.core.policy_shown import shown
from digestif.core.records import State
from digestif.core.spans import exact_span, span
from digestif.core.times import Millis, clock_in, instant_in, to_seconds
from digestif.core.windows import admission
from digestif.errors import ConfigError


class View:
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
        has_letters: bool,
    ) -> None:
        self._timeline = timeline
        self._slot = slot
        self._policy = found.policy
        self._is_off = found.off
        self._outage = outage  # of its channel
        self._now = now
        self._zone = zone
        self._moving = moving
        self._has_letters = has_letters

    def _clock(self, millis: Millis) -> str:
        return instant_in(millis / 1000, self._zone)

    @property
    def _is_over(self) -> bool:
        """True if nothing is ever due: the timeline is off, and has no record."""
        return self._is_off and is_empty(self._slot)

    # The sum

    def arithmetic(self) -> str:
        """How the delays made the due time, and what the window made of that."""
        if self._is_over:
            return ""
        return self._sum() + self._wait_for_window()

    def _sum(self) -> str:
        slot, at = self._slot, due_by_delays(self._slot)
        due, at_once = f"due {self._clock(at)}", ", at once" if slot.at <= at else ""
        moved = "" if slot.was is None else f"{self._clock(slot.was)} + {exact_span(at - slot.was)}"
        last = "" if slot.last is None else self._clock(slot.last)
        match slot.rule:
            case Rule.FIRST:
                return f"first record of an idle timeline at {self._clock(at)}: {due}{at_once}"
            case Rule.FIRST_DELAY if slot.first is not None and slot.first <= at:
                return f"first record at {self._clock(slot.first)}{_plus(at - slot.first, 'first_delay')}{due}"
            case Rule.FIRST_DELAY:
                return f"first record at {moved} of first_delay = {due}"
            case Rule.COOL_DOWN if slot.last is not None and slot.last <= at:
                return f"last delivery {last}{_plus(at - slot.last, 'cool-down')}{due}"
            case Rule.COOL_DOWN:
                return f"cool-down after an empty digest = {due}"
            case Rule.INCREMENT if slot.was == at:
                return due
            case Rule.INCREMENT:
                return f"{moved} of increment_delay = {due}"
            case Rule.CAP if slot.last is not None:
                return f"last delivery {last}{_plus(at - slot.last, 'maximum_delay')}{due}, the cap"
            case Rule.QUIET:
                return f"{moved}, for silence since the latest record = {due}"
            case Rule.QUIET_CAP if slot.first is not None:
                first = self._clock(slot.first)
                return f"first pending record {first}{_plus(at - slot.first, 'maximum_delay')}{due}, the cap"
            case Rule.DEADLINE:
                return f"a pending record asked to go by {self._clock(at)}: {due}"
            case Rule.COUNT:
                return f"the number of max_records was pending at {self._clock(at)}: {due}{at_once}"
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
            return "an attempt was put off, which is not counted as a failure; the next one is"
        return "an attempt failed; the next one is"

    def _wait_for_window(self) -> str:
        slot, window = self._slot, self._policy.window
        if slot.by_delays is None or slot.at == slot.by_delays:
            return ""
        until = self._short(slot.at)
        if window is None or self._is_off or self._outage is not None or self._zone_error() is not None:
            return f", it waits until {until}"
        if window.has_times and not window.has_hours:
            return f", the next time of {shown(window)} is {until}"
        return f", its window holds it back until {until}"

    def _short(self, millis: Millis) -> str:
        return clock_in(to_seconds(millis), self._zone, now=to_seconds(self._now))

    def zone_failure(self) -> str | None:
        """Why the time zone of its window can't be told, and when a function is asked for it again."""
        error, slot = self._zone_error(), self._slot
        if error is None:
            return None
        is_due = slot.state is not State.WAITING or slot.at <= self._now
        again = "when it is about to be delivered" if is_due else f"at {self._clock(slot.at)}, and with the next record"
        return f"its time zone can't be told: {error}; it is asked again {again}"

    def _zone_error(self) -> str | None:
        window = self._policy.window
        try:
            if window is not None and not self._is_off:
                window.zone_of(self._timeline)
        except ConfigError as error:
            return str(error)
        return None

    # The bounds

    def latest(self) -> Millis | None:
        """When the timeline is due whatever is added; None unless records of it wait."""
        slot = self._slot
        if slot.state is not State.WAITING or slot.paused or not (slot.pending or slot.digest):
            return None
        if slot.digest is not None or slot.passes or slot.rule is Rule.COUNT:
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
            stored = "nothing is stored but dead letters" if self._has_letters else "nothing is stored"
            return f"idle: {stored}" + ("" if self._is_off else ", the next record starts a new round")
        if slot.state is State.WAITING and self._is_over:
            return "nothing pending"
        if slot.state is State.WAITING and is_empty(slot):
            cools = "cooling down until" if slot.at > self._now else "cooled down since"
            return f"{cools} {self._clock(slot.at)}, nothing pending"
        records = f"{slot.pending} pending"
        if slot.digest is not None and slot.digest.records:
            records += f" and {slot.digest.records} of an unfinished digest"
        if slot.state is State.WAITING:
            when = f"due in {span((slot.at - self._now) / 1000)}" if slot.at > self._now else f"due{self._held()}"
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
        if slot.state is not State.WAITING or slot.paused or self._is_over:
            return changes
        window = self._policy.window
        if self._outage is not None:
            return [*changes, "nothing passes a closed channel; `retract` and `delete` take records back"]
        changes.append("`flush` makes it ready now" + (", whatever its window says" if window is not None else ""))
        if slot.digest is not None or slot.passes:
            return changes
        return [*changes, *self._by_records(), "`set_policy` or `prefer` reschedules it"]

    def _by_records(self) -> list[str]:
        slot, terms, window = self._slot, self._policy.terms(), self._policy.window
        latest, changes = self.latest(), []
        is_movable = latest is not None and max(slot.at, self._now) < latest and self._cap() is not None
        is_full = terms.max_records is not None and slot.pending + 1 >= terms.max_records
        if latest is not None and is_movable and not is_full and (terms.increment or terms.quiet):
            changes.append(f"{self._by_a_record()}, at most to {self._clock(latest)}")
        if terms.max_records is not None:
            changes.append(f"{terms.max_records} pending records make it due at once")
        if window is None:
            changes.append("a record with a deadline (`within`) pulls it forward")
        elif window.urgent:
            changes.append("a record with a deadline (`within`) passes its window")
        return changes

    def _by_a_record(self) -> str:
        """Where records move it that come from now on: by the delays, unless its window holds it back then."""
        terms = self._policy.terms()
        by_delays = (
            due_by_delays(self._slot) + (terms.increment or 0) if terms.quiet is None else self._now + terms.quiet
        )
        if self._policy.window is not None and self._aligned(min(by_delays, self._cap() or by_delays)) != by_delays:
            return "further records move it to a later opening of its window"
        by = f"by {exact_span(terms.increment or 0)}" if terms.quiet is None else "until there is silence"
        return f"a further record moves it {by}"


def _plus(step: Millis, delay: str) -> str:
    """Write a step of the sum, up to its result. A step of 0 s is left out."""
    return f" + {exact_span(step)} of {delay} = " if step else ": "
