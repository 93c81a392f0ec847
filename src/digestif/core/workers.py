"""Live workers, as they note themselves in the store and as people see them."""

from dataclasses import dataclass

from msgspec import Struct

from digestif.core.times import Millis, is_past, to_seconds

LIVE: Millis = 60_000  # after a worker was seen last
MOST_WORKERS = 200  # that are noted at once
MOST_PATTERNS = 50  # of one worker; it counts as one that serves everything if it has more
LONGEST_NAME = 100  # characters of the names of a worker and its host
LONGEST_PATTERN = 200


class WorkerNote(Struct, frozen=True):
    """What a worker notes about itself. Times in milliseconds."""

    name: str
    host: str
    pid: int
    since: Millis
    seen: Millis
    patterns: tuple[str, ...]

    def is_live(self, now: Millis) -> bool:
        gone_at = self.seen + LIVE + 1
        return not is_past(gone_at, now=now, longest=2 * LIVE + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorker:
    """A worker that was seen in the last minute. Times in seconds."""

    name: str
    host: str
    pid: int
    since: float
    seen: float
    patterns: tuple[str, ...]  # of its handlers and routes


def noted_patterns(patterns: list[str]) -> tuple[str, ...]:
    """The patterns of a worker as they are noted: if they are too many or too long, `*` says that it may serve any."""
    known = [pattern for pattern in patterns if len(pattern) <= LONGEST_PATTERN]
    if len(known) == len(patterns) <= MOST_PATTERNS:
        return tuple(known)
    return (*known[: MOST_PATTERNS - 1], "*")


def shown(note: WorkerNote) -> LiveWorker:
    """A note as people see it."""
    return LiveWorker(
        name=note.name,
        host=note.host,
        pid=note.pid,
        since=to_seconds(note.since),
        seen=to_seconds(note.seen),
        patterns=note.patterns,
    )
