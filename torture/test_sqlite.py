"""Processes on one file: killed two hundred times, what was acknowledged is there; and everybody's turn comes soon."""

from pathlib import Path

from tests.sqlite.alone import alone
from tests.sqlite.test_fairness import write_at_once, write_beside_batches
from tests.sqlite.test_kill import deliverers_are_killed, writers_are_killed

ROUNDS = 200
LONGEST_WAIT = 1.0  # seconds
ATTEMPTS = 3  # a machine that does other things as well may hold everybody up


def test_every_acknowledged_record_is_there_after_writers_were_killed(tmp_path: Path) -> None:
    writers_are_killed(tmp_path, rounds=ROUNDS)


def test_nothing_is_lost_when_those_who_deliver_are_killed(tmp_path: Path) -> None:
    deliverers_are_killed(tmp_path, rounds=ROUNDS)


def test_none_of_eight_processes_that_write_at_once_waits_longer_than_a_second(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        told = alone(write_at_once, str(tmp_path / f"{attempt}.db"))
        if told["longest wait"] <= LONGEST_WAIT and told["fewest adds"] >= told["most adds"] / 4:
            break

    assert told["longest wait"] <= LONGEST_WAIT
    assert told["fewest adds"] >= told["most adds"] / 4


def test_a_process_that_adds_large_batches_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        told = alone(write_beside_batches, str(tmp_path / f"{attempt}.db"))
        if told["longest wait"] <= LONGEST_WAIT:
            break

    assert told["longest wait"] <= LONGEST_WAIT
    assert told["fewest adds"] > 0
