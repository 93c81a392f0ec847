"""One PostgreSQL transaction's view of the tables. Slots and new records are kept back, and written together."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from psycopg import Cursor as PgCursor

from digestif.clock import monotonic
from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored
from digestif.core.ledger import COUNTERS, Ledger
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.times import Millis
from digestif.errors import StoreError
from digestif.stores.base import HISTORY_LIMIT, PAGE_RECORDS, PAGE_TIMELINES, Arrival
from digestif.stores.postgres.arrays import Bigints, Byteas, Column, Doubles
from digestif.stores.postgres.floors import Search
from digestif.stores.rows import NEVER, Marks, Waiting, marks
from digestif.stores.sqlfile import load_statements
from digestif.stores.travel import Cargo

SQL = load_statements("digestif.stores.postgres", "statements.sql")
SAVE_ADDED = f"WITH stored AS ({SQL.put_records}), saved AS ({SQL.save_slots}) {SQL.save_counters}"
SHARES = 32  # of the ledger
CHOICE = 4  # times as many candidates as a claim wants: others may be after the first ones
ENOUGH = 8  # numbers that are fetched with the first
MARKS = (*(Bigints,) * len(Marks._fields), Byteas)  # and the slot
RECORD = (Bigints, Byteas, Bigints, Doubles, Bigints, Bigints, Byteas)

encoded = msgspec.json.Encoder().encode
_decode_slot = msgspec.json.Decoder(Slot).decode
_letter = msgspec.json.Decoder(DeadLetter).decode
_ended = msgspec.json.Decoder(HistoryEntry).decode


class InboxFirst(Exception):
    """What is in the inbox up to `end` has to be folded in before."""

    def __init__(self, end: int) -> None:
        self.end = end


class Namespace(NamedTuple):
    """Whose rows they are."""

    number: int
    table: int  # in which it has that number, by the number of the table


class OtherTables(StoreError):
    """The schema was made anew: numbers of namespaces are others there. Nothing was changed."""


class UnreadableRow(StoreError):
    """A row was damaged, or written by a release that knows more than this one."""


class Loaded:
    """A timeline's row as it was read, and the slot that it is to have."""

    __slots__ = ("before", "id", "slot")

    def __init__(self, row_id: int | None, slot: Slot) -> None:
        self.id = row_id
        self.slot = slot
        self.before = marks(slot)

    @property
    def is_kept(self) -> bool:
        """Neither a new row nor one that goes."""
        return self.id is not None and self.slot != IDLE


class _Page(NamedTuple):
    """The first so many records of a batch."""

    limit: int
    records: list[Stored]


