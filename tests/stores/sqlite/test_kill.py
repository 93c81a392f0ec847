"""Processes that are killed with SIGKILL at random moments: what was acknowledged is there, and all is counted."""

from pathlib import Path

import pytest

from tests.stores.sqlite.kills import deliverers_are_killed, writers_are_killed

pytestmark = pytest.mark.long

ROUNDS = 8  # 200 in torture/test_sqlite.py


def test_every_acknowledged_record_is_there_after_writers_were_killed(tmp_path: Path) -> None:
    writers_are_killed(tmp_path, rounds=ROUNDS)


def test_nothing_is_lost_when_those_who_deliver_are_killed(tmp_path: Path) -> None:
    deliverers_are_killed(tmp_path, rounds=ROUNDS)
