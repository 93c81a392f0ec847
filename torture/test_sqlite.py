"""SQLite for longer: two hundred kills, short waits of concurrent writers, and quick claims."""

from contextlib import closing
from pathlib import Path
from statistics import median

from digestif.clock import monotonic
from digestif.stores.base import PAGE_TIMELINES, Release
from digestif.stores.sqlite import SQLiteStore
from tests.alone import alone
from tests.stores.sqlite.contention import write_at_once, write_beside_batches
from tests.stores.sqlite.kills import deliverers_are_killed, writers_are_killed
from tests.stores.sqlite.populations import HOUR, NOW, store_with_due

ROUNDS = 200
FEW, MANY = 1_000, 100_000
LONGEST_WAIT = 1.0  # seconds
ATTEMPTS = 3  # other programs may slow the machine down


def test_every_acknowledged_record_is_there_after_writers_were_killed(tmp_path: Path) -> None:
    writers_are_killed(tmp_path, rounds=ROUNDS)


def test_nothing_is_lost_when_those_who_deliver_are_killed(tmp_path: Path) -> None:
    deliverers_are_killed(tmp_path, rounds=ROUNDS)


def test_none_of_eight_processes_that_write_at_once_waits_longer_than_a_second(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        account = alone(write_at_once, str(tmp_path / f"{attempt}.db"))
        if account["longest wait"] <= LONGEST_WAIT and account["fewest adds"] >= account["most adds"] / 4:
            break

    assert account["longest wait"] <= LONGEST_WAIT
    assert account["fewest adds"] >= account["most adds"] / 4


def test_a_process_that_adds_large_batches_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        account = alone(write_beside_batches, str(tmp_path / f"{attempt}.db"))
        if account["longest wait"] <= LONGEST_WAIT:
            break

    assert account["longest wait"] <= LONGEST_WAIT
    assert account["fewest adds"] > 0


def test_a_claim_of_two_hundred_costs_with_a_hundred_thousand_due_what_it_costs_with_a_thousand(tmp_path: Path) -> None:
    with (
        closing(store_with_due(FEW, tmp_path / "few.db")) as few,
        closing(store_with_due(MANY, tmp_path / "many.db")) as many,
    ):
        for _ in range(ATTEMPTS):  # other programs may slow the machine down
            ratio = claim_time(many) / claim_time(few)
            if ratio < 2:
                break

    assert ratio < 2


def claim_time(store: SQLiteStore) -> float:
    """Return the median seconds of a claim; its timelines are released each time."""
    times = []
    for number in range(9):
        begun = monotonic()
        claimed = store.claim(0, PAGE_TIMELINES, token=f"w{number}", lease=30_000, now=NOW + HOUR)
        times.append(monotonic() - begun)
        assert len(claimed.leases) == PAGE_TIMELINES
        store.release([Release(lease, lease.at) for lease in claimed.leases], now=NOW + HOUR)
    return median(times)
