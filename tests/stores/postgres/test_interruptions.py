"""Signal handlers that raise in the main thread at any moment, as Ctrl-C does: pool and ledger stay right."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from digestif import Digests, StoreUnavailable
from tests.alone import alone
from tests.stores.postgres.interruptions import check, interrupt

pytestmark = pytest.mark.long


def test_interruptions_at_any_moment_leave_a_store_that_works(url: str) -> None:
    check(alone(interrupt, url, 150))


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
        account = ""
        try:
            digests.add("t", 1)
        except StoreUnavailable as error:
            account = str(error)
        if children == [0]:
            os._exit(0 if "forked by a signal handler" in account and digests.add("child", 1) else 1)
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
    """It does not wait for the interrupted call, which waits for a lock."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True, timeout=30, check=False)

    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
