"""When a worker tries digests whose lease lapsed: one of them may end it, with all that it holds."""

from collections.abc import Callable, Iterable

from digestif.attempts import Attempt
from digestif.clock import monotonic
from digestif.core.times import Millis


class Suspects:
    """Decides without I/O when it is their turn and how many are tried, from what claims saw and which attempts ended.

    Others go first for `patience_seconds`. Then nothing else is claimed until the worker's attempts have ended, or for
    `lease_seconds`. The first group is a single suspect; each group that ended lets the next one be twice as large.
    """

    def __init__(
        self, *, lease_seconds: float, patience_seconds: float = 60.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._lease_seconds = lease_seconds
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._since: float | None = None  # when this worker saw the first of them
        self._is_their_turn = False
        self._are_claimed = False  # a claim for them is under way
        self._tried: list[Attempt] = []
        self._tried_since = 0.0
        self._size = 1  # of the next group
        self._next_since: float | None = None  # since when nothing else is claimed, so that they can be

    def saw(self, suspect: Millis | None, *, looked_everywhere: bool) -> None:
        """Note what an ordinary claim has seen: when the first lapsed lease ran out, or None.

        If it has not looked into every partition, there may be suspects in the others.
        """
        self._is_their_turn = True
        if suspect is None:
            self._since = None if looked_everywhere else self._since
        elif self._since is None:
            self._since = self._clock()

    @property
    def exist(self) -> bool:
        return self._since is not None

    @property
    def are_next(self) -> bool:
        """True if nothing else is claimed until they were tried."""
        are_next = self._is_their_turn and self._waited() >= self._patience_seconds
        if are_next and self._next_since is None:
            self._next_since = self._clock()
        return are_next

    @property
    def wait_no_longer(self) -> bool:
        """True if they are tried even beside attempts that have not ended."""
        return self._next_since is not None and self._clock() - self._next_since >= self._lease_seconds

    def _waited(self) -> float:
        return 0.0 if self._since is None else self._clock() - self._since

    @property
    def are_tried(self) -> bool:
        """True while some of them are claimed or under way, for one lease at most: nothing else is claimed.

        After that others begin beside them, and their leases no longer say how large the group is.
        """
        self._see_who_ended()
        is_long = self._clock() - self._tried_since >= self._lease_seconds
        return self._are_claimed or (bool(self._tried) and not is_long)

    def group_size(self, most: int) -> int:
        """Return how many are tried together next, for a worker that can run `most` handlers."""
        self._see_who_ended()
        self._size = min(self._size, most)
        return self._size

    def _see_who_ended(self) -> None:
        was_tried = bool(self._tried)
        while self._tried and self._tried[-1].is_ended:
            self._tried.pop()
        if was_tried and not self._tried:
            self._size *= 2

    def begin_claim(self) -> None:
        self._are_claimed = True
        self._is_their_turn = False
        self._next_since = None

    def end_claim(self, attempts: Iterable[Attempt]) -> None:
        """Note the attempts that a claim for suspects gave. If it gave none, the store has none."""
        self._are_claimed = False
        self._see_who_ended()
        self._tried, self._tried_since = list(attempts), self._clock()
        if not self._tried:
            self._since = None
