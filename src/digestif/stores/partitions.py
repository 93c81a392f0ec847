"""Visits to all partitions of a store: one that fails is reported and does not stop the others."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.events.engine import PartitionFailed
from digestif.ids import shuffled
from digestif.stores.base import Store

T = TypeVar("T")


def visit(
    store: Store,
    operation: str,
    pages: Callable[[int], Iterator[T]],
    events: Events,
    *,
    partitions: Iterable[int] | None = None,
) -> Iterator[T]:
    """What `pages` gives for each of these partitions, by default for all in random order.

    Raises only if all partitions of the store fail.
    """
    failures: list[StoreError] = []
    for partition in shuffled(range(store.partitions)) if partitions is None else partitions:
        try:
            yield from pages(partition)
        except StoreError as error:
            failures.append(error)
            if store.partitions > 1:
                events.emit(PartitionFailed(operation=operation, partition=partition, error=error))
    if len(failures) == store.partitions:
        raise failures[-1]
