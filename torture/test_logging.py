"""Logging for longer: a hundred thousand records of eight threads, and a kill in the middle."""

from pathlib import Path

from tests.alone import alone
from tests.integrations.log_floods import assert_that_every_committed_record_is_delivered, kill_a_flood

RECORDS, COMMITTED = 100_000, 50_000
ROUNDS = 3


def test_every_log_record_that_was_committed_before_a_kill_is_delivered(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()

        found = alone(kill_a_flood, str(folder), RECORDS, COMMITTED, timeout=600)

        assert_that_every_committed_record_is_delivered(found, committed=COMMITTED)
