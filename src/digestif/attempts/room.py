"""Room: how much a claim may take, so that digests are delivered soon after they are claimed, and fit into memory."""

from collections.abc import Mapping

from digestif.attempts.handlers import Kind
from digestif.core.times import Millis

RECORDS = 20_000  # that a claim reads before it gives back the rest of its digests
SLOW_DELAY: Millis = 1_000  # of digests for which there is no place, if their handlers are slow


class Room:
    """The places, by kind of handler, the memory and the number of records that the digests of one claim may take.

    Afterwards `short` names the kinds of handlers for which there were too few places.
    """

    def __init__(
        self,
        places: Mapping[Kind, int] | None = None,
        *,
        slow: frozenset[Kind] = frozenset(),
        memory: int | None = None,
        records: int = RECORDS,
    ) -> None:
        self._places = None if places is None else dict(places)  # None: any number
        self._slow = slow
        self._memory = memory
        self._records = records
        self.short: set[Kind] = set()

    def take(self, kind: Kind) -> bool:
        """Take a place, if one is free."""
        if self._places is None:
            return True
        if self._places[kind] < 1:
            self.short.add(kind)
            return False
        self._places[kind] -= 1
        return True

    def delay(self, kind: Kind) -> Millis:
        """How long to put off a digest for which there is no place, so that a slow kind does not hold up the other."""
        return SLOW_DELAY if kind in self._slow else 0

    def is_full(self, *, records: int, weight: int) -> bool:
        """True once so much was read that no further digest is begun. `weight` is in bytes."""
        return records >= self._records or (self._memory is not None and weight >= self._memory)
