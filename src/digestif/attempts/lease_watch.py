"""Leases that end too far ahead, because a clock was set back after they were given.

Such a lease of a worker that died would keep its timeline closed for as long as the clock was ahead. It ends once it
has been seen unchanged for a whole lease, by a clock that is never set: a holder that lives renews it earlier.
"""

from collections.abc import Callable
from contextlib import suppress

from digestif.clock import monotonic
from digestif.core.times import CLOCK_MARGIN, LONGEST, Millis, to_millis, to_seconds
from digestif.errors import StoreError
from digestif.stores.base import PAGE_TIMELINES, LeaseEnd, Store

NOTE = "lease"  # in partition 0: the longest lease of all engines, in milliseconds
USUAL_LEASE: Millis = 30_000  # an engine whose leases are longer notes that
MOST_WATCHED = 2_000  # leases


class LeaseWatch:
    """Remembers leases that end too far ahead, and ends those that do not change. One for each engine."""

    def __init__(self, store: Store, *, lease: Millis, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock
        self._is_noted = lease <= USUAL_LEASE
        self._seen: dict[LeaseEnd, float] = {}  # and when for the first time
        self._look_at = clock()

    def note_lease(self) -> None:
        """Note the lease of this engine if it is longer than usual, so that others wait as long before they end it."""
        if self._is_noted:
            return
        with suppress(StoreError):  # the next call tries again
            self._raise_note()
            self._is_noted = True

    def _raise_note(self) -> None:
        while (noted := self._store.note(0, NOTE)) is None or _noted_lease(noted) < self._lease:
            if self._store.swap_note(0, NOTE, noted, b"%d" % self._lease):
                return

    def look(self, now: Millis | None) -> None:
        """Look for such leases, once in a lease, and end those that were seen before. Raises StoreError."""
        seconds = self._clock()
        if seconds < self._look_at:
            return
        longest = max(self._lease, USUAL_LEASE, _noted_lease(self._store.note(0, NOTE)))
        self._look_at = seconds + to_seconds(min(self._lease, USUAL_LEASE))
        at = self._store.time(0) if now is None else now
        found = self._store.leases_beyond(at + longest + CLOCK_MARGIN, limit=MOST_WATCHED)
        self._seen = {lease: self._seen.get(lease, seconds) for lease in found}
        unchanged = [lease for lease, since in self._seen.items() if seconds - since >= to_seconds(longest)]
        for start in range(0, len(unchanged), PAGE_TIMELINES):
            self._store.end_leases(unchanged[start : start + PAGE_TIMELINES], now=now)


def _noted_lease(noted: bytes | None) -> Millis:
    """The lease in a note; 0 if there is none, or it is damaged."""
    return min(int(noted), to_millis(LONGEST)) if noted is not None and noted.isdigit() else 0
