"""Closed channels: the timelines that they hold back, the digests that probe them, and what attempts learn of them."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from msgspec import structs

from digestif.attempts.handlers import Handler, Handlers
from digestif.attempts.leases import HeldLease
from digestif.attempts.stages import Judged, JudgedCompleted, JudgedUnstored
from digestif.clock import monotonic
from digestif.core import outages
from digestif.core.outages import ChannelOutage, Outage, Phase
from digestif.core.records import State
from digestif.core.texts import message_of, shortened_text
from digestif.core.times import Millis, to_millis
from digestif.core.verdicts import DeliveryFailed, Ending, Unavailable, Verdict
from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.ids import chance, fresh_id
from digestif.intake.patterns import stars
from digestif.notes.channels import Change, ChannelNotes, NotedOutages
from digestif.stores.base import Store

logger = logging.getLogger("digestif")

COUNTED_SECONDS = 60.0  # timelines that were held back are counted over this time, and over the same time before
LONGEST_NAME = 200  # characters of a channel's name…
LONGEST_REASON = 300  # …and of a reason, in the note
MOST_ANSWERS = 10_000  # channels whose last answers are remembered
STORED_EVERY: Millis = 1_000  # until another answer of the same channel is noted in the store


class Outages:
    """The closed channels of one engine's store. Safe to use from several threads."""

    def __init__(self, store: Store, *, handlers: Handlers, events: Events) -> None:
        self._store = store
        self._held_back = _HeldBack()
        self._notes = ChannelNotes(
            store, events=events, goes_through=self._goes_through, on_down=self._held_back.forget
        )
        self._is_used = store.enabled
        self._handlers = handlers
        self._prober_id = fresh_id()
        self._answers = _Answers()
        self._named: dict[str, str] = {}  # channels that errors named, by the pattern of their handler
        self._grants: dict[str, tuple[int, int]] = {}  # by channel: a second of its return, and digests left to go

    @property
    def may_hold(self) -> bool:
        """True if timelines may have to be held back."""
        return any(outage.phase is not Phase.SUSPECTED for outage in self._notes.found.values())

    def refresh(self, now: Millis | None, *, even_if_fresh: bool = False) -> None:
        """Read the note about channels, unless it was read a moment ago.

        Always read it if a time is given, or `even_if_fresh`.
        """
        if self._handlers and (now is not None or even_if_fresh or not self._notes.is_fresh):
            self._notes.refresh(now)
            if self._notes.found:
                self._answers.note_returns(self._notes.found)
                self._notes.tidy(now)

    # For people

    def shown(self, *, now: Millis) -> list[ChannelOutage]:
        """Return the channels that the store notes as closed or returning, sorted by name."""
        return [
            outages.shown(name, outage, now=now)
            for name, outage in sorted(self._notes.read().items())
            if outage.phase is not Phase.SUSPECTED and not outage.is_over(now)
        ]

    def shown_for(self, timeline: str, *, now: Millis) -> ChannelOutage | None:
        """Return the outage that a timeline waits for. Without handlers, the patterns in the note decide."""
        return next((each for each in self.shown(now=now) if self._goes_through(timeline, each.channel, each)), None)

    # Before an attempt

    def admit(self, timeline: str, state: State, *, now: Millis, limited: bool = True) -> Millis | None:
        """Return None if a timeline may be delivered now, else the time until which it waits.

        If its channel is closed, None means that its digest probes the channel, and that is noted. A ready timeline may
        have been chosen as the prober by an earlier `schedule`. Without `limited`, the rate of a return is ignored.
        """
        closed = self._closed_for(timeline, now=now)
        if closed is None:
            return None
        name, outage = closed
        if outage.is_ahead(now):  # noted before the clock was set back, and not tidied since
            self._notes.tidy(now)
            outage = self._notes.found.get(name, outage)
        if outage.phase is Phase.RETURNING:
            return None if not limited or self._return_one(name, outage, now=now) else outages.returns_at(now, chance())
        if state is State.OPEN and outage.is_probed_by(timeline, now):  # its lease lapsed
            lapsed = partial(outages.after_probe_lapsed, timeline=timeline, now=now)
            outage = self._notes.change(name, lapsed, now=now) or outage
        if self._begin_probe(name, outage, timeline, now=now, is_ready=state is State.READY):
            return None
        self._note_pattern(name, outage, timeline, now=now)
        crowd = self._held_back.count_one(name)
        return outages.kept_until(self._notes.found.get(name, outage), timeline, now=now, crowd=crowd, chance=chance())

    def reason(self, timeline: str, *, now: Millis) -> str | None:
        """Return why the channel of a timeline holds it back; None if it does not."""
        closed = self._closed_for(timeline, now=now)
        if closed is None:
            return None
        name, outage = closed
        if not outage.is_closed:
            return f"its channel {name} has just come back, and digests leave one after the other"
        return f"its channel {name} is unavailable: {outage.reason}"

    def is_closed(self, timeline: str, *, now: Millis) -> bool:
        """Return True if the channel of the timeline is closed, and its own digest does not probe it."""
        closed = self._closed_for(timeline, now=now)
        return closed is not None and closed[1].is_closed and not closed[1].is_probed_by(timeline, now)

    def is_probed_by(self, timeline: str, *, now: Millis) -> bool:
        """Return True if the digest of the timeline probes a channel."""
        return any(outage.is_probed_by(timeline, now) for outage in self._notes.found.values())

    def cancel_probe(self, timeline: str, *, now: Millis) -> None:
        """Let others probe the channel in place of a timeline that could not be opened."""

        def cancelled(it: Outage) -> Outage:
            return outages.after_no_answer(it, timeline, now=now) if it.prober_id == self._prober_id else it

        self._change_probes(timeline, cancelled, now=now)

    def extend_probe(self, held: HeldLease) -> None:
        """Let no other probe begin while this attempt is under way. Does nothing unless it probes its channel."""
        now = held.store_time()
        self._change_probes(
            held.timeline, partial(outages.after_probe_extended, timeline=held.timeline, now=now), now=now
        )

    def _change_probes(self, timeline: str, change: Change, *, now: Millis) -> None:
        for name, outage in self._notes.found.items():
            if outage.is_probed_by(timeline, now):
                self._notes.change(name, change, now=now)

    def _closed_for(self, timeline: str, *, now: Millis) -> tuple[str, Outage] | None:
        """Return the name and the outage of a timeline's channel if it is closed or returning; None if it is open."""
        for name, outage in self._notes.found.items():
            is_open = outage.phase is Phase.SUSPECTED or outage.is_over(now)
            if not is_open and self._goes_through(timeline, name, outage):
                return name, outage
        return None

    def _goes_through(self, timeline: str, channel: str, outage: Outage | ChannelOutage) -> bool:
        """Return True if a timeline's digests go through the channel, as far as this process or the note knows."""
        handler = self._handlers.find(timeline)
        if handler is None:
            return any(stars(pattern, timeline) is not None for pattern in outage.patterns)
        if handler.channel is None:
            return handler.pattern in outage.patterns
        return channel == handler.channel_of(timeline)

    def _begin_probe(self, name: str, outage: Outage, timeline: str, *, now: Millis, is_ready: bool) -> bool:
        """Let the timeline probe its channel if it may, and note this engine as the one that opens its digest."""

        def may_begin(it: Outage) -> bool:
            has_handler = self._handlers.find(timeline) is not None
            return has_handler and outages.may_probe(it, timeline, now=now, is_ready=is_ready)

        def begun(it: Outage) -> Outage:
            return outages.after_probe_begun(it, timeline, self._prober_id, now=now) if may_begin(it) else it

        if not may_begin(outage):
            return False
        after = self._notes.change(name, begun, now=now)
        return after is None or (after.is_probed_by(timeline, now) and after.prober_id == self._prober_id)

    def _return_one(self, name: str, outage: Outage, *, now: Millis) -> bool:
        """Return True if one more digest may leave in this second of a return. The store grants several at a time."""
        second = outages.second_of_return(outage, now)
        known, granted = self._grants.get(name, (-1, 0))
        if known != second or granted < 1:
            granted = self._grant(name, now=now)
        self._grants[name] = second, max(0, granted - 1)
        return granted > 0

    def _grant(self, name: str, *, now: Millis) -> int:
        """Note that more digests leave in this second of the return, and return how many."""
        granted = 0

        def grant(it: Outage) -> Outage:
            nonlocal granted
            after, granted = outages.after_grant(it, now=now) if it.phase is Phase.RETURNING else (it, 0)
            return after

        return 1 if self._notes.change(name, grant, now=now) is None else granted

    def _note_pattern(self, name: str, outage: Outage, timeline: str, *, now: Millis) -> None:
        """Note the pattern of the timeline's handler, so that processes without this handler know its channel."""
        handler = self._handlers.find(timeline)
        if handler is not None and outages.with_pattern(outage, handler.pattern) is not outage:
            self._notes.change(name, partial(outages.with_pattern, pattern=handler.pattern), now=now)

    # After an attempt

    def note_outcomes(self, judged: Sequence[Judged]) -> list[Judged]:
        """Note what attempts found out about their channels, and return the attempts; verdicts may change.

        Errors are logged, and keep no attempt from ending.
        """
        noted = []
        for each in judged:
            verdict = each.verdict
            try:
                if not isinstance(each, JudgedUnstored):
                    verdict = self._note_outcome(each)
            except Exception:
                logger.exception("what %s means for its channel could not be noted", each.held.timeline)
            noted.append(each if verdict is each.verdict else structs.replace(each, verdict=verdict))
        return noted

    def _note_outcome(self, judged: Judged) -> Verdict:
        """Note what an attempt found out about its channel, and return the verdict.

        The verdict is another one if the channel is unavailable: then the digest waits for it.
        """
        verdict = judged.verdict
        handler = judged.claimed.handler or self._handlers.find(judged.held.timeline)
        name = self._channel_of(handler, judged.held.timeline, verdict.error) if handler and self._is_used else ""
        if not handler or not name:
            return verdict
        now, failure = judged.held.store_time(), None if verdict.error is None else _failure_of_channel(verdict)
        if failure is None:
            self._note_answer(name, judged, now=now)
            return verdict
        if judged.answered:  # for an earlier one of several recipients
            self._answers.note(name, now)
        found = _found_out(judged, failure, now=now, answered=self._answers.last(name, now))
        outage = self._notes.put(name, lambda it: outages.with_pattern(found(it), handler.pattern), now=now)
        return self._waiting_for(name, outage, judged, now=now)

    def _channel_of(self, handler: Handler, timeline: str, error: BaseException | None) -> str:
        """Return the channel of an attempt: the one that its handler declares, else the one that its error names.

        If neither does, the channel that an earlier error of the handler named, as remembered here or noted in the
        store; "" if there is none.
        """
        if handler.channel is not None:
            return shortened_text(handler.channel_of(timeline), LONGEST_NAME)
        if isinstance(error, Unavailable) and error.channel is not None:
            self._named[handler.pattern] = shortened_text(error.channel, LONGEST_NAME)
        elif handler.pattern not in self._named:
            return next((name for name, it in self._notes.found.items() if handler.pattern in it.patterns), "")
        return self._named[handler.pattern]

    def _waiting_for(self, name: str, outage: Outage | None, judged: Judged, *, now: Millis) -> Verdict:
        """Return the verdict on an attempt whose channel failed.

        If the channel is closed now, the digest waits for the next probe. If the channel stays open, only this digest
        is put off. A digest that had failed long before the outage began has another problem: its own delays and its
        limit of attempts still hold.
        """
        if outage is None or not outage.is_closed:
            return self._put_off(name, judged, now=now)
        verdict, tried = judged.verdict, judged.held.lease.tried
        is_outage = isinstance(verdict.error, Unavailable) or tried is None or outage.explains(tried)
        if verdict.ending is Ending.BURIED and not is_outage:
            return verdict
        wait = outages.kept_until(outage, judged.held.timeline, now=now, crowd=0, chance=chance()) - now
        if verdict.ending is Ending.BURIED:
            return replace(verdict, ending=Ending.PUT_OFF, delay=wait)
        if verdict.delay is None:  # a block: its caller decides when to try again
            return verdict
        return replace(verdict, delay=wait if is_outage else max(wait, verdict.delay))

    def _put_off(self, name: str, judged: Judged, *, now: Millis) -> Verdict:
        """Return the verdict on an attempt that found an open channel unavailable.

        Its delay follows from how long the digest has failed, counted from the channel's last return at the earliest.
        """
        verdict, error = judged.verdict, judged.verdict.error
        if not isinstance(error, Unavailable) or verdict.delay is None:  # None: the caller of a block decides
            return verdict
        digest = None
        with suppress(StoreError):
            digest = self._store.inspect(judged.held.timeline).digest
        failing_since = now if digest is None else max(digest.opened, self._answers.returned(name))
        delay = outages.put_off_delay(failing_since, now=now, after=_in_millis(error.after))
        return replace(verdict, delay=delay, is_alone=True)

    def _note_answer(self, name: str, judged: Judged, *, now: Millis) -> None:
        """Note whether the channel answered. The store is written only while it has a note about this channel."""
        is_answered = _is_answered(judged)
        if is_answered:
            self._answers.note(name, now)
        known = self._notes.found.get(name)
        if known is None:
            return
        if is_answered:
            answered = partial(outages.after_answer, began=judged.held.given_at, now=now)
            if known.is_closed or (answered(known) != known and self._answers.may_store(name, now)):
                self._notes.change(name, answered, now=now)
        else:
            unasked = partial(outages.after_no_answer, timeline=judged.held.timeline, now=now)
            self._notes.change(name, unasked, now=now)


