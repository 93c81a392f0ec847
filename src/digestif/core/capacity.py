"""Capacity and merges: which records are kept. The newest are, by timestamp, ties by arrival."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple


class Stored(NamedTuple):
    """A record as a store keeps it; `arrival` is its place in the store's sequence."""

    key: str
    payload: bytes | None  # None: the stored value is missing
    timestamp: float
    arrival: int


class Cursor(NamedTuple):
    """A place in a batch that is read newest first."""

    timestamp: float
    arrival: int


by_age = itemgetter(2, 3)  # the same order as `age_order`; faster, because it makes no Cursor for each record


def age_order(record: Stored) -> Cursor:
    """Sort key: the oldest first."""
    return Cursor(record.timestamp, record.arrival)


def weight_of(records: Iterable[Stored]) -> int:
    """The bytes of their payloads."""
    return sum(len(record.payload) for record in records if record.payload is not None)


def within_bytes(newest_first: Sequence[Stored], max_bytes: int | None) -> int:
    """How many of the newest records fit into a digest of `max_bytes`; at least one."""
    if max_bytes is None:
        return len(newest_first)
    for count, record in enumerate(newest_first):
        max_bytes -= len(record.payload or b"")
        if max_bytes < 0:
            return max(count, 1)
    return len(newest_first)


def merged(older: Iterable[Stored], newer: Iterable[Stored], *, capacity: int | None) -> list[Stored]:
    """Merge two batches: the later version of each key, the newest up to capacity, newest first."""
    versions = {record.key: record for record in older}
    for record in newer:
        known = versions.get(record.key)
        if known is None or known.arrival < record.arrival:
            versions[record.key] = record
    newest_first = sorted(versions.values(), key=by_age, reverse=True)
    return newest_first if capacity is None else newest_first[:capacity]
