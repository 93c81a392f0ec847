"""Closed channels: which timelines they hold back, which digest probes them, and what attempts find out about them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from digestif.attempts.attempt import Attempt
from digestif.attempts.channel_notes import Change, ChannelNotes
from digestif.attempts.handlers import Handlers
from digestif.clock import monotonic
from digestif.core import outages
from digestif.core.outages import ChannelOutage, Outage, Phase
from digestif.core.texts import message_of, shortened_text
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.core.verdicts import DeliveryFailed, Ending, Unavailable, Verdict
from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.events.engine import ChannelDown, ChannelUp
from digestif.ids import chance, fresh_id
from digestif.intake.patterns import stars
from digestif.stores.base import Store

CROWD_SECONDS = 60.0
LONGEST_NAME = 200  # characters of a channel's name…
LONGEST_REASON = 300  # …and of a reason, in the note


class Outages:
    """The closed channels of one engine's store. Safe to use from several threads."""

    def __init__(self, store: Store, *, handlers: Handlers, events: Events) -> None:
        self._notes = ChannelNotes(store)
        self._is_used = store.enabled
        self._handlers = handlers
        self._events = events
        self._me = fresh_id()
        self._crowd = _Crowd()
        self._grants: dict[str, tuple[int, int]] = {}  # by channel: a second of its return, and digests that may leave

    @property
    def may_hold(self) -> bool:
        """True if timelines may have to be held back."""
        return any(outage.phase is not Phase.SUSPECTED for outage in self._notes.found.values())

    def refresh(self, now: Millis | None, *, at_once: bool = False) -> None:
        """Read the note, unless that was done a moment ago. If the time is given, it is always read."""
        if self._handlers and (now is not None or at_once or not self._notes.is_fresh):
            self._notes.refresh(now)

    # For people

    def shown(self, *, now: Millis) -> list[ChannelOutage]:
        """The channels that are closed or just coming back, as the store has them, by name."""
        found = self._notes.read().items() if self._is_used else ()
        return [
            outages.shown(name, outage)
            for name, outage in sorted(found)
            if outage.phase is not Phase.SUSPECTED and not outage.is_over(now)
        ]

    def shown_for(self, timeline: str, *, now: Millis) -> ChannelOutage | None:
        """The outage that a timeline waits for. Without handlers, the patterns in the note tell."""
        return next((each for each in self.shown(now=now) if self._is_behind(timeline, each.channel, each)), None)

    def _is_behind(self, timeline: str, channel: str, outage: Outage | ChannelOutage) -> bool:
        """True if the digests of a timeline go through the channel, as far as this process or the note knows."""
        handler = self._handlers.find(timeline)
        if handler is None:
            return any(stars(pattern, timeline) is not None for pattern in outage.patterns)
        if handler.channel is None:
            return handler.pattern in outage.patterns
        return channel == handler.channel_of(timeline)

    # Before an attempt

    def admit(self, timeline: str, *, now: Millis, limited: bool = True) -> Millis | None:
        """None if a timeline may be delivered now, else when it is asked again.

        The answer None may let its digest probe a closed channel, which is noted. Without `limited`, it may leave
        while others return.
        """
        closed = self._closed_for(timeline, now=now)
        if closed is None:
            return None
        name, outage = closed
        if outage.phase is Phase.RETURNING:
            return None if not limited or self._return_one(name, outage, now=now) else outages.returns_at(now, chance())
        if self._begin_probe(name, outage, timeline, now=now):
            return None
        self._note_pattern(name, outage, timeline, now=now)
        crowd = self._crowd.count(name)
        return outages.kept_until(self._notes.found.get(name, outage), timeline, now=now, crowd=crowd, chance=chance())

    def reason(self, timeline: str, *, now: Millis) -> str | None:
        """Why a timeline is held back; None if its channel does not do so."""
        closed = self._closed_for(timeline, now=now)
        if closed is None:
            return None
        name, outage = closed
        if not outage.is_closed:
            return f"its channel {name} has just come back, and digests leave one after the other"
        return f"its channel {name} is unavailable: {outage.reason}"

    def is_closed(self, timeline: str, *, now: Millis) -> bool:
        """True if the channel of the timeline is closed, and its own digest does not probe it."""
        closed = self._closed_for(timeline, now=now)
        return closed is not None and closed[1].is_closed and not closed[1].is_probed_by(timeline, now)

    def is_probed_by(self, timeline: str, *, now: Millis) -> bool:
        """True if the digest of the timeline probes a channel."""
        return any(outage.is_probed_by(timeline, now) for outage in list(self._notes.found.values()))

    def cancel_probe(self, timeline: str, *, now: Millis) -> None:
        """The timeline was to probe its channel, and could not be opened. Another process may have been quicker."""

        def cancel(it: Outage | None) -> Outage | None:
            is_mine = it is not None and it.prober_id == self._me
            return outages.after_no_answer(it, timeline, now=now) if it is not None and is_mine else it

        for name, outage in list(self._notes.found.items()):
            if outage.is_probed_by(timeline, now):
                self._change(name, cancel, now=now)

    def extend_probe(self, attempt: Attempt) -> None:
        """An attempt is still under way: if it probes its channel, no other one begins meanwhile."""
        now = attempt.store_time()
        for name, outage in list(self._notes.found.items()):
            if outage.is_probed_by(attempt.timeline, now):
                extended = partial(outages.after_probe_extended, timeline=attempt.timeline, now=now)
                self._change(name, _unless_none(extended), now=now)

    def _closed_for(self, timeline: str, *, now: Millis) -> tuple[str, Outage] | None:
        """The channel of a timeline, if that is not open, and what is known about it."""
        for name, outage in list(self._notes.found.items()):
            if outage.phase is Phase.SUSPECTED or not self._is_behind(timeline, name, outage):
                continue
            if outage.is_over(now):
                self._change(name, lambda it: None if it is None or it.is_over(now) else it, now=now)
            else:
                return name, outage
        return None

    def _begin_probe(self, name: str, outage: Outage, timeline: str, *, now: Millis) -> bool:
        """Let the timeline probe its channel, also if it was chosen elsewhere: the process that opens it is named."""

        def may_begin(it: Outage) -> bool:
            if self._handlers.find(timeline) is None:
                return False
            return outages.may_probe(it, now=now) or it.is_probed_by(timeline, now)

        def begin(it: Outage | None) -> Outage | None:
            if it is None or not may_begin(it):
                return it
            return outages.after_probe_begun(it, timeline, self._me, now=now)

        if not may_begin(outage):
            return False
        after = self._change(name, begin, now=now)
        return after is None or (after.is_probed_by(timeline, now) and after.prober_id == self._me)

    def _return_one(self, name: str, outage: Outage, *, now: Millis) -> bool:
        """True if one more digest may leave in this second. Some are granted at a time, so that few calls write."""
        second = outages.second_of_return(outage, now)
        known, granted = self._grants.get(name, (-1, 0))
        if known != second or granted < 1:
            granted = self._grant(name, now=now)
        self._grants[name] = second, max(0, granted - 1)
        return granted > 0

    def _grant(self, name: str, *, now: Millis) -> int:
        granted = 0

        def grant(it: Outage | None) -> Outage | None:
            nonlocal granted
            if it is None or it.phase is not Phase.RETURNING:
                granted = int(it is None)
                return it
            after, granted = outages.after_grant(it, now=now)
            return after

        self._change(name, grant, now=now)
        return granted

    def _note_pattern(self, name: str, outage: Outage, timeline: str, *, now: Millis) -> None:
        """Note which timelines are behind the channel, for processes without their handler."""
        handler = self._handlers.find(timeline)
        if handler is not None and outages.with_pattern(outage, handler.pattern) is not outage:
            self._change(name, _unless_none(partial(outages.with_pattern, pattern=handler.pattern)), now=now)

    # After an attempt

    def settle(self, attempt: Attempt, verdict: Verdict) -> Verdict:
        """Note what an attempt found out about its channel. If that is closed, the digest waits for it."""
        error = verdict.error
        name = self._channel_of(attempt, error) if self._is_used else ""
        if not name:
            return verdict
        now = attempt.store_time()
        found = _found_out(attempt, verdict, now=now)
        if found is None:
            self._note_answer(name, attempt, verdict, now=now)
            return verdict
        pattern = self._pattern_of(attempt)
        outage = self._change(name, lambda it: outages.with_pattern(found(it), pattern), now=now)
        return self._waiting_for(outage, attempt, verdict, now=now)

    def _channel_of(self, attempt: Attempt, error: BaseException | None) -> str:
        """The channel by which an attempt was delivered. One that a handler declares counts more than one in an error.

        A handler that declares none may have named one as it failed: then the note has its pattern.
        """
        handler = attempt.handler or self._handlers.find(attempt.timeline)
        if handler is None:
            return ""
        if handler.channel is not None:
            return shortened_text(handler.channel_of(attempt.timeline), LONGEST_NAME)
        if isinstance(error, Unavailable) and error.channel is not None:
            return shortened_text(error.channel, LONGEST_NAME)
        return next((name for name, it in list(self._notes.found.items()) if handler.pattern in it.patterns), "")

    def _pattern_of(self, attempt: Attempt) -> str:
        handler = attempt.handler or self._handlers.find(attempt.timeline)
        return "" if handler is None else handler.pattern

    def _waiting_for(self, outage: Outage | None, attempt: Attempt, verdict: Verdict, *, now: Millis) -> Verdict:
        """The verdict of an attempt whose channel is closed now: it is asked again after the next probe.

        A digest that was unanswered before the outage began has trouble of its own: it waits longer and longer, and is
        given up in the end.
        """
        if outage is None or not outage.is_closed:
            return verdict
        tried = attempt.lease.tried
        is_outage = isinstance(verdict.error, Unavailable) or tried is None or outage.explains(tried)
        if verdict.ending is Ending.BURIED and not is_outage:
            return verdict
        wait = outages.kept_until(outage, attempt.timeline, now=now, crowd=0, chance=chance()) - now
        if verdict.ending is Ending.BURIED:
            return replace(verdict, ending=Ending.PUT_OFF, delay=wait)
        if verdict.delay is None:  # a block: its caller decides when to try again
            return verdict
        return replace(verdict, delay=wait if is_outage else max(wait, verdict.delay))

    def _note_answer(self, name: str, attempt: Attempt, verdict: Verdict, *, now: Millis) -> None:
        if name not in self._notes.found:
            return
        if _is_answered(attempt, verdict):
            answered = partial(outages.after_answer, began=attempt.began_at(), now=now)
            self._change(name, _unless_none(answered), now=now)
        else:
            unasked = partial(outages.after_no_answer, timeline=attempt.timeline, now=now)
            self._change(name, _unless_none(unasked), now=now)

    # The note

    def _change(self, name: str, change: Change, *, now: Millis) -> Outage | None:
        """Change what is noted about a channel, and emit what that means. The answer is what is noted now."""
        known = self._notes.found.get(name)
        if known is not None and self._notes.is_fresh and change(known) == known:
            return known
        try:
            before, after = self._notes.change(name, change, now=now)
        except StoreError:  # a note that can't be written: the digest waits by itself
            return change(known)
        self._emit(name, before, after)
        return after

    def _emit(self, name: str, before: Outage | None, after: Outage | None) -> None:
        was_closed = before is not None and before.is_closed
        if after is not None and after.is_closed and not was_closed:
            self._crowd.forget(name)
            wait = to_seconds(max(0, after.probe_at - after.since))
            self._events.emit(ChannelDown(channel=name, reason=after.reason, retry_in=wait))
        elif before is not None and was_closed and after is not None and after.phase is Phase.RETURNING:
            down = to_seconds(max(0, after.returned - before.since))
            self._events.emit(ChannelUp(channel=name, reason=before.reason, down_for=down))