def _failure_of_channel(verdict: Verdict) -> DeliveryFailed | None:
    """Return the error of an attempt if its channel may have caused it, else None."""
    error = verdict.error
    if isinstance(error, Unavailable) or (isinstance(error, DeliveryFailed) and error.unknown and error.retry):
        return error
    return None


def _found_out(
    judged: Judged, error: DeliveryFailed, *, now: Millis, answered: Millis
) -> Callable[[Outage | None], Outage]:
    """Return the change that a failed attempt makes to its channel's outage.

    `answered` is when the channel last answered this process.
    """
    timeline, reason = judged.held.timeline, shortened_text(message_of(error), LONGEST_REASON)

    def found(it: Outage | None) -> Outage:
        if it is not None and judged.answered:
            it = outages.after_answer(it, began=judged.held.given_at, now=now)
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
            at_most_once=isinstance(judged, JudgedCompleted),
        )

    return found


def _in_millis(after: float | None) -> Millis | None:
    return None if after is None else to_millis(after)


def _is_answered(judged: Judged) -> bool:
    """Return True if the channel answered; a refusal is an answer, too. Empty digests are not sent."""
    if judged.answered or judged.verdict.ending is Ending.DELIVERED:
        return judged.answered or judged.carried.records > 0
    failed = isinstance(judged.verdict.error, DeliveryFailed)
    return failed and judged.answered is None and judged.claimed.handler is not None


