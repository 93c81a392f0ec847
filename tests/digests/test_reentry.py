"""A call from inside a call of the same thread, by a finalizer or a signal, is refused and stops nobody."""

import gc
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

from digestif import Digests, StoreUnavailable

pytestmark = pytest.mark.long


@pytest.fixture(params=["memory://", "sqlite://", "sqlite:///{path}?synchronous=normal"])
def digests(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Digests]:
    with Digests(str(request.param).format(path=tmp_path / "d.db")) as digests:
        yield digests


class Holder:
    """Keeps itself alive until the cyclic collector comes."""

    def __init__(self, kept: object) -> None:
        self.kept = kept
        self.me = self


def test_abandoned_deliveries_that_the_collector_ends_stop_nobody(digests: Digests) -> None:
    def values(timeline: str) -> Iterator[object]:
        with digests.digest(timeline) as digest:
            for record in digest:
                yield record.value

    thresholds = gc.get_threshold()
    gc.set_threshold(20)  # the collector comes at any moment, also inside the store
    try:
        for number in range(120):
            digests.add_many([(f"t{number}", 1), (f"t{number}", 2)])
            reading = values(f"t{number}")
            next(reading)
            Holder(reading)
    finally:
        gc.set_threshold(*thresholds)

    gc.collect()
    assert digests.ledger().accepted == 240
    assert digests.verify()


@contextmanager
def signals(handle: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Gives a function that lets one signal come, at a moment that nobody chose."""

    def handler(number: int, frame: FrameType | None) -> None:
        handle()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield lambda: _alarm(random.uniform(0.00002, 0.0004))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _alarm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)


def test_a_signal_handler_that_adds_is_served_or_refused(digests: Digests) -> None:
    outcomes: Counter[str] = Counter()

    def add() -> None:
        try:
            digests.add("signals", 1)
            outcomes["served"] += 1
        except StoreUnavailable:
            outcomes["refused"] += 1

    with signals(add) as let_one_come:
        for number in range(600):
            if number % 3 == 0:
                let_one_come()
            digests.add("main", number)

    assert outcomes.total() > 0
    assert digests.ledger().accepted == 600 + outcomes["served"]
    assert digests.verify()


def test_a_signal_handler_may_fork_in_the_middle_of_a_call(digests: Digests) -> None:
    forking = False

    def fork() -> None:
        nonlocal forking
        if forking:  # Python itself can't fork while it forks: concurrent.futures would wait for its own lock
            return
        forking = True
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        forking = False

    with signals(fork) as let_one_come:
        for number in range(8):
            let_one_come()
            for _ in range(5):
                digests.add("main", number)

    assert digests.ledger().accepted == 40
    assert digests.verify()


def test_a_signal_handler_that_closes_in_the_middle_of_a_call_is_refused_or_closes(digests: Digests) -> None:
    def close() -> None:
        with suppress(StoreUnavailable):
            digests.close()

    with signals(close) as let_one_come, suppress(StoreUnavailable):
        for number in range(200):
            let_one_come()
            digests.add("main", number)

    close()
    with pytest.raises(StoreUnavailable, match="closed"):
        digests.add("main", 1)
