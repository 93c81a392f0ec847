"""Queries over timelines, records and dead letters."""

from collections.abc import Sequence
from functools import partial
from heapq import merge
from itertools import islice

from digestif.core.capacity import Cursor, Stored, by_age
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter, State
from digestif.core.terms import Override
from digestif.core.times import Millis, to_millis
from digestif.core.transfer import is_incoming
from digestif.stores.reader import DUE, PAGE_READ, PAUSED, Order, Part, Place, TimelinePage, place_of
from digestif.stores.rows.view import Rows


def records(rows: Rows, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
    batches = _batches(rows.slot(timeline))[part]
    pages = [record for batch in batches for record in rows.page(batch, after=after, limit=limit)]
    return pages if len(batches) < 2 else sorted(pages, key=by_age, reverse=True)[:limit]


def overrides(rows: Rows, timelines: Sequence[str]) -> list[Override | None]:
    rows.concern(timelines)
    return [rows.slot(timeline).override for timeline in timelines]


def find(rows: Rows, timeline: str, key: str) -> dict[Part, Stored]:
    found = {}
    for part, batches in _batches(rows.slot(timeline)).items():
        for batch in batches:
            record = rows.record(batch, key)
            if record is not None:
                found[part] = record
    return found


def _batches(slot: Slot) -> dict[Part, list[int]]:
    """The batches of a timeline's records; a digest that is being merged has two, the newer one last."""
    digest = slot.digest
    parts = [] if digest is None else [digest.batch, digest.merging]
    return {
        Part.PENDING: [] if slot.batch is None else [slot.batch],
        Part.DIGEST: [batch for batch in parts if batch is not None],
    }


def scan(rows: Rows, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
    """Timelines whose slot can be read."""
    found: list[tuple[str, Slot]] = []
    while len(found) < limit:
        page = rows.scan(prefix=prefix, after=after, limit=limit)
        found += [(timeline, slot) for timeline, slot in page if slot is not None]
        if len(page) < limit:
            break
        after = page[-1][0]
    return found[:limit]


# By the fields of Marks.
ORDERS: dict[Order | None, tuple[str, ...]] = {
    State.WAITING: ("waiting",),
    State.READY: ("ready",),
    State.OPEN: ("until",),
    PAUSED: ("paused_until",),
    DUE: ("waiting", "ready"),
}


def look_over(rows: Rows, order: Order | None, *, prefix: str, after: Place | None, limit: int) -> TimelinePage:
    limit = min(limit, PAGE_READ)
    if order in ORDERS:
        return _in_order(rows, ORDERS[order], after=None if after is None else place_of(after, int, int), limit=limit)
    (name,) = (None,) if after is None else place_of(after, str)
    page = rows.scan(prefix=prefix, after=name, limit=limit)
    last = None if len(page) < limit else (page[-1][0],)
    return TimelinePage([(timeline, slot) for timeline, slot in page if slot is not None], last)


def _in_order(rows: Rows, marks: Sequence[str], *, after: tuple[int, int] | None, limit: int) -> TimelinePage:
    """A page of the timelines that have one of these marks, in one order."""
    limit = min(limit, PAGE_READ // len(marks))
    pages = [rows.in_order(mark, after=after, limit=limit) for mark in marks]
    found = list(islice(merge(*pages, key=lambda each: each[:2]), limit))
    last: Place | None = None if len(found) < limit else found[-1][:2]
    return TimelinePage([(each.timeline, each.slot) for each in found if each.slot is not None], last)


def letters(rows: Rows, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
    """Dead letters that can be read, without those that are imported and not whole yet."""
    found: list[DeadLetter] = []
    while len(found) < limit:
        page = rows.letters(timeline, after=after, limit=limit)
        found += [letter for letter_id, letter in page if letter is not None and not is_incoming(letter_id)]
        if len(page) < limit:
            break
        after = page[-1][0]
    return found[:limit]


def kept_since(rows: Rows, timeline: str) -> Millis | None:
    return rows.tenants.kept_since(rows.tenants.of(timeline), partial(_oldest, rows))


def _oldest(rows: Rows, ring: str) -> Millis | None:
    """Return the time of the oldest entry or removal in a ring; None if no older one was forgotten."""
    entry, removals = rows.oldest_entry(ring), rows.oldest_removals(ring)
    times = [] if entry is None else [to_millis(entry.ended)]
    return max([*times, *([] if removals is None else [removals.last])], default=None)


def letter_records(rows: Rows, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
    letter = rows.letter(letter_id)
    return [] if letter is None else rows.page(rows.letter_batch(letter_id), after=after, limit=limit)
