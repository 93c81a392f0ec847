"""The HTTP API under ten minutes of requests made from its own description."""

import os
from pathlib import Path

from tests.service.attack import attack

SECONDS = int(os.environ.get("DIGESTIF_ATTACK_SECONDS", "600"))


def test_a_long_attack_finds_no_server_error_and_no_mismatch(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'digests.db'}"

    found = attack(tmp_path, "--max-time", str(SECONDS), "--continue-on-failure", store=store, seconds=SECONDS + 300)

    assert not found, found
