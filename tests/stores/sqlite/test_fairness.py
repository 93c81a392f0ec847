"""Many processes at one file take turns, and none waits for ever. How long they wait: torture/test_sqlite.py."""

import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from digestif import Digests, StoreUnavailable
from digestif.clock import monotonic
from tests.alone import alone
from tests.children import Child, Gate, Report, killed_at_the_end
from tests.stores.sqlite.contention import PROCESSES
from tests.stores.sqlite.soundness import check_sound

pytestmark = pytest.mark.long


def test_processes_that_open_a_new_file_at_once_all_succeed(tmp_path: Path) -> None:
    assert alone(open_at_once, str(tmp_path)) == "all succeeded"


def test_a_writer_gives_up_after_its_timeout_when_another_process_never_ends_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    with Digests(f"sqlite:///{path}?timeout=0.2") as digests:
        digests.add("t", "before", key="before")
        (side_file,) = tmp_path.glob("*-lock")
        stuck = os.open(side_file, os.O_RDWR)
        fcntl.flock(stuck, fcntl.LOCK_EX)
        begun = monotonic()

        with pytest.raises(StoreUnavailable, match=r"d\.db.*another process"):
            digests.add("t", "meanwhile", key="meanwhile")
        took = monotonic() - begun
        os.close(stuck)
        digests.add("t", "after", key="after")

        assert 0.1 < took < 10
        assert [record.key for record in digests.peek("t")] == ["after", "before"]


def test_whoever_is_interrupted_while_it_waits_for_its_turn_does_not_take_it_later(tmp_path: Path) -> None:
    account = alone(interrupt_a_wait, str(tmp_path / "d.db"))

    assert account == {"interrupted": True, "free afterwards": True, "keys": ["after", "before"]}


def interrupt_a_wait(path: str) -> dict[str, object]:
    """Another process holds the lock; a signal handler raises in the waiting process; then the lock is released."""
    digests = Digests(f"sqlite:///{path}")
    digests.add("t", 0, key="before", timestamp=1)
    other = os.open(f"{path}-lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        digests.add("t", 0, key="meanwhile")
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    fcntl.flock(other, fcntl.LOCK_UN)
    can_have_turns(other, seconds=0.3)  # time enough for a wait that was left behind to end
    free = can_have_turns(other, seconds=0.1)
    os.close(other)
    digests.add("t", 0, key="after", timestamp=2)
    keys = [record.key for record in digests.peek("t")]
    digests.close()
    return {"interrupted": interrupted, "free afterwards": free, "keys": keys}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def can_have_turns(file: int, *, seconds: float) -> bool:
    """Try the lock for so many seconds; False if it was never free."""
    had = False
    ends = monotonic() + seconds
    while monotonic() < ends:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
            had = True
        os.sched_yield()
    return had


def open_at_once(folder: str) -> str:
    for attempt in range(12):
        path = f"{folder}/{attempt}.db"
        gate = Gate()
        children = [Child(add_one, path, gate) for _ in range(PROCESSES)]
        with killed_at_the_end(children):
            gate.open()
            for child in children:
                child.finish()
        assert check_sound(path).accepted == PROCESSES
    return "all succeeded"


def add_one(path: str, gate: Gate, report: Report) -> None:
    gate.wait()
    with Digests(f"sqlite:///{path}") as digests:
        digests.add("t", "value")
