"""`mode=ro`: a file is read as it is, by commands that must leave no trace beside it."""

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from digestif import ConfigError, Digests, StoreUnavailable
from digestif.stores.rows import Rows
from digestif.stores.sqlite.connections import NeedsUpgrade
from digestif.stores.sqlite.read_only import ReadOnlySQLiteStore
from tests.alone import alone
from tests.stores.sqlite.test_reserve import add_and_die


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "d.db"
    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", 1)
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[Digests]:
    with Digests(f"sqlite:///{path}?mode=ro") as digests:
        yield digests


def listing(folder: Path) -> dict[str, tuple[int, ...]]:
    """What `ls -l` shows of each file, and its inode."""
    found = {each.name: each.lstat() for each in folder.iterdir()}
    return {name: (each.st_ino, each.st_mode, each.st_uid, each.st_mtime_ns) for name, each in found.items()}


def test_reading_a_closed_file_changes_nothing_and_makes_nothing(tmp_path: Path, path: Path) -> None:
    for name in ("d.db-lock", "d.db-reserve"):
        (tmp_path / name).unlink()
    before = listing(tmp_path)

    with Digests(f"sqlite:///{path}?mode=ro") as reader:
        assert reader.ledger().accepted == 1
        assert reader.verify()
        assert listing(tmp_path) == before

    assert listing(tmp_path) == before


def test_reading_what_a_killed_process_left_sees_all_of_it_and_makes_nothing(tmp_path: Path) -> None:
    alone(add_and_die, str(tmp_path / "d.db"))
    before = set(listing(tmp_path))

    with Digests(f"sqlite:///{tmp_path}/d.db?mode=ro") as reader:
        assert reader.ledger().accepted == 100

    assert set(listing(tmp_path)) == before


def test_a_reader_sees_what_a_process_writes_that_opens_the_file_later(path: Path, reader: Digests) -> None:
    assert reader.ledger().accepted == 1

    with Digests(f"sqlite:///{path}") as writer:
        writer.add("t", 2)
        assert reader.ledger().accepted == 2
        writer.add("t", 3)
        assert reader.ledger().accepted == 3
    assert reader.ledger().accepted == 3


def test_what_was_read_while_a_process_wrote_is_read_again(path: Path) -> None:
    """Without a log SQLite takes no locks, so an answer counts only if the file is the same afterwards."""
    seen: list[int] = []

    def interrupted(rows: Rows) -> int:
        if not seen:
            with Digests(f"sqlite:///{path}") as writer:
                writer.add("t", 2)
        seen.append(rows.ledger().accepted)
        return seen[-1]

    with closing(ReadOnlySQLiteStore(path)) as store:
        assert store._read(interrupted) == 2
    assert len(seen) == 2


def test_answers_are_right_while_processes_come_and_go(path: Path) -> None:
    def come_and_go() -> None:
        for number in range(50):
            with Digests(f"sqlite:///{path}") as writer:
                writer.add("t", number)

    with ThreadPoolExecutor() as threads, Digests(f"sqlite:///{path}?mode=ro") as reader:
        writing = threads.submit(come_and_go)
        seen = []
        while not writing.done():
            assert reader.verify()
            seen.append(reader.ledger().accepted)
        writing.result()

        assert seen == sorted(seen)
        assert reader.ledger().accepted == 51


def test_calls_that_write_are_refused(reader: Digests) -> None:
    with pytest.raises(StoreUnavailable, match=r"d\.db: is open for reading only"):
        reader.add("t", 1)


def test_a_namespace_that_was_never_written_is_empty_until_it_is(path: Path) -> None:
    with Digests(f"sqlite:///{path}?mode=ro", namespace="other") as reader:
        assert reader.ledger().accepted == 0
        assert list(reader.timelines()) == []

        with Digests(f"sqlite:///{path}", namespace="other") as writer:
            writer.add("t", 1)
        assert reader.ledger().accepted == 1


def test_an_empty_file_is_an_empty_store_and_stays_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()

    with Digests(f"sqlite:///{tmp_path}/empty.db?mode=ro") as reader:
        assert reader.ledger().accepted == 0

    assert listing(tmp_path).keys() == {"empty.db"}
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_a_file_that_may_only_be_read_can_be(path: Path) -> None:
    path.chmod(0o444)

    with Digests(f"sqlite:///{path}?mode=ro") as reader:
        assert reader.ledger().accepted == 1


def test_a_file_of_an_older_release_has_to_be_opened_for_writing_first(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE schema SET version = version - 1")
        file.commit()
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    with pytest.raises(NeedsUpgrade, match="older release; open it for writing once"):
        Digests(f"sqlite:///{path}?mode=ro")


def test_what_can_not_be_read_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"none\.db: there is no such file"):
        Digests(f"sqlite:///{tmp_path}/none.db?mode=ro")
    with pytest.raises(ConfigError, match="mode: a database in memory"):
        Digests("sqlite://?mode=ro")

    assert list(tmp_path.iterdir()) == []


def test_a_pipe_at_the_path_does_not_make_a_reader_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "d.db")

    with pytest.raises(StoreUnavailable, match=r"d\.db: is a link, or no regular file"):
        Digests(f"sqlite:///{tmp_path}/d.db?mode=ro")
