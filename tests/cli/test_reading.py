"""Commands that only read leave the folder of a SQLite file as they found it."""

import json
import shutil
from pathlib import Path

import pytest

from digestif import Digests
from tests.cli.runner import DEFAULT_FILE, Run

OLD = Path(__file__).parents[1] / "upgrades" / "0.1.0"
READING = [
    "status",
    "ledger",
    "verify",
    "repair --dry-run",
    "timelines",
    "show t",
    "peek t",
    "explain t",
    "history t",
    "trace t key",
    "policy t",
    "prefer t",
    "dead list",
    "dead show 1",
    "top --once",
    "render --timeline t",
]


@pytest.fixture(autouse=True)
def store(folder: Path) -> None:
    """A store that no process has open, and of which only the database is left."""
    with Digests(f"sqlite:///{folder / DEFAULT_FILE}") as digests:
        digests.add("t", 1, key="key")
    for side in folder.glob(f"{DEFAULT_FILE}-*"):
        side.unlink()


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {each.name: (each.stat().st_mtime_ns, each.read_bytes()) for each in folder.iterdir()}


@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_makes_and_changes_nothing(folder: Path, run: Run, command: str) -> None:
    before = state(folder)

    answer = run(*command.split())

    assert answer.code in (0, 1), answer.err
    assert state(folder) == before


def test_it_is_so_with_the_store_of_a_file_of_settings(folder: Path, run: Run) -> None:
    (folder / "digestif.toml").write_text(f'store = "sqlite:///{DEFAULT_FILE}"\n')
    before = state(folder)

    assert run("status").code == 0
    assert run("check").code == 0

    assert state(folder) == before


def test_a_file_of_an_older_release_is_brought_up_to_date_first(folder: Path, run: Run) -> None:
    shutil.copy(OLD / "digests.sqlite3", folder / "old.db")
    expected = json.loads((OLD / "expected.json").read_text("utf-8"))

    assert run("--store", "sqlite:///old.db", "ledger", "--json").json["accepted"] == expected["ledger"]["accepted"]
