"""The lease of `digest()` is renewed in the background while its block runs, by the real clock."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from digestif import AsyncDigests, Claimed, Delivered, Digests, Event, LeaseNotRenewed, StaleLease, StoreUnavailable
from digestif.core.times import Millis
from digestif.stores.base import Lease
from digestif.stores.memory import MemoryStore

PATIENCE = 30  # seconds, for a machine that is busy


class Watched(MemoryStore):
    """Tells when leases are extended, and may be made to fail or to lose them."""

    def __init__(self) -> None:
        super().__init__()
        self.extended = threading.Semaphore(0)
        self.failures = 0

    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        try:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("out for lunch")
            return super().extend(leases, lease=lease, now=now, alone=alone)
        finally:
            self.extended.release()

    def wait_for_extensions(self, count: int) -> None:
        for _ in range(count):
            assert self.extended.acquire(timeout=PATIENCE)


@pytest.fixture
def store() -> Watched:
    return Watched()


def test_a_block_that_outlasts_its_lease_keeps_it(store: Watched) -> None:
    digests = Digests(store, lease=0.3)
    digests.add("t", 1)

    with digests.digest("t"):
        first = store.inspect("t").until
        store.wait_for_extensions(4)  # a third of the lease apart: longer than the lease in all
        assert first is not None
        assert (store.inspect("t").until or 0) > first + 300

    assert digests.ledger().delivered == 1


def test_an_awaited_block_keeps_its_lease_while_the_loop_is_busy(store: Watched) -> None:
    async def deliver() -> int:
        async with AsyncDigests(store, lease=0.3) as digests:
            await digests.add("t", 1)
            async with digests.digest("t"):
                store.wait_for_extensions(4)  # blocks the loop on purpose
            return (await digests.ledger()).delivered

    assert asyncio.run(deliver()) == 1


def test_a_store_that_does_not_answer_is_told_and_tried_again(store: Watched) -> None:
    digests = Digests(store, lease=1)
    events: list[Event] = []
    digests.add("t", 1)
    digests.subscribe(events.append)
    store.failures = 1

    with digests.digest("t"):
        store.wait_for_extensions(1)
        store.wait_for_extensions(1)

    assert [type(event) for event in events] == [Claimed, LeaseNotRenewed, Delivered]
    assert digests.ledger().delivered == 1


def test_a_lost_lease_is_not_renewed_and_the_completion_says_so(store: Watched) -> None:
    digests = Digests(store, lease=0.3)
    digests.add("t", 1)

    with pytest.raises(StaleLease), digests.digest("t"):
        digests.delete("t")
        store.wait_for_extensions(1)

    assert digests.ledger().deleted == 1


def test_with_a_given_time_nothing_happens_in_the_background(store: Watched) -> None:
    digests = Digests(store, lease=0.001, clock=lambda: 5.0)
    digests.add("t", 1)
    before = set(threading.enumerate())

    with digests.digest("t"):
        during = set(threading.enumerate())

    assert during <= before
    assert digests.ledger().delivered == 1
