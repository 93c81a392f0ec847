"""The owner of a folder puts something at the names beside a database: no other file is touched, and no call hangs."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from digestif import DigestifError, Digests, StoreUnavailable
from digestif.stores.sqlite import SQLiteStore
from tests.stores.sqlite.trespass import KINDS, NAMES, Victim, foreign_folder

Open = Callable[[Path], None]


def write(path: Path) -> None:
    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", 1)


def read(path: Path) -> None:
    with Digests(f"sqlite:///{path}?mode=ro") as digests:
        digests.ledger()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A store in a folder that is another user's if the tests run as root."""
    return foreign_folder(tmp_path / "theirs") / "d.db"


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """A file of ours that must stay as it is."""
    victim = Victim(tmp_path / "victim")
    yield victim
    assert victim.is_as_it_was()


@pytest.mark.parametrize("open_", [write, read])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_at_a_side_name_leads_to_another_file(
    database: Path, victim: Victim, name: str, kind: str, open_: Open
) -> None:
    victim.put(kind, database, name)

    with suppress(DigestifError):
        open_(database)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["-lock", "-wal", "-journal"])
def test_an_error_names_what_is_in_the_way(database: Path, victim: Victim, name: str, kind: str) -> None:
    place = victim.put(kind, database, name)

    with pytest.raises(StoreUnavailable, match=f"{place.name}: is a link, or no regular file with one name; remove it"):
        write(database)


@pytest.mark.parametrize("kind", ["symbolic link", "hard link", "pipe"])
def test_a_name_that_is_needed_for_the_reserve_is_replaced(database: Path, victim: Victim, kind: str) -> None:
    place = victim.put(kind, database, "-reserve")

    write(database)

    assert place.is_file()
    assert not place.is_symlink()
    assert place.stat().st_nlink == 1
    assert not victim.is_at(place)


def test_a_log_that_was_kept_for_another_owner_is_not_used(database: Path) -> None:
    kept = database.with_name("d.db-reserve")
    kept.chmod(0o640)
    before = kept.stat()
    with kept.open("rb") as old:
        write(database)

        assert os.fstat(old.fileno()).st_mode == before.st_mode
        assert not os.path.samestat(kept.stat(), os.fstat(old.fileno()))


def test_a_lock_that_the_wrong_users_may_open_is_replaced_and_left_as_it_was(database: Path) -> None:
    lock = database.with_name("d.db-lock")
    lock.chmod(0o644)
    with lock.open("rb") as old:
        write(database)

        assert os.fstat(old.fileno()).st_mode & 0o777 == 0o644
        assert lock.stat().st_mode & 0o777 == 0o600
        assert lock.stat().st_uid == database.stat().st_uid


def test_a_lock_in_use_is_not_replaced(database: Path) -> None:
    """Two locks would let two processes open the file, and blank the log, at the same time."""
    lock = database.with_name("d.db-lock")
    store = SQLiteStore(database)

    def open_another() -> None:
        lock.chmod(0o644)
        with pytest.raises(StoreUnavailable, match="another process has been writing"):
            SQLiteStore(database, timeout=0.1)

    store._writer._lock.run_locked(open_another)
    store.close()


def test_a_lock_that_was_replaced_is_taken_from_its_new_file(database: Path) -> None:
    lock = database.with_name("d.db-lock")
    with closing(SQLiteStore(database)) as first, closing(SQLiteStore(database, timeout=0.1)) as second:
        lock.unlink()

        def write_beside() -> None:
            with pytest.raises(StoreUnavailable, match="another process has been writing"):
                Digests(second).add("t", 1)

        first._writer._lock.run_locked(write_beside)


def test_what_root_makes_belongs_to_the_owner_of_the_database(database: Path) -> None:
    for each in database.parent.glob("d.db-*"):
        each.unlink()

    write(database)

    assert {each.stat().st_uid for each in database.parent.iterdir()} == {database.stat().st_uid}


@pytest.mark.parametrize("names", [("-lock",), ("-reserve",), ("-lock", "-reserve")])
def test_links_that_come_and_go_while_the_file_is_opened_are_not_followed(
    database: Path, victim: Victim, names: tuple[str, ...]
) -> None:
    with victim.swapped(database, *names):
        for _ in range(50):
            with suppress(DigestifError):  # a file that is replaced at the wrong moment is refused
                write(database)
                read(database)

    assert victim.is_as_it_was()
