"""Rows that can't be read, in the ways of SQLite. What all stores show is in the conformance suite."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from digestif import Damage, Digests, Policy, Store, StoreError
from digestif.core.terms import Terms
from digestif.stores.base import Arrival
from digestif.stores.sqlite import SQLiteStore
from digestif.testing.conformance.actions import T, deliver, fail, keys, scheduled
from digestif.testing.conformance.port import NOW, arrive_everywhere, claim_all, open_lease, take_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "d.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = SQLiteStore(path, synchronous="normal")
    yield store
    store.close()


@pytest.fixture
def digests(store: Store) -> Digests:
    return Digests(store, policy=Policy(attempts=1, minimum_delay=0))


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            assert file.execute(statement).rowcount > 0


@pytest.mark.parametrize(
    "slot",
    [
        "''",
        "'null'",
        "'{}x'",
        "'[' || slot || ']'",
        "CAST(x'ff00' AS TEXT)",
        """'{"state":"sleeping"}'""",
        """json_set(slot, '$.at', 'soon')""",
        """json_set(slot, '$.at', 1e300)""",
        """json_set(slot, '$.pending', -1)""",
        """json_remove(slot, '$.batch')""",
        """json_set(slot, '$.digest', 'x')""",
    ],
)
def test_whatever_a_slot_says_it_stops_only_its_own_timeline(
    digests: Digests, store: Store, path: Path, slot: str
) -> None:
    arrive_everywhere(store, ["bad", "good"])
    change(path, f"UPDATE timeline SET slot = {slot} WHERE key = 'bad'")

    assert [lease.timeline for lease in claim_all(store)] == ["good"]
    assert [timeline.key for timeline in digests.timelines()] == ["good"]
    with pytest.raises(StoreError, match=r"'bad'.*digestif repair"):
        digests.add("bad", 1, now=T)
    [found] = digests.repair(now=T)
    assert (found.timeline, found.records) == ("bad", 1)
    assert digests.verify()
    assert [letter.timeline for letter in digests.dead_letters()] == ["bad"]


def test_a_name_that_is_not_utf_8_stops_nobody_and_its_records_are_found_again(
    digests: Digests, store: Store, path: Path
) -> None:
    arrive_everywhere(store, ["a", "bad", "z"])
    change(path, "UPDATE timeline SET key = CAST(x'62ff' AS TEXT) WHERE key = 'bad'")

    assert [lease.timeline for lease in claim_all(store)] == ["a", "z"]
    assert [timeline.key for timeline in digests.timelines(limit=2)] == ["a", "z"]
    [found] = digests.repair(now=T)

    assert (found.timeline, found.records) == (r"b\xff", 1)
    assert digests.verify()
    [letter] = digests.dead_letters()
    assert (letter.timeline, letter.records) == ("lost+found", 1)


def test_a_record_whose_key_is_not_utf_8_is_quarantined_when_it_is_delivered(digests: Digests, path: Path) -> None:
    for key in ("bad", "good"):
        digests.add("t", key, key=key, now=T)
    change(path, "UPDATE record SET key = CAST(x'62ff' AS TEXT) WHERE key = 'bad'")

    assert keys(digests.peek("t")) == ["good"]
    assert keys(deliver(digests, "t", now=T)) == ["good"]

    [letter] = digests.dead_letters()
    assert letter.reason == "the stored value is missing"
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT payload FROM record").fetchall() == [(b'json/1 "bad"',)]
    assert digests.verify()


@pytest.mark.parametrize("place", [0, 30, 49])
def test_a_large_digest_with_such_a_key_is_read_to_its_end(store: Store, path: Path, place: int) -> None:
    """The key may stand in the first page of bytes, or in the second."""
    for number in range(50):
        store.add([Arrival("t", f"r{number}", b"x" * 200_000, -float(number), None, Terms())], now=NOW)
    change(path, f"UPDATE record SET key = CAST(x'62ff' AS TEXT) WHERE key = 'r{place}'")

    taken = take_all(store, open_lease(store))

    assert len(taken.records) == 50
    assert [at for at, record in enumerate(taken.records) if record.payload is None] == [place]


def test_a_digest_that_holds_such_a_key_can_be_merged_and_buried(digests: Digests, path: Path) -> None:
    digests = Digests(digests.store, policy=Policy(attempts=2, minimum_delay=0))
    for key in ("bad", "good"):
        digests.add("t", key, key=key, now=T)
    fail(digests, "t")
    change(path, "UPDATE record SET key = CAST(x'62ff' AS TEXT) WHERE key = 'bad'")
    digests.add("t", "new", key="new", now=T)

    assert keys(fail(digests, "t")) == ["new", "good"]

    assert sorted(letter.records for letter in digests.dead_letters()) == [1, 2]
    assert digests.verify()


def test_records_whose_timelines_can_no_longer_be_told_are_kept(digests: Digests, path: Path) -> None:
    for name in ("a", "b"):
        digests.add(name, name, now=T)
    change(path, "UPDATE timeline SET slot = ''")

    found = digests.repair(now=T)

    assert sum(damage.records for damage in found) == 2
    assert digests.verify()
    letters = digests.dead_letters()
    assert [letter.timeline for letter in letters] == ["lost+found", "lost+found"]
    assert all("they may have been of 'a', 'b'" in letter.reason for letter in letters)


def test_a_slot_that_names_the_batch_of_another_timeline_takes_nothing_from_it(digests: Digests, path: Path) -> None:
    for name in ("bad", "good"):
        digests.add(name, name, key=name, now=T)
    change(
        path,
        """UPDATE timeline SET slot = json_set(slot, '$.state', 'sleeping', '$.batch',
            (SELECT json_extract(slot, '$.batch') FROM timeline WHERE key = 'good')) WHERE key = 'bad'""",
    )

    digests.repair(now=T)

    assert keys(deliver(digests, "good", now=T)) == ["good"]
    assert [keys(digests.dead_records(letter.id)) for letter in digests.dead_letters()] == [["bad"]]
    assert digests.verify()


def test_counters_that_were_damaged_follow_the_data_again(digests: Digests, path: Path) -> None:
    digests.add("t", 1, key="a", now=T)
    digests.add("t", 2, key="b", now=T)
    change(path, "UPDATE namespace SET pending = 7, accepted = 100")

    [found] = digests.repair(now=T)

    assert found.part == "ledger"
    assert "pending 7, should be 2" in found.problem
    assert "lost 0, should be 98" in found.problem
    assert digests.ledger().accepted == 100
    assert digests.verify()


def test_a_note_of_a_move_that_cannot_be_read_is_removed(digests: Digests, store: SQLiteStore, path: Path) -> None:
    store.swap_note(0, "move", None, b"{")
    store.swap_note(0, "leaving:x-0", None, b"{")
    store.swap_note(0, "somebody's own", None, b"{")

    assert [damage.part for damage in digests.repair(now=T)] == ["note", "note"]

    assert store.note(0, "move") is None
    assert store.note(0, "somebody's own") == b"{"
    assert digests.verify()


def test_a_row_that_was_repaired_by_hand_is_put_back_into_the_schedule(
    digests: Digests, store: Store, path: Path
) -> None:
    digests.add("t", 1, key="a", first_delay=5, now=T)
    change(path, "UPDATE timeline SET slot = replace(slot, '\"waiting\"', '\"sleeping\"')")
    assert scheduled(digests, T + 10) == []  # it left the schedule
    change(path, "UPDATE timeline SET slot = replace(slot, '\"sleeping\"', '\"waiting\"')")

    assert [damage.part for damage in digests.repair(now=T)] == ["place"]

    assert scheduled(digests, T + 10) == ["t"]


def test_two_who_repair_at_once_correct_the_ledger_once(path: Path, store: SQLiteStore) -> None:
    digests, other = Digests(store), Digests(SQLiteStore(path))
    digests.add("t", 1, now=T)
    change(path, "UPDATE namespace SET pending = 7")
    read, surveyed = store._read, list[list[Damage]]()

    def read_slowly(unit: Any, *, pending: bool = True) -> Any:
        found: Any = read(unit, pending=pending)
        if not surveyed:
            surveyed.append(other.repair(now=T))
        return found

    store._read = read_slowly  # type: ignore[method-assign]

    assert digests.repair(now=T) == []

    assert [damage.part for damage in surveyed[0]] == ["ledger"]
    assert other.verify()
    other.store.close()


def test_a_counter_that_was_set_back_gives_no_number_twice(digests: Digests, path: Path) -> None:
    for number in range(3):
        digests.add("old", number)
    change(path, "UPDATE namespace SET number = 0")

    digests.add("new", "new")

    assert [record.value for record in digests.peek("new")] == ["new"]
    assert sorted(record.value for record in digests.peek("old")) == [0, 1, 2]
    assert digests.verify()


def test_a_record_that_is_noted_as_another_namespaces_breaks_no_books_when_they_are_repaired(
    digests: Digests, path: Path
) -> None:
    for number in range(3):
        digests.add("t", number)
    fail(digests, "t")
    change(path, "UPDATE record SET namespace = 99 WHERE arrival = (SELECT min(arrival) FROM record)")

    digests.repair()

    assert digests.verify()


def test_a_count_below_zero_is_named_and_repaired(digests: Digests, path: Path) -> None:
    digests.add("t", 1)
    change(path, "UPDATE namespace SET delivered = -1")

    assert "the ledger has negative counts: delivered -1" in digests.verify().problems
    digests.repair()

    assert digests.verify()
    assert digests.ledger().delivered == 0


NAMES = ["plain", "a\0b", "a", "ü", "\U0001f600", '"', "\\u0061", "1", "null"]


@pytest.mark.parametrize("slot", ["slot", "CAST(x'ff00' AS TEXT)", "''"])
def test_a_batch_finds_the_timelines_of_all_names_beside_a_damaged_one(
    digests: Digests, store: Store, path: Path, slot: str
) -> None:
    digests.add_many([(name, 1) for name in [*NAMES, "maybe bad"]])
    change(path, f"UPDATE timeline SET slot = {slot} WHERE key = 'maybe bad'")

    digests.add_many([(name, 2) for name in NAMES for _ in range(2)])

    assert [digests.timeline(name).pending for name in NAMES] == [3] * len(NAMES)
    if slot != "slot":
        with pytest.raises(StoreError):
            digests.add_many([(name, 3) for name in [*NAMES, "maybe bad"]])
        assert [digests.timeline(name).pending for name in NAMES] == [3] * len(NAMES)


def test_a_batch_reads_its_slots_with_one_statement(digests: Digests, store: SQLiteStore) -> None:
    digests.add_many([(f"t{number}", 1) for number in range(100)])
    statements: list[str] = []
    assert store._writer.connection is not None
    store._writer.connection.set_trace_callback(statements.append)

    digests.add_many([(f"t{number}", 2) for number in range(100)])

    assert len([text for text in statements if text.startswith("SELECT") and "slot FROM" in text]) == 1


@pytest.mark.parametrize("vanished", [["1"], ["0", "1", "2"]])
def test_a_dead_letter_with_values_that_vanished_is_named_and_divided(
    digests: Digests, path: Path, vanished: list[str]
) -> None:
    """Fact 77. The records that are whole can be requeued, the others are dead letters of their own."""
    for key in "012":
        digests.add("t", int(key), key=key, timestamp=T + int(key), now=T)
    letter = fail(digests, "t").id
    change(path, *[f"UPDATE record SET payload = NULL WHERE key = '{key}'" for key in vanished])

    named = digests.verify().problems
    digests.repair(now=T)

    assert named == (f"'t': dead letter {letter}: {len(vanished)} records have no value",)
    assert digests.verify()
    assert (digests.ledger().accepted, digests.ledger().dead) == (3, 3)
    assert sorted(found.records for found in digests.dead_letters()) == sorted(
        [1] * len(vanished) + [2] * (len(vanished) == 1)
    )
    assert digests.requeue(letter, now=T) == (len(vanished) == 1)
