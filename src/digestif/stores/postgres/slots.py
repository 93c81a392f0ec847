"""Timelines: their slots, the times by which they are found, and their locks, taken in the order of keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from digestif.core.damage import Damage
from digestif.core.machine import IDLE, Slot
from digestif.core.times import Millis
from digestif.core.transfer import FOREVER
from digestif.stores.base import LeaseEnd
from digestif.stores.damage import Unreadable
from digestif.stores.postgres.arrays import Bigints, Byteas, in_columns
from digestif.stores.postgres.transaction import SQL, Transaction, as_bytes, as_text, encoded
from digestif.stores.reader import beyond
from digestif.stores.rows import NEVER, Found, Marks, TimelineRow, Waiting, bodies, marks

MARKS = (*(Bigints,) * len(Marks._fields), Byteas)  # and the slot


class InboxFirst(Exception):
    """The inbox up to `end` has to be folded in before."""

    def __init__(self, end: int) -> None:
        self.end = end


class Loaded:
    """A timeline's row as it was read, and the slot to be written."""

    __slots__ = ("before", "damage", "is_named", "slot", "version")

    def __init__(self, version: int | None, slot: Slot, damage: Damage | None = None) -> None:
        self.damage = damage  # why its slot can't be read
        self.version = version  # None if there is no row…
        self.is_named = version is not None  # …but there may be a name for it already
        self.slot = slot
        self.before = marks(slot)  # as it is stored

    @property
    def is_kept(self) -> bool:
        """True if the row exists and stays."""
        return self.version is not None and self.slot != IDLE

    @property
    def is_new(self) -> bool:
        return self.version is None and self.slot != IDLE

    @property
    def is_gone(self) -> bool:
        return self.is_named and self.slot == IDLE


