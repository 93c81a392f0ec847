"""Stores with many due timelines."""

from pathlib import Path

from digestif import Digests, Record
from digestif.stores.base import PAGE_RECORDS
from digestif.stores.sqlite import SQLiteStore

NOW = 1_700_000_000_000
HOUR = 3_600_000


def store_with_due(count: int, path: Path | None = None) -> SQLiteStore:
    """Half of the timelines are ready, half wait and are due; each has a record."""
    store = SQLiteStore(path, synchronous="normal")
    digests = Digests(store)
    for start in range(0, count, 2 * PAGE_RECORDS):
        numbers = range(start, min(start + 2 * PAGE_RECORDS, count))
        for delay in (0, 1):
            page = [(f"t{n}", Record("r", 0, 0.0)) for n in numbers if n % 2 == delay]
            digests.add_many(page, first_delay=delay, now=NOW / 1000 + start / 1000)
    return store
