"""One SQLite transaction and its timelines. Slots are read once, kept in memory, and written together at the end."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec

from digestif.core.damage import Damage
from digestif.core.machine import IDLE, Slot
from digestif.core.tenants import Tenants
from digestif.core.times import Millis
from digestif.core.transfer import FOREVER
from digestif.stores.base import Arrival, LeaseEnd
from digestif.stores.damage import Unreadable
from digestif.stores.reader import beyond
from digestif.stores.rows import NEVER, Found, Marks, TimelineRow, Waiting, marks
from digestif.stores.rows.bodies import read_slot, timeline_row
from digestif.stores.sqlite.connections import SQL, Connection

T = TypeVar("T")

SLOT_LENGTH = 320  # without an override
OVERRIDE_LENGTH = 250  # without its text and its openings
NUMBER_LENGTH = 15  # of an opening
ELSEWHERE = Marks(-1, -1, -1, -1, -1, -1)  # differs from the times of every slot, so that all of them are written

encoded = msgspec.json.Encoder().encode
lenient_text = partial(str, encoding="utf-8", errors="surrogateescape")  # bytes that are not UTF-8: lone surrogates


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def refuse_all_but_texts(error: sqlite3.OperationalError) -> None:
    """Raise the error unless it says that a text is not UTF-8: only that one has no code."""
    if hasattr(error, "sqlite_errorcode"):
        raise error


def _slot_text(slot: Slot) -> str:
    """Return a slot as JSON, padded to its length when its digest is open: on a full disk it could not grow then."""
    length = SLOT_LENGTH
    if slot.override is not None:
        openings = slot.override.terms.openings
        length += OVERRIDE_LENGTH + len(slot.override.text) + NUMBER_LENGTH * len(openings.numbers if openings else ())
    return encoded(slot).decode().ljust(length)


class _Loaded:
    """A timeline's row as it was read, and the slot to be written."""

    __slots__ = ("before", "damage", "dirty", "id", "slot")

    def __init__(self, row_id: int | None, slot: Slot, damage: Damage | None = None) -> None:
        self.id = row_id
        self.damage = damage  # why its slot can't be read
        self.before = marks(slot)
        self.slot = slot
        self.dirty = False


def _loaded(timeline: str, row_id: int, slot: str | bytes) -> _Loaded:
    try:
        return _Loaded(row_id, read_slot(timeline, slot))
    except Unreadable as error:
        return _Loaded(row_id, IDLE, error.damage)


