"""One SQLite transaction's view of the tables. Slots are read once, kept, and written together at the end."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored
from digestif.core.damage import Damage, legible
from digestif.core.ledger import COUNTERS, Ledger
from digestif.core.machine import IDLE, LARGEST_PAYLOAD, Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.times import Millis
from digestif.stores.base import HISTORY_LIMIT, PAGE_RECORDS, Arrival
from digestif.stores.damage import Unreadable
from digestif.stores.rows import NEVER, UNBOUNDED, LetterRow, Marks, Size, TimelineRow, Waiting, marks, within
from digestif.stores.rows.bodies import (
    damaged_entries,
    encode_entry,
    letter_row,
    read_entry,
    read_letter,
    read_slot,
    timeline_row,
)
from digestif.stores.sqlfile import load_statements
from digestif.stores.sqlite.connection import Connection
from digestif.stores.transfer import ExportedRecord

SQL = load_statements("digestif.stores.sqlite", "statements.sql")

SLOT_LENGTH = 288

_encode = msgspec.json.Encoder().encode
_loosely = partial(str, encoding="utf-8", errors="surrogateescape")  # bytes that are not UTF-8 become lone surrogates
_ELSEWHERE = Marks(-1, -1, -1, -1, -1, -1)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _slot_text(slot: Slot) -> str:
    """A slot in JSON, as long as it will be when its digest is open: on a full disk it could not grow then."""
    return _encode(slot).decode().ljust(SLOT_LENGTH)


def _with_a_legible_key(key: str, payload: bytes | None, timestamp: float, arrival: int) -> Stored:
    """A record, or what is left of it."""
    return Stored(key, payload if legible(key) == key else None, timestamp, arrival)


def _refuse_all_but_texts(error: sqlite3.OperationalError) -> None:
    """Raise it unless it says that a text is not UTF-8: that is the only one that the driver raises without a code."""
    if hasattr(error, "sqlite_errorcode"):
        raise error


class _Loaded:
    """A timeline's row as it was read, and the slot that it is to have."""

    __slots__ = ("before", "damage", "dirty", "id", "slot")

    def __init__(self, row_id: int | None, slot: Slot, damage: Damage | None = None) -> None:
        self.id = row_id
        self.damage = damage  # why its slot can't be read
        self.before = marks(slot)
        self.slot = slot
        self.dirty = False


