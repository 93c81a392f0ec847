"""Subjects: phases of work on a very large Redis store. Each runs in a process of its own, and keeps nothing."""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from bench._measure import Figures, Stopwatch
from bench._redis_adds import LongKeys
from bench._redis_deliveries import LEASE, claims, deliver, read
from bench._workload import timeline_key
from digestif import Digests, Policy
from digestif.attempts.claims import ClaimedLeases
from digestif.core.times import to_millis
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, PAGE_TIMELINES, Lease, Release
from digestif.testing import FakeClock

BEGINNING = 1_700_000_000.0
DUE = BEGINNING + 3600  # every timeline is due
LATER = DUE + 3600  # every cool-down is over
MUCH_LATER = LATER + 8 * 86_400  # every record has expired
LARGE = "mail:large"
STEP = 0.001  # seconds between two pages
logging.getLogger("digestif").setLevel(logging.CRITICAL)  # a million timelines are late, which each would say


class Load(NamedTuple):
    """How much is stored, and where."""

    url: str
    timelines: int
    records: int  # in a large timeline
    producers: int  # processes that fill the store together


class Phase:
    """One phase, by a client of its own."""

    at = BEGINNING
    policy = Policy(capacity=None)

    def __init__(self, load: Load, number: int = 0) -> None:
        self._load = load
        self._number = number  # of this producer
        self._clock = FakeClock(self.at)
        self._source = LongKeys(load.timelines, seed=number)
        self._digests = Digests(load.url, policy=self.policy, clock=self._clock)

    def prepare(self) -> Figures:
        """Fill the store for the phase; this is not measured."""
        return {}

    def run(self) -> Figures:
        """Return how many timelines or records were handled, and the seconds."""
        watch = Stopwatch()
        with watch.running():
            done = self._run()
        return {"done": done, "seconds": watch.seconds}

    def _run(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        self._digests.close()

    # Shared by several phases

    def _now(self) -> int:
        return to_millis(self._clock())

    def _add_large(self, count: int) -> int:
        for start in range(0, count, PAGE_RECORDS):
            now = self._clock.advance(STEP)
            page = min(PAGE_RECORDS, count - start)
            self._digests.add_many([(LARGE, self._source.record(now)) for _ in range(page)])
        return count

    def _open(self) -> Lease:
        return self._digests.store.open(LARGE, token=fresh_id(), lease=LEASE, now=self._now())

    def _claims(self) -> Iterator[ClaimedLeases]:
        return claims(self._digests, now=self._now)


# Many timelines


class Fill(Phase):
    """Add one record to each waiting timeline of this producer's share, in the largest pages."""

    policy = Policy(first_delay=60)

    def _run(self) -> int:
        numbers = range(self._number, self._load.timelines, self._load.producers)
        for start in range(0, len(numbers), PAGE_RECORDS):
            now = self._clock.advance(STEP)
            page = numbers[start : start + PAGE_RECORDS]
            self._digests.add_many([(timeline_key(number), self._source.record(now)) for number in page])
        return len(numbers)


class Schedule(Phase):
    at = DUE

    def _run(self) -> int:
        return sum(1 for _ in self._digests.schedule())


class Maintain(Phase):
    at = DUE

    def _run(self) -> int:
        return self._digests.maintenance(self.at)


class Deliver(Phase):
    at = DUE

    def _run(self) -> int:
        return sum(deliver(self._digests.store, each, now=self._now()) for each in self._claims())


class Retire(Phase):
    """After the cool-downs, without new records: the timelines become idle, and leave nothing stored."""

    at = LATER

    def _run(self) -> int:
        assert not list(self._claims())
        return self._load.timelines


# One large timeline


class Large(Phase):
    """A phase with one large timeline, which is deleted in the end."""

    at = LATER

    def close(self) -> None:
        self._digests.delete(LARGE)
        super().close()


class AddLarge(Large):
    def _run(self) -> int:
        return self._add_large(self._load.records)


class DeliverLarge(Large):
    """Open a digest, read it page by page and close it."""

    def prepare(self) -> Figures:
        self._add_large(self._load.records)
        return {}

    def _run(self) -> int:
        return deliver(self._digests.store, ClaimedLeases([self._open()]), now=self._now())


class Merge(DeliverLarge):
    """Merge a failed digest of half of the records with as many new ones."""

    def prepare(self) -> Figures:
        half = self._load.records // 2
        self._add_large(half)
        lease = self._open()
        read(self._digests.store, ClaimedLeases([lease]), now=self._now())
        self._digests.store.release([Release(lease, None)], now=self._now())
        self._add_large(self._load.records - half)
        return {}


class FillUp(Large):
    """Add twice as many records to a timeline with room for a fifth."""

    def __init__(self, load: Load, number: int = 0) -> None:
        self.policy = Policy(capacity=load.records // 5)
        super().__init__(load, number)

    def _run(self) -> int:
        for _ in range(self._load.records * 2):
            self._digests.add(LARGE, self._source.record(self._clock.advance(STEP)))
        return self._load.records * 2


class FillUpByPage(FillUp):
    def _run(self) -> int:
        return self._add_large(self._load.records * 2)


class Delete(DeliverLarge):
    def _run(self) -> int:
        assert self._digests.delete(LARGE)
        return self._load.records


class Expire(DeliverLarge):
    """Expire every record."""

    def _run(self) -> int:
        self._clock.set(MUCH_LATER)
        self._digests.maintenance(BEGINNING)
        return self._digests.ledger().expired


# All phases


class Little(Phase):
    """All phases with a small load, so that later figures show only the cost of more timelines and records."""

    def _run(self) -> int:
        load = self._load._replace(timelines=PAGE_TIMELINES, records=PAGE_RECORDS, producers=1)
        for phase in (Fill, Schedule, Maintain, Deliver, Retire, DeliverLarge, Merge, FillUpByPage, Delete):
            one = phase(load)
            one.prepare()
            one.run()
            one.close()
        return 1
