"""Subject: the memory of a server per record, everything included."""

from collections.abc import Callable, Iterator

from redis import Redis

from bench._redis_adds import BYTES, LongKeys
from bench._workload import fill, timeline_key
from digestif import Digests, Record
from digestif.clock import wall_clock
from digestif.testing.servers import RedisServer, becomes_true

RECORDS = 40  # in each timeline
STEADY = 4096  # bytes
PAUSE = 0.15  # seconds: a server cleans up ten times a second


def bytes_per_record(put: Callable[[str, int], None], *, timelines: int) -> float:
    """Return the bytes per record that `put` adds to the memory of a new server."""
    with RedisServer() as server:
        before = steady_memory(server)
        put(server.url, timelines)
        return (steady_memory(server) - before) / (timelines * RECORDS)


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


def steady_memory(server: RedisServer) -> int:
    """Return the bytes that a server uses, once it has freed and rehashed in the background."""
    readings = [0]

    def is_steady() -> bool:
        readings.append(used_memory(server))
        is_level = abs(readings[-1] - readings[-2]) < STEADY
        return is_level and server.cli("INFO", "memory")["lazyfree_pending_objects"] == 0

    becomes_true(is_steady, timeout=20, every=PAUSE)
    return readings[-1]


def used_memory(server: RedisServer) -> int:
    return int(server.cli("INFO", "memory")["used_memory"])
