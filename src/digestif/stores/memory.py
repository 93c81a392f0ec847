"""`memory://`: timelines in Python objects, for tests and simulations. Survives nothing."""

import heapq
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, NamedTuple, TypeVar

from digestif.clock import wall_clock
from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored, age_order, within_bytes
from digestif.core.damage import Damage
from digestif.core.ledger import COUNTERS, TALLIED, Ledger
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.removals import Removals
from digestif.core.tenants import Tenants
from digestif.core.times import Millis
from digestif.core.transfer import FOREVER
from digestif.dsn import Dsn
from digestif.stores.base import HISTORY_LIMIT, PAGE_RECORDS, Arrival, Durability, LeaseEnd
from digestif.stores.calls import Calls, holding
from digestif.stores.fork import watch
from digestif.stores.ordered import Ordered
from digestif.stores.reader import UNLEASED
from digestif.stores.rows import (
    NEVER,
    UNBOUNDED,
    DocumentRow,
    Found,
    LetterRow,
    Marks,
    Rows,
    RowStore,
    Size,
    TimelineRow,
    Waiting,
    marks,
    within,
)
from digestif.stores.transfer import ExportedRecord

T = TypeVar("T")


def from_dsn(dsn: Dsn, *, namespace: str) -> "MemoryStore":
    """`memory://` takes no options."""
    dsn.refuse_location()
    dsn.refuse_options()
    return MemoryStore(namespace=namespace)


class MemoryStore(RowStore):
    """Timelines in this process's memory, behind one lock."""

    durability = Durability.NOTHING
    counts_at_once = True

    def __init__(self, *, namespace: str = "d", clock: Callable[[], float] = wall_clock) -> None:
        self.namespace = namespace
        self.clock = clock
        self._calls = Calls("memory")
        self._lock = threading.RLock()
        self._tables = MemoryRows()
        watch(self)

    def _write(self, unit: Callable[[Rows], T], *, weight: int = 1, share: float = 0.0) -> T:
        return self._calls.run(holding, self._lock, self._change, unit)

    def _read(self, unit: Callable[[Rows], T], *, pending: bool = True) -> T:
        return self._calls.run(holding, self._lock, self._look, unit)

    def _change(self, unit: Callable[[Rows], T]) -> T:
        tables = self._open_tables()
        tables.begin()
        answer = unit(tables)
        tables.commit()
        return answer

    def _look(self, unit: Callable[[Rows], T]) -> T:
        return unit(self._open_tables())

    def _open_tables(self) -> "MemoryRows":
        self._tables.roll_back()  # an interrupted call may have left a unit half done
        self._tables.budget = PAGE_RECORDS
        return self._tables

    def close(self) -> None:
        """Discard everything."""
        self._calls.close(self._discard)

    def _discard(self) -> None:
        self._tables = MemoryRows()

    def before_fork(self) -> None:
        """Let no call begin, so that nothing changes while the memory is copied."""
        self._calls.pause()

    def after_fork(self, *, in_child: bool) -> None:
        """Let calls begin again. The child forgets those of threads that it does not have, and their locks."""
        if in_child:
            self._calls.forget_threads()
            self._lock = threading.RLock()
        else:
            self._calls.resume()


class MemoryRecord:
    """A record and its times."""

    __slots__ = ("deadline", "expires", "stored")

    def __init__(self, stored: Stored, deadline: Millis | None, expires: Millis) -> None:
        self.stored = stored
        self.deadline = deadline
        self.expires = expires


