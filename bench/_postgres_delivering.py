"""Subject: digests that are claimed, taken and closed by the page, as a worker does it."""

from contextlib import closing

from bench._measure import Stopwatch
from bench._postgres_adding import Events
from bench._redis_delivering import RECORDS, claims, deliver
from bench._workload import timeline_key
from digestif import Digests
from digestif.clock import wall_clock


class Deliveries:
    """So many timelines with ten records each, delivered once."""

    def __init__(self, url: str, *, timelines: int) -> None:
        self._url = url
        self._timelines = timelines
        self._number = 0

    def seconds(self) -> float:
        """For delivering all of them; each time in a namespace of its own."""
        self._number += 1
        with closing(Digests(self._url, namespace=f"deliveries-{self._number}")) as digests:
            self._fill(digests)
            watch = Stopwatch()
            delivered = 0
            with watch.running():
                for leases in claims(digests):
                    delivered += deliver(digests.store, leases)
            assert delivered == self._timelines * RECORDS
        return watch.seconds

    def _fill(self, digests: Digests) -> None:
        source, now = Events(self._timelines), wall_clock()
        for _ in range(RECORDS):
            digests.add_many([(timeline_key(number), source.record(now)) for number in range(self._timelines)])
