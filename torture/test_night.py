"""A million timelines wait for the morning: nothing touches them during the night, and jitter spreads their times."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from digestif import Digests, Policy
from digestif.stores.base import PAGE_TIMELINES
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import RedisServer
from digestif.worker.worker import Worker

MANY = 1_000_000
BERLIN = ZoneInfo("Europe/Berlin")
EVENING = datetime(2026, 3, 28, 20, 0, tzinfo=BERLIN).timestamp()  # the clocks change in this night
MORNING = datetime(2026, 3, 29, 8, 0, tzinfo=BERLIN).timestamp()
JITTER = 600  # seconds
BUCKETS = 20


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Digests]:
    policy = Policy.daily("08:00", tz="Europe/Berlin", jitter=JITTER)
    if kind == "sqlite":
        with Digests(f"sqlite:///{folder / 'night.db'}", policy=policy) as digests:
            yield digests
    else:
        made = RedisServer() if kind == "redis" else PostgresServer()
        with made as server, Digests(server.url, policy=policy) as digests:
            yield digests


def stored(digests: Digests) -> tuple[bytes, Counter[int]]:
    """A fingerprint of all that is stored of the timelines, and how many are due in which part of the jitter."""
    fingerprint, due, after = blake2b(), Counter[int](), None
    while page := digests.store.scan(prefix="", after=after, limit=PAGE_TIMELINES):
        fingerprint.update(msgspec.json.encode(page))
        due.update(int((slot.at / 1000 - MORNING) // (JITTER / BUCKETS)) for _, slot in page)
        after = page[-1][0]
    return fingerprint.digest(), due


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_a_million_timelines_sleep_until_eight(kind: str, tmp_path: Path) -> None:
    delivered: list[str] = []
    with opened(kind, tmp_path) as digests:
        digests.handler("mail:*")(lambda digest: delivered.append(digest.timeline))
        for start in range(0, MANY, 1000):
            digests.add_many([(f"mail:{start + number:07}", 1) for number in range(1000)], now=EVENING)
        before, due = stored(digests)
        worker = Worker(digests)

        for minute in range(0, int(MORNING - EVENING), 900):
            assert list(digests.schedule(now=EVENING + minute)) == []
            assert asyncio.run(worker.run_once(EVENING + minute)) == 0

        after, _ = stored(digests)
        assert after == before, "a timeline was touched during the night"
        assert delivered == []
        assert sorted(due) == list(range(BUCKETS)), "due between eight and ten past eight"
        assert max(due.values()) < 1.03 * MANY / BUCKETS
        assert min(due.values()) > 0.97 * MANY / BUCKETS
        assert asyncio.run(worker.run_once(MORNING + JITTER)) > 0
        assert delivered
