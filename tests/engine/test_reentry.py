"""A call from inside a call of the same thread, by a finalizer or a signal, is refused and stops nobody."""

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from digestif import Digests, StoreUnavailable


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


def test_a_signal_handler_that_adds_is_served_or_refused(digests: Digests) -> None:
    refused = served = 0

    def add(number: int, frame: FrameType | None) -> None:
        nonlocal refused, served
        try:
            digests.add("signals", 1)
            served += 1
        except StoreUnavailable:
            refused += 1

    before = signal.signal(signal.SIGALRM, add)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for number in range(1500):
            digests.add("main", number)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert served + refused > 0
    assert digests.ledger().accepted == 1500 + served
    assert digests.verify()
