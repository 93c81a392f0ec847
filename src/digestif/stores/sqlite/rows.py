"""One SQLite transaction's view of the tables."""

from collections.abc import Callable, Mapping, Sequence

from digestif.core.backlog import Standing
from digestif.core.damage import Damage
from digestif.core.ledger import COUNTERS, TALLIED, Ledger
from digestif.core.times import Millis
from digestif.stores.base import PAGE_RECORDS
from digestif.stores.sqlite.connections import SQL, Connection
from digestif.stores.sqlite.letters import SqliteLetters
from digestif.stores.sqlite.records import SqliteRecords

_OF_ADDS = {"accepted", "pending"}  # the counters that change with a new record


class SqliteRows(SqliteLetters, SqliteRecords):
    """The whole view, with its counters. `flush` writes what is held back, and must be called before the commit."""

    def __init__(self, connection: Connection, namespace: int, note_damage: Callable[[Damage], None]) -> None:
        super().__init__(connection, namespace, note_damage)
        self.tally = dict.fromkeys(TALLIED, 0)
        self.budget = PAGE_RECORDS

    def flush(self) -> None:
        """Write slots, counters and the sequence."""
        self._write_slots()
        number, tally = self._number or 0, self.tally
        changed = {counter for counter, change in tally.items() if change}
        if changed - _OF_ADDS:
            self._execute(SQL.save_counters, {**tally, "number": number, "namespace": self._namespace})
        elif changed or self._number != self._saved_number:
            self._execute(SQL.save_adds, (number, tally["accepted"], tally["pending"], self._namespace))

    def ledger(self) -> Ledger:
        counts = self._execute(SQL.ledger, (self._namespace,)).fetchone() or [0] * len(COUNTERS)
        return Ledger(**dict(zip(COUNTERS, counts, strict=True)))

    def reset_counters(self, counters: Sequence[str]) -> None:
        for counter in counters:
            self._execute(f"UPDATE namespace SET {counter} = 0 WHERE id = ?", (self._namespace,))

    def digests_delivered(self) -> int:
        return self._value(SQL.digests_delivered, self._namespace) or 0

    def standing(self, now: Millis, most: int | None = None) -> Standing:
        self._write_slots()
        counts = self._execute(
            SQL.standing, {"namespace": self._namespace, "now": now, "most": -1 if most is None else most}
        ).fetchone()
        return Standing(*counts)

    def footprint(self) -> Mapping[str, int]:
        self._write_slots()
        return {
            "timelines": self._value(SQL.count_timelines, self._namespace),
            "records": self._value(SQL.count_records, self._namespace),
            "letters": self._value(SQL.count_letters, self._namespace),
            "trash": self._value(SQL.count_trash, self._namespace),
            "notes": self._value(SQL.count_notes, self._namespace),
            "documents": self._value(SQL.count_documents, self._namespace),
        }
