"""Subject: adds to one timeline that holds many records, on any server."""

from itertools import islice

from bench._measure import Stopwatch
from bench._workload import VALUE, Source, fill, timeline_key
from digestif import Digests, Policy
from digestif.clock import wall_clock


class Grown:
    """Adds to one timeline that holds so many records; if it is full, each add drops one."""

    def __init__(self, dsn: str, size: int, source: Source, *, full: bool) -> None:
        self._size = size
        self._full = full
        self._source = source
        policy = Policy(capacity=size if full else None)
        self._digests = Digests(dsn, policy=policy, namespace=f"{'full' if full else 'grown'}-{size}")
        events = ((timeline_key(0), self._source.record(wall_clock())) for _ in range(size))
        fill(self._digests, events, total=size, title=f"{size:,} records")
        self.close = self._digests.close

    def seconds(self, count: int) -> float:
        """Add so many records, and return the seconds."""
        watch = Stopwatch()
        keys = iter([self._source.key() for _ in range(count)])
        while some := list(islice(keys, max(10, self._size // 10))):
            with watch.running():
                for key in some:
                    self._digests.add(timeline_key(0), VALUE, key=key)
            self._restore(some)
        return watch.seconds

    def _restore(self, keys: list[str]) -> None:
        """Bring the timeline back to its size."""
        if not self._full:
            for key in keys:
                self._digests.retract(timeline_key(0), key)
