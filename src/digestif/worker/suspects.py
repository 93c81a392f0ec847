"""When a worker tries digests whose lease lapsed: one of them may end it, with all that it holds."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from digestif.attempts import Attempt
from digestif.clock import monotonic
from digestif.core.times import Millis

PATIENCE_SECONDS = 60.0  # that suspects let the others go first


class Suspects:
    """Whose turn it is. Decides without I/O; whoever claims tells it what was seen and what ended."""

    def __init__(self, *, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._since: float | None = None  # that there are some, as far as this worker saw
        self._is_their_turn = False
        self._are_claimed = False  # right now
        self._tried: list[Attempt] = []

    def saw(self, suspect: Millis | None) -> None:
        """An ordinary claim told when the first lease lapsed that nobody took over, or that there is none."""
        self._is_their_turn = True
        if suspect is None:
            self._since = None
        elif self._since is None:
            self._since = monotonic()

    @property
    def exist(self) -> bool:
        return self._since is not None

    @property
    def are_next(self) -> bool:
        """True if nothing else is claimed before they were tried."""
        return self._is_their_turn and self._waited() >= PATIENCE_SECONDS

    @property
    def wait_no_longer(self) -> bool:
        """True if they are tried even beside attempts that have not ended."""
        return self._waited() >= PATIENCE_SECONDS + self._lease_seconds

    def _waited(self) -> float:
        return 0.0 if self._since is None else monotonic() - self._since

    @property
    def are_tried(self) -> bool:
        """True while some of them are claimed or under way: nothing else is claimed."""
        self._tried = [attempt for attempt in self._tried if not attempt.is_told]
        return self._are_claimed or bool(self._tried)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """They are claimed in the block. If that fails, others are claimed before they are next again."""
        self._is_their_turn, self._are_claimed = False, True
        try:
            yield
        finally:
            self._are_claimed = False

    def begin(self, attempts: Iterable[Attempt]) -> None:
        """They were claimed, and are tried."""
        self._tried = list(attempts)
