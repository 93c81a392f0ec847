"""A server that is emptied again and again, and engines with different partitions: one number of them at a time."""

import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from digestif import ConfigError, Digests, InvalidState, Policy, StaleLease, StoreError
from digestif.clock import monotonic
from digestif.testing.servers import RedisServer

SECONDS = 60.0
SOON = Policy(minimum_delay=0, increment_delay=0)
DIVISIONS = (1, 2, 7, 64)
HOMES = "#!lua\nreturn redis.call('KEYS', '*:t:t')"  # of the timeline t in any partition, at one moment


def live(url: str, over: Event, seen: Counter[str]) -> None:
    """Open the namespace with some number of partitions, use it for a while, and begin again."""
    while not over.is_set():
        try:
            with Digests(f"{url}?partitions={random.choice(DIVISIONS)}", policy=SOON) as digests:
                refused = 0
                while refused < 3 and random.random() > 0.005 and not over.is_set():
                    refused = 0 if is_done(digests, seen) else refused + 1
        except ConfigError:
            seen["divided differently"] += 1
        except StoreError:
            seen["refused at the start"] += 1


def is_done(digests: Digests, seen: Counter[str]) -> bool:
    """Add to the timeline and deliver it. False if the store refused."""
    try:
        digests.add("t", 1)
        with digests.digest("t"):
            seen["delivered"] += 1
    except (InvalidState, StaleLease):
        seen["not now"] += 1
    except StoreError:
        seen["refused"] += 1
        return False
    return True


def test_a_timeline_never_has_two_homes() -> None:
    over, seen = Event(), Counter[str]()
    with RedisServer() as server, ThreadPoolExecutor(8) as pool:
        running = [pool.submit(live, server.url, over, seen) for _ in range(8)]
        end = monotonic() + SECONDS
        try:
            while monotonic() < end:
                homes = server.cli("EVAL", HOMES, 0)
                assert len(homes) <= 1, homes
                seen["looks"] += 1
                if random.random() < 0.05:
                    server.cli("FLUSHALL")
                    seen["emptied"] += 1
        finally:
            over.set()
        for each in running:
            each.result()
    sys.stdout.write(f"{dict(seen)}\n")
    assert min(seen["delivered"], seen["refused"], seen["emptied"]) > SECONDS
