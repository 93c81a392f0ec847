"""Twenty thousand signals that raise in one thread of a process, beside other threads and processes."""

from pathlib import Path

import pytest

from tests.alone import alone
from tests.stores.sqlite.interrupts import check, storm, storm_in_memory
from tests.stores.sqlite.soundness import check_sound

INTERRUPTS = 20_000

both_seeds = pytest.mark.parametrize("seed", [1, 2])


@both_seeds
def test_interruptions_of_one_thread_trouble_no_other_process_and_no_books(seed: int, tmp_path: Path) -> None:
    path = str(tmp_path / "d.db")

    account = alone(storm, path, INTERRUPTS, seed, timeout=1800)

    assert account["interrupts"] >= INTERRUPTS
    check(account)
    check_sound(path)


@both_seeds
def test_interruptions_of_one_thread_trouble_no_other_in_memory(seed: int) -> None:
    account = alone(storm_in_memory, INTERRUPTS, seed, timeout=1800)

    assert account["interrupts"] >= INTERRUPTS
    check(account)
