"""Live workers, as they note themselves in the store and as people see them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from msgspec import Struct

from digestif.core.spans import span
from digestif.core.times import Millis, is_past, to_seconds

SILENT = 20.0  # seconds: a worker that lives is seen more often
LIVE: Millis = 60_000  # after a worker was seen last
MOST_WORKERS = 200  # that are noted at once
MOST_PATTERNS = 50  # of one worker; it counts as one that serves everything if it has more
LONGEST_NAME = 100  # characters of the names of a worker and its host
LONGEST_PATTERN = 200
LONGEST_POLICY = 100
MOST_NAMED = 4  # policies of a pattern, and workers of each, in the text of a conflict


class WorkerNote(Struct, frozen=True):
    """What a worker notes about itself. Times in milliseconds."""

    name: str
    host: str
    pid: int
    since: Millis
    seen: Millis
    patterns: tuple[str, ...]
    policies: dict[str, str] = {}  # by pattern, as texts; workers of older releases note none

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
    policies: Mapping[str, str] = field(default_factory=dict)  # in its code, as texts, by pattern

    def silence(self, *, now: float) -> str | None:
        """Say that the worker was not seen for a time in which one that lives is seen; None if it was."""
        silent = now - self.seen
        return f"not seen for {span(silent)}: it may have died" if silent >= SILENT else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConflict:
    """Live workers whose code has different policies for one pattern."""

    pattern: str
    policies: Mapping[str, tuple[str, ...]]  # from the text of a policy to the workers that have it, as host:process

    def __str__(self) -> str:
        texts = [f"{policy} ({_some(workers, ', ')})" for policy, workers in self.policies.items()]
        return f"{self.pattern}: {_some(texts, ' or ')}"


def _some(texts: Sequence[str], between: str) -> str:
    """Join texts; of many only the first, with how many more there are."""
    rest = [f"{len(texts) - MOST_NAMED} more"] if len(texts) > MOST_NAMED else []
    return between.join([*texts[:MOST_NAMED], *rest])


def noted_patterns(patterns: list[str]) -> tuple[str, ...]:
    """The patterns of a worker as they are noted: if they are too many or too long, `*` says that it may serve any."""
    known = [pattern for pattern in patterns if len(pattern) <= LONGEST_PATTERN]
    if len(known) == len(patterns) <= MOST_PATTERNS:
        return tuple(known)
    return (*known[: MOST_PATTERNS - 1], "*")


def noted_policies(texts: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Return the policies of noted patterns. A long text is shortened and ends with its hash."""
    return {pattern: _noted_policy(texts[pattern]) for pattern in patterns if pattern in texts}


def _noted_policy(text: str) -> str:
    if len(text) <= LONGEST_POLICY:
        return text
    return f"{text[: LONGEST_POLICY - 13]}… #{blake2b(text.encode('utf-8', 'replace'), digest_size=5).hexdigest()}"


def policy_conflicts(workers: Sequence[LiveWorker]) -> list[PolicyConflict]:
    """Return the patterns for which live workers have different policies, by name.

    A worker that was seen last before another one started does not count: it may have died, and been replaced.
    """
    by_pattern: defaultdict[str, dict[str, list[LiveWorker]]] = defaultdict(dict)
    for worker in workers:
        for pattern, text in worker.policies.items():
            by_pattern[pattern].setdefault(text, []).append(worker)
    return [_conflict(pattern, texts) for pattern, texts in sorted(by_pattern.items()) if _are_at_odds(texts)]


def _are_at_odds(by_text: Mapping[str, Sequence[LiveWorker]]) -> bool:
    """Return True if two of these workers, with different texts, ran at the same time."""
    groups = list(by_text.values())
    return any(
        one.seen >= other.since and other.seen >= one.since
        for index, group in enumerate(groups)
        for one in group
        for others in groups[index + 1 :]
        for other in others
    )


def _conflict(pattern: str, by_text: Mapping[str, Sequence[LiveWorker]]) -> PolicyConflict:
    names = {text: tuple(f"{each.host}:{each.pid}" for each in workers) for text, workers in sorted(by_text.items())}
    return PolicyConflict(pattern=pattern, policies=names)


def shown(note: WorkerNote) -> LiveWorker:
    """A note as people see it."""
    return LiveWorker(
        name=note.name,
        host=note.host,
        pid=note.pid,
        since=to_seconds(note.since),
        seen=to_seconds(note.seen),
        patterns=note.patterns,
        policies=note.policies,
    )
