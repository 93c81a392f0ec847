"""Room: how much a claim may take, so that what was claimed is soon delivered and fits into memory."""

from collections.abc import Mapping

from digestif.attempts.handlers import Kind
from digestif.core.times import Millis

RECORDS = 20_000  # that a claim reads before it gives back the rest of its digests
CROWDED_OUT: Millis = 1_000  # for digests whose handlers have no hand free


class Room:
    """What is free for the digests of one claim; afterwards it tells for which kinds of handlers it did not suffice."""

    def __init__(
        self,
        hands: Mapping[Kind, int] | None = None,
        *,
        slow: frozenset[Kind] = frozenset(),
        memory: int | None = None,
    ) -> None:
        self._hands = None if hands is None else dict(hands)  # None: any number
        self._slow = slow
        self._memory = memory
        self.crowded: set[Kind] = set()

    def take(self, kind: Kind) -> bool:
        """Take a hand, if one is free."""
        if self._hands is None:
            return True
        if self._hands[kind] < 1:
            self.crowded.add(kind)
            return False
        self._hands[kind] -= 1
        return True

    def delay(self, kind: Kind) -> Millis:
        """How long a digest is put off for which no hand is free: a slow kind must not keep the other from its turn."""
        return CROWDED_OUT if kind in self._slow else 0

    def is_full(self, *, records: int, weight: int) -> bool:
        """True once so much was read that no further digest is begun. `weight` is in bytes."""
        return records >= RECORDS or (self._memory is not None and weight >= self._memory)
