"""Room: how much one claim may take, so that its digests fit into memory and are delivered soon."""

from collections.abc import Mapping

from digestif.attempts.handlers import Kind
from digestif.core.times import Millis

RECORDS = 20_000  # that a claim reads; then it gives back the rest of its digests
SLOW_DELAY: Millis = 1_000  # by which digests are put off if no place is free and their kind of handler is slow


class Room:
    """The places by kind of handler, the memory, and the number of records that the digests of one claim may take.

    After the claim, `short` has the kinds of handlers that had too few places, and `was_too_small` is True if not even
    the first digest fitted into memory.
    """

    def __init__(
        self,
        places: Mapping[Kind, int] | None = None,
        *,
        slow: frozenset[Kind] = frozenset(),
        memory: int | None = None,
        most: int | None = None,
        records: int = RECORDS,
    ) -> None:
        self._places = None if places is None else dict(places)  # None: any number
        self._slow = slow
        self._memory = memory
        self._most = most  # bytes that a first digest larger than the memory may have; None: any number
        self._held = 0
        self._records = records
        self.short: set[Kind] = set()
        self.was_too_small = False

    def take(self, kind: Kind) -> bool:
        """Take a place; return False if none is free."""
        if self._places is None:
            return True
        if self._places[kind] < 1:
            self.short.add(kind)
            return False
        self._places[kind] -= 1
        return True

    def delay(self, kind: Kind) -> Millis:
        """Return how long to put off a digest without a place, so that slow kinds do not hold up fast ones."""
        return SLOW_DELAY if kind in self._slow else 0

    def is_full(self, *, records: int, weight: int) -> bool:
        """Return True once a claim has read enough, and begins no further digest. `weight` is in bytes."""
        return records >= self._records or self.is_heavy(weight)

    def is_heavy(self, weight: int) -> bool:
        """Return True if digests of this weight fill the memory."""
        return self._memory is not None and weight >= self._memory

    def hold(self, weight: int) -> bool:
        """Take memory for a digest; return False if it does not fit beside the digests before it."""
        is_first = not self._held
        if self._memory is None or self._held + weight <= self._memory:
            fits = True
        else:
            fits = is_first and (self._most is None or weight <= self._most)
            self.was_too_small |= is_first and not fits
        self._held += weight if fits else 0
        return fits
