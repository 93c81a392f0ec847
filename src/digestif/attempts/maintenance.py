"""Maintenance as workers do it: expire old records, and end leases that end too far ahead."""

from collections.abc import Iterator

from digestif.attempts.failures import forget_expired_failures
from digestif.attempts.pipeline import Pipeline
from digestif.core.times import Millis, to_seconds
from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.events.engine import DispatchLost, Expired, Lapsed
from digestif.stores.base import PAGE_TIMELINES, Maintained, Store
from digestif.stores.partitions import visit


def maintain(pipeline: Pipeline) -> bool:
    """Maintain one page of each partition. True if there is more.

    Raises StoreError if no partition answers.
    """
    store, events, now = pipeline.store, pipeline.events, pipeline.now()
    answers = store.maintain_each(range(store.partitions), None, limit=PAGE_TIMELINES, now=now)

    def page(partition: int) -> Iterator[Maintained]:
        answer = answers[partition]
        if isinstance(answer, StoreError):
            raise answer
        yield answer

    pages = list(visit(store, "maintenance", page, events))
    for done in pages:
        report_maintenance(done, store, events, now=now)
    pipeline.lease_watch.look(now)
    return any(done.more for done in pages)


def report_maintenance(done: Maintained, store: Store, events: Events, *, now: Millis | None) -> None:
    """Emit the events of a page, and forget the failures of digests that have expired.

    `now` is needed if timelines were moved that had been ready for too long.
    """
    forget_expired_failures(store, {timeline for timeline, _ in done.expired}, now=now)
    for timeline, at in done.moved:
        events.emit(DispatchLost(timeline=timeline, late=to_seconds(max(0, (now or at) - at))))
    for timeline in done.lapsed:
        events.emit(Lapsed(timeline=timeline))
    for timeline, records in done.expired:
        events.emit(Expired(timeline=timeline, records=records))