class PostgresRows:
    """The view; `flush` writes what is still kept back, and must be called before the commit."""

    def __init__(self, cursor: "PgCursor[Any]", namespace: Namespace, *, writes: bool) -> None:
        self.tally = dict.fromkeys(COUNTERS, 0)
        self.budget = PAGE_RECORDS
        self._cursor = cursor
        self._namespace, self._table = namespace
        self._writes = writes
        self._loaded: dict[str, Loaded] = {}
        self._dirty: dict[str, None] = {}
        self._numbers: list[int] = []
        self._known: dict[tuple[int, str], bool] = {}  # whether a record is there, as far as it was asked
        self._fresh: set[int] = set()  # numbers of this transaction: batches in which nobody has looked for anything
        self.woken = False  # a timeline became ready
        self.search = Search()  # which knows nothing yet
        self._new: dict[tuple[int, str], tuple[Any, ...]] = {}  # records that are still to be written
        self._erased: list[int] = []  # batches of this transaction, like the following: gone together in the end
        self._trashed: list[int] = []
        self._ended: list[HistoryEntry] = []
        self._ahead: dict[int, int] = {}  # batches whose first page is likely to be asked for, and their records
        self._pages: dict[int, _Page] = {}  # read ahead

    def _execute(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> "PgCursor[Any]":
        return self._cursor.execute(statement, arguments)

    def _value(self, statement: str, *arguments: Any) -> Any:
        row = self._execute(statement, arguments).fetchone()
        return None if row is None else row[0]

    def flush(self) -> None:
        """Write endings, records, slots and counters."""
        self._write_endings()
        counters = *self.tally.values(), self._namespace, SHARES
        changed = [self._loaded[name] for name in self._dirty]
        if self._new and not self._erased and changed and all(loaded.is_kept for loaded in changed):
            self._dirty = {}
            self.woken = any([self.woken, *map(becomes_ready, changed)])
            self._execute(SAVE_ADDED, (*self._new_records(), *_slot_columns(changed), *counters))
            return
        self._write_records()
        self._write_slots()
        if any(self.tally.values()):
            self._execute(SQL.save_counters, counters)

    # Numbers

    def next_number(self) -> int:
        if not self._numbers:
            self._fetch_numbers(ENOUGH)
        number = self._numbers.pop()
        self._fresh.add(number)
        return number

    def _fetch_numbers(self, count: int) -> None:
        rows = self._execute(SQL.numbers, (count,)).fetchall()
        self._numbers = sorted((number for (number,) in rows), reverse=True)

    def sequence(self) -> int:
        number: int = self._value(SQL.sequence)
        return number

    # Foresight: what a batch needs is read at once, and locked in the order of the keys

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """These are to be added: lock their timelines, and see which of their keys are there already."""
        keys = sorted({arrival.timeline.encode() for arrival in arrivals})
        self._execute(SQL.reserve, (self._namespace, Byteas(keys)))
        self._remember(self._execute(SQL.load, (self._namespace, Byteas(keys))).fetchall())
        idle = sum(self._loaded[key.decode()].slot.batch is None for key in keys)  # gets a batch, and may begin to wait
        self._look_for(arrivals, numbers=len(arrivals) + 2 * idle)

    def _look_for(self, arrivals: Sequence[Arrival], *, numbers: int) -> None:
        pairs = [(batch, a.key) for a in arrivals if (batch := self._loaded[a.timeline].slot.batch) is not None]
        self._known.update(dict.fromkeys(pairs, False))
        sought = Bigints([batch for batch, _ in pairs]), Byteas([key.encode() for _, key in pairs])
        drawn = []
        for batch, key, number in self._execute(SQL.known, (*sought, numbers)):
            if number is None:
                self._known[batch, bytes(key).decode()] = True
            else:
                drawn.append(number)
        self._numbers = sorted(drawn, reverse=True)

    def concern(self, timelines: Iterable[str]) -> None:
        """These are to be changed, or read: get them at once."""
        names = dict.fromkeys(timeline for timeline in timelines if timeline not in self._loaded)
        if names:
            keys = sorted(name.encode() for name in names)
            statement = SQL.lock if self._writes else SQL.load
            found = self._remember(self._execute(statement, (self._namespace, Byteas(keys))).fetchall())
            for key in keys:
                if key not in found:
                    self._loaded[key.decode()] = Loaded(None, IDLE)
            digests = [self._loaded[name].slot.digest for name in names]
            self._ahead.update({digest.batch: digest.records for digest in digests if digest is not None})

    def _remember(self, rows: Iterable[tuple[int, bytes, bytes]]) -> set[bytes]:
        found = set()
        for row_id, key, body in rows:
            name = bytes(key).decode()
            self._loaded[name] = Loaded(row_id, read_slot(name, body))
            found.add(bytes(key))
        return found

    def refuse_inbox(self) -> None:
        """InboxFirst if there is something to fold in."""
        end = self.inbox_end()
        if end is not None:
            raise InboxFirst(end)

    def inbox_end(self) -> int | None:
        """The last that is in the inbox."""
        row = self._execute(SQL.inbox_end, (self._namespace,)).fetchone()
        assert row is not None
        end: int | None = row[0]
        self.refuse_other_tables(row[1])
        return end

    def refuse_other_tables(self, table: int) -> None:
        if table != self._table:
            raise OtherTables("the tables were made anew, again and again")

    def fold_alone(self) -> None:
        """Wait until nobody else folds; later versions of a key must not overtake earlier ones."""
        self._execute(SQL.fold_alone, (self._namespace,))

    def may_fold(self) -> bool:
        """The same without waiting; False if somebody folds just now."""
        return bool(self._value(SQL.may_fold, self._namespace))

    def empty_inbox(self, end: int, limit: int) -> list[tuple[Any, ...]]:
        """Take a page out of the inbox."""
        return self._execute(SQL.empty_inbox, (self._namespace, end, limit)).fetchall()

    # timelines

    def slot(self, timeline: str) -> Slot:
        return self._load(timeline).slot

    def _load(self, timeline: str) -> Loaded:
        if timeline not in self._loaded:
            self.concern([timeline])
        return self._loaded[timeline]

    def put_slot(self, timeline: str, slot: Slot) -> None:
        self._load(timeline).slot = slot
        self._dirty[timeline] = None

    def _write_slots(self) -> None:
        """Bring the table up to date; needed before timelines are looked up by their times."""
        dirty, self._dirty = list(self._dirty), {}
        changed = [(name, self._loaded[name]) for name in dirty]
        self.woken = self.woken or any(becomes_ready(loaded) for _, loaded in changed)
        gone = [loaded for _, loaded in changed if loaded.slot == IDLE and loaded.id is not None]
        kept = [(name, loaded) for name, loaded in changed if loaded.slot != IDLE]
        if gone:
            self._execute(SQL.delete_slots, (Bigints([loaded.id for loaded in gone]),))
            for loaded in gone:
                loaded.id = None
        if changed_rows := [loaded for _, loaded in kept if loaded.id is not None]:
            self._execute(SQL.save_slots, _slot_columns(changed_rows))
        self._insert(sorted((name.encode(), loaded) for name, loaded in kept if loaded.id is None))

    def _insert(self, fresh: Sequence[tuple[bytes, Loaded]]) -> None:
        if fresh:
            rows = [(key, *marks(loaded.slot), encoded(loaded.slot)) for key, loaded in fresh]
            ids = {
                bytes(key): row_id
                for row_id, key in self._execute(SQL.insert_slots, (self._namespace, *_columns(rows, (Byteas, *MARKS))))
            }
            for key, loaded in fresh:
                loaded.id = ids[key]

    def waiting(self, deadline: Millis, *, after: tuple[int, int] | None, limit: int) -> list[Waiting]:
        self._write_slots()
        place = (-NEVER, 0) if after is None else after
        rows = self._execute(SQL.waiting, (self._namespace, deadline, *place, limit)).fetchall()
        found = [Waiting(at, number, bytes(key).decode()) for at, number, key in rows]
        self.concern(waiting.timeline for waiting in found)
        return found

    def stale_ready(self, deadline: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.stale_ready, (self._namespace, deadline, limit))

    def lapsed(self, now: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.lapsed, {"namespace": self._namespace, "now": now, "limit": limit})

    def expiring(self, now: Millis, *, limit: int) -> list[str]:
        return self._names(SQL.expiring, (self._namespace, now, limit))

    def _names(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> list[str]:
        """Not locked: who acts on them says so by `concern`, and looks again."""
        self._write_slots()
        return [bytes(key).decode() for (key,) in self._execute(statement, arguments).fetchall()]

    def claimable(self, now: Millis, *, limit: int) -> list[str]:
        """Those that nobody else has locked just now."""
        self._write_slots()
        found = self._search(now, limit=limit * CHOICE)
        if not found:
            return []
        ids, places = [row_id for _, _, row_id, _ in found], [place for *_, place in found]
        rows = self._execute(SQL.lock_some, (places, Bigints(ids), Bigints(ids), limit)).fetchall()
        names = [bytes(key).decode() for _, key, _ in rows]
        self._remember(rows)
        return [name for name in names if _is_claimable(marks(self._loaded[name].slot), now)]

    def _search(self, now: Millis, *, limit: int) -> list[tuple[int, Millis, int, str]]:
        floors = self.search.floors()
        arguments = {"namespace": self._namespace, "now": now, "limit": limit, **floors._asdict()}
        began = monotonic()
        found = self._execute(SQL.claimable, arguments).fetchall()
        times = [(order, at) for order, at, _, _ in found]
        self.search.learn(floors, times, full=len(found) == limit, now=now, took=monotonic() - began)
        return found

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        self._write_slots()
        if after is not None and after >= prefix:
            rows = self._execute(SQL.scan, (self._namespace, after.encode(), limit))
        else:
            rows = self._execute(SQL.scan_from, (self._namespace, prefix.encode(), limit))
        found = [(bytes(key).decode(), slot) for key, slot in rows]
        return [(key, read_slot(key, slot)) for key, slot in found if key.startswith(prefix)]

    # records

    def put_record(self, batch: int, record: Stored, *, deadline: Millis | None, expires: Millis) -> bool:
        key, payload, timestamp, arrival = record
        place = (batch, key)
        if place not in self._known:
            self._known[place] = batch not in self._fresh and self.record(batch, key) is not None
        superseded = self._known[place]
        self._known[place] = True
        self._new[place] = (batch, key.encode(), arrival, timestamp, deadline, expires, payload)
        return superseded

    def _write_records(self) -> None:
        if self._new:
            self._pages.clear()
            self._execute(SQL.put_records, self._new_records())
        if self._erased:
            self._execute(SQL.erase, (Bigints(self._erased),))
            self._erased = []

    def _new_records(self) -> tuple[Any, ...]:
        rows, self._new = list(self._new.values()), {}
        return self._namespace, *_columns(rows, RECORD)

    def _records(self, statement: str, arguments: Sequence[Any] | Mapping[str, Any]) -> "PgCursor[Any]":
        """Run a statement about records, which have to be there by now; what was known about keys may change by it."""
        self._write_records()
        self._forget_what_was_read()
        return self._execute(statement, arguments)

    def _forget_what_was_read(self) -> None:
        self._known.clear()
        self._fresh.clear()
        self._pages.clear()

    def record(self, batch: int, key: str) -> Stored | None:
        self._write_records()
        row = self._execute(SQL.record, (batch, key.encode())).fetchone()
        return None if row is None else _stored(row)

    def page(self, batch: int, *, after: Cursor | None, limit: int) -> list[Stored]:
        if after is None:
            return self._first_page(batch, limit)
        return [_stored(row) for row in self._records(SQL.next_page, (batch, *after, limit))]

    def _first_page(self, batch: int, limit: int) -> list[Stored]:
        if self._new or batch in self._erased:
            self._write_records()
        page = self._pages.pop(batch, None)
        if page is None or page.limit < limit:
            self._read_ahead(batch, limit)
            page = self._pages.pop(batch)
        return page.records[:limit]

    def _read_ahead(self, batch: int, limit: int) -> None:
        """Read the first page of a batch, and those of the digests that come next, if it is not too much."""
        batches, room = [batch], PAGE_RECORDS - min(limit, self._ahead.pop(batch, limit))
        for other, records in list(self._ahead.items()):
            room -= min(limit, records)
            if room < 0:
                break
            batches.append(other)
            del self._ahead[other]
        self._pages.update({one: _Page(limit, []) for one in batches})
        for one, *row in self._execute(SQL.first_pages, (Bigints(batches), limit)):
            self._pages[one].records.append(_stored(row))

    def remove_record(self, batch: int, key: str) -> bool:
        return self._records(SQL.remove_record, (batch, key.encode())).rowcount > 0

    def drop_oldest(self, batch: int, count: int) -> int:
        return self._records(SQL.drop_oldest, {"batch": batch, "limit": count}).rowcount if count else 0

    def expire(self, batch: int, now: Millis, *, limit: int) -> int:
        return self._records(SQL.expire, {"batch": batch, "now": now, "limit": limit}).rowcount

    def move_record(self, key: str, source: int, target: int) -> bool:
        return self._records(SQL.move_record, (target, source, key.encode())).rowcount > 0

    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]:
        keys = [key for (key,) in self._records(SQL.batch_page, (source, limit)).fetchall()]
        if not keys:
            return 0, 0
        superseded = self._execute(SQL.supersede_page, (target, source, keys[-1])).rowcount
        self._execute(SQL.merge_page, (target, source, keys[-1]))
        return len(keys), superseded

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

    def sizes(self, batches: Sequence[int]) -> dict[int, int]:
        return dict(self._records(SQL.sizes, (Bigints(batches),)).fetchall())

    def erase(self, batch: int) -> None:
        self._pages.pop(batch, None)
        self._known.clear()
        self._erased.append(batch)

    def trash(self, batch: int) -> None:
        self._trashed.append(batch)

    def _write_endings(self) -> None:
        if self._trashed:
            self._execute(SQL.trash, (self._namespace, Bigints(self._trashed)))
            self._trashed = []
        if self._ended:
            timelines = Byteas([ended.timeline.encode() for ended in self._ended])
            columns = {"timelines": timelines, "bodies": Byteas([encoded(ended) for ended in self._ended])}
            self._execute(SQL.remember, {"namespace": self._namespace, "limit": HISTORY_LIMIT, **columns})
            self._ended = []

    def sweep(self, limit: int) -> bool:
        self._write_endings()
        found = self._execute(SQL.some_trash, (self._namespace, PAGE_TIMELINES)).fetchall()
        if not found:
            return False
        batches = Bigints([batch for (batch,) in found])
        if self._records(SQL.erase_page, (batches, limit)).rowcount < limit:
            self._execute(SQL.untrash, (self._namespace, batches))
        return True

    # on the way from and to other stores

    def cargo(self, batch: int, *, after: Cursor | None, limit: int) -> list[Cargo]:
        if after is None:
            rows = self._execute(SQL.first_cargo, (batch, limit))
        else:
            rows = self._execute(SQL.next_cargo, (batch, *after, limit))
        return [Cargo(_stored(row[:4]), row[4], None if row[5] == NEVER else row[5]) for row in rows]

    def load(self, batch: int, cargo: Sequence[Cargo]) -> int:
        self._fetch_numbers(len(cargo))
        rows = [
            (
                *(batch, item.record.key.encode(), self.next_number(), item.record.timestamp),
                *(item.deadline, NEVER if item.expires is None else item.expires, item.record.payload),
            )
            for item in cargo
        ]
        answers = self._records(SQL.load_records, (self._namespace, *_columns(rows, RECORD))).fetchall()
        return sum(fresh for (fresh,) in answers)

    def note_alone(self) -> None:
        self._execute(SQL.note_alone, (self._namespace,))

    def note(self, name: str) -> bytes | None:
        body = self._value(self._own(SQL.note), self._namespace, name.encode())
        return None if body is None else bytes(body)

    def put_note(self, name: str, body: bytes | None) -> None:
        if body is None:
            self._execute(SQL.remove_note, (self._namespace, name.encode()))
        else:
            self._execute(SQL.put_note, (self._namespace, name.encode(), body))

    def remove_notes(self, prefix: str) -> None:
        self._execute(SQL.remove_notes, (self._namespace, prefix.encode(), f"{prefix}\U0010ffff".encode()))

    # dead letters and history

    def letter(self, letter_id: str) -> DeadLetter | None:
        body = self._value(SQL.letter, self._namespace, letter_id.encode())
        if body is not None and self._writes:
            self.concern([_letter(body).timeline])  # before its letters, as all who change both
            body = self._value(self._own(SQL.letter), self._namespace, letter_id.encode())
        return None if body is None else _letter(body)

    def _own(self, statement: str) -> str:
        """What is about to be replayed, discarded, deleted or noted anew is nobody else's."""
        return f"{statement} FOR UPDATE" if self._writes else statement

    def letter_batch(self, letter_id: str) -> int:
        batch: int = self._value(SQL.letter_batch, self._namespace, letter_id.encode())
        return batch

    def put_letter(self, letter: DeadLetter, batch: int) -> None:
        names = letter.id.encode(), letter.timeline.encode()
        self._execute(SQL.put_letter, (self._namespace, *names, batch, encoded(letter)))

    def remove_letter(self, letter_id: str) -> None:
        self._execute(SQL.remove_letter, (self._namespace, letter_id.encode()))

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        number = 0 if after is None else self._value(SQL.letter_number, self._namespace, after.encode()) or NEVER
        if timeline is None:
            rows = self._execute(SQL.letters, (self._namespace, number, limit))
        else:
            rows = self._execute(self._own(SQL.letters_of), (self._namespace, timeline.encode(), number, limit))
        return [_letter(body) for (body,) in rows]

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        body = self._value(SQL.letter_with, key.encode(), self._namespace, timeline.encode())
        return None if body is None else _letter(body)

    def remember(self, ended: HistoryEntry) -> None:
        self._ended.append(ended)

    def history(self, timeline: str | None, *, limit: int) -> list[HistoryEntry]:
        self._write_endings()
        if timeline is None:
            rows = self._execute(SQL.history, (self._namespace, limit))
        else:
            rows = self._execute(SQL.history_of, (self._namespace, timeline.encode(), limit))
        return [_ended(body) for (body,) in rows]

    def forget(self, timeline: str) -> None:
        self._write_endings()
        self._execute(SQL.forget, (self._namespace, timeline.encode()))

    # counts

    def ledger(self) -> Ledger:
        counts = self._execute(SQL.ledger, (self._namespace,)).fetchone() or ()
        return Ledger(**{name: count or 0 for name, count in zip(COUNTERS, counts, strict=True)})

    def standing(self, now: Millis) -> Standing:
        self._write_slots()
        counts = self._execute(SQL.standing, {"namespace": self._namespace, "now": now}).fetchone()
        return Standing(*(counts or ()))

    def footprint(self) -> Mapping[str, int]:
        self._write_endings()
        self._write_slots()
        self._write_records()
        return {
            "timelines": self._value(SQL.count_timelines, self._namespace),
            "records": self._value(SQL.count_records, self._namespace),
            "letters": self._value(SQL.count_letters, self._namespace),
            "trash": self._value(SQL.count_trash, self._namespace),
            "notes": self._value(SQL.count_notes, self._namespace),
        }

    def trashed_records(self) -> int:
        self._write_endings()
        count: int = self._value(SQL.trashed_records, self._namespace)
        return count


def becomes_ready(loaded: Loaded) -> bool:
    before, loaded.before = loaded.before, marks(loaded.slot)
    return loaded.before.ready is not None and before.ready is None


def read_slot(timeline: str, body: bytes) -> Slot:
    if not body:
        return IDLE  # a row that somebody is about to fill
    try:
        return _decode_slot(body)
    except msgspec.MsgspecError as error:
        raise UnreadableRow(
            f"the row of timeline {timeline!r} can't be read ({error}); it is damaged or of a newer release"
        ) from error


def _stored(row: Sequence[Any]) -> Stored:
    key, payload, timestamp, arrival = row
    return Stored(bytes(key).decode(), None if payload is None else bytes(payload), timestamp, arrival)


def _slot_columns(changed: Iterable[Loaded]) -> list[Column]:
    rows = [(loaded.id, *marks(loaded.slot), encoded(loaded.slot)) for loaded in changed]
    return _columns(rows, (Bigints, *MARKS))


def _columns(rows: Sequence[tuple[Any, ...]], kinds: Sequence[type[Column]]) -> list[Column]:
    return [kind(items) for kind, items in zip(kinds, zip(*rows, strict=True), strict=True)]


def _is_claimable(after: Marks, now: Millis) -> bool:
    due = after.ready is not None or (after.waiting is not None and after.waiting <= now)
    return due or (after.until is not None and after.until <= now)
