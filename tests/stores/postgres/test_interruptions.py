"""Signal handlers that raise, as Ctrl-C does, wherever the main thread is: the pool stays whole and the books hold."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg

from digestif import Digests, InvalidState, Policy, Record, StoreUnavailable
from digestif.clock import monotonic
from digestif.stores.reader import Part
from digestif.testing.conformance.port import stored
from tests.stores.sqlite.alone import alone

POOL = 3  # connections: the fewer, the sooner they are missed
POLICY = Policy(minimum_delay=0, increment_delay=0, capacity=None, attempts=100_000)


def test_interruptions_at_any_moment_leave_a_store_that_works(url: str) -> None:
    told = alone(interrupt, url, 1.5)

    assert told["interruptions"] > 100
    check(told)


def check(told: dict[str, Any]) -> None:
    """Fail unless the books hold and only the interrupted thread was troubled."""
    assert told["given to others"] == []
    assert told["other errors"] == []
    assert told["missing"] == []
    assert told["verified"]
    assert told["connections"] <= POOL
    assert told["in transactions"] == 0


class Interruption(BaseException):
    """As KeyboardInterrupt is: raised by a signal handler, in the main thread, wherever that is."""


def interrupt(url: str, seconds: float) -> dict[str, Any]:
    """The main thread works and is interrupted again and again by a timer, while others work beside it."""
    acknowledged: list[str] = []
    given: list[str] = []
    errors: list[str] = []
    done = threading.Event()
    digests = Digests(f"{url}?pool={POOL}&timeout=3", policy=POLICY)
    digests.ledger()

    def work(name: str, number: int) -> None:
        keys = [f"{name}-{number}-{n}" for n in range(1 + number % 3)]
        timeline = f"t{number % 5}"
        if len(keys) == 1:
            digests.add(timeline, 0, key=keys[0])
        else:
            digests.add_many([(timeline, Record(key, 0, 0.0)) for key in keys])
        acknowledged.extend(keys)
        if number % 7 == 0:
            digests.flush(timeline)
            try:
                with digests.digest(timeline) as digest:
                    assert len(digest) >= 0
                    raise _Undelivered
            except (_Undelivered, InvalidState):
                pass
        if number % 11 == 0:
            digests.ledger()

    def work_beside(name: int) -> None:
        for number in count():
            if done.is_set():
                return
            try:
                work(str(name), number)
            except BaseException as error:  # noqa: BLE001  # to be judged by the caller
                given.append(repr(error))

    threads = [threading.Thread(target=work_beside, args=(name,), daemon=True) for name in range(2)]
    for thread in threads:
        thread.start()

    def raise_interruption(*_: object) -> None:
        raise Interruption

    signal.signal(signal.SIGALRM, raise_interruption)
    interruptions, chance, ends = 0, random.Random(7), monotonic() + seconds
    for number in count():
        if monotonic() >= ends:
            break
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.00005 + chance.random() * 0.004)
            work("main", number)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:
            interruptions += 1
        except BaseException as error:  # noqa: BLE001  # to be judged by the caller
            errors.append(repr(error))
    signal.setitimer(signal.ITIMER_REAL, 0)
    done.set()
    for thread in threads:
        thread.join(30)
    # An interrupted delivery leaves its digest open, until the lease lapses.
    found = {record.key for n in range(5) for part in Part for record in stored(digests.store, f"t{n}", part)}
    return {
        "interruptions": interruptions,
        "given to others": given[:3],
        "other errors": errors[:3],
        "missing": sorted(set(acknowledged) - found)[:3],
        "verified": bool(digests.verify()),
        **connections(url),
    }


def connections(url: str) -> dict[str, int]:
    """Those of our own that the server knows, and of these the ones that are inside of a transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        states = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchall()
    return {"connections": len(states), "in transactions": sum(state != "idle" for (state,) in states)}


class _Undelivered(Exception):
    pass


def test_a_signal_handler_may_call_the_store_inside_of_a_call(url: str) -> None:
    assert alone(call_from_a_handler, url) == {"inner": [True], "accepted": 2}


def call_from_a_handler(url: str) -> dict[str, Any]:
    digests = Digests(url)
    inner: list[bool] = []
    with a_signal_during_a_call(digests, url, lambda: inner.append(digests.add("inner", 1))):
        digests.add("t", 1)
    return {"inner": inner, "accepted": digests.ledger().accepted}


@contextmanager
def a_signal_during_a_call(digests: Digests, url: str, act: Callable[[], object]) -> Iterator[None]:
    """A call in the block waits for a lock, and a signal handler acts meanwhile."""
    digests.ledger()
    signal.signal(signal.SIGALRM, lambda *_: act())
    with psycopg.connect(url) as other:
        other.execute("LOCK digestif.ledger IN ACCESS EXCLUSIVE MODE")
        release = threading.Timer(0.3, other.rollback)
        release.start()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        yield
        release.join()


def test_a_signal_handler_may_fork_inside_of_a_call(url: str) -> None:
    assert alone(fork_from_a_handler, url) == {"child": 0, "accepted": 2}


def fork_from_a_handler(url: str) -> dict[str, int]:
    digests = Digests(url)
    children: list[int] = []
    with a_signal_during_a_call(digests, url, lambda: children.append(os.fork())):
        told = ""
        try:
            digests.add("t", 1)
        except StoreUnavailable as error:
            told = str(error)
        if children == [0]:
            os._exit(0 if "forked by a signal handler" in told and digests.add("child", 1) else 1)
    _, status = os.waitpid(children[0], 0)
    return {"child": status, "accepted": digests.ledger().accepted}


PROGRAM = """
import sys, signal, psycopg
from digestif import Digests

digests = Digests(sys.argv[1])
digests.ledger()
other = psycopg.connect(sys.argv[1])
other.execute("LOCK digestif.ledger IN ACCESS EXCLUSIVE MODE")
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
digests.add("t", 1)
"""


def test_an_interrupted_program_ends_at_once(url: str) -> None:
    """The call that was interrupted, which waits for a lock, is not waited for."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True, timeout=30, check=False)

    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
