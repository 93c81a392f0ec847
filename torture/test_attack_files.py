"""The owner of a folder swaps links beside a SQLite file for 20 seconds, while another user works there."""

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from digestif import DigestifError, Digests
from digestif.clock import monotonic
from tests.cli.runner import PROGRAM
from tests.stores.sqlite.trespass import NAMES, Victim, foreign_folder

SECONDS = 20


def run_status(database: Path) -> str:
    call = [*PROGRAM, "--store", f"sqlite:///{database}", "status"]
    return f"exit code {subprocess.run(call, capture_output=True, timeout=60).returncode}"


def add(database: Path) -> str:
    try:
        with Digests(f"sqlite:///{database}?timeout=0.2") as digests:
            digests.add("t", 1)
    except DigestifError as error:
        return type(error).__name__
    return "added"


@pytest.mark.parametrize("work", [run_status, add])
def test_no_link_that_is_swapped_in_is_followed(tmp_path: Path, work: Callable[[Path], str]) -> None:
    database = foreign_folder(tmp_path / "theirs") / "d.db"
    victim = Victim(tmp_path / "victim")
    answers: Counter[str] = Counter()
    end = monotonic() + SECONDS

    with victim.swapped(database, *NAMES):
        while monotonic() < end:
            answers[work(database)] += 1
            assert victim.is_as_it_was()

    print(f"{work.__name__}: {answers.total()} calls, {dict(answers)}; no file of another user was touched")  # noqa: T201
