"""When a worker tries digests whose lease lapsed: one of them may end it, with all that it holds."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from digestif.attempts.leases import HeldLease
from digestif.clock import monotonic
from digestif.core.times import Millis


class Suspects:
    """Decides when suspects are tried, and how many together. It does no I/O.

    Others go first for `patience_seconds`. Then nothing else is claimed until the worker's attempts have ended, or for
    `lease_seconds`. The first group is a single suspect; each group that ended lets the next one be twice as large.
    """

    def __init__(
        self, *, lease_seconds: float, patience_seconds: float = 60.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._lease_seconds = lease_seconds
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._seen_since: float | None = None  # None: the store has none, as far as this worker knows
        self._is_their_turn = False  # others were claimed since their last claim began
        self._others_wait_since: float | None = None  # nothing else is claimed until suspects are
        self._is_claiming = False  # a claim for them is under way
        self._group: _Group | None = None  # the last one that was claimed; others may begin before it has ended
        self._size = 1  # of the next group

    # Before they are claimed

    def saw(self, suspect: Millis | None, *, looked_everywhere: bool) -> None:
        """Note what an ordinary claim has seen: when the first lapsed lease ran out, or None.

        If it has not looked into every partition, there may be suspects in the others.
        """
        self._is_their_turn = True
        if suspect is None:
            self._seen_since = None if looked_everywhere else self._seen_since
        elif self._seen_since is None:
            self._seen_since = self._clock()

    @property
    def exist(self) -> bool:
        return self._seen_since is not None

    def hold_others(self) -> bool:
        """Return True if nothing else is claimed until suspects are, and note since when."""
        waited = 0.0 if self._seen_since is None else self._clock() - self._seen_since
        if not self._is_their_turn or waited < self._patience_seconds:
            return False
        if self._others_wait_since is None:
            self._others_wait_since = self._clock()
        return True

    @property
    def wait_no_longer(self) -> bool:
        """True if they are tried even beside attempts that have not ended."""
        return self._others_wait_since is not None and self._clock() - self._others_wait_since >= self._lease_seconds

    # Claiming and trying them

    def begin_claim(self, most: int) -> int:
        """Note that a claim for suspects begins, and return how many it takes, at most `most`."""
        self._is_claiming = True
        self._is_their_turn = False
        self._others_wait_since = None
        self._grow_if_ended()
        self._size = min(self._size, most)
        return self._size

    def end_claim(self, tried: Iterable[HeldLease]) -> None:
        """Note the leases that a claim for suspects gave. If it gave none, the store has none."""
        self._is_claiming = False
        self._grow_if_ended()
        leases = list(tried)
        self._group = _Group(leases, began=self._clock()) if leases else None
        if not leases:
            self._seen_since = None

    @property
    def are_tried(self) -> bool:
        """True while some of them are claimed or under way, for one lease at most: nothing else is claimed.

        After that others begin beside them, and their leases no longer say how large the group is.
        """
        if self._is_claiming or self._group is None:
            return self._is_claiming
        return self._clock() - self._group.began < self._lease_seconds and self._group.is_running

    def _grow_if_ended(self) -> None:
        if self._group is not None and not self._group.is_running:
            self._group = None
            self._size *= 2


class _Group(NamedTuple):
    """Suspects that are tried together."""

    leases: list[HeldLease]
    began: float

    @property
    def is_running(self) -> bool:
        return any(lease.is_running for lease in reversed(self.leases))  # the last one mostly ends last
