"""Helpers of the tests that act through the engine."""

from collections.abc import Iterable

import pytest

from digestif import Digest, Digests, Record

T = 1_700_000_000.0  # a base time, in seconds
DAY = 86_400.0


class Boom(Exception):
    """What a block raises."""


class Interrupt(BaseException):
    """What a signal handler raises, as KeyboardInterrupt: it may come at any step of its thread."""


def keys(records: Iterable[Record]) -> list[str]:
    return [record.key for record in records]


def numbered(numbers: Iterable[int], *, since: float = T) -> list[Record]:
    """Records r0, r1… a second apart."""
    return [Record(f"r{number}", number, since + number) for number in numbers]


def add_all(digests: Digests, timeline: str, records: Iterable[Record], *, now: float = T) -> list[bool]:
    return digests.add_many([(timeline, record) for record in records], now=now)


def deliver(digests: Digests, timeline: str, minimum_delay: float | None = None, *, now: float = T) -> Digest:
    """Open the digest and complete it."""
    with digests.digest(timeline, minimum_delay, now=now) as digest:
        return digest


def fail(digests: Digests, timeline: str, *, now: float = T) -> Digest:
    """Open the digest and raise."""
    with pytest.raises(Boom), digests.digest(timeline, now=now) as digest:
        raise Boom
    return digest


def let_wait(digests: Digests, timeline: str, *, due: float = T, last: float = T) -> None:
    """Deliver one record at `last`, so that the timeline waits until `due` with nothing pending."""
    digests.add(timeline, "delivered before", now=last)
    deliver(digests, timeline, due - last, now=last)


def scheduled(digests: Digests, deadline: float = T) -> list[str]:
    """Schedule at the time of the deadline; the timelines that become ready."""
    return [entry.key for entry in digests.schedule(deadline, now=deadline)]


def next_digest(digests: Digests, timeline: str, *, now: float) -> Digest:
    """Schedule whatever is due, and deliver this one."""
    scheduled(digests, now)
    return deliver(digests, timeline, now=now)


def assert_leaves_at(digests: Digests, timeline: str, due: float) -> None:
    """Fail unless the timeline waits and is scheduled at this time, not a millisecond earlier."""
    assert timeline not in scheduled(digests, due - 0.001)
    assert timeline in scheduled(digests, due)
