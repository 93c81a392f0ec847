"""One SQLite transaction's view of the tables. Slots are read once, kept, and written together at the end."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored
from digestif.core.ledger import COUNTERS, Ledger
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.stores.base import HISTORY_LIMIT, PAGE_RECORDS, Arrival
from digestif.stores.rows import NEVER, Waiting, marks
from digestif.stores.sqlfile import load_statements
from digestif.stores.travel import Cargo

SQL = load_statements("digestif.stores.sqlite", "statements.sql")

SLOT_LENGTH = 288

_encode = msgspec.json.Encoder().encode
_decode_slot = msgspec.json.Decoder(Slot).decode
_letter = msgspec.json.Decoder(DeadLetter).decode
_ended = msgspec.json.Decoder(HistoryEntry).decode


class UnreadableRow(StoreError):
    """A row was damaged, or written by a release that knows more than this one."""


def _slot_text(slot: Slot) -> str:
    """A slot in JSON, as long as it will be when its digest is open: on a full disk it could not grow then."""
    return _encode(slot).decode().ljust(SLOT_LENGTH)


def _slot(timeline: str, text: str) -> Slot:
    try:
        return _decode_slot(text)
    except msgspec.MsgspecError as error:
        raise UnreadableRow(
            f"the row of timeline {timeline!r} can't be read ({error}); it is damaged or of a newer release"
        ) from error


class _Loaded:
    """A timeline's row as it was read, and the slot that it is to have."""

    __slots__ = ("before", "dirty", "id", "slot")

    def __init__(self, row_id: int | None, slot: Slot) -> None:
        self.id = row_id
        self.before = marks(slot)
        self.slot = slot
        self.dirty = False