def _found_out(attempt: Attempt, verdict: Verdict, *, now: Millis) -> Callable[[Outage | None], Outage] | None:
    """What an attempt that failed means for its channel; None if that is not to blame."""
    error, timeline = verdict.error, attempt.timeline
    if not isinstance(error, DeliveryFailed):
        return None
    reason = shortened_text(message_of(error), LONGEST_REASON)
    if isinstance(error, Unavailable):
        after = None if error.after is None else to_millis(error.after)
        return lambda it: outages.after_unavailable(it, timeline, reason, now=now, after=after, chance=chance())
    if error.unknown and error.retry:
        return lambda it: outages.after_unknown(it, timeline, reason, now=now, chance=chance())
    return None


def _is_answered(attempt: Attempt, verdict: Verdict) -> bool:
    """True if the channel answered, be it with a refusal. An empty digest is not sent."""
    is_delivered = verdict.ending is Ending.DELIVERED and attempt.records > 0
    is_refused = isinstance(verdict.error, DeliveryFailed) and attempt.handler is not None and not attempt.is_routed
    return attempt.answered or is_delivered or is_refused


def _unless_none(change: Callable[[Outage], Outage | None]) -> Change:
    return lambda it: None if it is None else change(it)


class _Crowd:
    """How many timelines this process kept lately, by channel."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[float, int, int]] = {}  # since when, how many, and how many before

    def count(self, name: str) -> int:
        """Count one more; the answer is how many there were in the last minute or two."""
        now = monotonic()
        since, many, before = self._counts.get(name, (now, 0, 0))
        if now - since >= CROWD_SECONDS:
            since, many, before = now, 0, many
        self._counts[name] = since, many + 1, before
        return max(many + 1, before)

    def forget(self, name: str) -> None:
        self._counts.pop(name, None)
