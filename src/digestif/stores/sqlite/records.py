"""Records in their batches, and the trash: batches that nothing owns any more."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from digestif.core.capacity import Cursor, Stored
from digestif.core.damage import legible
from digestif.core.machine import USUAL_PAYLOAD
from digestif.core.times import Millis
from digestif.stores.base import PAGE_RECORDS
from digestif.stores.rows import NEVER, UNBOUNDED, Size, within
from digestif.stores.sqlite.connections import SQL
from digestif.stores.sqlite.slots import SqliteSlots, as_bytes, encoded, refuse_all_but_texts
from digestif.stores.transfer import ExportedRecord


class SqliteRecords(SqliteSlots):
    """Every method runs its statements at once; nothing is held back."""

    def put_record(self, batch: int, record: Stored, *, deadline: Millis | None, expires: Millis) -> bool:
        key, payload, timestamp, arrival = record
        row = (arrival, batch, self._namespace, key, timestamp, deadline, expires, payload)
        if self._execute(SQL.insert_record, row).rowcount:
            return False
        self._execute(SQL.replace_record, row)
        return True

    def record(self, batch: int, key: str) -> Stored | None:
        rows = self._rows(SQL.record, (batch, key))
        return Stored(*rows[0]) if rows else None

    def page(self, batch: int, *, after: Cursor | None, limit: int, room: int = UNBOUNDED) -> list[Stored]:
        if after is None:
            return self._stored(SQL.first_page, (batch, limit), room)
        return self._stored(SQL.next_page, (batch, *after, limit), room)

    def _stored(self, statement: str, arguments: Sequence[Any], room: int) -> list[Stored]:
        """Return records; one whose key is not UTF-8 comes without its value, and so is quarantined at its delivery."""
        try:
            return self._page(Stored, statement, arguments, room)
        except sqlite3.OperationalError as error:
            refuse_all_but_texts(error)
        with self._any_text():
            return self._page(_without_payload_if_illegible, statement, arguments, room)

    def _page(self, record: Callable[..., Stored], statement: str, arguments: Sequence[Any], room: int) -> list[Stored]:
        light = min(room // USUAL_PAYLOAD, PAGE_RECORDS)  # so many records of the usual size fit
        rows = self._execute(statement, arguments).fetchmany(light + 1)
        if len(rows) <= light:
            return within([record(*row) for row in rows], room)
        page = self._connection.open_result()  # it may end before its last row
        try:
            return within((record(*row) for row in page.execute(statement, arguments)), room)
        finally:
            page.close()

    def newest_keys(self, batch: int, *, limit: int) -> list[str]:
        return [key for (key,) in self._rows(SQL.newest_keys, (batch, limit))]

    def fitting(self, batch: int, max_bytes: int) -> int:
        count: int = self._value(SQL.fitting, batch, max_bytes)
        return max(1, count)

    def remove_record(self, batch: int, key: str) -> bool:
        return self._execute(SQL.remove_record, (batch, as_bytes(key))).rowcount > 0

    def drop_oldest(self, batch: int, count: int) -> int:
        return self._execute(SQL.drop_oldest, (batch, count)).rowcount

    def expire(self, batch: int, now: Millis, *, limit: int) -> int:
        return self._execute(SQL.expire, (batch, now, limit)).rowcount

    def move_record(self, key: str, source: int, target: int) -> bool:
        return self._execute(SQL.move_record, (target, source, as_bytes(key))).rowcount > 0

    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]:
        many, page, superseded = self._superseded(source, target, limit=limit)
        self._execute(SQL.merge_page, (target, page))
        return many, superseded

    def requeue(self, source: int, target: int, *, expires: Millis, limit: int) -> tuple[int, int]:
        many, page, superseded = self._superseded(source, target, limit=limit)
        self._execute(SQL.requeue_page, (target, expires, page))
        return many, superseded

    def _superseded(self, source: int, target: int, *, limit: int) -> tuple[int, str, int]:
        """The oldest records of a batch that are to move into another, and how many versions are deleted for that."""
        found = [arrival for (arrival,) in self._rows(SQL.oldest_page, (source, limit))]
        page = encoded(found).decode()
        outdated = self._execute(SQL.delete_outdated, (page, target)).rowcount
        return len(found), page, outdated + self._execute(SQL.delete_superseded, (target, page)).rowcount

    def earliest_deadline(self, batch: int) -> Millis | None:
        deadline: Millis | None = self._value(SQL.earliest_deadline, batch)
        return deadline

    def earliest_expiry(self, batch: int) -> Millis:
        expiry: Millis | None = self._value(SQL.earliest_expiry, batch)
        return NEVER if expiry is None else expiry

    def latest_expiry(self, batch: int) -> Millis:
        expiry: Millis | None = self._value(SQL.latest_expiry, batch)
        return 0 if expiry is None else expiry

    def sizes(self, batches: Sequence[int]) -> dict[int, Size]:
        rows = self._execute(SQL.sizes, (encoded(batches).decode(),))
        return {batch: Size(records, valueless) for batch, records, valueless in rows}

    def batches(self) -> dict[int, int]:
        return dict(self._execute(SQL.batches, {"namespace": self._namespace}).fetchall())

    def valueless_keys(self, batch: int, *, limit: int) -> list[str]:
        return [key for (key,) in self._rows(SQL.valueless_keys, (batch, limit))]

    def delete_batch(self, batch: int) -> None:
        self._execute(SQL.delete_batch, (batch,))

    def trash(self, batch: int) -> None:
        self._execute(SQL.trash, (batch, self._namespace))

    def sweep(self, limit: int) -> bool:
        batch = self._value(SQL.next_trash, self._namespace)
        if batch is None:
            return False
        if self._execute(SQL.delete_page, (batch, limit)).rowcount < limit:
            self._execute(SQL.untrash, (self._namespace, batch))
        return True

    def trashed_records(self) -> int:
        count: int = self._value(SQL.trashed_records, self._namespace)
        return count

    # transfer

    def read_export(self, batch: int, *, after: Cursor | None, limit: int) -> list[ExportedRecord]:
        if after is None:
            rows = self._rows(SQL.first_export_page, (batch, limit))
        else:
            rows = self._rows(SQL.next_export_page, (batch, *after, limit))
        return [ExportedRecord(Stored(*row[:4]), row[4], None if row[5] == NEVER else row[5]) for row in rows]

    def import_records(self, batch: int, records: Sequence[ExportedRecord]) -> int:
        fresh = 0
        for record, deadline, expires in records:
            times = (record.timestamp, deadline, NEVER if expires is None else expires)
            row = (self.next_number(), batch, self._namespace, record.key, *times, record.payload)
            if self._execute(SQL.insert_record, row).rowcount:
                fresh += 1
            elif self._value(SQL.timestamp, batch, record.key) <= record.timestamp:
                self._execute(SQL.replace_record, row)
        return fresh


def _without_payload_if_illegible(key: str, payload: bytes | None, timestamp: float, arrival: int) -> Stored:
    return Stored(key, payload if legible(key) == key else None, timestamp, arrival)