class MemoryBatch:
    """Records by key. Their order by age is computed on demand, and kept as a heap while only adds follow."""

    def __init__(self) -> None:
        self.entries: dict[str, MemoryRecord] = {}
        self.urgent: dict[str, Millis] = {}
        self._heap: list[tuple[Cursor, str]] | None = None  # oldest first; may contain replaced or removed versions
        self._oldest_first: list[Stored] | None = None

    def put(self, entry: MemoryRecord) -> bool:
        stored = entry.stored
        replaced = stored.key in self.entries
        self.entries[stored.key] = entry
        self.urgent.pop(stored.key, None)
        if entry.deadline is not None:
            self.urgent[stored.key] = entry.deadline
        if self._heap is not None:
            heapq.heappush(self._heap, (age_order(stored), stored.key))
            if len(self._heap) > 2 * len(self.entries) + 64:
                self._heap = None  # too many of these versions: build it again on demand
        self._oldest_first = None
        return replaced

    def remove(self, key: str) -> MemoryRecord | None:
        entry = self.entries.pop(key, None)
        self.urgent.pop(key, None)
        self._oldest_first = None
        return entry

    def oldest(self) -> str:
        """The key of the oldest record."""
        if self._heap is None:
            self._heap = [(age_order(entry.stored), key) for key, entry in self.entries.items()]
            heapq.heapify(self._heap)
        while True:
            age, key = self._heap[0]
            entry = self.entries.get(key)
            if entry is not None and age_order(entry.stored) == age:
                return key
            heapq.heappop(self._heap)

    def restore(self) -> None:
        """Rebuild everything that derives from `entries`."""
        self.urgent = {key: entry.deadline for key, entry in self.entries.items() if entry.deadline is not None}
        self._heap = self._oldest_first = None

    def newest_first(self, after: Cursor | None) -> Iterator[Stored]:
        if self._oldest_first is None:
            self._oldest_first = sorted((entry.stored for entry in self.entries.values()), key=age_order)
        ordered = self._oldest_first
        end = len(ordered) if after is None else bisect_right(ordered, after, key=age_order) - 1
        return (ordered[index] for index in range(end - 1, -1, -1))


class _Journal(NamedTuple):
    """What undoes a unit of work."""

    tally: dict[str, int]
    items: list[tuple[dict[Any, Any], Any, Any]]  # a dictionary, a key, and its value before


_MISSING = object()


class NeverDamaged:
    """The methods of `Rows` about damage, of which there is none in memory."""

    def note_damage(self, damage: Damage) -> None:
        raise NotImplementedError(f"memory can't be damaged: {damage}")

    def unindex(self, timeline: str) -> None:
        raise NotImplementedError

    remove_timeline = unindex

    def reindex(self, timeline: str) -> None:
        """Do nothing: the indexes were written with the slot."""

    def damaged_entries(self) -> list[tuple[int, Damage]]:
        return []

    def remove_entry(self, place: int) -> None:
        raise NotImplementedError


