"""Subject: the memory that a server needs for records, everything included."""

from collections.abc import Callable, Iterator

from redis import Redis

from bench._redis_adding import BYTES, LongKeys
from bench._workload import fill, timeline_key
from digestif import Digests, Record
from digestif.clock import wall_clock
from digestif.testing.servers import RedisServer, becomes_true

RECORDS = 40  # in each timeline
STEADY = 4096  # bytes
PAUSE = 0.15  # seconds: a server puts things in order ten times each


def bytes_per_record(put: Callable[[str, int], None], *, timelines: int) -> float:
    """What `put` adds to the memory of a fresh server, for each record."""
    with RedisServer() as server:
        before = settled_memory(server)
        put(server.url, timelines)
        return (settled_memory(server) - before) / (timelines * RECORDS)


def with_digestif(url: str, timelines: int) -> None:
    with Digests(url) as digests:
        fill(digests, _events(timelines), total=timelines * RECORDS, title="memory")


def with_hset(url: str, timelines: int) -> None:
    client: Redis = Redis.from_url(url)
    pipeline = client.pipeline(transaction=False)
    for number, (timeline, record) in enumerate(_events(timelines), 1):
        pipeline.hset(timeline, record.key, BYTES)
        if number % RECORDS == 0:
            pipeline.execute()
    client.close()


def _events(timelines: int) -> Iterator[tuple[str, Record]]:
    source = LongKeys(timelines)
    for _ in range(RECORDS):
        now = wall_clock()
        yield from ((timeline_key(number), source.record(now)) for number in range(timelines))


def settled_memory(server: RedisServer) -> int:
    """The bytes that a server uses, once it has freed and rehashed what it does beside its work."""
    readings = [0]

    def is_settled() -> bool:
        readings.append(used_memory(server))
        is_steady = abs(readings[-1] - readings[-2]) < STEADY
        return is_steady and server.cli("INFO", "memory")["lazyfree_pending_objects"] == 0

    becomes_true(is_settled, timeout=20, every=PAUSE)
    return readings[-1]


def used_memory(server: RedisServer) -> int:
    return int(server.cli("INFO", "memory")["used_memory"])
