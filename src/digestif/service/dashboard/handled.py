"""Which pattern delivers a timeline: one of this service, or of a worker that runs elsewhere."""

from collections.abc import Sequence

from digestif.core.workers import MOST_WORKERS, LiveWorker
from digestif.intake.patterns import Patterns
from digestif.service.dashboard.visits import Visit

ANY = "*"


def delivered_by(visit: Visit, workers: Sequence[LiveWorker], key: str) -> str | None:
    """Return the winning pattern of this service's routes, else of the live workers; None if no pattern matches.

    With more workers than the store notes, the pattern is `*`: one that is not noted may deliver any timeline.
    """
    own = visit.digests.attempts().handlers.find(key)
    if own is not None:
        return own.pattern
    if len(workers) >= MOST_WORKERS:
        return ANY
    patterns: Patterns[str] = Patterns()
    for pattern in {pattern for worker in workers for pattern in worker.patterns}:
        patterns.add(pattern, pattern)
    return patterns.find(key)
