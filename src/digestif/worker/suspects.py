"""When a worker tries digests whose lease lapsed: one of them may end it, with all that it holds."""

from collections.abc import Iterable

from digestif.attempts import Attempt
from digestif.clock import monotonic
from digestif.core.times import Millis

PATIENCE_SECONDS = 60.0  # that suspects let the others go first


class Suspects:
    """Whose turn it is. Decides without I/O, from what claims have seen and which attempts have ended."""

    def __init__(self, *, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._since: float | None = None  # that there are some, as far as this worker saw
        self._is_their_turn = False
        self._are_claimed = False  # a claim for them is under way
        self._tried: list[Attempt] = []
        self._tried_since = 0.0
        self._next_since: float | None = None  # that nothing else is claimed, so that they can be

    def saw(self, suspect: Millis | None, *, looked_everywhere: bool) -> None:
        """An ordinary claim has seen when the first lease lapsed that was not taken over, or that there is none.

        There may be some in partitions where it has not looked.
        """
        self._is_their_turn = True
        if suspect is None:
            self._since = None if looked_everywhere else self._since
        elif self._since is None:
            self._since = monotonic()

    @property
    def exist(self) -> bool:
        return self._since is not None

    @property
    def are_next(self) -> bool:
        """True if nothing else is claimed before they were tried."""
        are_next = self._is_their_turn and self._waited() >= PATIENCE_SECONDS
        if are_next and self._next_since is None:
            self._next_since = monotonic()
        return are_next

    @property
    def wait_no_longer(self) -> bool:
        """True if they are tried even beside attempts that have not ended."""
        return self._next_since is not None and monotonic() - self._next_since >= self._lease_seconds

    def _waited(self) -> float:
        return 0.0 if self._since is None else monotonic() - self._since

    @property
    def are_tried(self) -> bool:
        """True while some of them are claimed or under way, for one lease at most: nothing else is claimed.

        After that others begin beside them, and a note that one is alone is withdrawn.
        """
        self._tried = [attempt for attempt in self._tried if not attempt.is_told]
        is_long = monotonic() - self._tried_since >= self._lease_seconds
        return self._are_claimed or (bool(self._tried) and not is_long)

    def begin_claim(self) -> None:
        self._are_claimed = True
        self._is_their_turn = False
        self._next_since = None

    def end_claim(self, attempts: Iterable[Attempt]) -> None:
        """These came of it. If none did, there are none, as far as the store says."""
        self._are_claimed = False
        self._tried, self._tried_since = list(attempts), monotonic()
        if not self._tried:
            self._since = None
