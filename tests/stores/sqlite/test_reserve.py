"""The reserve for a full disk: what it must not do to files, and where it must not be in the way."""

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from digestif import Digests, StoreUnavailable
from tests.alone import alone

HUGE = 10**9  # MiB: no disk has that much left


def test_a_log_that_was_moved_aside_after_a_crash_keeps_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Digests(f"sqlite:///{path}").close()
    backup = path.read_bytes()
    alone(add_and_die, str(path))
    for name in ("a.db", "a.db-wal"):
        (tmp_path / name).rename(tmp_path / name.replace("a.db", "aside.db"))
    path.write_bytes(backup)

    with Digests(f"sqlite:///{path}") as restored:
        restored.add("t", 1)

    with Digests(f"sqlite:///{tmp_path}/aside.db") as aside:
        assert aside.ledger().accepted == 100


def add_and_die(path: str) -> int:
    child = os.fork()
    if not child:
        digests = Digests(f"sqlite:///{path}")
        for number in range(100):
            digests.add("t", number)
        os._exit(0)  # as a kill does: nothing is closed
    return os.waitpid(child, 0)[1]


def test_a_file_behind_a_link_is_one_file_with_its_side_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "data" / "real.db")

    with (
        Digests(f"sqlite:///{tmp_path}/link.db") as by_link,
        Digests(f"sqlite:///{tmp_path}/data/real.db") as by_name,
    ):
        by_link.add("t", 1)
        by_name.add("t", 2)
        assert by_link.ledger().accepted == 2

    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "link.db"]


def test_a_copy_in_another_journal_mode_is_used_with_a_log(tmp_path: Path) -> None:
    with Digests(f"sqlite:///{tmp_path}/a.db") as digests:
        digests.add("t", 1)
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        file.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))

    with Digests(f"sqlite:///{tmp_path}/copy.db") as copied:
        copied.add("t", 2)
        assert copied.ledger().accepted == 2

    with closing(sqlite3.connect(tmp_path / "copy.db")) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_child_that_reads_first_has_the_log_that_was_kept(tmp_path: Path) -> None:
    assert alone(read_in_a_child, str(tmp_path / "a.db")) == 0


def read_in_a_child(path: str) -> int:
    digests = Digests(f"sqlite:///{path}")
    digests.add("t", 1)
    kept = Path(f"{path}-reserve").stat()
    child = os.fork()
    if not child:
        digests.ledger()
        os._exit(0 if os.path.samestat(Path(f"{path}-wal").stat(), kept) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_file_system_that_gives_no_blocks_in_advance_keeps_no_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    with Digests(f"sqlite:///{tmp_path}/a.db") as digests:
        assert digests.add("t", 1) is True


def test_descriptors_of_the_application_are_left_alone(tmp_path: Path) -> None:
    """Whether they are open for reading or writing, and whether they stay open."""
    path = tmp_path / "a.db"
    Digests(f"sqlite:///{path}").close()

    with path.open("rb"), path.open("r+b") as writable:
        digests = Digests(f"sqlite:///{path}")
        for number in range(20):
            digests.add_many([("t", {"text": "x" * 10_000}) for _ in range(20)])
            if number == 10:
                writable.close()

    assert digests.ledger().accepted == 400
    digests.close()


def test_a_file_that_was_removed_is_opened_anew_also_where_little_space_is_left(tmp_path: Path) -> None:
    with Digests(f"sqlite:///{tmp_path}/a.db?reserve={HUGE}") as digests:
        digests.add("t", 1)
        digests.add("t", 2)
        for each in tmp_path.iterdir():
            each.unlink()

        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            digests.add("t", 3)

        assert digests.add("t", 4) is True
