"""One PostgreSQL transaction's view of the tables. It holds changes back, and writes them together."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from digestif.core.backlog import Standing
from digestif.core.ledger import COUNTERS, TALLIED, Ledger
from digestif.core.times import Millis
from digestif.stores.base import PAGE_BYTES, Arrival
from digestif.stores.postgres.arrays import Bigints, Byteas
from digestif.stores.postgres.letters import PostgresLetters
from digestif.stores.postgres.records import PostgresRecords
from digestif.stores.postgres.search import PostgresSearch
from digestif.stores.postgres.slots import InboxFirst
from digestif.stores.postgres.transaction import SQL

SAVE_ADDED = f"WITH stored AS ({SQL.put_records}), saved AS ({SQL.save_slots}) {SQL.save_counters}"
SAVE_KEPT = f"WITH saved AS ({SQL.save_slots}) {SQL.save_counters}"
SHARES = 32  # of the ledger


class PostgresRows(PostgresSearch, PostgresLetters, PostgresRecords):
    """The whole view, with its counters. `flush` writes what is held back, and must be called before the commit."""

    def __init__(self, *given: Any, writes: bool) -> None:
        super().__init__(*given, writes=writes)
        self.tally = dict.fromkeys(TALLIED, 0)

    def flush(self) -> None:
        """Write history, removals, records, slots and counters."""
        self._write_trash()
        self._write_history()
        self._write_removals()
        if self._deleted_batches or not any(self.tally.values()) or not self._is_all_kept():
            self._write_records()
            self._write_slots()
            if any(self.tally.values()):
                self._save(SQL.save_counters, self._counters())
        elif self._new:
            self._save(SAVE_ADDED, (*self._new_records(), *self._slot_columns(self._changed()), *self._counters()))
        else:
            self._save(SAVE_KEPT, (*self._slot_columns(self._changed()), *self._counters()))

    def _is_all_kept(self) -> bool:
        """True if slots changed, and their rows exist and stay: one statement can then write everything."""
        changed = self._changed().values()
        return bool(changed) and all(loaded.is_kept for loaded in changed)

    def _counters(self) -> tuple[int, ...]:
        return *self.tally.values(), self._namespace, SHARES

    # Reading ahead: one statement for a batch, locks in the order of keys

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """Lock the timelines of records that are to be added, and read which of the keys exist already."""
        timelines = {arrival.timeline for arrival in arrivals}
        self.reserve(timelines)
        idle = sum(
            self._loaded[name].slot.batch is None for name in timelines
        )  # an idle timeline gets a batch, and may begin to wait
        self._look_for(arrivals, numbers=len(arrivals) + 2 * idle)

    def reserve(self, timelines: Iterable[str]) -> None:
        """Lock these timelines, also those that don't exist yet; `flush` removes names that stay unused."""
        keys = sorted(timeline.encode() for timeline in timelines)
        self._execute(SQL.reserve, (self._namespace, Byteas(keys)))
        self._fetch(SQL.lock, keys)
        for key in keys:
            loaded = self._loaded[key.decode()]
            loaded.is_named = True
            if loaded.version is None:
                self._dirty[key.decode()] = None

    def _look_for(self, arrivals: Sequence[Arrival], *, numbers: int) -> None:
        pairs = [(batch, a.key) for a in arrivals if (batch := self._loaded[a.timeline].slot.batch) is not None]
        self._known.update(dict.fromkeys(pairs, False))
        sought = Bigints([batch for batch, _ in pairs]), Byteas([key.encode() for _, key in pairs])
        *known, (_, moving, drawn) = self._execute(SQL.known, (*sought, self._namespace, numbers)).fetchall()
        self._is_moving = moving is not None
        self._known.update({(batch, bytes(key).decode()): True for batch, key, _ in known})
        self._numbers = sorted(drawn, reverse=True)

    # The inbox

    def refuse_inbox(self) -> None:
        """Raise InboxFirst unless the inbox is empty."""
        end = self.inbox_end()
        if end is not None:
            raise InboxFirst(end)

    def inbox_end(self) -> int | None:
        """Return the id of the last row in the inbox; None if it is empty."""
        row = self._execute(SQL.inbox_end, (self._namespace,)).fetchone()
        assert row is not None
        end: int | None = row[0]
        self.refuse_other_tables(row[1])
        return end

    def fold_alone(self) -> None:
        """Wait until no other transaction folds: a later version of a key must not overtake an earlier one."""
        self._execute(SQL.fold_alone, (self._namespace,))

    def may_fold(self) -> bool:
        """The same without waiting; False if another transaction is folding."""
        return bool(self._value(SQL.may_fold, self._namespace))

    def empty_inbox(self, end: int, limit: int) -> list[tuple[Any, ...]]:
        """Delete a page of the inbox, which ends with the record that fills PAGE_BYTES, and return its rows."""
        return self._execute(SQL.empty_inbox, (self._namespace, end, limit, PAGE_BYTES)).fetchall()

    # Counts

    def ledger(self) -> Ledger:
        counts = self._execute(SQL.ledger, (self._namespace,)).fetchone() or ()
        return Ledger(**{name: int(count or 0) for name, count in zip(COUNTERS, counts, strict=True)})

    def reset_counters(self, counters: Sequence[str]) -> None:
        for counter in counters:
            self._execute(f"UPDATE ledger SET {counter} = 0 WHERE namespace = %s", (self._namespace,))

    def digests_delivered(self) -> int:
        return self._value(SQL.digests_delivered, self._namespace) or 0

    def standing(self, now: Millis, most: int | None = None) -> Standing:
        self._write_slots()
        counts = self._execute(SQL.standing, {"namespace": self._namespace, "now": now, "most": most}).fetchone()
        return Standing(*(counts or ()))

    def footprint(self) -> Mapping[str, int]:
        self._write_trash()
        self._write_slots()
        self._write_records()
        return {
            "timelines": self._value(SQL.count_timelines, self._namespace),
            "records": self._value(SQL.count_records, self._namespace),
            "letters": self._value(SQL.count_letters, self._namespace),
            "trash": self._value(SQL.count_trash, self._namespace),
            "notes": self._value(SQL.count_notes, self._namespace),
            "documents": self._value(SQL.count_documents, self._namespace),
        }
