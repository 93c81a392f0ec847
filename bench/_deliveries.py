"""Subjects: the search for due timelines in SQLite, and their delivery."""

from pathlib import Path

from bench._growth import AFTERWARDS, BEGINNING, MOVES, filled
from bench._measure import Figures, Stopwatch
from bench._workload import Source, opened, timeline_key
from digestif import Digests, Policy
from digestif.core.times import Millis, to_millis
from digestif.ids import fresh_id
from digestif.stores.base import ClaimPage, Completion, Lease, Store, Take
from digestif.testing import FakeClock

FEW = 1_000  # due timelines; a store with so few is filled anew for each measurement
CLAIM = 200
PAGE = 1_000
LEASE = 3_600_000  # milliseconds
RECORDS = 10  # in each digest
ALL_DUE = AFTERWARDS + 100 * MOVES.longest_wait


class Due:
    """A store with so many due timelines."""

    def __init__(self, folder: str, size: int, times: int) -> None:
        self._folder = folder
        self._size = size
        self._times = times if size > FEW else 1
        self._number = 0
        self._digests = self._filled()

    def _filled(self) -> Digests:
        clock = FakeClock(BEGINNING)
        digests = filled(self._folder, self._size, clock)
        clock.set(ALL_DUE)
        return digests

    def milliseconds(self) -> Figures:
        """Return the milliseconds of a claim of 200, and of a page of 1,000 of the schedule."""
        claims, pages = Stopwatch(), Stopwatch()
        for _ in range(self._times):
            with claims.running():
                claimed = claim(self._digests.store, now=to_millis(ALL_DUE))
            assert len(claimed.leases) == CLAIM
        self._renew()
        for _ in range(self._times):
            with pages.running():
                next(self._digests.schedule(page=PAGE))
        self._renew()
        return {"claim": claims.seconds / self._times * 1000, "page": pages.seconds / self._times * 1000}

    def _renew(self) -> None:
        """Fill a small store anew; in a large one the few timelines that were taken do not matter."""
        if self._size <= FEW:
            self.close()
            for file in Path(self._folder).glob(f"timelines-{self._size}.db*"):
                file.unlink()
            self._digests = self._filled()

    def close(self) -> None:
        self._digests.close()


class Deliveries:
    """Digests of ten records each: one by one with `digest()`, and by the page as a worker does."""

    def __init__(self, folder: str, count: int) -> None:
        self._count = count
        self._source = Source(count)
        self._digests = opened(Path(folder) / "deliveries.db", policy=Policy.immediate())
        self.close = self._digests.close

    def rate(self) -> Figures:
        return {"digest": self._one_by_one(), "page": self._by_the_page()}

    def _one_by_one(self) -> float:
        self._fill()
        watch = Stopwatch()
        with watch.running():
            for number in range(self._count):
                with self._digests.digest(timeline_key(number)) as digest:
                    assert len(digest) == RECORDS
        self._empty()
        return watch.rate(self._count)

    def _by_the_page(self) -> float:
        self._fill()
        watch = Stopwatch()
        delivered = 0
        with watch.running():
            while delivered < self._count * RECORDS:
                delivered += deliver(self._digests.store, claim(self._digests.store).leases)
        self._empty()
        return watch.rate(self._count)

    def _fill(self) -> None:
        for _ in range(RECORDS):
            self._digests.add_many([(timeline_key(n), self._source.record()) for n in range(self._count)])

    def _empty(self) -> None:
        """Retire the empty timelines, so that the next record finds them idle."""
        while claim(self._digests.store).retired:
            pass


def claim(store: Store, *, now: Millis | None = None) -> ClaimPage:
    """Lease a page of due timelines."""
    return store.claim(0, CLAIM, token=fresh_id(), lease=LEASE, now=now)


def deliver(store: Store, leases: list[Lease]) -> int:
    """Read open digests page by page, complete them together, and return the number of their records."""
    requests = [Take(lease, capacity=None, merge=True) for lease in leases]
    records = 0
    while requests:
        answers = zip(requests, store.take(requests, now=None), strict=True)
        taken = [(request, page) for request, page in answers if page is not None]
        records += sum(len(page.records) for _, page in taken)
        requests = [request._replace(after=page.after) for request, page in taken if not page.complete]
    store.complete([Completion(lease, cool_down=0) for lease in leases], now=None)
    return records
