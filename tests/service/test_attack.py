"""The API holds what its description promises; torture/ attacks it with random requests, and for longer."""

from pathlib import Path

import pytest

from tests.service.attack import attack

pytestmark = pytest.mark.long


def test_a_short_attack_finds_no_server_error_and_no_mismatch(tmp_path: Path) -> None:
    found = attack(tmp_path, "--seed", "1", "--phases", "examples,coverage")

    assert not found, found
