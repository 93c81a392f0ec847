"""SQLite obeys in a file. In memory, and awaited: torture/test_conformance.py, and tests/conformance/test_model.py."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from digestif import Digests, Store
from digestif.stores.sqlite import SQLiteStore
from digestif.testing import StoreConformance
from digestif.testing.conformance.actions import T, add_all, deliver, fail, next_digest, numbered
from digestif.testing.conformance.base import Damager, Harm
from tests.conformance.makers import Maker, made
from tests.conformance.modes import SharedRules

KEPT = {"namespace", "sequence", "history", "removal", "schema"}  # counters, settings and history


_PENDING = "batch = (SELECT json_extract(slot, '$.batch') FROM timeline WHERE key = ?)"
_IN_DIGEST = _PENDING.replace("$.batch", "$.digest.batch")
_IN_LETTER = "batch = (SELECT batch FROM letter WHERE timeline = ?)"
DAMAGE = {
    Harm.GARBLED: "UPDATE timeline SET slot = substr(slot, 1, length(rtrim(slot)) - 1) WHERE key = ?",
    Harm.IMPOSSIBLE: """UPDATE timeline SET slot = json_set(slot, '$.state', 'open', '$.token', NULL) WHERE key = ?""",
    Harm.IDLE: "UPDATE timeline SET slot = json_set(slot, '$.state', 'idle', '$.pending', 0) WHERE key = ?",
    Harm.MISPLACED: "UPDATE timeline SET waiting = NULL, ready = NULL, until = NULL, expires = NULL WHERE key = ?",
    Harm.VALUE: f"UPDATE record SET payload = NULL WHERE arrival = (SELECT max(arrival) FROM record WHERE {_PENDING})",
    Harm.RECORD: f"DELETE FROM record WHERE arrival = (SELECT max(arrival) FROM record WHERE {_PENDING})",
    Harm.DIGEST_VALUE: f"""UPDATE record SET payload = NULL
        WHERE arrival = (SELECT max(arrival) FROM record WHERE {_IN_DIGEST})""",
    Harm.DIGEST_RECORD: f"DELETE FROM record WHERE arrival = (SELECT max(arrival) FROM record WHERE {_IN_DIGEST})",
    Harm.LETTER_RECORD: f"DELETE FROM record WHERE arrival = (SELECT max(arrival) FROM record WHERE {_IN_LETTER})",
    Harm.LETTER: "UPDATE letter SET body = 'null' WHERE timeline = ?",
    Harm.HISTORY: "UPDATE history SET body = '{' WHERE timeline = ?",
}


class TestSQLiteFile(SharedRules, StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[Maker]:
        yield from made(lambda number: SQLiteStore(tmp_path / f"{number}.db", namespace="d", synchronous="normal"))

    @pytest.fixture
    def store(self, make_store: Maker) -> Store:
        return make_store()

    @pytest.fixture
    def damage(self, store: Store, tmp_path: Path) -> Damager:  # the file has to be there
        def harm(how: Harm, timeline: str) -> None:
            with closing(sqlite3.connect(tmp_path / "0.db", isolation_level=None)) as file:
                assert file.execute(DAMAGE[how], (timeline,)).rowcount > 0

        return harm

    def test_the_file_holds_nothing_but_counters_and_history(self, digests: Digests, tmp_path: Path) -> None:
        """Fact 30. Everything delivered and retired: no row remains, as the file itself says."""
        for n in range(5):
            add_all(digests, f"t{n}", numbered(range(1_200)))
            fail(digests, f"t{n}")
            add_all(digests, f"t{n}", numbered(range(600, 1_800)))
            deliver(digests, f"t{n}", 0)
            assert list(next_digest(digests, f"t{n}", now=T)) == []

        assert {table for table, rows in rows_in(tmp_path / "0.db").items() if rows} <= KEPT

    def test_the_footprint_counts_the_rows_of_the_file(self, digests: Digests, store: Store, tmp_path: Path) -> None:
        """Fact 29. What the footprint says of pending and unfinished records is what the file holds."""
        add_all(digests, "t", numbered(range(3)))
        fail(digests, "t")
        add_all(digests, "t", numbered(range(5)))

        rows = rows_in(tmp_path / "0.db")

        assert rows["record"] == 8
        assert rows["timeline"] == 1
        assert sum(store.footprint().values()) == sum(rows[table] for table in rows.keys() - KEPT)

    @pytest.mark.parametrize("damage", ["DELETE FROM record WHERE arrival IN (SELECT max(arrival) FROM record)"])
    def test_verify_notices_a_record_that_is_missing(self, digests: Digests, tmp_path: Path, damage: str) -> None:
        """Fact 48. verify compares with a recount from the data: a record that is gone is noticed."""
        add_all(digests, "t", numbered(range(3)))
        with closing(sqlite3.connect(tmp_path / "0.db", isolation_level=None)) as file:
            file.execute(damage)

        report = digests.verify()

        assert bool(report) is False
        assert report.ledger.pending == 3
        assert report.recounted["pending"] == 2
        assert report.problems


def rows_in(path: Path) -> dict[str, int]:
    """How many rows each table of the file has."""
    with closing(sqlite3.connect(path)) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {table: file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
