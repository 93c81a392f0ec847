"""The note about channels that do not work. A change emits events and recalls timelines.

The note is read at most once a second, except before an at-most-once completion, or if the time is given. While the
store does not answer, all channels count as open, and it is asked again after a few seconds, so that attempts do not
wait for it.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import msgspec

from digestif.clock import monotonic, wall_clock
from digestif.core.machine import Slot, seen
from digestif.core.outages import LONGEST_KEPT, MOST_CHANNELS, Outage, Phase, after_set_back, kept_until
from digestif.core.records import State
from digestif.core.times import Millis, to_millis, to_seconds
from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.events.engine import ChannelDown, ChannelUp
from digestif.ids import chance
from digestif.stores.base import PAGE_TIMELINES, Admission, Store
from digestif.stores.note import Note

FRESH_SECONDS = 1.0  # until the note is read again…
FAILED_SECONDS = 5.0  # …and if the store did not answer

NotedOutages = dict[str, Outage]  # by channel
Change = Callable[[Outage], Outage | None]  # it and `Put` may be called again, when another process was quicker
Put = Callable[[Outage | None], Outage | None]
GoesThrough = Callable[[str, str, Outage], bool]  # True if digests of a timeline go through a channel with this outage


class ChannelNotes:
    """The outages of a store's channels. Safe to use from several threads: `found` is replaced, never changed.

    `on_down` is called with the name of a channel when this process closes it, before ChannelDown is emitted.
    """

    def __init__(
        self, store: Store, *, events: Events, goes_through: GoesThrough, on_down: Callable[[str], None]
    ) -> None:
        self._store = store
        self._note = Note(store, "channels", decode=msgspec.json.Decoder(NotedOutages).decode, empty=NotedOutages())
        self._events = events
        self._goes_through = goes_through
        self._on_down = on_down
        self.found: NotedOutages = {}
        self._stale_at = 0.0  # by the monotonic clock, like `_failed_until`
        self._failed_until = 0.0  # until then the store is not asked

    @property
    def is_fresh(self) -> bool:
        return monotonic() < self._stale_at

    def refresh(self, now: Millis | None) -> None:
        """Read the note, and leave out forgotten outages. Without a given time, this machine's clock decides."""
        try:
            found = self.read()
        except StoreError:  # the claim that follows reports the error
            self._fail()
            self.found = {}
            return
        at = to_millis(wall_clock()) if now is None else now
        self.found = {name: outage for name, outage in found.items() if not outage.is_forgotten(at)}
        self._stale_at = monotonic() + FRESH_SECONDS

    def read(self) -> NotedOutages:
        """Return the outages that are noted in the store."""
        return self._note.read()

    def _fail(self) -> None:
        self._stale_at = self._failed_until = monotonic() + FAILED_SECONDS

    def tidy(self, given: Millis | None) -> None:
        """Remove outages that are over, and correct times that lie too far ahead because a clock was set back.

        Without a given time, the store's clock decides. It is asked only if there is something to do by this machine's.
        """
        about = to_millis(wall_clock()) if given is None else given
        if not any(outage.is_over(about) or outage.is_ahead(about) for outage in self.found.values()):
            return
        with suppress(StoreError):  # a later call tries again
            now = self._store.time(0) if given is None else given
            for name in self.found:
                self.change(name, partial(_tidied, now=now), now=now)

    def change(self, name: str, change: Change, *, now: Millis) -> Outage | None:
        """Change the outage of a channel, if one is noted, and return it. Works like `put` otherwise."""
        return self.put(name, lambda it: None if it is None else change(it), now=now)

    def put(self, name: str, change: Put, *, now: Millis) -> Outage | None:
        """Change what is noted about a channel, emit ChannelDown or ChannelUp, and return the outage; None if none is.

        If the outage has times from before a clock was set back, the timelines that wait until these times are recalled
        first. If the note can't be written, the changed outage is returned to this caller only; other attempts go on
        with the noted one.
        """

        def recall_and_change(it: Outage | None) -> Outage | None:
            after = change(it)
            if it is not None and it.is_ahead(now) and after != it:
                self._recall(name, it, now=now)
            return after

        known = self.found.get(name)
        if known is not None and self.is_fresh and change(known) == known:
            return known
        if monotonic() < self._failed_until:
            return change(known)
        try:
            before, after = self._note.update(lambda found: _changed(found, name, recall_and_change, now=now))
        except StoreError:
            self._fail()
            return change(known)
        self.found, self._stale_at = after, monotonic() + FRESH_SECONDS
        self._emit(name, before.get(name), after.get(name))
        return after.get(name)

    def _emit(self, name: str, before: Outage | None, after: Outage | None) -> None:
        was_closed = before is not None and before.is_closed
        if after is not None and after.is_closed and not was_closed:
            self._on_down(name)
            wait = to_seconds(max(0, after.probe_at - after.since))
            self._events.emit(ChannelDown(channel=name, reason=after.reason, retry_in=wait))
        elif before is not None and was_closed and after is not None and after.phase is Phase.RETURNING:
            down = to_seconds(max(0, after.returned - before.since))
            self._events.emit(ChannelUp(channel=name, reason=before.reason, down_for=down))

    def _recall(self, name: str, outage: Outage, *, now: Millis) -> None:
        """Bring forward timelines that wait for a channel until a time from before the clock was set back."""
        latest, crowd = now + LONGEST_KEPT, 0
        for page in _waiting(self._store):
            kept: dict[int, list[Admission]] = {}  # by partition
            for timeline, slot in page:
                is_kept = slot.digest is not None or slot.by_delays is not None
                if is_kept and slot.at > latest and self._goes_through(timeline, name, outage):
                    crowd += 1
                    until = kept_until(outage, timeline, now=now, crowd=crowd, chance=chance())
                    admissions = kept.setdefault(self._store.partition_of(timeline), [])
                    admissions.append(Admission(timeline, seen(slot), until))
            for admissions in kept.values():
                self._store.admit(admissions, now=now)


def _tidied(outage: Outage, *, now: Millis) -> Outage | None:
    return None if outage.is_over(now) else after_set_back(outage, now=now)


def _changed(found: NotedOutages, name: str, change: Put, *, now: Millis) -> NotedOutages:
    """Change the outage of one channel, and remove outages of others that are over.

    Outages with times from before a clock was set back are kept: their timelines still have to be recalled.
    """
    before, after = found.get(name), change(found.get(name))
    kept = {
        other: each for other, each in found.items() if other != name and (each.is_ahead(now) or not each.is_over(now))
    }
    if after is not None and before is None and len(kept) >= MOST_CHANNELS:
        _forget_refuted(kept, now=now)
    if after is not None and (before is not None or len(kept) < MOST_CHANNELS):
        kept[name] = after
    return kept


def _forget_refuted(kept: NotedOutages, *, now: Millis) -> None:
    """Make room by forgetting the oldest suspicion that an answer refuted."""
    refuted = [
        name for name, each in kept.items() if each.phase is Phase.SUSPECTED and not each.met and not each.is_ahead(now)
    ]
    if refuted:
        del kept[min(refuted, key=lambda name: kept[name].since)]


def _waiting(store: Store) -> Iterator[list[tuple[str, Slot]]]:
    """Yield all waiting timelines, page by page."""
    page = store.look_over(State.WAITING, prefix="", after=None, limit=PAGE_TIMELINES)
    yield page.timelines
    while page.after is not None:
        page = store.look_over(State.WAITING, prefix="", after=page.after, limit=PAGE_TIMELINES)
        yield page.timelines