class _HeldBack:
    """Counts the timelines that this process holds back, by channel."""

    def __init__(self) -> None:
        # By channel: when the current minute began, its count, and the count of the minute before.
        self._counts: dict[str, tuple[float, int, int]] = {}

    def count_one(self, name: str) -> int:
        """Count one more timeline, and return the count of this minute or the one before, whichever is higher."""
        now = monotonic()
        began, count, before = self._counts.get(name, (now, 0, 0))
        if now - began >= COUNTED_SECONDS:
            began, count, before = now, 0, count
        self._counts[name] = began, count + 1, before
        return max(count + 1, before)

    def forget(self, name: str) -> None:
        self._counts.pop(name, None)


class _Answers:
    """Remembers when channels last answered this process. Beyond MOST_ANSWERS channels, the first half is forgotten."""

    def __init__(self) -> None:
        self._last: dict[str, Millis] = {}
        self._stored: dict[str, Millis] = {}  # when an answer was last noted in the store
        self._returned: dict[str, Millis] = {}  # when a channel that was closed answered again

    def note(self, name: str, now: Millis) -> None:
        self._last[name] = now
        if len(self._last) > MOST_ANSWERS:
            self._last = dict(list(self._last.items())[MOST_ANSWERS // 2 :])

    def note_returns(self, found: NotedOutages) -> None:
        """Remember when channels returned. Beyond the number that the note has room for, start again."""
        fresh = {name: outage.returned for name, outage in found.items() if outage.phase is Phase.RETURNING}
        if not fresh.items() <= self._returned.items():
            kept = self._returned if len(self._returned) < outages.MOST_CHANNELS else {}
            self._returned = {**kept, **fresh}

    def returned(self, name: str) -> Millis:
        """Return when the channel last returned; 0 if unknown."""
        return self._returned.get(name, 0)

    def last(self, name: str, now: Millis) -> Millis:
        """Return when the channel last answered; 0 if unknown. After the clock was set back, return `now` at most."""
        last = self._last.get(name, 0)
        if last > now:
            self._last[name] = last = now
        return last

    def may_store(self, name: str, now: Millis) -> bool:
        """Return True if the last answer was noted in the store at least a second ago, and count this one as noted."""
        if 0 <= now - self._stored.get(name, 0) < STORED_EVERY:
            return False
        self._stored = {known: at for known, at in self._stored.items() if 0 <= now - at < STORED_EVERY}
        self._stored[name] = now
        return True