class SqliteRows:
    """The view; `flush` writes what is still kept back, and must be called before the commit."""

    def __init__(self, connection: sqlite3.Connection, namespace: int) -> None:
        self.tally = dict.fromkeys(COUNTERS, 0)
        self.budget = PAGE_RECORDS
        self.cursor = connection.cursor()  # one: each result is read before the next statement
        self._execute = self.cursor.execute
        self._namespace = namespace
        self._loaded: dict[str, _Loaded] = {}
        self._dirty: list[str] = []
        self._number: int | None = None
        self._saved_number: int | None = None

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """Nothing has to be asked for ahead."""

    def concern(self, timelines: Iterable[str]) -> None:
        """Nothing has to be asked for ahead."""

    def next_number(self) -> int:
        self._number = self.sequence() + 1
        return self._number

    def sequence(self) -> int:
        if self._number is None:
            self._number = self._saved_number = self._value(SQL.sequence)
        assert self._number is not None
        return self._number

    def flush(self) -> None:
        """Write slots, counters and the sequence."""
        self._write_slots()
        if self._number != self._saved_number or any(self.tally.values()):
            number = self._number or 0
            self._execute(SQL.save_counters, {**self.tally, "number": number, "namespace": self._namespace})

    def _value(self, statement: str, *arguments: Any) -> Any:
        row = self._execute(statement, arguments).fetchone()
        return None if row is None else row[0]

    # timelines

    def slot(self, timeline: str) -> Slot:
        return self._load(timeline).slot

    def _load(self, timeline: str) -> _Loaded:
        loaded = self._loaded.get(timeline)
        if loaded is None:
            row = self._execute(SQL.load_slot, (self._namespace, timeline)).fetchone()
            loaded = _Loaded(None, IDLE) if row is None else _Loaded(row[0], _slot(timeline, row[1]))
            self._loaded[timeline] = loaded
        return loaded

    def put_slot(self, timeline: str, slot: Slot) -> None:
        loaded = self._load(timeline)
        loaded.slot = slot
        if not loaded.dirty:
            loaded.dirty = True
            self._dirty.append(timeline)

    def _write_slots(self) -> None:
        """Bring the table up to date; needed before timelines are looked up by their times."""
        dirty, self._dirty = self._dirty, []
        for timeline in dirty:
            loaded = self._loaded[timeline]
            self._write_slot(timeline, loaded)
            loaded.dirty = False

    def _write_slot(self, timeline: str, loaded: _Loaded) -> None:
        slot, row_id = loaded.slot, loaded.id
        after = marks(slot)
        if slot == IDLE:
            if row_id is not None:
                self._execute(SQL.delete_slot, (row_id,))
            loaded.id = None
        elif row_id is None:
            loaded.id = self.next_number()
            self._execute(SQL.insert_slot, (loaded.id, self._namespace, timeline, *after, _slot_text(slot)))
        elif after == loaded.before:
            self._execute(SQL.update_slot, (_slot_text(slot), row_id))
        elif after[1:] == loaded.before[1:]:
            self._execute(SQL.put_off_slot, (after.waiting, _slot_text(slot), row_id))
        else:
            self._execute(SQL.move_slot, (*after, _slot_text(slot), row_id))
        loaded.before = after

    def _timelines(self, statement: str, *arguments: Any) -> list[str]:
        self._write_slots()
        return [key for (key,) in self._execute(statement, (self._namespace, *arguments))]

    def waiting(self, deadline: Millis, *, after: tuple[int, int] | None, limit: int) -> list[Waiting]:
        self._write_slots()
        place = (-NEVER, 0) if after is None else after
        return [Waiting(*row) for row in self._execute(SQL.waiting, (self._namespace, deadline, *place, limit))]

    def stale_ready(self, deadline: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.stale_ready, deadline, limit)

    def lapsed(self, now: Millis, *, limit: int) -> list[str]:
        return self._heads(SQL.lapsed, now, limit)

    def expiring(self, now: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.expiring, now, limit)

    def claimable(self, now: Millis, *, limit: int) -> list[str]:
        return self._heads(SQL.claimable, now, limit)

    def _heads(self, statement: str, now: Millis, limit: int) -> list[str]:
        self._write_slots()
        return [key for (key,) in self._execute(statement, {"namespace": self._namespace, "now": now, "limit": limit})]

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        self._write_slots()
        if after is not None and after >= prefix:
            rows = self._execute(SQL.scan, (self._namespace, after, limit))
        else:
            rows = self._execute(SQL.scan_from, (self._namespace, prefix, limit))
        return [(key, _slot(key, slot)) for key, slot in rows if key.startswith(prefix)]

    # records

    def put_record(self, batch: int, record: Stored, *, deadline: Millis | None, expires: Millis) -> bool:
        key, payload, timestamp, arrival = record
        row = (arrival, batch, self._namespace, key, timestamp, deadline, expires, payload)
        if self._execute(SQL.insert_record, row).rowcount:
            return False
        self._execute(SQL.replace_record, row)
        return True

    def record(self, batch: int, key: str) -> Stored | None:
        row = self._execute(SQL.record, (batch, key)).fetchone()
        return None if row is None else Stored(*row)

    def page(self, batch: int, *, after: Cursor | None, limit: int) -> list[Stored]:
        if after is None:
            rows = self._execute(SQL.first_page, (batch, limit))
        else:
            rows = self._execute(SQL.next_page, (batch, *after, limit))
        return [Stored(*row) for row in rows]

    def remove_record(self, batch: int, key: str) -> bool:
        return self._execute(SQL.remove_record, (batch, key)).rowcount > 0

    def drop_oldest(self, batch: int, count: int) -> int:
        return self._execute(SQL.drop_oldest, (batch, count)).rowcount

    def expire(self, batch: int, now: Millis, *, limit: int) -> int:
        return self._execute(SQL.expire, (batch, now, limit)).rowcount

    def move_record(self, key: str, source: int, target: int) -> bool:
        return self._execute(SQL.move_record, (target, source, key)).rowcount > 0

    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]:
        keys = [key for (key,) in self._execute(SQL.batch_page, (source, limit))]
        if not keys:
            return 0, 0
        superseded: int = self._value(SQL.merge_superseded, target, source, keys[-1])
        self._execute(SQL.merge_page, (target, source, keys[-1]))
        return len(keys), superseded

    def earliest_deadline(self, batch: int) -> Millis | None:
        deadline: Millis | None = self._value(SQL.earliest_deadline, batch)
        return deadline

    def earliest_expiry(self, batch: int) -> Millis:
        expiry: Millis | None = self._value(SQL.earliest_expiry, batch)
        return NEVER if expiry is None else expiry

    def latest_expiry(self, batch: int) -> Millis:
        expiry: Millis | None = self._value(SQL.latest_expiry, batch)
        return 0 if expiry is None else expiry

    def sizes(self, batches: Sequence[int]) -> dict[int, int]:
        return dict(self._execute(SQL.sizes, (_encode(batches).decode(),)).fetchall())

    def erase(self, batch: int) -> None:
        self._execute(SQL.erase, (batch,))

    def trash(self, batch: int) -> None:
        self._execute(SQL.trash, (batch, self._namespace))

    def sweep(self, limit: int) -> bool:
        batch = self._value(SQL.next_trash, self._namespace)
        if batch is None:
            return False
        if self._execute(SQL.erase_page, (batch, limit)).rowcount < limit:
            self._execute(SQL.untrash, (self._namespace, batch))
        return True

    # on the way from and to other stores

    def cargo(self, batch: int, *, after: Cursor | None, limit: int) -> list[Cargo]:
        if after is None:
            rows = self._execute(SQL.first_cargo, (batch, limit))
        else:
            rows = self._execute(SQL.next_cargo, (batch, *after, limit))
        return [Cargo(Stored(*row[:4]), row[4], None if row[5] == NEVER else row[5]) for row in rows]

    def load(self, batch: int, cargo: Sequence[Cargo]) -> int:
        fresh = 0
        for record, deadline, expires in cargo:
            times = (record.timestamp, deadline, NEVER if expires is None else expires)
            row = (self.next_number(), batch, self._namespace, record.key, *times, record.payload)
            if self._execute(SQL.insert_record, row).rowcount:
                fresh += 1
            elif self._value(SQL.timestamp, batch, record.key) <= record.timestamp:
                self._execute(SQL.replace_record, row)
        return fresh

    def note_alone(self, name: str) -> None:
        """One at a time writes."""

    def note(self, name: str) -> bytes | None:
        body: bytes | None = self._value(SQL.note, self._namespace, name)
        return body

    def put_note(self, name: str, body: bytes | None) -> None:
        if body is None:
            self._execute(SQL.remove_note, (self._namespace, name))
        else:
            self._execute(SQL.put_note, (self._namespace, name, body))

    def remove_notes(self, prefix: str) -> None:
        self._execute(SQL.remove_notes, (self._namespace, prefix, f"{prefix}\U0010ffff"))

    # dead letters and history

    def letter(self, letter_id: str) -> DeadLetter | None:
        body = self._value(SQL.letter, self._namespace, letter_id)
        return None if body is None else _letter(body)

    def letter_batch(self, letter_id: str) -> int:
        batch: int = self._value(SQL.letter_batch, self._namespace, letter_id)
        return batch

    def put_letter(self, letter: DeadLetter, batch: int) -> None:
        row = (self.next_number(), self._namespace, letter.id, letter.timeline, batch, _encode(letter).decode())
        self._execute(SQL.put_letter, row)

    def remove_letter(self, letter_id: str) -> None:
        self._execute(SQL.remove_letter, (self._namespace, letter_id))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        number = 0 if after is None else self._value(SQL.letter_number, self._namespace, after) or NEVER
        if timeline is None:
            rows = self._execute(SQL.letters, (self._namespace, number, limit))
        else:
            rows = self._execute(SQL.letters_of, (self._namespace, timeline, number, limit))
        return [_letter(body) for (body,) in rows]

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        body = self._value(SQL.letter_with, key, self._namespace, timeline)
        return None if body is None else _letter(body)

    def remember(self, ended: HistoryEntry) -> None:
        number: int = self._value(SQL.next_ended, self._namespace)
        row = (self._namespace, number % HISTORY_LIMIT, number, ended.timeline, _encode(ended).decode())
        self._execute(SQL.remember, row)

    def history(self, timeline: str | None, *, limit: int) -> list[HistoryEntry]:
        if timeline is None:
            rows = self._execute(SQL.history, (self._namespace, limit))
        else:
            rows = self._execute(SQL.history_of, (self._namespace, timeline, limit))
        return [_ended(body) for (body,) in rows]

    def forget(self, timeline: str) -> None:
        self._execute(SQL.forget, (self._namespace, timeline))

    # counts

    def ledger(self) -> Ledger:
        counts = self._execute(SQL.ledger, (self._namespace,)).fetchone() or [0] * len(COUNTERS)
        return Ledger(**dict(zip(COUNTERS, counts, strict=True)))

    def standing(self, now: Millis) -> Standing:
        self._write_slots()
        counts = self._execute(SQL.standing, {"namespace": self._namespace, "now": now}).fetchone()
        return Standing(*counts)

    def footprint(self) -> Mapping[str, int]:
        self._write_slots()
        return {
            "timelines": self._value(SQL.count_timelines, self._namespace),
            "records": self._value(SQL.count_records, self._namespace),
            "letters": self._value(SQL.count_letters, self._namespace),
            "trash": self._value(SQL.count_trash, self._namespace),
            "notes": self._value(SQL.count_notes, self._namespace),
        }

    def trashed_records(self) -> int:
        count: int = self._value(SQL.trashed_records, self._namespace)
        return count
