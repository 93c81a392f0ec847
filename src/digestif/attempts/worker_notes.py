"""The note about live workers in the store, changed by compare-and-swap. One that can't be read counts as none."""

from collections.abc import Iterable

import msgspec

from digestif.core.records import Timeline
from digestif.core.times import Millis
from digestif.core.workers import MOST_WORKERS, LiveWorker, WorkerNote, shown
from digestif.intake.patterns import stars
from digestif.stores.base import Store

NAME = "workers"  # of the note, in partition 0
UNHANDLED_LOOKED_AT = 100  # timelines, those due first, among which pages and reports look for unhandled ones
TRIES = 20  # to change the note beside other workers; the next write comes soon

Found = dict[str, WorkerNote]  # by an id of the worker's own: names may be the same on several hosts

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Found).decode


def live_workers(store: Store, *, now: Millis) -> list[LiveWorker]:
    """The workers that were seen in the last minute, by name."""
    found = _found_in(store.note(0, NAME)) if store.enabled else {}
    return _listed(note for note in found.values() if note.is_live(now))


def is_unhandled(timeline: str, workers: list[LiveWorker]) -> bool:
    """True if live workers are known, and none of them has a handler for the timeline."""
    if not workers or len(workers) >= MOST_WORKERS:  # there may be more than the note has room for
        return False
    return not any(stars(pattern, timeline) is not None for worker in workers for pattern in worker.patterns)


def unhandled_among(timelines: Iterable[Timeline], workers: list[LiveWorker]) -> list[str]:
    """Return the names of unhandled timelines that have records to deliver."""
    wanting = (each.key for each in timelines if (each.pending or each.in_digest) and not each.off)
    return [key for key in wanting if is_unhandled(key, workers)]


def note_worker(store: Store, own: str, note: WorkerNote | None, *, now: Millis) -> list[LiveWorker]:
    """Note that a worker is alive under its own id, or remove it, and return the workers that are noted.

    Workers that were not seen for a minute are removed as well.
    """
    if not store.enabled:
        return []
    for _ in range(TRIES):
        noted = store.note(0, NAME)
        found = _found_in(noted)
        wanted = {other: each for other, each in found.items() if other != own and each.is_live(now)}
        if note is not None and len(wanted) < MOST_WORKERS:
            wanted[own] = note
        if wanted == found or store.swap_note(0, NAME, noted, _encode(wanted) if wanted else None):
            return _listed(wanted.values())
    return []


def _listed(notes: Iterable[WorkerNote]) -> list[LiveWorker]:
    return [shown(note) for note in sorted(notes, key=lambda note: (note.name, note.host, note.pid))]


def _found_in(noted: bytes | None) -> Found:
    try:
        return {} if noted is None else _decode(noted)
    except (msgspec.MsgspecError, UnicodeError):  # damage: written anew by the next worker
        return {}
