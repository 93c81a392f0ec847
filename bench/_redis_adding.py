"""Subjects: records that are added to Redis, one by one and together, beside the same bytes set by redis-py alone."""

from collections.abc import Callable
from itertools import islice

from redis import Redis

from bench._growing import MOVES
from bench._measure import Stopwatch
from bench._redis_turns import Block
from bench._workload import PAYLOAD, VALUE, Source, fill, timeline_key
from digestif import Digests, Policy, Record
from digestif.clock import wall_clock
from digestif.testing.servers import RedisServer

TIMELINES = 1_000
BATCH = 500
KEY = 32  # bytes of a record's key
READY = Policy()  # the first record makes its timeline ready, the others join it
WAITING = MOVES  # each record moves the due time
BYTES = b"x" * PAYLOAD


class LongKeys(Source):
    """Random events whose keys have 32 bytes."""

    def key(self) -> str:
        return f"{self._random.getrandbits(KEY * 4):0{KEY}x}"

    def names(self, count: int) -> list[tuple[str, str]]:
        """Timelines and keys."""
        return [(self.timeline(), self.key()) for _ in range(count)]

    def records(self, count: int) -> list[tuple[str, Record]]:
        """Timelines and records, of now."""
        now = wall_clock()
        return [(timeline, Record(key, VALUE, now)) for timeline, key in self.names(count)]


def everywhere(source: LongKeys) -> list[tuple[str, Record]]:
    """A record for each timeline."""
    return [(timeline_key(number), source.record(wall_clock())) for number in range(TIMELINES)]


class Ours:
    """Adds through Digestif; every timeline has a record already."""

    def __init__(self, server: RedisServer, namespace: str, *, policy: Policy = READY, partitions: int = 1) -> None:
        self._source = LongKeys(TIMELINES)
        self._digests = Digests(f"{server.url}?partitions={partitions}", policy=policy, namespace=namespace)
        self._digests.add_many(everywhere(self._source))
        self.close = self._digests.close

    def singles(self, count: int) -> Block:
        def block() -> Callable[[], None]:
            names, add = self._source.names(count), self._digests.add

            def run() -> None:
                for timeline, key in names:
                    add(timeline, VALUE, key=key)

            return run

        return block

    def batches(self, count: int) -> Block:
        def block() -> Callable[[], None]:
            batches, add_many = [self._source.records(BATCH) for _ in range(count)], self._digests.add_many

            def run() -> None:
                for batch in batches:
                    add_many(batch)

            return run

        return block


class Raw:
    """The yardstick: HSET with redis-py, the same bytes into a hash for each timeline."""

    def __init__(self, server: RedisServer) -> None:
        self._source = LongKeys(TIMELINES)
        self._client: Redis = Redis.from_url(server.url)
        for timeline, record in everywhere(self._source):
            self._client.hset(timeline, record.key, BYTES)
        self.close = self._client.close

    def singles(self, count: int) -> Block:
        def block() -> Callable[[], None]:
            names, hset = self._source.names(count), self._client.hset

            def run() -> None:
                for timeline, key in names:
                    hset(timeline, key, BYTES)

            return run

        return block

    def batches(self, count: int) -> Block:
        def block() -> Callable[[], None]:
            batches = [self._source.names(BATCH) for _ in range(count)]

            def run() -> None:
                for batch in batches:
                    pipeline = self._client.pipeline(transaction=False)
                    for timeline, key in batch:
                        pipeline.hset(timeline, key, BYTES)
                    pipeline.execute()

            return run

        return block


class Grown:
    """Adds to one timeline that holds so many records; if it is full, each drops one."""

    def __init__(self, server: RedisServer, size: int, *, full: bool) -> None:
        self._size = size
        self._full = full
        self._source = LongKeys(1)
        policy = Policy(capacity=size if full else None)
        self._digests = Digests(server.url, policy=policy, namespace=f"{'full' if full else 'grown'}-{size}")
        events = ((timeline_key(0), self._source.record(wall_clock())) for _ in range(size))
        fill(self._digests, events, total=size, title=f"{size:,} records")
        self.close = self._digests.close

    def seconds(self, count: int) -> float:
        """For so many adds."""
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
