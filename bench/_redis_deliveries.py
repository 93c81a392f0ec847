"""Subject: digests that are claimed, read and completed by the page, as by a worker."""

from collections.abc import Callable, Iterator

from bench._measure import Stopwatch
from bench._redis_adds import LongKeys
from bench._workload import timeline_key
from digestif import Digests, Policy
from digestif.attempts.admission import Admissions
from digestif.attempts.claims import ClaimedLeases, Claims
from digestif.attempts.handlers import Handlers
from digestif.attempts.outages import Outages
from digestif.clock import wall_clock
from digestif.core.times import Millis
from digestif.intake.policies import Policies
from digestif.stores.base import HISTORY_KEYS, PAGE_TIMELINES, Completion, Lease, Store, Take, Taken
from digestif.testing.servers import RedisServer

RECORDS = 10  # in each digest
LEASE = 3_600_000  # milliseconds
COOL_DOWN = 300_000


class Deliveries:
    """So many timelines with ten records each, delivered once."""

    def __init__(self, server: RedisServer, *, timelines: int, partitions: int) -> None:
        self._server = server
        self._timelines = timelines
        self._partitions = partitions
        self._number = 0

    def seconds(self) -> float:
        """Deliver all of them, each time from a new store, and return the seconds."""
        self._server.cli("FLUSHALL")
        self._number += 1
        url = f"{self._server.url}?partitions={self._partitions}"
        with Digests(url, policy=Policy(), namespace=f"p{self._partitions}n{self._number}") as digests:
            self._fill(digests)
            return self._deliver(digests)

    def _fill(self, digests: Digests) -> None:
        source = LongKeys(self._timelines)
        for _ in range(RECORDS):
            now = wall_clock()
            digests.add_many([(timeline_key(number), source.record(now)) for number in range(self._timelines)])

    def _deliver(self, digests: Digests) -> float:
        watch = Stopwatch()
        delivered = 0
        with watch.running():
            for claimed in claims(digests):
                delivered += deliver(digests.store, claimed)
        assert delivered == self._timelines * RECORDS
        return watch.seconds


def claims(digests: Digests, *, now: Callable[[], Millis | None] = lambda: None) -> Iterator[ClaimedLeases]:
    """Yield pages of leases, until nothing is due."""
    outages = Outages(digests.store, handlers=Handlers(), events=digests.events)
    admissions = Admissions(Policies(Policy()), outages)
    claims = Claims(digests.store, admissions, lease=LEASE, now=now, events=digests.events)
    while (claimed := claims.claim(PAGE_TIMELINES)).leases:
        yield claimed


class Contents:
    """What was read of open digests: how many records, and the newest keys of each digest, by its id."""

    def __init__(self) -> None:
        self.records = 0
        self.keys: dict[str, list[str]] = {}

    def note(self, lease: Lease, page: Taken) -> None:
        self.records += len(page.records)
        known = self.keys.setdefault(lease.digest_id, [])
        known += [record.key for record in page.records[: HISTORY_KEYS - len(known)]]


def deliver(store: Store, claimed: ClaimedLeases, *, now: Millis | None = None) -> int:
    """Read open digests page by page, complete them together, and return the number of their records."""
    contents = read(store, claimed, now=now)
    completions = [Completion(each, COOL_DOWN, keys=contents.keys[each.digest_id]) for each in claimed.leases]
    closed = store.complete(completions, now=now)
    assert all(closed)
    return contents.records


def read(store: Store, claimed: ClaimedLeases, *, now: Millis | None = None) -> Contents:
    """Read open digests that were not read along with the claim page by page, and keep no page."""
    contents = Contents()
    for lease in claimed.leases:
        if page := claimed.pages.get(lease.digest_id):
            contents.note(lease, page)
    unread = [lease for lease in claimed.leases if lease.digest_id not in claimed.pages]
    requests = [Take(lease, capacity=None, merge=True) for lease in unread]
    while requests:
        answers = zip(requests, store.take(requests, now=now), strict=True)
        taken = [(request, page) for request, page in answers if page is not None]
        for request, page in taken:
            contents.note(request.lease, page)
        requests = [request._replace(after=page.after) for request, page in taken if not page.complete]
    return contents
