"""Only the owner, or users who may write the database, can read and lock the files of a store."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import Digests

SIDE_FILES = ("-lock", "-wal", "-shm", "-reserve")


@pytest.fixture(params=[0o022, 0o000], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_a_new_file_and_what_stands_beside_it_are_their_owners_alone(tmp_path: Path) -> None:
    with Digests(f"sqlite:///{tmp_path}/d.db") as digests:
        digests.add("t", 0)

        assert {mode(tmp_path / f"d.db{side}") for side in ("", *SIDE_FILES)} == {0o600}


@pytest.mark.parametrize(
    ("database", "lock"), [(0o600, 0o600), (0o660, 0o660), (0o640, 0o600), (0o644, 0o600), (0o664, 0o660)]
)
def test_whoever_may_not_write_the_file_can_not_open_the_lock(tmp_path: Path, database: int, lock: int) -> None:
    """A lock that is open, if only for reading, can be held for ever."""
    path = tmp_path / "d.db"
    Digests(f"sqlite:///{path}").close()
    (tmp_path / "d.db-lock").chmod(0o644)  # as older releases made it
    path.chmod(database)

    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", 0)

        assert mode(tmp_path / "d.db-lock") == lock
        assert mode(tmp_path / "d.db-wal") == database


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
