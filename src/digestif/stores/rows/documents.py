"""Documents of rows: kept in the order of their numbers; a note counts entries and bytes of each ring."""

from collections.abc import Iterable

from digestif.core.times import Millis
from digestif.stores.documents import EVICTED, Bounds, Document
from digestif.stores.rows.view import NEVER, DocumentRow, Rows

COUNTS = "documents:"  # before the name of a collection, which is locked by this note; then a space and the ring


def keep(
    rows: Rows, collection: str, document: Document, *, bounds: Bounds, replace: bool | bytes, now: Millis
) -> bool:
    rows.lock_note(COUNTS + collection)
    found = rows.document(collection, document.key)
    if not _may_keep(None if found is None or found.expires <= now else found.document.body, replace):
        return False
    if found is not None:
        _remove(rows, [found])
    expires = NEVER if bounds.age is None else now + bounds.age
    kept = document._replace(at=now)
    rows.put_document(DocumentRow(rows.next_number(), collection, expires, len(kept.body), kept))
    _count(rows, collection, kept.ring, 1, len(kept.body))
    _evict(rows, collection, kept.ring, bounds, now=now)
    return True


def _may_keep(there: bytes | None, replace: bool | bytes) -> bool:
    """True if a document may be kept where the body `there` is, or none."""
    if isinstance(replace, bytes):
        return there == replace
    return there is None or replace


def _evict(rows: Rows, collection: str, ring: str, bounds: Bounds, *, now: Millis) -> None:
    """Remove the oldest of a ring beyond the bounds, then the oldest of all rings that are too old."""
    entries, size = _counts(rows, collection, ring)
    for _ in range(EVICTED):
        is_full = entries > bounds.entries or (bounds.bytes is not None and size > bounds.bytes)
        oldest = _evictable(rows, collection, ring, is_full=is_full, now=now)
        if oldest is None:
            return
        _remove(rows, [oldest])
        entries, size = entries - 1, size - oldest.size


def _evictable(rows: Rows, collection: str, ring: str, *, is_full: bool, now: Millis) -> DocumentRow | None:
    """The oldest document of a ring that is full, else the oldest of all rings if it is too old."""
    oldest = rows.oldest_document(collection, ring if is_full else None)
    return oldest if oldest is not None and (is_full or oldest.expires <= now) else None


def kept(rows: Rows, collection: str, key: str, *, now: Millis) -> Document | None:
    found = rows.document(collection, key)
    return None if found is None or found.expires <= now else found.document


def documents(
    rows: Rows, collection: str, *, timeline: str | None, before: str | None, limit: int, now: Millis
) -> list[Document]:
    number = NEVER
    if before is not None:
        last = rows.document(collection, before)
        if last is None:
            return []
        number = last.number
    found = rows.newest_documents(collection, timeline=timeline, before=number, limit=limit)
    return [row.document for row in found if row.expires > now]


def forget(rows: Rows, collection: str, key: str, *, body: bytes | None) -> bool:
    rows.lock_note(COUNTS + collection)
    found = rows.document(collection, key)
    if found is None or (body is not None and found.document.body != body):
        return False
    _remove(rows, [found])
    return True


def forget_timeline(rows: Rows, timeline: str, *, limit: int) -> bool:
    """Remove a page of a timeline's documents. True if there may be more."""
    found = rows.documents_of(timeline, limit=limit)
    for collection in sorted({row.collection for row in found}):
        rows.lock_note(COUNTS + collection)
    still_there = [row for row in found if rows.document(row.collection, row.document.key) == row]
    _remove(rows, still_there)
    return len(found) == limit


def _remove(rows: Rows, found: Iterable[DocumentRow]) -> None:
    for row in found:
        rows.remove_document(row)
        _count(rows, row.collection, row.document.ring, -1, -row.size)


def _note(collection: str, ring: str) -> str:
    return f"{COUNTS}{collection} {ring}" if ring else COUNTS + collection


def _counts(rows: Rows, collection: str, ring: str) -> tuple[int, int]:
    entries, _, size = (rows.note(_note(collection, ring)) or b"0 0").partition(b" ")
    return int(entries), int(size)


def _count(rows: Rows, collection: str, ring: str, more: int, bytes_more: int) -> None:
    entries, size = _counts(rows, collection, ring)
    entries, size = entries + more, size + bytes_more
    rows.put_note(_note(collection, ring), b"%d %d" % (entries, size) if entries > 0 else None)
