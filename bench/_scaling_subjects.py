"""Subjects: a store that holds so many timelines of so many records, and what one operation costs in it."""

import statistics
from collections.abc import Iterator
from itertools import islice

from bench._measure import Figures, Stopwatch
from bench._redis_deliveries import claims, deliver
from bench._workload import Source, fill, timeline_key
from digestif import Digests, Policy, Record
from digestif.core.times import to_millis
from digestif.testing import FakeClock

BEGINNING = 1_700_000_000.0
POLICY = Policy.debounce(quiet=60, maximum=600, capacity=None)  # every add moves the due time: the most expensive kind
ALL_DUE = 10 * POLICY.longest_wait
BATCH = 100
PAGES = 10  # of 200 timelines: as many as one measurement delivers at most


class Filled:
    """A store with so many waiting timelines, each with so many records."""

    def __init__(self, dsn: str, namespace: str, timelines: int, records: int, calls: int, seed: int = 1) -> None:
        self._clock = FakeClock(BEGINNING)
        self._source = Source(timelines, seed=seed)
        self._timelines = timelines
        self._records = records
        self._calls = calls
        self._digests = Digests(dsn, namespace=namespace, clock=self._clock, policy=POLICY)
        self.close = self._digests.close

    def fill(self) -> Figures:
        total = self._timelines * self._records
        fill(self._digests, self._events(), total=total, title=f"{self._timelines:,} × {self._records:,}")
        return {}

    def add(self) -> Figures:
        """Return the microseconds of an add."""
        added = [(self._source.timeline(), self._source.record(BEGINNING)) for _ in range(self._calls)]
        watch = Stopwatch()
        with watch.running():
            for timeline, record in added:
                self._digests.add(timeline, record)
        self._remove(added)
        return {"cost": watch.seconds / len(added) * 1e6, "seconds": watch.seconds, "count": float(len(added))}

    def add_many(self) -> Figures:
        """Return the microseconds of a record in a batch of 100."""
        batches = [
            [(self._source.timeline(), self._source.record(BEGINNING)) for _ in range(BATCH)]
            for _ in range(max(1, self._calls // 20))
        ]
        watch = Stopwatch()
        for batch in batches:
            with watch.running():
                self._digests.add_many(batch)
            self._remove(batch)
        count = BATCH * len(batches)
        return {"cost": watch.seconds / count * 1e6, "seconds": watch.seconds, "count": float(count)}

    def deliver(self) -> Figures:
        """Claim, read and complete what is due, some pages at most.

        Return the microseconds of a digest in the median page, the seconds of all pages and the number of digests.
        """
        self._clock.set(BEGINNING + ALL_DUE)
        total, costs, digests = Stopwatch(), list[float](), 0
        pages = islice(claims(self._digests, now=self._now), PAGES)
        while True:
            page = Stopwatch()
            with total.running(), page.running():
                if (claimed := next(pages, None)) is None:
                    break
                deliver(self._digests.store, claimed, now=self._now())
            costs.append(page.seconds / len(claimed.leases) * 1e6)
            digests += len(claimed.leases)
        cost = statistics.median(costs) if costs else 0.0
        return {"cost": cost, "seconds": total.seconds, "count": float(digests)}

    def _now(self) -> int:
        return to_millis(self._clock())

    def _events(self) -> Iterator[tuple[str, Record]]:
        for _ in range(self._records):
            for number in range(self._timelines):
                yield timeline_key(number), self._source.record(BEGINNING)

    def _remove(self, added: list[tuple[str, Record]]) -> None:
        """Bring timelines back to their size, where the new records would make a difference."""
        if self._timelines == 1 and self._records < 100 * BATCH:
            for timeline, record in added:
                self._digests.retract(timeline, record.key)
