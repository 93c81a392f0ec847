"""Signal handlers that raise in the main thread at any moment, as Ctrl-C does: other threads and processes go on."""

import fcntl
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from digestif import Digests
from digestif.stores.rows import Rows
from digestif.stores.sqlite import SQLiteStore
from digestif.stores.sqlite.connections import Connection
from digestif.stores.sqlite.rows import SqliteRows
from digestif.testing.conformance.signals import interrupted_at
from tests.alone import alone
from tests.stores.sqlite.groups import Group, one_group
from tests.stores.sqlite.interrupts import Interruption, check, storm, storm_in_memory
from tests.stores.sqlite.soundness import check_sound, pending_keys

PATIENCE = 30  # seconds, for an answer that comes at once unless a thread is stuck

# An interrupt in the middle of opening leaves the connection to the collector, and Python 3.13 says so.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <digestif.stores.sqlite.connections.Connection:"
        "pytest.PytestUnraisableExceptionWarning"
    ),
]


def test_an_interruption_of_the_one_who_commits_is_not_given_to_the_others(store: SQLiteStore, path: str) -> None:
    digests = Digests(store)

    def interrupt(rows: Rows) -> None:
        raise Interruption

    with one_group(store) as group:
        leader = group.submit(store._write, interrupt)
        adds = {str(n): group.submit(digests.add, "t", n, key=str(n)) for n in range(5)}

    assert isinstance(leader.exception(), Interruption)
    assert sorted(add.result() for add in adds.values()) == [False] * 4 + [True]
    assert sorted(pending_keys(path)) == sorted(adds)
    check_sound(path)


def test_a_signal_handler_that_raises_in_a_waiting_thread_does_not_stop_the_others(path: str) -> None:
    assert alone(interrupt_one_who_waits, path) == {"interrupted": True, "stuck": False}
    check_sound(path)


def test_whatever_step_of_a_write_is_interrupted_leaves_no_transaction_and_no_lock(path: str) -> None:
    store = SQLiteStore(path, synchronous="normal")
    digests = Digests(store)
    digests.add("t", 0)

    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        lock = os.open(f"{path}-lock", os.O_RDWR)
        for _ in interruptions(lambda: digests.add("t", 0)):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(lock, fcntl.LOCK_UN)
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        os.close(lock)

    store.close()
    check_sound(path)


def test_whatever_step_of_a_wait_for_the_turn_is_interrupted_leaves_the_lock_to_others(path: str) -> None:
    store = SQLiteStore(path, synchronous="normal")
    digests = Digests(store)
    digests.add("t", 0)
    lock = os.open(f"{path}-lock", os.O_RDWR)
    kept = []  # what was raised
    threads = running_threads()

    for step in count():
        fcntl.flock(lock, fcntl.LOCK_EX)
        timer = threading.Timer(0.0005, fcntl.flock, (lock, fcntl.LOCK_UN))
        timer.start()
        kept.append(interrupted_at(step, lambda: digests.add("t", 0)))
        timer.join()
        fcntl.flock(lock, fcntl.LOCK_EX)  # or hangs
        fcntl.flock(lock, fcntl.LOCK_UN)
        digests.add("t", 0)
        if kept[-1] is None:
            break
    os.close(lock)
    store.close()

    assert running_threads() <= threads + 1  # that of the last wait may not have ended yet
    check_sound(path)


def test_whatever_step_of_a_read_is_interrupted_leaves_no_old_state_to_be_kept(path: str) -> None:
    store = SQLiteStore(path, synchronous="normal")
    digests = Digests(store)
    digests.add("t", 0)

    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        for _ in interruptions(lambda: store.inspect("t")):
            digests.add("t", 0, key="changes the file")
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)

    store.close()
    check_sound(path)


@pytest.mark.parametrize("half", ["SELECT * FROM record", "UPDATE namespace SET ended = ended RETURNING ended"])
def test_a_second_interruption_while_the_first_is_dealt_with_leaves_nothing_for_later(
    store: SQLiteStore, path: str, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    digests = Digests(store)
    digests.add_many([("t", n) for n in range(5)])
    lets_go = Connection.close_results

    def be_interrupted(rows: Rows) -> None:
        assert isinstance(rows, SqliteRows)
        rows._connection.open_result().execute(half)
        monkeypatch.setattr(Connection, "close_results", _interrupt)
        raise Interruption

    with pytest.raises(Interruption) as kept:  # a traceback keeps alive what was left behind
        store._write(be_interrupted)
    monkeypatch.setattr(Connection, "close_results", lets_go)
    with Digests(f"sqlite:///{path}") as other:
        other.add("t", 0)
    digests.add("t", 0)

    assert kept.value is not None
    assert digests.timeline("t").pending == 7
    check_sound(path)


def _interrupt(*_: object) -> None:
    raise Interruption


def test_whatever_step_of_its_leader_is_interrupted_a_page_is_committed_once(path: str) -> None:
    """The others of the page get their answers: it is run again if it was not committed, and only then."""
    store = SQLiteStore(path, synchronous="normal")
    digests = Digests(store)
    numbers = count()

    def lead() -> None:
        digests.add("main", 0, key=f"main {next(numbers)}")

    with ThreadPoolExecutor(1) as helper:
        for number in count():
            group, over = Group(store), threading.Event()
            others = helper.submit(join_and_release, group, digests, f"t{number}", over)
            interrupt = interrupted_at(number, lead)
            over.set()
            assert sorted(others.result(PATIENCE)) == [False, True]
            if interrupt is None:
                break

    store.close()
    found = check_sound(path)
    assert number > 50
    assert 2 * number < found.accepted == found.pending  # nothing was added twice


def join_and_release(group: Group, digests: Digests, timeline: str, over: threading.Event) -> list[bool]:
    """Join the page of the main thread, if it has one, and let that be committed."""
    while not over.is_set() and not group.waiting:
        os.sched_yield()
    adds = [group.submit(digests.add, timeline, n, key=str(n)) for n in range(2)]
    group.release()
    return [add.result() for add in adds]


def test_a_storm_of_interruptions_troubles_no_other_thread_and_no_other_process(path: str) -> None:
    account = alone(storm, path, 100, 1)

    assert account["interrupts"] >= 100
    check(account)
    check_sound(path)


def test_a_storm_of_interruptions_troubles_no_other_thread_in_memory() -> None:
    account = alone(storm_in_memory, 100, 1)

    assert account["interrupts"] >= 100
    check(account)


def interrupt_one_who_waits(path: str) -> dict[str, bool]:
    store = SQLiteStore(path)
    digests = Digests(store)
    interrupted = False
    with one_group(store) as group:
        signal.signal(signal.SIGUSR1, raise_interruption)

        def interrupt() -> None:
            group.wait_until_queued(1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        threading.Thread(target=interrupt).start()
        try:
            digests.add("t", 0, key="main")
        except Interruption:
            interrupted = True
    other = threading.Thread(target=lambda: digests.add("t", 0, key="other"), daemon=True)
    other.start()
    other.join(10)
    if not other.is_alive():
        store.close()
    return {"interrupted": interrupted, "stuck": other.is_alive()}


def running_threads() -> int:
    """Those of Python and all others."""
    return len(list(Path("/proc/self/task").iterdir()))


def raise_interruption(*_: object) -> None:
    raise Interruption


def interruptions(call: Callable[[], object]) -> Iterator[BaseException]:
    """Interrupt a call at its first step, its second, and so on; what was raised lives as long as this."""
    kept = []
    for step in count():
        interrupt = interrupted_at(step, call)
        if interrupt is None:
            break
        kept.append(interrupt)
        yield interrupt
    assert len(kept) > 50
