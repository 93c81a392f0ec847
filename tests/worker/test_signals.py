"""Signals: a worker that is told to stop finishes what it has begun, or gives it back; told twice, it ends at once."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from digestif import Digest, Digests, Policy
from digestif.clock import monotonic
from tests.worker.programs import PATIENCE, Program, running
from tests.worker.workers import becomes, rounds

pytestmark = pytest.mark.long

SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture
def dsn(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/d.db?synchronous=normal"


@pytest.fixture
def digests(dsn: str) -> Iterator[Digests]:
    with Digests(dsn, policy=Policy(minimum_delay=0)) as digests:
        yield digests


def test_an_idle_worker_ends_at_once(dsn: str) -> None:
    with running("tell", dsn, "poll=30") as program:
        began = monotonic()
        program.process.send_signal(signal.SIGTERM)

        assert program.end() == 0
        assert "ended" in program.heard
        assert monotonic() - began < 10


@pytest.mark.parametrize("number", SIGNALS)
def test_a_busy_worker_claims_nothing_more_and_finishes_what_it_has_begun(
    dsn: str, digests: Digests, number: signal.Signals
) -> None:
    with running("wait", dsn, "poll=0.01") as program:
        digests.add("begun", 1)
        program.wait_for("begun begun")
        program.process.send_signal(number)
        program.wait_for("stopping")
        digests.add("late", 1)
        threading.Event().wait(0.1)
        program.go_on()

        assert program.end() == 0

    assert "done begun" in program.heard
    assert not any("late" in line for line in program.heard)
    assert digests.timeline("late").state == "ready"
    ledger = digests.ledger()
    assert (ledger.delivered, ledger.pending + ledger.open) == (
        1,
        1,
    )  # a claim under way may take it, and gives it back


def test_what_is_not_finished_in_time_is_given_back_as_it_was(dsn: str, digests: Digests) -> None:
    """Nobody knows whether it went out: it comes again under the same key, and newer records wait."""
    with running("wait", dsn, "grace=0.1") as program:
        digests.add("t", 1, key="old")
        key = program.wait_for("begun t").split()[-1]
        program.process.send_signal(signal.SIGTERM)
        assert program.end() == 0
    digests.add("t", 2, key="new")
    seen: list[tuple[str, list[str], int]] = []

    @digests.handler("*")
    def look(digest: Digest) -> None:
        seen.append((digest.idempotency_key, [record.key for record in digest], digest.attempt))

    rounds(digests)
    rounds(digests)

    assert seen[0] == (key, ["old"], 1)
    assert [keys for _, keys, _ in seen] == [["old"], ["new"]]
    assert digests.verify()


def signal_until_it_ends(program: Program, number: signal.Signals) -> int:
    def is_over() -> bool:
        program.process.send_signal(number)
        threading.Event().wait(0.05)
        return program.process.poll() is not None

    assert becomes(is_over), "it does not end"
    return program.process.wait(PATIENCE)


@pytest.mark.parametrize(("kind", "number"), [("wait", signal.SIGTERM), ("block", signal.SIGINT)])
def test_a_second_signal_ends_it_at_once(dsn: str, digests: Digests, kind: str, number: signal.Signals) -> None:
    """Also if a coroutine blocks the event loop."""
    with running(kind, dsn, "grace=60") as program:
        digests.add("t", 1)
        program.wait_for("begun t")

        assert signal_until_it_ends(program, number) == -number


def test_a_worker_that_was_killed_leaves_its_digest_to_the_next_after_the_lease(dsn: str, digests: Digests) -> None:
    with running("wait", dsn, "lease=0.5") as program:
        digests.add("t", 1)
        key = program.wait_for("begun t").split()[-1]
        program.process.kill()
        killed = monotonic()
        program.process.wait(PATIENCE)

    with running("tell", dsn, "lease=0.5", "poll=0.05") as next_one:
        assert next_one.wait_for("delivered t").split()[-1] == key
        assert monotonic() - killed < 15  # half of the usual lease, for who begins on a busy machine
        assert becomes(lambda: digests.ledger().delivered == 1)


def test_a_digest_that_kills_three_workers_alone_is_buried_by_the_next(dsn: str, digests: Digests) -> None:
    """Not counting the first, where others might have been to blame. It is not run again; the others are delivered."""
    digests.add("poison", 1)
    for _ in range(4):
        with running("die", dsn, "lease=0.2", "poll=0.05") as program:
            program.wait_for("dying of poison")
            assert program.end() == -signal.SIGKILL
    digests.add("fine", 1)

    with running("tell", dsn, "lease=0.2", "poll=0.05") as fifth:
        fifth.wait_for("buried poison its lease lapsed 3 times while it was tried alone")
        assert becomes(lambda: digests.ledger().delivered == 1)

    assert [letter.timeline for letter in digests.dead_letters()] == ["poison"]
    assert not any("delivered poison" in line for line in fifth.heard)


def stop_between_writes(program: Program, lock: Path) -> None:
    """Stop a process, but not in the middle of a write: no other process could write until it goes on."""
    while True:
        program.process.send_signal(signal.SIGSTOP)
        os.waitpid(program.process.pid, os.WUNTRACED)
        with lock.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                program.process.send_signal(signal.SIGCONT)
            else:
                return


def test_a_worker_that_was_stopped_for_three_leases_can_not_complete_any_more(
    dsn: str, digests: Digests, tmp_path: Path
) -> None:
    with running("wait", dsn, "lease=0.4") as program:
        digests.add("t", 1)
        key = program.wait_for("begun t").split()[-1]
        stop_between_writes(program, Path(f"{tmp_path}/d.db-lock"))
        threading.Event().wait(3 * 0.4)
        with running("wait", dsn, "lease=0.4", "poll=0.05") as other:
            assert other.wait_for("begun t").split()[-1] == key
            program.process.send_signal(signal.SIGCONT)
            program.go_on()  # it ends its delivery, too late
            program.wait_for("done t")
            program.process.send_signal(signal.SIGTERM)
            assert program.end() == 0
            assert (digests.ledger().open, digests.ledger().delivered) == (1, 0)
            other.go_on()
            assert becomes(lambda: digests.ledger().delivered == 1)
    assert digests.verify()


def test_a_coroutine_that_will_not_be_cancelled_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(STUBBORN)

    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=30, check=True)

    assert ended.stdout == "ready\n"  # given back


STUBBORN = """
import asyncio
from digestif import Digests, Worker

digests = Digests("memory://")
worker = Worker(digests, grace=0.05)

@digests.handler("*")
async def stubborn(digest):
    worker.stop()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

digests.add("t", 1)
worker.run()
print(digests.timeline("t").state)
"""
