"""Leases from all partitions of a store, visited in random order."""

from collections.abc import Iterator

from digestif.attempts.attempt import Now
from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.events.base import Events
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_TIMELINES, ClaimPage, Lease, Store
from digestif.stores.partitions import visit


def claim(store: Store, limit: int, *, lease: Millis, now: Now, events: Events) -> ClaimPage:
    """Leases for at most `limit` timelines that are due. Raises StoreError if no partition answers."""
    leases: list[Lease] = []
    suspects: list[Millis] = []

    def pages(partition: int) -> Iterator[ClaimPage]:
        while len(leases) < limit:
            wanted = min(limit - len(leases), PAGE_TIMELINES)
            page = store.claim(partition, wanted, token=fresh_id(), lease=lease, now=now())
            leases.extend(page.leases)
            suspects.extend([] if page.suspect is None else [page.suspect])
            yield page
            if len(page.leases) + page.retired < wanted:
                return

    retired = 0
    try:
        retired = sum(page.retired for page in visit(store, "claim", pages, events))
    except StoreError:
        if not leases:  # what the pages before it gave must not be forgotten
            raise
    return ClaimPage(leases, retired, min(suspects, default=None))


def claim_suspects(store: Store, *, alone: bool, lease: Millis, now: Now, events: Events) -> list[Lease]:
    """Leases for digests that lapsed, of the first partition that has some."""
    leases: list[Lease] = []

    def pages(partition: int) -> Iterator[ClaimPage]:
        if not leases:
            page = store.claim_suspects(partition, alone=alone, token=fresh_id(), lease=lease, now=now())
            leases.extend(page.leases)
            yield page

    for _ in visit(store, "claim", pages, events):
        pass
    return leases
