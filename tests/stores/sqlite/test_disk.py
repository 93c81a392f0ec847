"""Disks that are full, files that can't be written, files that are not ours: clear errors, and no false answers."""

import errno
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif import ConfigError, DigestifError, Digests, Policy, Record, StoreError, StoreUnavailable
from digestif.stores.documents import Bounds, Document
from digestif.stores.sqlite import SQLiteStore
from tests.alone import alone
from tests.children import Child, Report
from tests.stores.sqlite.soundness import check_sound, pending_keys

LARGE = "x" * 16_000
NOBODY = 65534
IN_A_SMALL_DISK = 'mount -t tmpfs -o size=8m digestif "$1" && shift && exec "$@"'


# A full disk


def test_a_database_that_may_not_grow_refuses_adds_and_takes_them_again_when_it_may(tmp_path: Path) -> None:
    account = meet_the_limit(str(tmp_path / "d.db"), page_limit)

    assert_refused_clearly(account)
    assert account["errors"] == ["Overloaded"] * 2
    assert re.search("disk is full.*free some space", account["message"])


def test_a_file_that_may_not_grow_refuses_adds_and_takes_them_again_when_it_may(tmp_path: Path) -> None:
    account = alone(meet_the_size_limit, str(tmp_path / "d.db"))

    assert_refused_clearly(account)
    assert re.search("check the disk|free some space", account["message"])


def test_a_disk_without_space_refuses_adds_and_takes_them_again_when_there_is_some(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("mounting a small disk is not allowed here")
    account = alone(fill_the_disk, str(tmp_path), under=in_a_small_disk(tmp_path))

    assert_refused_clearly(account)
    assert account["errors"] == ["Overloaded"] * 2
    assert re.search("disk is full.*free some space", account["message"])


def test_a_database_that_may_not_grow_still_delivers(tmp_path: Path) -> None:
    path = str(tmp_path / "d.db")
    store = SQLiteStore(path)
    digests = Digests(store, policy=Policy(capacity=None))
    with page_limit(store):
        accepted = add_until_refused(digests)
        with digests.digest("t") as digest:
            delivered = [record.key for record in digest]
        added_after = digests.add("t", LARGE, key="after the delivery")
    store.close()

    assert sorted(delivered) == sorted(accepted)
    assert added_after is False  # it cools down, and there is space again
    assert check_sound(path).delivered == len(accepted)


def assert_refused_clearly(account: dict[str, Any]) -> None:
    assert account["accepted"]  # there was some space
    assert set(account["errors"]) <= {"Overloaded", "StoreUnavailable"}
    assert "d.db" in account["message"]
    assert sorted(account["during"]) == sorted(account["accepted"])  # no more, no less
    assert sorted(account["afterwards"]) == sorted([*account["accepted"], "afterwards"])


def meet_the_size_limit(path: str) -> dict[str, Any]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python does by itself, but not everybody
    return meet_the_limit(path, file_size_limit)


def fill_the_disk(folder: str) -> dict[str, Any]:
    return meet_the_limit(f"{folder}/d.db", lambda store: ballast(Path(folder)))


def meet_the_limit(path: str, limit: "Callable[[SQLiteStore], Any]") -> dict[str, Any]:
    """Add until it is refused, singly and then in a batch; then without the limit. One store all the time."""
    store = SQLiteStore(path)
    digests = Digests(store, policy=Policy(capacity=None))
    account: dict[str, Any] = {"errors": []}
    with limit(store):
        account["accepted"] = add_until_refused(digests, account)
        try:
            digests.add_many([("t", Record(f"batch{n}", LARGE, 0.0)) for n in range(100)])
        except StoreError as error:
            account["errors"].append(type(error).__name__)
        account["during"] = [record.key for record in digests.peek("t")]
    digests.add("t", LARGE, key="afterwards")
    store.close()
    check_sound(path)
    account["afterwards"] = pending_keys(path)
    return account


def add_until_refused(digests: Digests, account: dict[str, Any] | None = None) -> list[str]:
    accepted: list[str] = []
    for number in range(10_000):
        try:
            digests.add("t", LARGE, key=str(number))
        except StoreError as error:
            if account is not None:
                account["errors"].append(type(error).__name__)
                account["message"] = str(error)
            return accepted
        accepted.append(str(number))
    raise AssertionError("nothing was ever refused")


@contextmanager
def page_limit(store: SQLiteStore) -> Iterator[None]:
    """SQLite itself says that the disk is full."""
    writer = store._writer.connect()
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages + 600}")
    yield
    writer.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def file_size_limit(store: SQLiteStore) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow further."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def ballast(folder: Path) -> Iterator[None]:
    """Something else takes half of a small disk."""
    file = folder / "ballast"
    file.write_bytes(b"x" * 4_000_000)
    yield
    file.unlink()