class SqliteRows:
    """The view; `flush` writes what is still kept back, and must be called before the commit."""

    def __init__(self, connection: Connection, namespace: int, note_damage: Callable[[Damage], None]) -> None:
        self.note_damage = note_damage
        self._connection = connection
        self.tally = dict.fromkeys(COUNTERS, 0)
        self.budget = PAGE_RECORDS
        self._execute = connection.result().execute  # one cursor: each result is read before the next statement
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

    def _rows(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """All rows. Where a text is not UTF-8, the driver gives up: then it is read again, byte by byte."""
        try:
            return self._execute(statement, arguments).fetchall()
        except sqlite3.OperationalError as error:
            _refuse_all_but_texts(error)
        with self._any_text():
            return self._execute(statement, arguments).fetchall()

    @contextmanager
    def _any_text(self) -> Iterator[None]:
        kept = self._connection.text_factory
        self._connection.text_factory = _loosely
        try:
            yield
        finally:
            self._connection.text_factory = kept

    # timelines

    def slot(self, timeline: str) -> Slot:
        loaded = self._load(timeline)
        if loaded.damage is not None:
            raise Unreadable(loaded.damage)
        return loaded.slot

    def _load(self, timeline: str) -> _Loaded:
        loaded = self._loaded.get(timeline)
        if loaded is None:
            loaded = self._loaded[timeline] = self._read_slot(timeline)
        return loaded

    def _read_slot(self, timeline: str) -> _Loaded:
        try:
            row = self._execute(SQL.load_slot, (self._namespace, timeline)).fetchone()
        except UnicodeEncodeError:  # its name is not UTF-8
            row = self._raw_slot(timeline)
        except sqlite3.OperationalError as error:  # its slot is not
            _refuse_all_but_texts(error)
            row = self._raw_slot(timeline)
        if row is None:
            return _Loaded(None, IDLE)
        try:
            return _Loaded(row[0], read_slot(timeline, row[1]))
        except Unreadable as error:
            return _Loaded(row[0], IDLE, error.damage)

    def _raw_slot(self, timeline: str) -> Any:
        return self._execute(SQL.raw_slot, (self._namespace, _bytes(timeline))).fetchone()

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

    def unindex(self, timeline: str) -> None:
        self._execute(SQL.shelve, (self._load(timeline).id,))

    def reindex(self, timeline: str) -> None:
        self._load(timeline).before = _ELSEWHERE
        self.put_slot(timeline, self.slot(timeline))

    def remove_timeline(self, timeline: str) -> None:
        self._execute(SQL.delete_slot, (self._load(timeline).id,))
        self._loaded[timeline] = _Loaded(None, IDLE)

    def _timelines(self, statement: str, *arguments: Any) -> list[str]:
        self._write_slots()
        return [key for (key,) in self._rows(statement, (self._namespace, *arguments))]

    def waiting(self, deadline: Millis, *, after: tuple[int, int] | None, limit: int) -> list[Waiting]:
        self._write_slots()
        place = (-NEVER, 0) if after is None else after
        return [Waiting(*row) for row in self._rows(SQL.waiting, (self._namespace, deadline, *place, limit))]

    def stale_ready(self, deadline: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.stale_ready, deadline, limit)

    def lapsed(self, now: Millis, *, limit: int) -> list[str]:
        return self._heads(SQL.lapsed, now, limit)

    def expiring(self, now: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.expiring, now, limit)

    def lapsed_while_paused(self, now: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.lapsed_while_paused, now, limit)

    def suspects(self, now: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.suspects, now, limit)

    def claimable(self, now: Millis, *, limit: int) -> tuple[list[str], Millis | None]:
        names = self._heads(SQL.claimable, now, limit)
        return names, self._value(SQL.first_suspect, self._namespace, now)

    def _heads(self, statement: str, now: Millis, limit: int) -> list[str]:
        self._write_slots()
        return [key for (key,) in self._rows(statement, {"namespace": self._namespace, "now": now, "limit": limit})]

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot | None]]:
        self._write_slots()
        if after is not None and _bytes(after) >= prefix.encode():
            rows = self._rows(SQL.scan, (self._namespace, _bytes(after), limit))
        else:
            rows = self._rows(SQL.scan_from, (self._namespace, prefix, limit))
        return [(key, self._seen(key, slot)) for key, slot in rows if key.startswith(prefix)]

    def _seen(self, timeline: str, body: str) -> Slot | None:
        try:
            return read_slot(timeline, body)
        except Unreadable as error:
            self.note_damage(error.damage)
            return None

    def timeline_rows(self, *, after: str | None, limit: int) -> list[TimelineRow]:
        self._write_slots()
        rows = self._rows(SQL.timeline_rows, (self._namespace, _bytes(after or ""), limit))
        return [timeline_row(_loosely(name), slot, Marks(*places)) for name, slot, *places in rows]

    # records

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
        """Records; one whose key is not UTF-8 is given without its value, and so set aside when it is delivered."""
        try:
            return self._page(Stored, statement, arguments, room)
        except sqlite3.OperationalError as error:
            _refuse_all_but_texts(error)
        with self._any_text():
            return self._page(_with_a_legible_key, statement, arguments, room)

    def _page(self, record: Callable[..., Stored], statement: str, arguments: Sequence[Any], room: int) -> list[Stored]:
        light = min(room // LARGEST_PAYLOAD, PAGE_RECORDS)  # so many usual records fit
        rows = self._execute(statement, arguments).fetchmany(light + 1)
        if len(rows) <= light:
            return within([record(*row) for row in rows], room)
        page = self._connection.result()  # it may end before its last row
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
        return self._execute(SQL.remove_record, (batch, _bytes(key))).rowcount > 0

    def drop_oldest(self, batch: int, count: int) -> int:
        return self._execute(SQL.drop_oldest, (batch, count)).rowcount

    def expire(self, batch: int, now: Millis, *, limit: int) -> int:
        return self._execute(SQL.expire, (batch, now, limit)).rowcount

    def move_record(self, key: str, source: int, target: int) -> bool:
        return self._execute(SQL.move_record, (target, source, _bytes(key))).rowcount > 0

    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]:
        keys = [key for (key,) in self._rows(SQL.batch_page, (source, limit))]
        if not keys:
            return 0, 0
        last = _bytes(keys[-1])
        superseded: int = self._value(SQL.merge_superseded, target, source, last)
        self._execute(SQL.merge_page, (target, source, last))
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

    def sizes(self, batches: Sequence[int]) -> dict[int, Size]:
        rows = self._execute(SQL.sizes, (_encode(batches).decode(),))
        return {batch: Size(records, lost) for batch, records, lost in rows}

    def batches(self) -> dict[int, int]:
        return dict(self._execute(SQL.batches, {"namespace": self._namespace}).fetchall())

    def lost_keys(self, batch: int, *, limit: int) -> list[str]:
        return [key for (key,) in self._rows(SQL.lost_keys, (batch, limit))]

    def delete_batch(self, batch: int) -> None:
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

    def read_export(self, batch: int, *, after: Cursor | None, limit: int) -> list[ExportedRecord]:
        if after is None:
            rows = self._rows(SQL.first_cargo, (batch, limit))
        else:
            rows = self._rows(SQL.next_cargo, (batch, *after, limit))
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

    def lock_note(self, name: str) -> None:
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

    def notes(self) -> dict[str, bytes]:
        return {_loosely(name): body for name, body in self._execute(SQL.notes, (self._namespace,))}

    # dead letters and history

    def letter(self, letter_id: str) -> DeadLetter | None:
        rows = self._rows(SQL.letter, (self._namespace, letter_id))
        return read_letter(letter_id, *rows[0]) if rows else None

    def letter_batch(self, letter_id: str) -> int:
        batch: int = self._value(SQL.letter_batch, self._namespace, letter_id)
        return batch

    def put_letter(self, letter: DeadLetter, batch: int) -> None:
        row = (self.next_number(), self._namespace, letter.id, letter.timeline, batch, _encode(letter).decode())
        self._execute(SQL.put_letter, row)

    def remove_letter(self, letter_id: str) -> None:
        self._execute(SQL.remove_letter, (self._namespace, letter_id))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[tuple[str, DeadLetter | None]]:
        number = 0
        if after is not None:
            number = self._value(SQL.letter_number, self._namespace, _bytes(after)) or NEVER
        if timeline is None:
            rows = self._rows(SQL.letters, (self._namespace, number, limit))
        else:
            rows = self._rows(SQL.letters_of, (self._namespace, timeline, number, limit))
        return [(letter_id, self._seen_letter(letter_id, *rest)) for letter_id, *rest in rows]

    def _seen_letter(self, letter_id: str, timeline: str, body: str) -> DeadLetter | None:
        try:
            return read_letter(letter_id, timeline, body)
        except Unreadable as error:
            self.note_damage(error.damage)
            return None

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        for letter_id, body in self._rows(SQL.letter_with, (key, self._namespace, timeline)):
            if (letter := self._seen_letter(letter_id, timeline, body)) is not None:
                return letter
        return None

    def letter_rows(self, *, after: int, limit: int) -> list[LetterRow]:
        rows = self._execute(SQL.letter_rows, (self._namespace, after, limit))
        return [letter_row(number, _loosely(name), _loosely(of), *rest) for number, name, of, *rest in rows]

    def replace_letter(self, row: LetterRow, letter: DeadLetter | None) -> None:
        if letter is None:
            self._execute(SQL.remove_letter_row, (row.number,))
        else:
            self._execute(SQL.replace_letter, (letter.id, letter.timeline, _encode(letter).decode(), row.number))

    def remember(self, ended: HistoryEntry) -> None:
        number: int = self._value(SQL.next_ended, self._namespace)
        row = (self._namespace, number % HISTORY_LIMIT, number, ended.timeline, encode_entry(ended).decode())
        self._execute(SQL.remember, row)

    def history(self, timeline: str | None, *, limit: int) -> list[HistoryEntry]:
        if timeline is None:
            rows = self._rows(SQL.history, (self._namespace, limit))
        else:
            rows = self._rows(SQL.history_of, (self._namespace, timeline, limit))
        found = [entry for row in rows if (entry := self._seen_entry(*row)) is not None]
        if len(found) < len(rows) == limit < HISTORY_LIMIT:
            return self.history(timeline, limit=HISTORY_LIMIT)[:limit]  # further back, in the place of damaged ones
        return found

    def _seen_entry(self, timeline: str, body: str) -> HistoryEntry | None:
        try:
            return read_entry(timeline, body)
        except Unreadable as error:
            self.note_damage(error.damage)
            return None

    def damaged_entries(self) -> list[tuple[int, Damage]]:
        rows = self._execute(SQL.history_rows, (self._namespace,))
        return damaged_entries((place, _loosely(timeline), body) for place, timeline, body in rows)

    def remove_entry(self, place: int) -> None:
        self._execute(SQL.remove_entry, (self._namespace, place))

    def delete_history(self, timeline: str) -> None:
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