class MemoryRows(NeverDamaged):
    """All rows of a namespace, and the `Rows` of every unit of work: the lock lets one run at a time.

    A signal may interrupt a unit anywhere. The journal gets every change of a dictionary before it is made; from it the
    next unit undoes the changes, and rebuilds what derives from these dictionaries.
    """

    def __init__(self) -> None:
        self.tenants = Tenants()
        self.tally = dict.fromkeys(TALLIED, 0)
        self.budget = PAGE_RECORDS
        self._number = 0
        self._slots: dict[str, Slot] = {}
        self._numbers: dict[str, int] = {}
        self._names: Ordered[str] = Ordered()
        self._orders: list[Ordered[tuple[Millis, int, str]]] = [Ordered() for _ in Marks._fields]
        self._batches: dict[int, MemoryBatch] = {}
        self._letters: OrderedDict[str, tuple[DeadLetter, int, int]] = OrderedDict()  # with batch and number
        self._history: dict[str, OrderedDict[int, HistoryEntry]] = {}  # by ring and number, oldest first
        self._removals: OrderedDict[str, tuple[int, str, Removals]] = OrderedDict()  # with number and ring
        self._notes: dict[str, bytes] = {}
        self._moving: dict[None, str] = {}  # at most one
        self._documents: OrderedDict[tuple[str, str], DocumentRow] = (
            OrderedDict()
        )  # by collection and key, oldest first
        self._journal: _Journal | None = None  # of a unit under way or interrupted

    def begin(self) -> None:
        self._journal = _Journal(dict(self.tally), [])

    def commit(self) -> None:
        self._journal = None

    def roll_back(self) -> None:
        """Undo a unit that was not committed. If this is interrupted, it can be repeated."""
        if self._journal is None:
            return
        for table, key, value in reversed(self._journal.items):
            if value is _MISSING:
                table.pop(key, None)
            else:
                table[key] = value
        self.tally.update(self._journal.tally)
        self._letters = OrderedDict(sorted(self._letters.items(), key=lambda item: item[1][2]))
        self._history = {ring: OrderedDict(sorted(entries.items())) for ring, entries in self._history.items()}
        self._removals = OrderedDict(sorted(self._removals.items(), key=lambda item: item[1][0]))
        self._documents = OrderedDict(sorted(self._documents.items(), key=lambda item: item[1].number))
        self._restore_orders()
        for batch in self._batches.values():
            batch.restore()
        self._journal = None

    def _restore_orders(self) -> None:
        self._names = Ordered()
        self._orders = [Ordered() for _ in Marks._fields]
        for timeline, slot in self._slots.items():
            self._names.add(timeline)
            self._reorder(timeline, marks(IDLE), marks(slot))

    def _note(self, table: dict[Any, Any], key: Any) -> None:
        """Write the value of a key into the journal, before it is changed."""
        if self._journal is not None:
            self._journal.items.append((table, key, table.get(key, _MISSING)))

    def _batch(self, batch: int) -> MemoryBatch:
        found = self._batches.get(batch)
        if found is None:
            self._note(self._batches, batch)
            found = self._batches[batch] = MemoryBatch()
        return found

    def _put(self, batch: int, entry: MemoryRecord) -> bool:
        into = self._batch(batch)
        self._note(into.entries, entry.stored.key)
        return into.put(entry)

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """Do nothing: only stores behind a network fetch and lock rows in advance."""

    def concern(self, timelines: Iterable[str]) -> None:
        """Do nothing: only stores behind a network fetch and lock rows in advance."""

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def sequence(self) -> int:
        return self._number

    # timelines

    def slot(self, timeline: str) -> Slot:
        return self._slots.get(timeline, IDLE)

    def put_slot(self, timeline: str, slot: Slot) -> None:
        before = self._slots.get(timeline)
        self._note(self._slots, timeline)
        if before is None and slot != IDLE:
            self._note(self._numbers, timeline)
            self._numbers[timeline] = self.next_number()
            self._names.add(timeline)
        if before is not None or slot != IDLE:
            self._reorder(timeline, marks(before or IDLE), marks(slot))
        if slot != IDLE:
            self._slots[timeline] = slot
        elif before is not None:
            self._note(self._numbers, timeline)
            del self._slots[timeline], self._numbers[timeline]
            self._names.remove(timeline)

    def _reorder(self, timeline: str, before: Marks, after: Marks) -> None:
        number = self._numbers[timeline]
        for order, old, new in zip(self._orders, before, after, strict=True):
            if old != new:
                if old is not None:
                    order.remove((old, number, timeline))
                if new is not None:
                    order.add((new, number, timeline))

    def _until(self, mark: int, last: Millis, *, limit: int) -> list[tuple[Millis, int, str]]:
        return list(islice(takewhile(lambda item: item[0] <= last, self._orders[mark].after(None)), limit))

    def waiting(self, deadline: Millis, *, after: tuple[int, int] | None, limit: int) -> list[Waiting]:
        place = None if after is None else (*after, "\U0010ffff")
        due = takewhile(lambda item: item[0] <= deadline, self._orders[_WAITING].after(place))
        return [Waiting(*item) for item in islice(due, limit)]

    def in_order(self, mark: str, *, after: tuple[int, int] | None, limit: int) -> list[Found]:
        order = self._orders[Marks._fields.index(mark)]
        found = islice(order.after(None if after is None else (*after, "\U0010ffff")), limit)
        return [Found(at, number, timeline, self._slots[timeline]) for at, number, timeline in found]

    def stale_ready(self, deadline: Millis, *, limit: int) -> list[str]:
        return [timeline for *_, timeline in self._until(_SINCE, deadline, limit=limit)]

    def lapsed(self, now: Millis, *, limit: int) -> list[str]:
        items = self._until(_UNTIL, now, limit=limit) + self._until(_PAUSED_UNTIL, now, limit=limit)
        return [timeline for *_, timeline in sorted(items)[:limit]]

    def expiring(self, now: Millis, *, limit: int) -> list[str]:
        return [timeline for *_, timeline in self._until(_EXPIRES, now, limit=limit)]

    def lapsed_while_paused(self, now: Millis, *, limit: int) -> list[str]:
        return [timeline for *_, timeline in self._until(_PAUSED_UNTIL, now, limit=limit)]

    def suspects(self, now: Millis, *, skip: int, limit: int) -> list[str]:
        return [timeline for *_, timeline in self._until(_UNTIL, now, limit=skip + limit)[skip:]]

    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        later = takewhile(lambda item: item[0] < FOREVER, self._orders[_UNTIL].after((time + 1, 0, "")))
        return [LeaseEnd(timeline, until) for until, _, timeline in islice(later, limit)]

    def claimable(self, now: Millis, *, limit: int) -> tuple[list[str], Millis | None]:
        suspect = next((until for until, *_ in self._until(_UNTIL, now, limit=1)), None)
        return self.due(now, limit=limit), suspect

    def due(self, now: Millis, *, limit: int) -> list[str]:
        waiting = self._until(_WAITING, now, limit=limit)
        ready = islice(self._orders[_READY].after(None), limit)
        return [timeline for *_, timeline in sorted([*waiting, *ready])[:limit]]

    def timeline_rows(self, *, after: str | None, limit: int) -> list[TimelineRow]:
        names = islice(self._names.after(after or "", inclusive=False), limit)
        return [TimelineRow(name, marks(self._slots[name]), self._slots[name]) for name in names]

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot | None]]:
        beyond = after is not None and after >= prefix
        names = self._names.after(after if beyond else prefix, inclusive=not beyond)
        matching = takewhile(lambda name: name.startswith(prefix), names)
        return [(name, self._slots[name]) for name in islice(matching, limit)]

    def count_timelines(self, prefix: str, most: int) -> int:
        matching = takewhile(lambda name: name.startswith(prefix), self._names.after(prefix, inclusive=True))
        return sum(1 for _ in islice(matching, most))

    # records

    def put_record(self, batch: int, record: Stored, *, deadline: Millis | None, expires: Millis) -> bool:
        return self._put(batch, MemoryRecord(record, deadline, expires))

    def record(self, batch: int, key: str) -> Stored | None:
        entry = self._entries(batch).get(key)
        return None if entry is None else entry.stored

    def _entries(self, batch: int) -> dict[str, MemoryRecord]:
        found = self._batches.get(batch)
        return {} if found is None else found.entries

    def page(self, batch: int, *, after: Cursor | None, limit: int, room: int = UNBOUNDED) -> list[Stored]:
        found = self._batches.get(batch)
        return [] if found is None else within(islice(found.newest_first(after), limit), room)

    def newest_keys(self, batch: int, *, limit: int) -> list[str]:
        return [record.key for record in self.page(batch, after=None, limit=limit)]

    def fitting(self, batch: int, max_bytes: int) -> int:
        found = self._batches.get(batch)
        return 0 if found is None else within_bytes(list(found.newest_first(None)), max_bytes)

    def remove_record(self, batch: int, key: str) -> bool:
        return self._pop(batch, key) is not None

    def _pop(self, batch: int, key: str) -> MemoryRecord | None:
        found = self._batches.get(batch)
        if found is None:
            return None
        self._note(found.entries, key)
        entry = found.remove(key)
        if not found.entries:
            self.delete_batch(batch)
        return entry

    def drop_oldest(self, batch: int, count: int) -> int:
        found = self._batches[batch]
        for _ in range(count):
            oldest = found.oldest()
            self._note(found.entries, oldest)
            found.remove(oldest)
        return count

    def expire(self, batch: int, now: Millis, *, limit: int) -> int:
        old = [key for key, entry in self._entries(batch).items() if entry.expires <= now]
        for key in old[:limit]:
            self._pop(batch, key)
        return min(len(old), limit)

    def move_record(self, key: str, source: int, target: int) -> bool:
        entry = self._pop(source, key)
        if entry is not None:
            self._put(target, entry)
        return entry is not None

    def merge(self, source: int, target: int, *, limit: int) -> tuple[int, int]:
        page = list(islice(self._entries(source).values(), limit))
        return len(page), self._move(page, source, target)

    def requeue(self, source: int, target: int, *, expires: Millis, limit: int) -> tuple[int, int]:
        page = heapq.nsmallest(limit, self._entries(source).values(), key=lambda entry: age_order(entry.stored))
        renewed = [MemoryRecord(entry.stored, None, expires) for entry in page]
        return len(page), self._move(renewed, source, target)

    def _move(self, page: Sequence[MemoryRecord], source: int, target: int) -> int:
        """Move records to another batch, where the later version of a key stays; the answer is how many others."""
        into, superseded = self._batch(target), 0
        for entry in page:
            self._pop(source, entry.stored.key)
            known = into.entries.get(entry.stored.key)
            superseded += known is not None
            if known is None or known.stored.arrival < entry.stored.arrival:
                self._put(target, entry)
        return superseded

    def earliest_deadline(self, batch: int) -> Millis | None:
        found = self._batches.get(batch)
        return min(found.urgent.values(), default=None) if found is not None else None

    def earliest_expiry(self, batch: int) -> Millis:
        return min((entry.expires for entry in self._entries(batch).values()), default=NEVER)

    def latest_expiry(self, batch: int) -> Millis:
        return max((entry.expires for entry in self._entries(batch).values()), default=0)

    def sizes(self, batches: Sequence[int]) -> dict[int, Size]:
        return {batch: Size(len(self._entries(batch)), len(self._valueless(batch))) for batch in batches}

    def _valueless(self, batch: int) -> list[str]:
        """The keys of records without a value: a move may have brought some."""
        return [key for key, entry in self._entries(batch).items() if entry.stored.payload is None]

    def valueless_keys(self, batch: int, *, limit: int) -> list[str]:
        return sorted(self._valueless(batch))[:limit]

    def batches(self) -> dict[int, int]:
        return {number: len(batch.entries) for number, batch in self._batches.items()}

    def delete_batch(self, batch: int) -> None:
        self._note(self._batches, batch)
        self._batches.pop(batch, None)

    trash = delete_batch  # which costs nothing here

    def sweep(self, limit: int) -> bool:
        return False

    # exports and imports

    def read_export(self, batch: int, *, after: Cursor | None, limit: int) -> list[ExportedRecord]:
        entries = sorted(self._entries(batch).values(), key=lambda entry: age_order(entry.stored))
        rest = (entry for entry in entries if after is None or age_order(entry.stored) > after)
        return [_exported(entry) for entry in islice(rest, limit)]

    def import_records(self, batch: int, records: Sequence[ExportedRecord]) -> int:
        into = self._batch(batch)
        before = len(into.entries)
        for record, deadline, expires in records:
            known = into.entries.get(record.key)
            if known is None or known.stored.timestamp <= record.timestamp:
                stored = record._replace(arrival=self.next_number())
                self._put(batch, MemoryRecord(stored, deadline, NEVER if expires is None else expires))
        return len(into.entries) - before

    def lock_note(self, name: str) -> None:
        """Units run one at a time."""

    def note(self, name: str) -> bytes | None:
        return self._notes.get(name)

    def put_note(self, name: str, body: bytes | None) -> None:
        self._note(self._notes, name)
        self._notes.pop(name, None)
        if body is not None:
            self._notes[name] = body

    def notes(self) -> dict[str, bytes]:
        return self._notes

    def document(self, collection: str, key: str) -> DocumentRow | None:
        return self._documents.get((collection, key))

    def put_document(self, row: DocumentRow) -> None:
        place = row.collection, row.document.key
        self._note(self._documents, place)
        self._documents[place] = row

    def remove_document(self, row: DocumentRow) -> None:
        place = row.collection, row.document.key
        self._note(self._documents, place)
        del self._documents[place]

    def oldest_document(self, collection: str, ring: str | None) -> DocumentRow | None:
        found = (row for row in self._documents.values() if row.collection == collection)
        return next((row for row in found if ring in (None, row.document.ring)), None)

    def newest_documents(self, collection: str, *, timeline: str | None, before: int, limit: int) -> list[DocumentRow]:
        found = (row for row in reversed(self._documents.values()) if row.collection == collection)
        wanted = (row for row in found if row.number < before and timeline in (None, row.document.timeline))
        return list(islice(wanted, limit))

    def documents_of(self, timeline: str, *, limit: int) -> list[DocumentRow]:
        return list(islice((row for row in self._documents.values() if row.document.timeline == timeline), limit))

    def is_moving(self) -> bool:
        return bool(self._moving)

    def moving(self) -> str | None:
        return self._moving.get(None)

    def put_moving(self, moving: str | None) -> None:
        self._note(self._moving, None)
        self._moving.pop(None, None)
        if moving is not None:
            self._moving[None] = moving

    def remove_notes(self, prefix: str) -> None:
        for name in [name for name in self._notes if name.startswith(prefix)]:
            self.put_note(name, None)

    # dead letters and history

    def letter(self, letter_id: str) -> DeadLetter | None:
        found = self._letters.get(letter_id)
        return None if found is None else found[0]

    def letter_batch(self, letter_id: str) -> int:
        return self._letters[letter_id][1]

    def put_letter(self, letter: DeadLetter, batch: int) -> None:
        self._note(self._letters, letter.id)
        self._letters[letter.id] = (letter, batch, self.next_number())

    def update_letter(self, letter: DeadLetter) -> None:
        self._note(self._letters, letter.id)
        self._letters[letter.id] = (letter, *self._letters[letter.id][1:])

    def remove_letter(self, letter_id: str) -> None:
        self._note(self._letters, letter_id)
        del self._letters[letter_id]

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[tuple[str, DeadLetter | None]]:
        letters = iter([letter for letter, *_ in self._letters.values()])
        if after is not None:
            for letter in letters:
                if letter.id == after:
                    break
        return list(islice(((each.id, each) for each in letters if timeline in (None, each.timeline)), limit))

    def replace_letter(self, row: LetterRow, letter: DeadLetter | None) -> None:
        if letter is None:
            self.remove_letter(row.id)
        else:
            self.update_letter(letter)

    def letter_rows(self, *, after: int, limit: int) -> list[LetterRow]:
        rows = (LetterRow(n, letter.id, letter.timeline, batch, letter) for letter, batch, n in self._letters.values())
        return list(islice((row for row in rows if row.number > after), limit))

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        for letter, batch, _ in reversed(self._letters.values()):
            if letter.timeline == timeline and key in self._entries(batch):
                return letter
        return None

    def remember(self, ended: HistoryEntry) -> None:
        entries = self._history.setdefault(self.tenants.of(ended.timeline), OrderedDict())
        number = self.next_number()
        self._note(entries, number)
        entries[number] = ended
        if len(entries) > HISTORY_LIMIT:
            self._delete_entry(entries, next(iter(entries)))

    def _delete_entry(self, entries: "OrderedDict[int, HistoryEntry]", number: int) -> None:
        self._note(entries, number)
        del entries[number]

    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        latest_first = heapq.merge(*(reversed(entries.items()) for entries in self._history.values()), reverse=True)
        entries = (ended for _, ended in latest_first)
        if timeline is None:
            return list(islice((ended for ended in entries if ended.timeline.startswith(prefix)), limit))
        return list(islice((ended for ended in entries if ended.timeline == timeline), limit))

    def delete_history(self, timeline: str) -> None:
        for entries in self._history.values():
            for number in [number for number, ended in entries.items() if ended.timeline == timeline]:
                self._delete_entry(entries, number)

    def oldest_entry(self, ring: str) -> HistoryEntry | None:
        entries: Mapping[int, HistoryEntry] = self._history.get(ring, {})
        return next(iter(entries.values())) if len(entries) == HISTORY_LIMIT else None

    def removals(self, timeline: str) -> Removals:
        return self._removals[timeline][2] if timeline in self._removals else Removals()

    def put_removals(self, timeline: str, removals: Removals) -> None:
        self._note(self._removals, timeline)
        number = self._removals[timeline][0] if timeline in self._removals else self.next_number()
        ring = self.tenants.of(timeline)
        self._removals[timeline] = number, ring, removals
        remembered = self._removed_in(ring)
        if len(remembered) > HISTORY_LIMIT:
            self.delete_removals(remembered[0])

    def _removed_in(self, ring: str) -> list[str]:
        """The timelines of a ring with removals, oldest first."""
        return [timeline for timeline, (_, own, _) in self._removals.items() if own == ring]

    def delete_removals(self, timeline: str) -> None:
        self._note(self._removals, timeline)
        self._removals.pop(timeline, None)

    def oldest_removals(self, ring: str) -> Removals | None:
        remembered = self._removed_in(ring)
        return self.removals(remembered[0]) if len(remembered) == HISTORY_LIMIT else None

    # counts

    def ledger(self) -> Ledger:
        return Ledger(**{name: self.tally[name] for name in COUNTERS})

    def reset_counters(self, counters: Sequence[str]) -> None:
        self.tally.update(dict.fromkeys(counters, 0))

    def digests_delivered(self) -> int:
        return self.tally["digests"]

    def standing(self, now: Millis, most: int | None = None) -> Standing:
        waiting, ready, _, until, paused_until, expires = self._orders
        due = sum(1 for order in (waiting, until) for _ in takewhile(lambda item: item[0] <= now, order.after(None)))
        leased = sum(1 for _ in takewhile(lambda item: item[0] < UNLEASED, paused_until.after(None)))
        firsts = [item[0] for order in (waiting, ready) for item in islice(order.after(None), 1)]
        return Standing(
            timelines=len(self._slots),
            waiting=len(waiting),
            ready=len(ready),
            open=len(until) + leased,
            due=due + len(ready),
            earliest=min(firsts, default=None),
            expires=next((item[0] for item in expires.after(None)), None),
        )

    def footprint(self) -> Mapping[str, int]:
        records = sum(len(batch.entries) for batch in self._batches.values())
        return {
            "timelines": len(self._slots),
            "records": records,
            "letters": len(self._letters),
            "notes": len([name for name in self._notes if not name.startswith("samples:")]),
            "documents": len(self._documents),
        }

    def trashed_records(self) -> int:
        return 0


def _exported(entry: MemoryRecord) -> ExportedRecord:
    return ExportedRecord(entry.stored, entry.deadline, None if entry.expires == NEVER else entry.expires)


_WAITING, _READY, _SINCE, _UNTIL, _PAUSED_UNTIL, _EXPIRES = range(len(Marks._fields))
