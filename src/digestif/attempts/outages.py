"""Closed channels: a note in the store that all workers share, and what it means for attempts.

The note is read at most once a second, and written only when a channel fails or comes back. One that can't be read
counts as if there were none.
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from digestif.attempts.attempt import Attempt
from digestif.attempts.handlers import Handlers
from digestif.clock import monotonic
from digestif.core import outages
from digestif.core.outages import MOST_CHANNELS, ChannelOutage, Outage, Phase
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.core.verdicts import DeliveryFailed, Ending, Unavailable, Verdict
from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.events.engine import ChannelDown, ChannelUp
from digestif.ids import chance
from digestif.intake.patterns import stars
from digestif.stores.base import Notes, Store

NAME = "channels"  # of the note, in partition 0
FRESH_SECONDS = 1.0  # for which the note is not read again
TRIES = 50  # to change the note beside other processes
CROWD_SECONDS = 60.0

Found = dict[str, Outage]  # by channel
Change = Callable[[Outage | None], Outage | None]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Found).decode


def read_outages(store: Notes) -> Found:
    """What is noted about channels."""
    return _found_in(store.note(0, NAME))


class Outages:
    """The closed channels of one engine's store. Safe to use from several threads."""

    def __init__(self, store: Store, *, handlers: Handlers, events: Events) -> None:
        self._store = store
        self._is_used = store.enabled
        self._handlers = handlers
        self._events = events
        self._found: Found = {}
        self._read_at = -FRESH_SECONDS
        self._crowd = _Crowd()
        self._granted: dict[str, tuple[int, int]] = {}  # in this second of a return: digests that may still leave

    @property
    def asks(self) -> bool:
        """True if timelines may have to be kept."""
        return any(outage.phase is not Phase.SUSPECTED for outage in self._found.values())

    def refresh(self, *, given: bool, at_once: bool = False) -> None:
        """Read the note, unless that was done a moment ago. With a `given` time it is always read."""
        if not self._handlers or not (given or at_once or monotonic() - self._read_at >= FRESH_SECONDS):
            return
        self._read_at = monotonic()
        try:
            self._found = read_outages(self._store)
        except StoreError:  # claims say so
            self._found = {}

    # For people

    def shown(self, *, now: Millis) -> list[ChannelOutage]:
        """The channels that are closed or just coming back, as the store has them, by name."""
        found = read_outages(self._store).items() if self._is_used else ()
        return [
            outages.shown(name, outage)
            for name, outage in sorted(found)
            if outage.phase is not Phase.SUSPECTED and not outage.is_over(now)
        ]

    def shown_for(self, timeline: str, *, now: Millis) -> ChannelOutage | None:
        """The outage that a timeline waits for. Without handlers, the patterns in the note tell."""
        handler = self._handlers.find(timeline)
        for outage in self.shown(now=now):
            if handler is not None and handler.channel is not None:
                is_behind = outage.channel == handler.channel_of(timeline)
            else:
                is_behind = any(stars(pattern, timeline) is not None for pattern in outage.patterns)
            if is_behind:
                return outage
        return None

    # Before an attempt

    def hold(self, timeline: str, *, now: Millis) -> Millis | None:
        """When a timeline is looked at again whose channel is closed; None if it may be delivered now."""
        closed = self._closed_for(timeline, now=now)
        if closed is None:
            return None
        name, outage = closed
        if outage.phase is Phase.RETURNING:
            return None if self._return_one(name, outage, now=now) else outages.returns_at(now, chance())
        if outage.is_probed_by(timeline, now) or self._begin_probe(name, outage, timeline, now=now):
            return None
        self._note_pattern(name, outage, timeline)
        crowd = self._crowd.count(name)
        return outages.kept_until(self._found.get(name, outage), timeline, now=now, crowd=crowd, chance=chance())

    def reason(self, timeline: str, *, now: Millis) -> str | None:
        """Why a timeline is held back; None if its channel does not do so."""
        closed = self._closed_for(timeline, now=now)
        return None if closed is None else f"its channel {closed[0]} is unavailable: {closed[1].reason}"

    def is_closed(self, timeline: str, *, now: Millis) -> bool:
        """True if the channel of the timeline is closed, and a digest of another one may probe it."""
        closed = self._closed_for(timeline, now=now)
        return closed is not None and closed[1].is_closed and not closed[1].is_probed_by(timeline, now)

    def cancel_probe(self, timeline: str, *, now: Millis) -> None:
        """The timeline was to probe its channel, and was not opened."""
        for name, outage in list(self._found.items()):
            if outage.is_probed_by(timeline, now):
                self._change(name, lambda it: it and outages.after_no_answer(it, timeline, now=now))

    def _closed_for(self, timeline: str, *, now: Millis) -> tuple[str, Outage] | None:
        """The channel of a timeline, if that is not open, and what is known about it."""
        handler = self._handlers.find(timeline) if self._found else None
        if handler is None:
            return None
        own = handler.channel_of(timeline)
        for name, outage in list(self._found.items()):
            is_behind = name == own if handler.channel is not None else handler.pattern in outage.patterns
            if is_behind and outage.phase is not Phase.SUSPECTED and not self._is_over(name, outage, now=now):
                return name, outage
        return None

    def _is_over(self, name: str, outage: Outage, *, now: Millis) -> bool:
        if not outage.is_over(now):
            return False
        self._change(name, lambda it: None if it is None or it.is_over(now) else it)
        return True

    def _begin_probe(self, name: str, outage: Outage, timeline: str, *, now: Millis) -> bool:
        if not outages.may_probe(outage, timeline, now=now):
            return False

        def begin(it: Outage | None) -> Outage | None:
            may = it is not None and outages.may_probe(it, timeline, now=now)
            return outages.after_probe_begun(it, timeline, now=now) if it is not None and may else it

        after = self._change(name, begin)
        return after is None or after.is_probed_by(timeline, now)

    def _return_one(self, name: str, outage: Outage, *, now: Millis) -> bool:
        """True if one more digest may leave in this second. Some are granted at a time, so that few calls write."""
        second = outages.second_of_return(outage, now)
        noted, granted = self._granted.get(name, (-1, 0))
        if noted != second or granted < 1:
            granted = self._grant(name, now=now)
        self._granted[name] = second, granted - 1
        return granted > 0

    def _grant(self, name: str, *, now: Millis) -> int:
        granted = 0

        def spend(it: Outage | None) -> Outage | None:
            nonlocal granted
            if it is None or it.phase is not Phase.RETURNING:
                granted = int(it is None)
                return it
            after, granted = outages.after_return(it, now=now)
            return after

        self._change(name, spend)
        return granted

    def _note_pattern(self, name: str, outage: Outage, timeline: str) -> None:
        """Note which timelines are behind the channel, for `explain` in processes without handlers."""
        handler = self._handlers.find(timeline)
        if handler is None or outages.with_pattern(outage, handler.pattern) is outage:
            return
        self._change(name, lambda it: it and outages.with_pattern(it, handler.pattern))

    # After an attempt

    def settle(self, attempt: Attempt, verdict: Verdict) -> Verdict:
        """Note what an attempt found out about its channel. The verdict then waits for a channel that is closed."""
        error = verdict.error
        name = self._channel_of(attempt, error)
        if not name or not self._is_used:
            return verdict
        timeline, now = attempt.timeline, attempt.store_time()
        if isinstance(error, Unavailable):
            after = None if error.after is None else to_millis(error.after)
            reason = str(error)
            outage = self._report(
                name,
                attempt,
                lambda it: outages.after_unavailable(it, timeline, reason, now=now, after=after, chance=chance()),
            )
        elif isinstance(error, DeliveryFailed) and error.unknown and error.retry:
            reason = str(error)
            outage = self._report(
                name, attempt, lambda it: outages.after_unknown(it, timeline, reason, now=now, chance=chance())
            )
        else:
            self._note_answer(name, attempt, verdict, now=now)
            return verdict
        return self._waiting_for(outage, attempt, verdict, now=now)

    def _channel_of(self, attempt: Attempt, error: BaseException | None) -> str:
        if isinstance(error, Unavailable) and error.channel is not None:
            return error.channel
        return "" if attempt.handler is None else attempt.handler.channel_of(attempt.timeline)

    def _report(self, name: str, attempt: Attempt, change: Callable[[Outage | None], Outage]) -> Outage | None:
        pattern = "" if attempt.handler is None else attempt.handler.pattern

        def changed(it: Outage | None) -> Outage:
            after = change(it)
            return outages.with_pattern(after, pattern) if pattern else after

        return self._change(name, changed)

    def _waiting_for(self, outage: Outage | None, attempt: Attempt, verdict: Verdict, *, now: Millis) -> Verdict:
        if outage is None or not outage.is_closed:
            return verdict
        until = outages.kept_until(outage, attempt.timeline, now=now, crowd=0, chance=chance())
        if verdict.ending is Ending.BURIED:
            return replace(verdict, ending=Ending.PUT_OFF, delay=until - now, is_outage=True)
        return replace(verdict, delay=None if verdict.delay is None else until - now, is_outage=True)

    def _note_answer(self, name: str, attempt: Attempt, verdict: Verdict, *, now: Millis) -> None:
        outage = self._found.get(name)
        if outage is None:
            return
        if attempt.answered or verdict.ending is Ending.DELIVERED:
            began = attempt.began_at()
            self._change(name, lambda it: it and outages.after_answer(it, began=began, now=now))
        else:
            self._change(name, lambda it: it and outages.after_no_answer(it, attempt.timeline, now=now))

    # The note

    def _change(self, name: str, change: Change) -> Outage | None:
        """Change what is noted about a channel, as the store has it, and emit what that means."""
        known = self._found.get(name)
        if known is not None and change(known) == known and monotonic() - self._read_at < FRESH_SECONDS:
            return known
        try:
            before, after = self._swap(name, change)
        except StoreError:  # a note that can't be written: the digest waits by itself
            return change(known)
        self._emit(name, before, after)
        return after

    def _swap(self, name: str, change: Change) -> tuple[Outage | None, Outage | None]:
        for _ in range(TRIES):
            noted = self._store.note(0, NAME)
            found = _found_in(noted)
            before = found.get(name)
            after = change(before)
            wanted = {channel: outage for channel, outage in found.items() if channel != name}
            if after is not None and (before is not None or len(wanted) < MOST_CHANNELS):
                wanted[name] = after
            if wanted == found or self._store.swap_note(0, NAME, noted, _encode(wanted) if wanted else None):
                self._found, self._read_at = wanted, monotonic()
                return before, wanted.get(name)
        raise StoreError("the note about channels is written by others all the time")

    def _emit(self, name: str, before: Outage | None, after: Outage | None) -> None:
        was_closed = before is not None and before.is_closed
        if after is not None and after.is_closed and not was_closed:
            self._crowd.forget(name)
            wait = to_seconds(max(0, after.probe_at - after.since))
            self._events.emit(ChannelDown(channel=name, reason=after.reason, retry_in=wait))
        elif before is not None and was_closed and after is not None and after.phase is Phase.RETURNING:
            down = to_seconds(max(0, after.returned - before.since))
            self._events.emit(ChannelUp(channel=name, reason=before.reason, down_for=down))


def _found_in(noted: bytes | None) -> Found:
    try:
        return {} if noted is None else _decode(noted)
    except (msgspec.MsgspecError, UnicodeError):  # damage: written anew
        return {}


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
