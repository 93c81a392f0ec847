"""Files that vanish, disks that are full: a clear error, and no acknowledgement of a record that is not stored."""

from pathlib import Path

import pytest

from digestif import Digests, Overloaded, Policy, StoreError, StoreUnavailable
from digestif.stores.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "d.db"


def test_a_file_that_was_removed_acknowledges_nothing_and_is_made_anew(path: Path) -> None:
    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", 1, key="lost")
        for file in path.parent.glob("d.db*"):
            file.unlink()

        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            digests.add("t", 1, key="refused")

        assert digests.add("t", 1, key="kept") is True
        with Digests(f"sqlite:///{path}") as other:
            assert [record.key for record in other.peek("t")] == ["kept"]


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1)])
def test_every_connection_is_as_durable_as_it_was_asked_to_be(path: Path, synchronous: str, level: int) -> None:
    store = SQLiteStore(path, synchronous=synchronous)
    digests = Digests(store)

    for _ in range(2):
        writer = store._writer.connect()
        assert writer.execute("PRAGMA synchronous").fetchone() == (level,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        store.before_fork()  # closes everything: the next use opens it again
        store.after_fork(in_child=False)
        digests.add("t", 1)

    store.close()


def test_a_full_store_can_still_be_drained(path: Path) -> None:
    store = SQLiteStore(path)
    digests = Digests(store, policy=Policy(capacity=None))
    writer = store._writer.connect()
    writer.execute("PRAGMA max_page_count = 500")
    accepted = 0
    with pytest.raises(Overloaded, match="disk is full"):
        for accepted in range(10_000):
            digests.add(f"t{accepted % 10}", "x" * 9000, key=str(accepted))

    for number in range(10):
        with digests.digest(f"t{number}", 0):
            pass

    assert digests.ledger().delivered == accepted
    assert digests.add("t", "x" * 2000) is True
    assert digests.verify()
    store.close()


def test_a_file_of_another_kind_is_refused_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Remember the milk. " * 100)

    with pytest.raises(StoreError, match="not a SQLite file"):
        SQLiteStore(file)

    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]
