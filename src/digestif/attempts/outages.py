"""Closed channels: which timelines they hold back, which digest probes them, and what attempts find out about them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from digestif.attempts.attempt import Attempt
from digestif.attempts.channel_notes import Change, ChannelNotes, Found
from digestif.attempts.handlers import Handler, Handlers
from digestif.clock import monotonic, wall_clock
from digestif.core import outages
from digestif.core.machine import Slot, seen
from digestif.core.outages import ChannelOutage, Outage, Phase
from digestif.core.records import State
from digestif.core.texts import message_of, shortened_text
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.core.verdicts import DeliveryFailed, Ending, Unavailable, Verdict
from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.events.engine import ChannelDown, ChannelUp
from digestif.ids import chance, fresh_id
from digestif.intake.patterns import stars
from digestif.stores.base import PAGE_TIMELINES, Admission, Store

CROWD_SECONDS = 60.0
LONGEST_NAME = 200  # characters of a channel's name…
LONGEST_REASON = 300  # …and of a reason, in the note
MOST_ANSWERS = 10_000  # channels of which is remembered when they answered
STORED_EVERY: Millis = 1_000  # answers are noted in the store at most so often, for each channel


class Outages:
    """The closed channels of one engine's store. Safe to use from several threads."""

    def __init__(self, store: Store, *, handlers: Handlers, events: Events) -> None:
        self._store = store
        self._notes = ChannelNotes(store)
        self._is_used = store.enabled
        self._handlers = handlers
        self._events = events
        self._me = fresh_id()
        self._crowd = _Crowd()
        self._answers = _Answers()
        self._named: dict[str, str] = {}  # by the pattern of a handler that declares no channel: the one it named last
        self._grants: dict[str, tuple[int, int]] = {}  # by channel: a second of its return, and digests that may leave

    @property
    def may_hold(self) -> bool:
        """True if timelines may have to be held back."""
        return any(outage.phase is not Phase.SUSPECTED for outage in self._notes.found.values())

    def refresh(self, now: Millis | None, *, at_once: bool = False) -> None:
        """Read the note, unless that was done a moment ago. If the time is given, it is always read."""
        if self._handlers and (now is not None or at_once or not self._notes.is_fresh):
            self._notes.refresh(now)
            if self._notes.found:
                self._answers.note_returns(self._notes.found)
                self._tidy(now)

    def _tidy(self, given: Millis | None) -> None:
        """Remove what is over, and correct what a clock that was set back left too far ahead.

        Where no time is given, that of this machine only says whether it is worth asking the store for its own.
        """
        now = to_millis(wall_clock()) if given is None else given
        if not any(outage.is_over(now) or outage.is_ahead(now) for outage in self._notes.found.values()):
            return
        with suppress(StoreError):  # then it is done later
            now = self._store.time(0) if given is None else given
            for name in list(self._notes.found):
                self._change(name, partial(_tidied, now=now), now=now)

    def _recall(self, name: str, outage: Outage, *, now: Millis) -> None:
        """Let timelines come back that wait for a channel by the clock as it was before it was set back."""
        latest, crowd = now + outages.LONGEST_KEPT, 0
        for page in _waiting(self._store):
            kept: dict[int, list[Admission]] = {}  # by partition
            for timeline, slot in page:
                is_kept = slot.digest is not None or slot.by_delays is not None
                if is_kept and slot.at > latest and self._is_behind(timeline, name, outage):
                    crowd += 1
                    until = outages.kept_until(outage, timeline, now=now, crowd=crowd, chance=chance())
                    admissions = kept.setdefault(self._store.partition_of(timeline), [])
                    admissions.append(Admission(timeline, seen(slot), until))
            for admissions in kept.values():
                self._store.admit(admissions, now=now)

    # For people

    def shown(self, *, now: Millis) -> list[ChannelOutage]:
        """The channels that are closed or just coming back, as the store has them, by name."""
        found = self._notes.read().items() if self._is_used else ()
        return [
            outages.shown(name, outage, now=now)
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

    def admit(self, timeline: str, state: State, *, now: Millis, limited: bool = True) -> Millis | None:
        """None if a timeline may be delivered now, else when it is asked again.

        The answer None may let its digest probe a closed channel, which is noted; one that is ready may have been
        chosen by `schedule` to do so. Without `limited`, it may leave while others return.
        """
        closed = self._closed_for(timeline, now=now)
        if closed is None:
            return None
        name, outage = closed
        if outage.is_ahead(now):  # noted before the clock was set back, and read just before that
            self._tidy(now)
            outage = self._notes.found.get(name, outage)
        if outage.phase is Phase.RETURNING:
            return None if not limited or self._return_one(name, outage, now=now) else outages.returns_at(now, chance())
        if state is State.OPEN and outage.is_probed_by(timeline, now):  # its lease lapsed
            lapsed = partial(outages.after_probe_lapsed, timeline=timeline, now=now)
            outage = self._change(name, _unless_none(lapsed), now=now) or outage
        if self._begin_probe(name, outage, timeline, now=now, is_ready=state is State.READY):
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
            is_open = outage.phase is Phase.SUSPECTED or outage.is_over(now)
            if not is_open and self._is_behind(timeline, name, outage):
                return name, outage
        return None

    def _begin_probe(self, name: str, outage: Outage, timeline: str, *, now: Millis, is_ready: bool) -> bool:
        """Let the timeline probe its channel, also if it was chosen elsewhere: the process that opens it is named."""

        def may_begin(it: Outage) -> bool:
            has_handler = self._handlers.find(timeline) is not None
            return has_handler and outages.may_probe(it, timeline, now=now, is_ready=is_ready)

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
        handler = attempt.handler or self._handlers.find(attempt.timeline)
        name = self._channel_of(handler, attempt.timeline, verdict.error) if handler and self._is_used else ""
        if not handler or not name:
            return verdict
        now, failure = attempt.store_time(), None if verdict.error is None else _failure_of_channel(verdict)
        if failure is None:
            self._note_answer(name, attempt, verdict, now=now)
            return verdict
        if attempt.answered:  # to the first of several recipients
            self._answers.note(name, now)
        found = _found_out(attempt, failure, now=now, answered=self._answers.last(name, now))
        outage = self._change(name, lambda it: outages.with_pattern(found(it), handler.pattern), now=now)
        return self._waiting_for(name, outage, attempt, verdict, now=now)

    def _channel_of(self, handler: Handler, timeline: str, error: BaseException | None) -> str:
        """The channel by which an attempt was delivered. One that a handler declares counts more than one in an error.

        A handler that declares none may have named one as it failed: this process remembers that, or the note does.
        """
        if handler.channel is not None:
            return shortened_text(handler.channel_of(timeline), LONGEST_NAME)
        if isinstance(error, Unavailable) and error.channel is not None:
            self._named[handler.pattern] = shortened_text(error.channel, LONGEST_NAME)
        elif handler.pattern not in self._named:
            found = list(self._notes.found.items())
            return next((name for name, it in found if handler.pattern in it.patterns), "")
        return self._named[handler.pattern]

    def _waiting_for(
        self, name: str, outage: Outage | None, attempt: Attempt, verdict: Verdict, *, now: Millis
    ) -> Verdict:
        """The verdict of an attempt whose channel is closed now: it is asked again after the next probe.

        If the channel stays open, a digest that met it as unavailable is put off by itself. One that was unanswered
        before the outage began has trouble of its own: it waits longer and longer, and is given up in the end.
        """
        if outage is None or not outage.is_closed:
            return self._put_off(name, attempt, verdict, now=now)
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

    def _put_off(self, name: str, attempt: Attempt, verdict: Verdict, *, now: Millis) -> Verdict:
        """The verdict of an attempt that met an open channel as unavailable. Time in a closed one does not count."""
        error = verdict.error
        if not isinstance(error, Unavailable) or verdict.delay is None:  # None: the caller of a block decides
            return verdict
        digest = None
        with suppress(StoreError):
            digest = self._store.inspect(attempt.timeline).digest
        failing_since = now if digest is None else max(digest.opened, self._answers.returned(name))
        delay = outages.put_off_delay(failing_since, now=now, after=_in_millis(error.after))
        return replace(verdict, delay=delay, is_alone=True)

    def _note_answer(self, name: str, attempt: Attempt, verdict: Verdict, *, now: Millis) -> None:
        """Note whether the channel answered: in the store only while something is noted about it there."""
        is_answered = _is_answered(attempt, verdict)
        if is_answered:
            self._answers.note(name, now)
        known = self._notes.found.get(name)
        if known is None:
            return
        if is_answered:
            answered = partial(outages.after_answer, began=attempt.began_at(), now=now)
            if known.is_closed or (answered(known) != known and self._answers.may_store(name, now)):
                self._change(name, _unless_none(answered), now=now)
        else:
            unasked = partial(outages.after_no_answer, timeline=attempt.timeline, now=now)
            self._change(name, _unless_none(unasked), now=now)

    # The note

    def _change(self, name: str, change: Change, *, now: Millis) -> Outage | None:
        """Change what is noted about a channel, and emit what that means. The answer is what is noted now.

        Before the times of a clock that was set back since are replaced, the timelines that wait by them are recalled.
        """

        def recall_and_change(it: Outage | None) -> Outage | None:
            after = change(it)
            if it is not None and it.is_ahead(now) and after != it:
                self._recall(name, it, now=now)
            return after

        known = self._notes.found.get(name)
        if known is not None and self._notes.is_fresh and change(known) == known:
            return known
        try:
            before, after = self._notes.change(name, recall_and_change, now=now)
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


def _failure_of_channel(verdict: Verdict) -> DeliveryFailed | None:
    """The error of an attempt for which its channel may be to blame."""
    error = verdict.error
    if isinstance(error, Unavailable) or (isinstance(error, DeliveryFailed) and error.unknown and error.retry):
        return error
    return None


def _found_out(
    attempt: Attempt, error: DeliveryFailed, *, now: Millis, answered: Millis
) -> Callable[[Outage | None], Outage]:
    """What an attempt that failed means for its channel, which answered this process last at a time."""
    timeline, reason = attempt.timeline, shortened_text(message_of(error), LONGEST_REASON)

    def found(it: Outage | None) -> Outage:
        if it is not None and attempt.answered:
            it = outages.after_answer(it, began=attempt.began_at(), now=now)
        if not isinstance(error, Unavailable):
            return outages.after_unknown(it, timeline, reason, now=now, chance=chance(), answered=answered)
        return outages.after_unavailable(
            it,
            timeline,
            reason,
            now=now,
            after=_in_millis(error.after),
            chance=chance(),
            answered=answered,
            unknown=error.unknown,
            at_most_once=attempt.is_completed,
        )

    return found


def _in_millis(after: float | None) -> Millis | None:
    return None if after is None else to_millis(after)


def _is_answered(attempt: Attempt, verdict: Verdict) -> bool:
    """True if the channel answered, be it with a refusal. An empty digest is not sent."""
    if attempt.answered or verdict.ending is Ending.DELIVERED:
        return attempt.answered or attempt.records > 0
    return isinstance(verdict.error, DeliveryFailed) and attempt.handler is not None and not attempt.is_routed


def _tidied(outage: Outage | None, *, now: Millis) -> Outage | None:
    """What is left of a note by the present clock."""
    return None if outage is None or outage.is_over(now) else outages.after_set_back(outage, now=now)


def _waiting(store: Store) -> Iterator[list[tuple[str, Slot]]]:
    """Pages of all timelines that wait."""
    page = store.look_over(State.WAITING, prefix="", after=None, limit=PAGE_TIMELINES)
    yield page.timelines
    while page.after is not None:
        page = store.look_over(State.WAITING, prefix="", after=page.after, limit=PAGE_TIMELINES)
        yield page.timelines


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


class _Answers:
    """When channels answered this process last. Those that answered first are forgotten if there are many."""

    def __init__(self) -> None:
        self._last: dict[str, Millis] = {}
        self._stored: dict[str, Millis] = {}  # when an answer was noted in the store
        self._returned: dict[str, Millis] = {}  # when a channel that was closed answered again

    def note(self, name: str, now: Millis) -> None:
        self._last[name] = now
        if len(self._last) > MOST_ANSWERS:
            self._last = dict(list(self._last.items())[MOST_ANSWERS // 2 :])

    def note_returns(self, found: Found) -> None:
        """Remember when channels returned, for as long as there are no more than can be noted."""
        fresh = {name: outage.returned for name, outage in found.items() if outage.phase is Phase.RETURNING}
        if not fresh.items() <= self._returned.items():
            kept = self._returned if len(self._returned) < outages.MOST_CHANNELS else {}
            self._returned = {**kept, **fresh}

    def returned(self, name: str) -> Millis:
        """Return when the channel returned last; 0 if that is not known."""
        return self._returned.get(name, 0)

    def last(self, name: str, now: Millis) -> Millis:
        """Return when the channel answered last; 0 if that is not known. If the clock was set back since: now."""
        last = self._last.get(name, 0)
        if last > now:
            self._last[name] = last = now
        return last

    def may_store(self, name: str, now: Millis) -> bool:
        """True, and remembered, unless an answer was noted in the store less than a second ago."""
        if 0 <= now - self._stored.get(name, 0) < STORED_EVERY:
            return False
        self._stored = {known: at for known, at in self._stored.items() if 0 <= now - at < STORED_EVERY}
        self._stored[name] = now
        return True