def in_a_small_disk(folder: Path) -> list[str]:
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", IN_A_SMALL_DISK, "sh", str(folder)]


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*in_a_small_disk(folder), "true"], capture_output=True).returncode == 0


# Files and folders that can't be written


def test_a_file_that_may_only_be_read_is_refused_and_serves_again_when_it_may_be_written() -> None:
    account = alone(open_what_may_not_be_written, "file")

    assert account["error"] == "StoreUnavailable"
    assert re.search(r"d\.db: .*check the permissions", account["message"])
    assert account["keys"] == ["before", "after"]


def test_a_folder_that_may_only_be_read_is_refused_and_serves_again_when_it_may_be_written() -> None:
    account = alone(open_what_may_not_be_written, "folder")

    assert account["error"] == "StoreUnavailable"
    assert re.search(r"d\.db.*check .*permissions", account["message"])
    assert account["keys"] == ["before", "after"]


def test_a_file_system_that_may_only_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))  # also for a file that is not there

    monkeypatch.setattr(Path, "unlink", refuse)

    with pytest.raises(StoreUnavailable, match=r"missing/d\.db"):
        SQLiteStore(tmp_path / "missing" / "d.db")


def test_a_store_that_can_not_reopen_its_file_refuses_adds_until_it_can() -> None:
    account = alone(lose_the_right_to_write)

    assert account["error"] == "StoreUnavailable"
    assert re.search(r"d\.db.*permissions", account["message"])
    assert account["keys"] == ["before", "after"]


def open_what_may_not_be_written(what: str) -> dict[str, Any]:
    with unprivileged_folder() as folder:
        path = folder / "d.db"
        with Digests(f"sqlite:///{path}") as digests:
            digests.add("t", 0, key="before", timestamp=2)
        locked = path if what == "file" else folder
        with read_only(locked):
            error = failure(lambda: Digests(f"sqlite:///{path}").add("t", 0, key="refused"))
        with Digests(f"sqlite:///{path}") as digests:
            digests.add("t", 0, key="after", timestamp=1)
        return told_of(error, path)


def lose_the_right_to_write() -> dict[str, Any]:
    """A child opens the file anew, without the rights that its parent had."""
    with unprivileged_folder() as folder:
        path = folder / "d.db"
        digests = Digests(f"sqlite:///{path}")
        digests.add("t", 0, key="before", timestamp=2)

        def work(report: Report) -> None:
            with read_only(path):
                failure(lambda: digests.peek("t"))  # a reader must not keep it read-only afterwards
                error = failure(lambda: digests.add("t", 0, key="refused"))
            digests.add("t", 0, key="after", timestamp=1)
            report(f"{type(error).__name__}: {error}")

        name, _, message = Child(work).finish()[0].partition(": ")
        digests.close()
        return {"error": name, "message": message, "keys": pending_keys(str(path))}


def told_of(error: BaseException | None, path: Path) -> dict[str, Any]:
    check_sound(str(path))
    return {"error": type(error).__name__, "message": str(error), "keys": pending_keys(str(path))}


