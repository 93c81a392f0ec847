"""The deletion of a timeline: page by page, with its dead letters, its history and its documents."""

from contextlib import suppress

from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.stores.base import PAGE_TIMELINES, Lease, Store

SWEPT_PAGES = 1000  # per call; maintenance sweeps what is left


def delete_timeline(store: Store, timeline: str, *, now: Millis | None) -> bool:
    """Delete what is there when the call begins, so that it ends however busy producers are. False for nothing."""
    pages = _letter_pages(store, timeline)
    found = store.delete(timeline, now=now)
    _delete_rest(store, timeline, pages, now=now)
    sweep(store, wanted=found)
    return found


def delete_held(store: Store, lease: Lease, *, now: Millis | None) -> bool:
    """Delete a timeline with the digest that is open under the lease. False, with nothing done, if that is lost."""
    pages = _letter_pages(store, lease.timeline)
    if not store.delete(lease.timeline, token=lease.token, now=now):
        return False
    with suppress(StoreError):  # the digest has ended, and all that waited is deleted
        _delete_rest(store, lease.timeline, pages, now=now)
        sweep(store, wanted=True)
    return True


def sweep(store: Store, *, wanted: bool) -> None:
    """Delete records that nothing owns any more, if there may be some."""
    pages = SWEPT_PAGES if wanted else 0
    while pages and store.sweep():
        pages -= 1


def _delete_rest(store: Store, timeline: str, pages: int, *, now: Millis | None) -> None:
    for _ in range(1, pages):
        store.delete(timeline, now=now)
    store.forget_timeline(timeline)


def _letter_pages(store: Store, timeline: str) -> int:
    """How many calls it takes to delete the dead letters of a timeline."""
    pages, after = 0, None
    while page := store.letters(timeline, after=after, limit=PAGE_TIMELINES):
        pages, after = pages + 1, page[-1].id
        if len(page) < PAGE_TIMELINES:
            break
    return pages
