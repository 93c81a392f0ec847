"""The note about the live workers of a store, and timelines that no live worker has a handler for."""

from collections.abc import Iterable

import msgspec

from digestif.core.records import Timeline
from digestif.core.times import Millis
from digestif.core.workers import MOST_WORKERS, LiveWorker, WorkerNote, shown
from digestif.intake.patterns import stars
from digestif.stores.base import Store
from digestif.stores.note import Note

UNHANDLED_LOOKED_AT = 100  # timelines, first due first, that pages and reports check for unhandled ones

WorkerNotes = dict[str, WorkerNote]  # by a random id of each worker: workers on several hosts may have the same name


def live_workers(store: Store, *, now: Millis) -> list[LiveWorker]:
    """Return the workers that were seen in the last minute, sorted by name."""
    return _listed(note for note in _note(store).read().values() if note.is_live(now))


def is_unhandled(timeline: str, workers: list[LiveWorker]) -> bool:
    """Return True if live workers are known, and none of them has a handler for the timeline."""
    if not workers or len(workers) >= MOST_WORKERS:  # a full note may lack workers
        return False
    return not any(stars(pattern, timeline) is not None for worker in workers for pattern in worker.patterns)


def unhandled_among(timelines: Iterable[Timeline], workers: list[LiveWorker]) -> list[str]:
    """Return the names of unhandled timelines that have records to deliver."""
    wanting = (each.key for each in timelines if (each.pending or each.in_digest) and not each.off)
    return [key for key in wanting if is_unhandled(key, workers)]


def note_worker(store: Store, worker_id: str, note: WorkerNote | None, *, now: Millis) -> list[LiveWorker]:
    """Note a live worker under its id, or remove it if the note is None. Return all noted workers.

    Workers that were not seen for a minute are removed, too. A full note takes no further worker.
    """

    def with_worker(found: WorkerNotes) -> WorkerNotes:
        others = {other: each for other, each in found.items() if other != worker_id and each.is_live(now)}
        return others if note is None or len(others) >= MOST_WORKERS else {**others, worker_id: note}

    return _listed(_note(store).update(with_worker).after.values()) if store.enabled else []


def _listed(notes: Iterable[WorkerNote]) -> list[LiveWorker]:
    return [shown(note) for note in sorted(notes, key=lambda note: (note.name, note.host, note.pid))]


def _note(store: Store) -> Note[WorkerNotes]:
    return Note(store, "workers", decode=msgspec.json.Decoder(WorkerNotes).decode, empty=WorkerNotes())
