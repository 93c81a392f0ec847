"""The note about channels in the store: read at most once a second, changed by compare-and-swap.

One that can't be read counts as if there were none, and so does a store that does not answer: for a few seconds it is
not asked again, so that it holds up nothing else.
"""

from collections.abc import Callable

import msgspec

from digestif.clock import monotonic, wall_clock
from digestif.core.outages import MOST_CHANNELS, Outage, Phase
from digestif.core.times import Millis, to_millis
from digestif.errors import StoreError, StoreUnavailable
from digestif.stores.base import Store

NAME = "channels"  # of the note, in partition 0
FRESH_SECONDS = 1.0  # for which the note is not read again…
FAILED_SECONDS = 5.0  # …and after the store did not answer
TRIES = 50  # to change the note beside other processes

Found = dict[str, Outage]  # by channel
Change = Callable[[Outage | None], Outage | None]  # may be called several times for one change

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Found).decode


class ChannelNotes:
    """What is noted about channels. Safe to use from several threads: `found` is replaced, never changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.found: Found = {}
        self._stale_at = 0.0  # by the monotonic clock, as the next
        self._failed_until = 0.0  # the store is not asked before

    @property
    def is_fresh(self) -> bool:
        return monotonic() < self._stale_at

    def refresh(self, now: Millis | None) -> None:
        """Read the note. What was forgotten is left out, by the time of this machine if none is given."""
        try:
            found = self.read()
        except StoreError:  # claims say so
            self._fail()
            self.found = {}
            return
        at = to_millis(wall_clock()) if now is None else now
        self.found = {name: outage for name, outage in found.items() if not outage.is_forgotten(at)}
        self._stale_at = monotonic() + FRESH_SECONDS

    def read(self) -> Found:
        """The note as the store has it."""
        return _found_in(self._store.note(0, NAME))

    def change(self, name: str, change: Change, *, now: Millis) -> tuple[Outage | None, Outage | None]:
        """Change what is noted about a channel; the answer is that before and after.

        Notes that are over are removed, but not those of a clock that was set back since: timelines wait by them.
        StoreUnavailable at once if the store did not answer a moment ago.
        """
        if monotonic() < self._failed_until:
            raise StoreUnavailable("the store did not answer a moment ago")
        try:
            return self._swap(name, change, now=now)
        except StoreError:
            self._fail()
            raise

    def _fail(self) -> None:
        self._stale_at = self._failed_until = monotonic() + FAILED_SECONDS

    def _swap(self, name: str, change: Change, *, now: Millis) -> tuple[Outage | None, Outage | None]:
        for _ in range(TRIES):
            noted = self._store.note(0, NAME)
            found = _found_in(noted)
            before = found.get(name)
            after = change(before)
            wanted = {
                channel: each
                for channel, each in found.items()
                if channel != name and (each.is_ahead(now) or not each.is_over(now))
            }
            if after is not None and before is None and len(wanted) >= MOST_CHANNELS:
                _forget_refuted(wanted, now=now)
            if after is not None and (before is not None or len(wanted) < MOST_CHANNELS):
                wanted[name] = after
            if wanted == found or self._store.swap_note(0, NAME, noted, _encode(wanted) if wanted else None):
                self.found, self._stale_at = wanted, monotonic() + FRESH_SECONDS
                return before, wanted.get(name)
        raise StoreError("the note about channels is written by others all the time")


def _forget_refuted(found: Found, *, now: Millis) -> None:
    """Forget the oldest suspicion that was refuted, to make room."""
    refuted = [
        name
        for name, each in found.items()
        if each.phase is Phase.SUSPECTED and not each.met and not each.is_ahead(now)
    ]
    if refuted:
        del found[min(refuted, key=lambda name: found[name].since)]


def _found_in(noted: bytes | None) -> Found:
    try:
        return {} if noted is None else _decode(noted)
    except (msgspec.MsgspecError, UnicodeError):  # damage: written anew with the next change
        return {}
