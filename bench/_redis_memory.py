"""Subject: the memory of a server per record, everything included."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

import msgspec
from redis import Redis

from bench._redis_adds import LongKeys
from bench._workload import PAYLOAD, fill, timeline_key, value_of
from digestif import Digests, Record
from digestif.clock import wall_clock
from digestif.testing.servers import RedisServer, becomes_true

RECORDS = 40  # in each timeline
STEADY = 4096  # bytes
PAUSE = 0.15  # seconds: a server cleans up ten times a second


SIZES = {f"{PAYLOAD} bytes": range(PAYLOAD, PAYLOAD + 1), "100–500 bytes": range(100, 501)}  # of values

Put = Callable[[str, Iterable[tuple[str, Record]], int], None]


def bytes_per_record(put: Put, sizes: Sequence[int], *, timelines: int) -> float:
    """Return the bytes per record that `put` adds to the memory of a new server."""
    with RedisServer() as server:
        before = steady_memory(server)
        put(server.url, _events(timelines, sizes), timelines * RECORDS)
        return (steady_memory(server) - before) / (timelines * RECORDS)


def with_digestif(url: str, events: Iterable[tuple[str, Record]], total: int) -> None:
    with Digests(url) as digests:
        fill(digests, events, total=total, title="memory")


def with_hset(url: str, events: Iterable[tuple[str, Record]], total: int) -> None:
    """The same bytes with nothing before them."""
    client: Redis = Redis.from_url(url)
    pipeline = client.pipeline(transaction=False)
    for number, (timeline, record) in enumerate(events, 1):
        pipeline.hset(timeline, record.key, msgspec.json.encode(record.value))
        if number % RECORDS == 0 or number == total:
            pipeline.execute()
    client.close()


def _events(timelines: int, sizes: Sequence[int]) -> Iterator[tuple[str, Record]]:
    source, random = LongKeys(timelines), Random(1)
    for _ in range(RECORDS):
        now = wall_clock()
        for number in range(timelines):
            yield timeline_key(number), Record(source.key(), value_of(random.choice(sizes)), now)


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
