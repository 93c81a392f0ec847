"""The HTTP API under ten minutes of requests made from its own description, on each kind of store."""

import os
from pathlib import Path

import pytest

from tests.service.attack import attack
from tests.transfer.stores import dsn_of

SECONDS = int(os.environ.get("DIGESTIF_ATTACK_SECONDS", "600"))


@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_schemathesis_finds_no_server_error_and_no_mismatch(kind: str, tmp_path: Path) -> None:
    with dsn_of(kind, tmp_path) as store:
        found = attack(
            tmp_path, "--max-time", str(SECONDS), "--continue-on-failure", store=store, seconds=SECONDS + 300
        )

    assert not found, found
