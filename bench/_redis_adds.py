"""Subjects: adds to Redis, one by one and in batches, beside the same bytes set by redis-py alone."""

from collections.abc import Callable

from redis import Redis

from bench._blocks import Block
from bench._growth import MOVES
from bench._workload import PAYLOAD, VALUE, Source, timeline_key
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


def everywhere(source: LongKeys) -> list[tuple[str, Record]]:
    """Return a record for each timeline."""
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
