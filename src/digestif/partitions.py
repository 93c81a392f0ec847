"""Visiting the partitions of a store: one that fails is reported and does not stop the others."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.events import Events, Expired, Lapsed, PartitionFailed
from digestif.ids import fresh_id, shuffled
from digestif.stores.base import PAGE_TIMELINES, Lease, Maintained, Store

T = TypeVar("T")


def visit(store: Store, operation: str, pages: Callable[[int], Iterator[T]], events: Events) -> Iterator[T]:
    """Everything that `pages` gives, partition after partition in random order. Raises only if all of them fail."""
    failures: list[StoreError] = []
    for partition in shuffled(store.partitions):
        try:
            yield from pages(partition)
        except StoreError as error:
            failures.append(error)
            if store.partitions > 1:
                events.emit(PartitionFailed(operation=operation, partition=partition, error=error))
    if len(failures) == store.partitions:
        raise failures[-1]


def tell_of_maintenance(pages: Sequence[Maintained], events: Events) -> None:
    """Tell of what maintenance found."""
    if lapsed := sum(page.lapsed for page in pages):
        events.emit(Lapsed(digests=lapsed))
    if expired := sum(page.expired for page in pages):
        events.emit(Expired(records=expired))


def claim(store: Store, limit: int, *, lease: Millis, now: Millis | None, events: Events) -> list[Lease]:
    """Leases for at most `limit` timelines, from partitions in random order."""

    def pages(partition: int) -> Iterator[Lease]:
        while len(leases) < limit:
            wanted = min(limit - len(leases), PAGE_TIMELINES)
            page = store.claim(partition, wanted, token=fresh_id(), lease=lease, now=now)
            leases.extend(page.leases)
            yield from page.leases
            if len(page.leases) + page.retired < wanted:
                return

    leases: list[Lease] = []
    try:
        return list(visit(store, "claim", pages, events))
    except StoreError:
        if leases:  # what the pages before it gave must not be forgotten
            return leases
        raise