class PostgresSlots(Transaction):
    """Holds slots back, and writes them together."""

    def __init__(self, *given: Any, writes: bool) -> None:
        super().__init__(*given, writes=writes)
        self.woken = False  # a timeline became ready
        self._loaded: dict[str, Loaded] = {}
        self._dirty: dict[str, None] = {}
        self._ahead: dict[int, int] = {}  # batches whose first page is probably read next, and their records

    def concern(self, timelines: Iterable[str]) -> None:
        """Read these timelines in one statement, and lock them if this transaction writes."""
        names = dict.fromkeys(timeline for timeline in timelines if timeline not in self._loaded)
        if names:
            keys = sorted(as_bytes(name) for name in names)
            self._fetch(SQL.lock if self._writes else SQL.load, keys)
            digests = [self._loaded[name].slot.digest for name in names]
            self._ahead.update({digest.batch: digest.records for digest in digests if digest is not None})

    def _fetch(self, statement: str, keys: Sequence[bytes]) -> None:
        self._loaded.update({as_text(key): Loaded(None, IDLE) for key in keys})
        self._keep(self._execute(statement, {"namespace": self._namespace, "keys": Byteas(keys)}))

    def _keep(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for version, key, body, *moving in rows:
            if moving:
                (self._is_moving,) = moving
            name = as_text(key)
            try:
                self._loaded[name] = Loaded(version, read_slot(name, body))
            except Unreadable as error:
                self._loaded[name] = Loaded(version, IDLE, error.damage)

    def slot(self, timeline: str) -> Slot:
        loaded = self._load(timeline)
        if loaded.damage is not None:
            raise Unreadable(loaded.damage)
        return loaded.slot

    def _load(self, timeline: str) -> Loaded:
        if timeline not in self._loaded:
            self.concern([timeline])
        return self._loaded[timeline]

    def put_slot(self, timeline: str, slot: Slot) -> None:
        self._load(timeline).slot = slot
        self._dirty[timeline] = None

    def _changed(self) -> dict[str, Loaded]:
        """Timelines that are still to be written."""
        return {name: self._loaded[name] for name in self._dirty}

    def _write_slots(self) -> None:
        """Bring the table up to date, which lookups by time rely on."""
        changed = self._changed()
        self._delete({name: loaded for name, loaded in changed.items() if loaded.is_gone})
        if kept := {name: loaded for name, loaded in changed.items() if loaded.is_kept}:
            self._save(SQL.save_slots, self._slot_columns(kept))
        self._insert({name: loaded for name, loaded in sorted(changed.items()) if loaded.is_new})
        self._dirty = {}

    def _slot_columns(self, kept: Mapping[str, Loaded]) -> list[Any]:
        """Return the arguments of `save_slots`; the slots count as written."""
        rows = []
        for name, loaded in kept.items():
            version, after = loaded.version, self.index_times(loaded)
            rows.append((as_bytes(name), version, loaded.version, *after, encoded(loaded.slot)))
        return [*in_columns(rows, (Byteas, Bigints, Bigints, *MARKS)), self._namespace]

    def index_times(self, loaded: Loaded) -> Marks:
        """Return the times to write. A change bumps the version, so that the live row sorts before dead ones."""
        after = marks(loaded.slot)
        if after != loaded.before:
            self.woken |= after.ready is not None and loaded.before.ready is None
            loaded.before = after
            if loaded.version is not None:
                loaded.version += 1
        return after

    def _delete(self, gone: Mapping[str, Loaded]) -> None:
        if gone:
            keys = Byteas([as_bytes(name) for name in gone])
            versions = Bigints([loaded.version for loaded in gone.values()])
            self._save(SQL.delete_slots, {"namespace": self._namespace, "keys": keys, "versions": versions})
            for name in gone:
                self._loaded[name] = Loaded(None, IDLE)

    def _insert(self, fresh: Mapping[str, Loaded]) -> None:
        if unnamed := [as_bytes(name) for name, loaded in fresh.items() if not loaded.is_named]:
            self._execute(SQL.insert_names, (self._namespace, Byteas(unnamed)))
        if fresh:
            rows = [(as_bytes(name), *self.index_times(loaded), encoded(loaded.slot)) for name, loaded in fresh.items()]
            columns = in_columns(rows, (Byteas, *MARKS))
            for version, key, transaction in self._execute(SQL.insert_slots, (self._namespace, *columns)):
                self._id = transaction
                loaded = fresh[as_text(key)]
                loaded.version, loaded.is_named = version, True

    def waiting(self, deadline: Millis, *, after: tuple[int, int] | None, limit: int) -> list[Waiting]:
        self._write_slots()
        place = (-NEVER, 0) if after is None else after
        rows = self._execute(SQL.waiting, (self._namespace, deadline, *place, limit)).fetchall()
        found = [Waiting(at, number, as_text(key)) for at, number, key in rows]
        self.concern(waiting.timeline for waiting in found)
        return found

    def stale_ready(self, deadline: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.stale_ready, (self._namespace, deadline, limit))

    def lapsed(self, now: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.lapsed, {"namespace": self._namespace, "now": now, "limit": limit})

    def expiring(self, now: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.expiring, (self._namespace, now, limit))

    def _names(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> list[str]:
        """Return names without locking them: callers lock by `concern`, and check the slot then."""
        self._write_slots()
        return [as_text(key) for (key,) in self._execute(statement, arguments).fetchall()]

    def due(self, now: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.due, {"namespace": self._namespace, "now": now, "limit": limit})

    def lapsed_while_paused(self, now: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.lapsed_while_paused, (self._namespace, now, limit))

    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        self._write_slots()
        rows = self._execute(SQL.leases_beyond, (self._namespace, time, FOREVER, limit)).fetchall()
        return [LeaseEnd(as_text(key), until) for key, until in rows]

    def in_order(self, mark: str, *, after: tuple[int, int] | None, limit: int) -> list[Found]:
        self._write_slots()
        place = (-NEVER, 0) if after is None else after
        rows = self._execute(getattr(SQL, f"{mark}_in_order"), (self._namespace, *place, limit)).fetchall()
        found = [(at, number, as_text(key), slot) for at, number, key, slot in rows]
        return [Found(at, number, key, self._unless_damaged(read_slot, key, slot)) for at, number, key, slot in found]

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot | None]]:
        self._write_slots()
        if after is not None and as_bytes(after) >= prefix.encode():
            rows = self._execute(SQL.scan, (self._namespace, as_bytes(after), limit))
        else:
            rows = self._execute(SQL.scan_from, (self._namespace, prefix.encode(), limit))
        found = [(as_text(key), slot) for key, slot in rows]
        return [(key, self._unless_damaged(read_slot, key, slot)) for key, slot in found if key.startswith(prefix)]

    def count_timelines(self, prefix: str, most: int) -> int:
        self._write_slots()
        count: int = self._value(SQL.count_prefix, self._namespace, prefix.encode(), beyond(prefix), most)
        return count

    # Damage

    def unindex(self, timeline: str) -> None:
        self._execute(SQL.unindex, (self._namespace, as_bytes(timeline)))

    def reindex(self, timeline: str) -> None:
        self.put_slot(timeline, self.slot(timeline))  # a slot is written with all of its times

    def remove_timeline(self, timeline: str) -> None:
        self._execute(SQL.remove_timeline, {"namespace": self._namespace, "key": as_bytes(timeline)})
        self._loaded[timeline] = Loaded(None, IDLE)

    def timeline_rows(self, *, after: str | None, limit: int) -> list[TimelineRow]:
        self._write_slots()
        rows = self._execute(SQL.timeline_rows, (self._namespace, as_bytes(after or ""), limit)).fetchall()
        return [bodies.timeline_row(as_text(key), bytes(slot) or b"{}", Marks(*rest)) for key, slot, *rest in rows]


def read_slot(timeline: str, body: bytes) -> Slot:
    if not body:
        return IDLE  # a row that its transaction has not filled yet
    return bodies.read_slot(timeline, bytes(body))
