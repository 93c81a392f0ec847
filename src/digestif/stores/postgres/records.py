"""Records in their batches, and the trash: batches that nothing owns any more."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from psycopg import Cursor as PgCursor

from digestif.core.capacity import Cursor, Stored
from digestif.core.times import Millis
from digestif.stores.base import PAGE_RECORDS, PAGE_TIMELINES
from digestif.stores.postgres.arrays import Bigints, Byteas, Doubles, in_columns
from digestif.stores.postgres.slots import PostgresSlots
from digestif.stores.postgres.transaction import SQL, as_bytes, as_text
from digestif.stores.rows import NEVER, UNBOUNDED, Size, within
from digestif.stores.transfer import ExportedRecord

RECORD = (Bigints, Byteas, Bigints, Doubles, Bigints, Bigints, Byteas)


class _FirstPage(NamedTuple):
    """The first records of a batch, as many as `limit` and `room` (in bytes of payloads) allow."""

    limit: int
    records: list[Stored]
    room: int


class PostgresRecords(PostgresSlots):
    """Holds new records back and writes them together; reads first pages ahead."""

    def __init__(self, *given: Any, writes: bool) -> None:
        super().__init__(*given, writes=writes)
        self.budget = PAGE_RECORDS
        self._known: dict[tuple[int, str], bool] = {}  # whether a record exists, as far as that was read
        self._new: dict[tuple[int, str], tuple[Any, ...]] = {}  # records to be written
        self._deleted_batches: list[int] = []  # written together at the end, like those below
        self._trashed: list[int] = []
        self._pages: dict[int, _FirstPage] = {}  # read ahead

    def put_record(self, batch: int, record: Stored, *, deadline: Millis | None, expires: Millis) -> bool:
        key, payload, timestamp, arrival = record
        place = (batch, key)
        if place not in self._known:
            self._known[place] = batch not in self._fresh and self.record(batch, key) is not None
        superseded = self._known[place]
        self._known[place] = True
        self._new[place] = (batch, as_bytes(key), arrival, timestamp, deadline, expires, payload)
        return superseded

    def _write_records(self) -> None:
        if self._new:
            self._pages.clear()
            self._execute(SQL.put_records, self._new_records())
        if self._deleted_batches:
            self._execute(SQL.delete_batches, (Bigints(self._deleted_batches),))
            self._deleted_batches = []

    def _new_records(self) -> tuple[Any, ...]:
        rows, self._new = list(self._new.values()), {}
        return self._namespace, *in_columns(rows, RECORD)

    def _records(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> "PgCursor[Any]":
        """Write what is held back, run a statement about records, and forget what it may change."""
        self._write_records()
        self._forget_what_was_read()
        return self._execute(statement, arguments)

    def _forget_what_was_read(self) -> None:
        self._known.clear()
        self._fresh.clear()
        self._pages.clear()

    def record(self, batch: int, key: str) -> Stored | None:
        self._write_records()
        row = self._execute(SQL.record, (batch, as_bytes(key))).fetchone()
        return None if row is None else _stored(row)

    def page(self, batch: int, *, after: Cursor | None, limit: int, room: int = UNBOUNDED) -> list[Stored]:
        if after is None:
            return self._first_page(batch, limit, room)
        return [_stored(row) for row in self._records(SQL.next_page, (batch, *after, limit, room))]

    def _first_page(self, batch: int, limit: int, room: int) -> list[Stored]:
        if self._new or batch in self._deleted_batches:
            self._write_records()
        page = self._pages.pop(batch, None)
        if page is None or page.limit < limit or page.room < room:
            self._read_ahead(batch, limit, room)
            page = self._pages.pop(batch)
        return within(page.records[:limit], room)

    def _read_ahead(self, batch: int, limit: int, room: int) -> None:
        """Read the first page of a batch, and those of the digests that are read next, up to one page of records."""
        batches, allowed = [batch], PAGE_RECORDS - min(limit, self._ahead.pop(batch, limit))
        for other, records in list(self._ahead.items()):
            allowed -= min(limit, records)
            if allowed < 0:
                break
            batches.append(other)
            del self._ahead[other]
        found: dict[int, list[Sequence[Any]]] = {one: [] for one in batches}
        for one, *row in self._execute(SQL.first_pages, (Bigints(batches), limit, room)):
            found[one].append(row)
        for one, rows in found.items():  # the room is shared: each page ends where it is used up
            self._pages[one] = _FirstPage(limit, [_stored(row) for row in rows], room)
            room -= sum(len(payload or b"") for _, payload, _, _ in rows)

    def newest_keys(self, batch: int, *, limit: int) -> list[str]:
        return [
            record.key for record in self.page(batch, after=None, limit=limit)
        ]  # which reads ahead for several batches

    def fitting(self, batch: int, max_bytes: int) -> int:
        row = self._records(SQL.fitting, (batch, max_bytes)).fetchone()
        return max(1, int(row[0])) if row else 1

    def remove_record(self, batch: int, key: str) -> bool:
        return self._records(SQL.remove_record, (batch, as_bytes(key))).rowcount > 0

    def drop_oldest(self, batch: int, count: int) -> int:
        return self._records(SQL.drop_oldest, {"batch": batch, "limit": count}).rowcount if count else 0

    def expire(self, batch: int, now: Millis, *, limit: int) -> int:
        return self._records(SQL.expire, {"batch": batch, "now": now, "limit": limit}).rowcount

    def move_record(self, key: str, source: int, target: int) -> bool:
        return self._records(SQL.move_record, (target, source, as_bytes(key))).rowcount > 0

    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]:
        keys, superseded = self._superseded(source, target, limit=limit)
        self._execute(SQL.merge_page, (target, source, Byteas(keys)))
        return len(keys), superseded

    def requeue(self, source: int, target: int, *, expires: Millis, limit: int) -> tuple[int, int]:
        keys, superseded = self._superseded(source, target, limit=limit)
        self._execute(SQL.requeue_page, (target, expires, source, Byteas(keys)))
        return len(keys), superseded

    def _superseded(self, source: int, target: int, *, limit: int) -> tuple[list[bytes], int]:
        """Return the oldest records that are to move into another batch, and delete the earlier version of each."""
        keys = [bytes(key) for (key,) in self._records(SQL.oldest_page, (source, limit)).fetchall()]
        outdated = self._execute(SQL.delete_outdated, (source, Byteas(keys), target)).rowcount
        return keys, outdated + self._execute(SQL.delete_superseded, (target, source, Byteas(keys))).rowcount

    def earliest_deadline(self, batch: int) -> Millis | None:
        self._write_records()
        deadline: Millis | None = self._value(SQL.earliest_deadline, batch)
        return deadline

    def earliest_expiry(self, batch: int) -> Millis:
        self._write_records()
        expiry: Millis | None = self._value(SQL.earliest_expiry, batch)
        return NEVER if expiry is None else expiry

    def latest_expiry(self, batch: int) -> Millis:
        self._write_records()
        expiry: Millis | None = self._value(SQL.latest_expiry, batch)
        return 0 if expiry is None else expiry

    def sizes(self, batches: Sequence[int]) -> dict[int, Size]:
        rows = self._records(SQL.sizes, (Bigints(batches),)).fetchall()
        return {batch: Size(records, lost) for batch, records, lost in rows}

    def batches(self) -> dict[int, int]:
        return dict(self._records(SQL.batches, {"namespace": self._namespace}).fetchall())

    def valueless_keys(self, batch: int, *, limit: int) -> list[str]:
        return [as_text(key) for (key,) in self._records(SQL.valueless_keys, (batch, limit)).fetchall()]

    def delete_batch(self, batch: int) -> None:
        self._pages.pop(batch, None)
        self._known.clear()
        self._deleted_batches.append(batch)

    def trash(self, batch: int) -> None:
        self._trashed.append(batch)

    def _write_trash(self) -> None:
        if self._trashed:
            self._execute(SQL.trash, (self._namespace, Bigints(self._trashed)))
            self._trashed = []

    def sweep(self, limit: int) -> bool:
        self._write_trash()
        found = self._execute(SQL.some_trash, (self._namespace, PAGE_TIMELINES)).fetchall()
        if not found:
            return False
        batches = Bigints([batch for (batch,) in found])
        if self._records(SQL.delete_page, (batches, limit)).rowcount < limit:
            self._execute(SQL.untrash, (self._namespace, batches))
        return True

    def trashed_records(self) -> int:
        self._write_trash()
        count: int = self._value(SQL.trashed_records, self._namespace)
        return count

    # Transfer

    def read_export(self, batch: int, *, after: Cursor | None, limit: int) -> list[ExportedRecord]:
        if after is None:
            rows = self._execute(SQL.first_export_page, (batch, limit))
        else:
            rows = self._execute(SQL.next_export_page, (batch, *after, limit))
        return [ExportedRecord(_stored(row[:4]), row[4], None if row[5] == NEVER else row[5]) for row in rows]

    def import_records(self, batch: int, records: Sequence[ExportedRecord]) -> int:
        self._fetch_numbers(len(records))
        rows = [
            (
                *(batch, as_bytes(item.record.key), self.next_number(), item.record.timestamp),
                *(item.deadline, NEVER if item.expires is None else item.expires, item.record.payload),
            )
            for item in records
        ]
        answers = self._records(SQL.load_records, (self._namespace, *in_columns(rows, RECORD))).fetchall()
        return sum(fresh for (fresh,) in answers)


def _stored(row: Sequence[Any]) -> Stored:
    """Return a record; one whose key is not UTF-8 comes without its value, and so is quarantined at its delivery."""
    key, payload, timestamp, arrival = row
    try:
        return Stored(bytes(key).decode(), None if payload is None else bytes(payload), timestamp, arrival)
    except UnicodeDecodeError:
        return Stored(as_text(key), None, timestamp, arrival)