def failure(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 -- to be judged by the caller
        return error
    return None


@contextmanager
def unprivileged_folder() -> Iterator[Path]:
    """A folder of a user whom permissions bind: as root, become the user nobody meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        path.chmod(before)


# Files that are not ours


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Buy milk.\n" * 1000)

    assert_not_opened(path, StoreError, "notes.txt.*(not a SQLite file|not a database).*choose another path")


def test_a_database_of_another_program_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE customer (name TEXT)")
        other.commit()

    assert_not_opened(path, ConfigError, "other.db is a database of another program; choose another path")


def test_a_database_of_another_program_without_tables_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA application_id = 1196444487")  # a GeoPackage
        other.execute("PRAGMA user_version = 10300")
        other.commit()

    assert_not_opened(path, ConfigError, "other.db is a database of another program; choose another path")


def test_a_file_of_an_older_release_is_brought_up_to_date_with_nothing_lost(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", 1, key="a")
    with closing(sqlite3.connect(path)) as file:
        file.executescript("DROP TABLE schema; DROP TABLE note")  # as the first release left it
        file.executescript(
            "DROP TABLE removal; DROP TABLE document; DROP INDEX history_number; DROP INDEX history_timeline"
        )
        file.executescript("DROP INDEX history_ring; ALTER TABLE history DROP COLUMN ring")
        for later in ("declined", "lost", "moving", "digests"):
            file.execute(f"ALTER TABLE namespace DROP COLUMN {later}")
        file.execute("PRAGMA user_version = 1")
        file.commit()

    with Digests(f"sqlite:///{path}") as digests:
        assert [record.key for record in digests.peek("t")] == ["a"]
        assert digests.store.footprint()["notes"] == 0


def test_a_schema_that_is_newer_than_this_release_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    Digests(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as later:
        version = later.execute("PRAGMA user_version").fetchone()[0]
        later.execute(f"PRAGMA user_version = {version + 1}")

    assert_not_opened(
        path, ConfigError, rf"version {version + 1} or later, .* has version {version}\. Nothing was changed"
    )


def test_a_damaged_file_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    with Digests(f"sqlite:///{path}") as digests:
        digests.add_many([("t", Record(str(n), LARGE, 0.0)) for n in range(100)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(StoreError, match=r"d\.db.*damaged.*restore it"), Digests(f"sqlite:///{path}") as digests:
        digests.peek("t")


def test_a_folder_as_path_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "folder.db"
    path.mkdir()

    with pytest.raises(DigestifError, match=r"folder\.db.*check"):
        Digests(f"sqlite:///{path}")


def test_a_path_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "d.db"

    with pytest.raises(DigestifError, match=r"no such folder/d\.db.*check"):
        Digests(f"sqlite:///{path}")

    assert not path.parent.exists()


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    path.touch()

    with Digests(f"sqlite:///{path}") as digests:
        assert digests.add("t", 0) is True

    check_sound(str(path))


def test_a_file_kept_locked_by_another_program_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    with Digests(f"sqlite:///{path}?timeout=0.1") as digests, closing(sqlite3.connect(path)) as other:
        digests.add("t", 0, key="before")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"d\.db.*locked.*try again"):
            digests.add("t", 0, key="refused")
        other.rollback()
        digests.add("t", 0, key="after")

        assert {record.key for record in digests.peek("t")} == {"before", "after"}


def test_a_document_that_waited_for_the_lock_has_the_time_of_its_commit(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    with (
        closing(SQLiteStore(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        ThreadPoolExecutor() as threads,
    ):
        other.execute("BEGIN IMMEDIATE")
        keeping = threads.submit(store.keep, "shelf", Document("a", b""), bounds=Bounds(entries=1), now=None)
        assert not wait([keeping], timeout=0.3).done
        unlocked = store.time(0)
        other.execute("COMMIT")

        assert keeping.result() is True
        found = store.kept("shelf", "a", now=None)
        assert found is not None
        assert found.at >= unlocked


def assert_not_opened(path: Path, kind: type[DigestifError], message: str) -> None:
    before = path.read_bytes()

    with pytest.raises(kind, match=message):
        Digests(f"sqlite:///{path}")

    assert path.read_bytes() == before
    assert {entry.name for entry in path.parent.iterdir()} <= {path.name, f"{path.name}-lock", f"{path.name}-reserve"}
