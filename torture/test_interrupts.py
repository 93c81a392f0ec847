"""Twenty thousand signals that raise in one thread of a process, while another process writes to the same file."""

from pathlib import Path

import pytest

from tests.alone import alone
from tests.stores.sqlite.interrupts import storm
from tests.stores.sqlite.soundness import check_sound

INTERRUPTS = 20_000


@pytest.mark.parametrize("seed", [1, 2])
def test_interruptions_of_one_thread_trouble_no_other_and_no_books(seed: int, tmp_path: Path) -> None:
    path = str(tmp_path / "d.db")

    account = alone(storm, path, INTERRUPTS, seed, timeout=1800)

    assert account["interrupts"] >= INTERRUPTS
    assert account["errors of others"] == []
    assert account["missing"] == []
    assert account["stuck"] == 0
    assert account["verified"]
    check_sound(path)