class SqliteSlots:
    """The base of the view: it runs statements, draws numbers, and holds slots back until they are written."""

    tenants = Tenants()

    def __init__(self, connection: Connection, namespace: int, note_damage: Callable[[Damage], None]) -> None:
        self.note_damage = note_damage
        self._connection = connection
        cursor = connection.open_result()  # one cursor: each result is read before the next statement
        self._execute = cursor.execute
        self._execute_many = cursor.executemany
        self._namespace = namespace
        self._loaded: dict[str, _Loaded] = {}
        self._dirty: list[str] = []
        self._number: int | None = None
        self._saved_number: int | None = None
        self._is_moving: bool | None = None  # not known yet

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """Read the slots of many timelines together. One that is not found here is looked for by itself."""
        wanted = {arrival.timeline for arrival in arrivals}.difference(self._loaded) if len(arrivals) > 1 else ()
        if len(wanted) < 2:
            return
        try:
            rows = self._execute(SQL.load_slots, (encoded(sorted(wanted)).decode(), self._namespace)).fetchall()
        except sqlite3.OperationalError as error:  # a slot is not UTF-8: each is read by itself
            refuse_all_but_texts(error)
            return
        for timeline, row_id, slot in rows:
            self._loaded[timeline] = _loaded(timeline, row_id, slot)

    def concern(self, timelines: Iterable[str]) -> None:
        """Do nothing: only stores behind a network fetch and lock rows in advance."""

    def next_number(self) -> int:
        self._number = self.sequence() + 1
        return self._number

    def sequence(self) -> int:
        if self._number is None:
            number, is_moving = self._execute(SQL.sequence, (self._namespace,)).fetchone()
            self._number = self._saved_number = number
            self._is_moving = bool(is_moving)
        assert self._number is not None
        return self._number

    def is_moving(self) -> bool:
        if self._is_moving is None:
            self._is_moving = self.moving() is not None
        return self._is_moving

    def moving(self) -> str | None:
        moving: str | None = self._value(SQL.moving, self._namespace)
        return moving

    def put_moving(self, moving: str | None) -> None:
        self._execute(SQL.put_moving, (moving, self._namespace))
        self._is_moving = moving is not None

    def _value(self, statement: str, *arguments: Any) -> Any:
        row = self._execute(statement, arguments).fetchone()
        return None if row is None else row[0]

    def _rows(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """Return all rows. If a text is not UTF-8 the driver refuses it, and the rows are read again leniently."""
        try:
            return self._execute(statement, arguments).fetchall()
        except sqlite3.OperationalError as error:
            refuse_all_but_texts(error)
        with self._any_text():
            return self._execute(statement, arguments).fetchall()

    @contextmanager
    def _any_text(self) -> Iterator[None]:
        kept = self._connection.text_factory
        self._connection.text_factory = lenient_text
        try:
            yield
        finally:
            self._connection.text_factory = kept

    def _unless_damaged(self, read: Callable[..., T], *arguments: Any) -> T | None:
        """Return what `read` makes of the arguments; if they are damaged, note that and return None."""
        try:
            return read(*arguments)
        except Unreadable as error:
            self.note_damage(error.damage)
            return None

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
        except UnicodeEncodeError:  # the name is not UTF-8
            row = self._raw_slot(timeline)
        except sqlite3.OperationalError as error:  # the slot is not UTF-8
            refuse_all_but_texts(error)
            row = self._raw_slot(timeline)
        return _Loaded(None, IDLE) if row is None else _loaded(timeline, *row)

    def _raw_slot(self, timeline: str) -> Any:
        return self._execute(SQL.raw_slot, (self._namespace, as_bytes(timeline))).fetchone()

    def put_slot(self, timeline: str, slot: Slot) -> None:
        loaded = self._load(timeline)
        loaded.slot = slot
        if not loaded.dirty:
            loaded.dirty = True
            self._dirty.append(timeline)

    def _write_slots(self) -> None:
        """Bring the table up to date, which lookups by time rely on."""
        dirty, self._dirty = self._dirty, []
        writes: dict[str, list[tuple[Any, ...]]] = {}  # arguments by statement
        for timeline in dirty:
            loaded = self._loaded[timeline]
            if write := self._write_of(timeline, loaded):
                writes.setdefault(write[0], []).append(write[1])
            loaded.dirty = False
        for statement, arguments in writes.items():
            self._execute_many(statement, arguments)

    def _write_of(self, timeline: str, loaded: _Loaded) -> tuple[str, tuple[Any, ...]] | None:
        """The statement that writes a slot, and its arguments; None if there is nothing to write."""
        slot, row_id, before = loaded.slot, loaded.id, loaded.before
        after = loaded.before = marks(slot)
        if slot == IDLE:
            loaded.id = None
            return None if row_id is None else (SQL.delete_slot, (row_id,))
        text = _slot_text(slot)
        if row_id is None:
            loaded.id = self.next_number()
            return SQL.insert_slot, (loaded.id, self._namespace, timeline, *after, text)
        if after == before:
            return SQL.update_slot, (text, row_id)
        if after[1:] == before[1:]:
            return SQL.put_off_slot, (after.waiting, text, row_id)
        return SQL.move_slot, (*after, text, row_id)

    def unindex(self, timeline: str) -> None:
        self._execute(SQL.unindex, (self._load(timeline).id,))

    def reindex(self, timeline: str) -> None:
        self._load(timeline).before = ELSEWHERE
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
        return self._first_timelines(SQL.lapsed, now, limit)

    def expiring(self, now: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.expiring, now, limit)

    def lapsed_while_paused(self, now: Millis, *, limit: int) -> list[str]:
        return self._timelines(SQL.lapsed_while_paused, now, limit)

    def suspects(self, now: Millis, *, skip: int, limit: int) -> list[str]:
        return self._timelines(SQL.suspects, now, limit, skip)

    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        self._write_slots()
        return [LeaseEnd(*row) for row in self._rows(SQL.leases_beyond, (self._namespace, time, FOREVER, limit))]

    def claimable(self, now: Millis, *, limit: int) -> tuple[list[str], Millis | None]:
        return self.due(now, limit=limit), self._value(SQL.first_suspect, self._namespace, now)

    def due(self, now: Millis, *, limit: int) -> list[str]:
        return self._first_timelines(SQL.claimable, now, limit)

    def _first_timelines(self, statement: str, now: Millis, limit: int) -> list[str]:
        self._write_slots()
        return [key for (key,) in self._rows(statement, {"namespace": self._namespace, "now": now, "limit": limit})]

    def in_order(self, mark: str, *, after: tuple[int, int] | None, limit: int) -> list[Found]:
        self._write_slots()
        place = (-NEVER, 0) if after is None else after
        rows = self._rows(getattr(SQL, f"{mark}_in_order"), (self._namespace, *place, limit))
        return [Found(at, number, key, self._unless_damaged(read_slot, key, slot)) for at, number, key, slot in rows]

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot | None]]:
        self._write_slots()
        if after is not None and as_bytes(after) >= prefix.encode():
            rows = self._rows(SQL.scan, (self._namespace, as_bytes(after), limit))
        else:
            rows = self._rows(SQL.scan_from, (self._namespace, prefix, limit))
        return [(key, self._unless_damaged(read_slot, key, slot)) for key, slot in rows if key.startswith(prefix)]

    def count_timelines(self, prefix: str, most: int) -> int:
        self._write_slots()
        count: int = self._value(SQL.count_prefix, self._namespace, prefix, beyond(prefix), most)
        return count

    def timeline_rows(self, *, after: str | None, limit: int) -> list[TimelineRow]:
        self._write_slots()
        rows = self._rows(SQL.timeline_rows, (self._namespace, as_bytes(after or ""), limit))
        return [timeline_row(lenient_text(name), slot, Marks(*places)) for name, slot, *places in rows]
