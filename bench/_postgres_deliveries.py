"""Subject: digests that are claimed, read and completed by the page, as by a worker."""

from contextlib import closing

from bench._measure import Stopwatch
from bench._redis_deliveries import RECORDS, claims, deliver
from bench._workload import Source, timeline_key
from digestif import Digests
from digestif.clock import wall_clock


class Deliveries:
    """So many timelines with ten records each, delivered once."""

    def __init__(self, url: str, *, timelines: int) -> None:
        self._url = url
        self._timelines = timelines
        self._number = 0

    def seconds(self) -> float:
        """Deliver all of them, each time in a new namespace, and return the seconds."""
        self._number += 1
        with closing(Digests(self._url, namespace=f"deliveries-{self._number}")) as digests:
            self._fill(digests)
            watch = Stopwatch()
            delivered = 0
            with watch.running():
                for claimed in claims(digests):
                    delivered += deliver(digests.store, claimed)
            assert delivered == self._timelines * RECORDS
        return watch.seconds

    def _fill(self, digests: Digests) -> None:
        source, now = Source(self._timelines), wall_clock()
        for _ in range(RECORDS):
            digests.add_many([(timeline_key(number), source.record(now)) for number in range(self._timelines)])
