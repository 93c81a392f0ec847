"""Which pattern delivers a timeline: one of this service, or of a worker that runs elsewhere."""

from collections.abc import Callable, Sequence

from digestif.core.workers import MOST_WORKERS, LiveWorker
from digestif.intake.patterns import Patterns
from digestif.service.dashboard.visits import Visit

ANY = "*"


def delivered_by(visit: Visit, workers: Sequence[LiveWorker], key: str) -> str | None:
    """Return the pattern that delivers a timeline, as `finder` finds it."""
    return finder(visit, workers)(key)


def finder(visit: Visit, workers: Sequence[LiveWorker]) -> Callable[[str], str | None]:
    """Return a function that finds the winning pattern of this service's routes, else of the live workers.

    It returns None if no pattern matches. With more workers than the store notes, the pattern is `*`: one that is not
    noted may deliver any timeline.
    """
    own, elsewhere = visit.digests.engine.handlers, _elsewhere(workers)

    def find(key: str) -> str | None:
        handler = own.find(key)
        if handler is not None:
            return handler.pattern
        return ANY if len(workers) >= MOST_WORKERS else elsewhere.find(key)

    return find


def patterns(visit: Visit, workers: Sequence[LiveWorker]) -> list[str]:
    """Return the patterns of this service's routes and of the live workers, by name."""
    own = (handler.pattern for handler in visit.digests.engine.handlers)
    return sorted({*own, *_noted(workers)})


def _elsewhere(workers: Sequence[LiveWorker]) -> Patterns[str]:
    """Make the patterns of the live workers ready for finding."""
    found: Patterns[str] = Patterns()
    for pattern in sorted(_noted(workers)):
        found.add(pattern, pattern)
    return found


def _noted(workers: Sequence[LiveWorker]) -> set[str]:
    """Collect the patterns of the live workers: thousands, if each of many workers has its own."""
    return {pattern for worker in workers for pattern in worker.patterns}
