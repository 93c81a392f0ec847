"""Watches for leases that end too far in the future, because a clock was set back after they were given.

If its worker died, such a lease would block its timeline for as long as the clock was ahead. It is ended after it was
seen unchanged for the time of a whole lease, by the monotonic clock: a living holder would have renewed it.
"""

from collections.abc import Callable
from contextlib import suppress

from digestif.clock import monotonic
from digestif.core.times import CLOCK_MARGIN, LONGEST, Millis, to_millis, to_seconds
from digestif.errors import StoreError
from digestif.stores.base import PAGE_TIMELINES, LeaseEnd, Store
from digestif.stores.note import Note

USUAL_LEASE: Millis = 30_000  # engines with longer leases note that in the store
MOST_WATCHED = 2_000  # leases


class LeaseWatch:
    """Remembers leases that end too far in the future, and ends those that do not change. One for each engine."""

    def __init__(self, store: Store, *, lease: Millis, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._longest = Note(store, "lease", decode=lambda raw: min(int(raw), to_millis(LONGEST)), empty=0)
        self._lease = lease
        self._clock = clock
        self.is_noted = lease <= USUAL_LEASE
        self._seen: dict[LeaseEnd, float] = {}  # when each lease was first seen
        self._look_at = clock()

    def note_lease(self) -> None:
        """Note this engine's lease duration if it is longer than usual, so that others wait as long to end a lease."""
        if self.is_noted:
            return
        with suppress(StoreError):  # the next call tries again
            self._longest.update(lambda noted: max(noted, self._lease))
            self.is_noted = True

    def look(self, now: Millis | None) -> None:
        """Look for leases that end too far in the future, and end those that did not change for a whole lease.

        Does nothing until a lease has passed since the last look. Raises StoreError.
        """
        seconds = self._clock()
        if seconds < self._look_at:
            return
        longest = max(self._lease, USUAL_LEASE, self._longest.read())
        self._look_at = seconds + to_seconds(min(self._lease, USUAL_LEASE))
        at = self._store.time(0) if now is None else now
        found = self._store.leases_beyond(at + longest + CLOCK_MARGIN, limit=MOST_WATCHED)
        self._seen = {lease: self._seen.get(lease, seconds) for lease in found}
        unchanged = [lease for lease, since in self._seen.items() if seconds - since >= to_seconds(longest)]
        for start in range(0, len(unchanged), PAGE_TIMELINES):
            self._store.end_leases(unchanged[start : start + PAGE_TIMELINES], now=now)
