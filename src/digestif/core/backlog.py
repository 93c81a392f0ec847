"""The backlog: how many timelines there are in each state, and how late the most overdue one is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from digestif.core.times import Millis, to_seconds


class Standing(NamedTuple):
    """Timelines of a store, counted by state. Paused ones count only in `timelines`."""

    timelines: int
    waiting: int
    ready: int
    open: int
    due: int  # may be claimed now: ready, waiting and due, or open with a lapsed lease
    earliest: Millis | None  # due time of the first that waits or is ready
    expires: Millis | None  # when the first record expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What there is to deliver, and how late it is. Times and durations in seconds."""

    timelines: int  # stored, also those that are paused
    waiting: int
    ready: int
    open: int
    due: int  # may be delivered now
    next_due: float | None  # when the first of them is or was due
    late: float  # how long the most overdue one has been due
    oldest: float | None  # age of the oldest undelivered record that expires; None if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A backlog for a page that must not read much of a large store. Times in seconds."""

    backlog: Backlog
    counted: float  # when timelines were counted
    at_least: bool  # there may be more timelines than the counts say


def add_up(standings: Iterable[Standing]) -> Standing:
    """The sum of several partitions."""
    every = list(standings)
    return Standing(
        timelines=sum(each.timelines for each in every),
        waiting=sum(each.waiting for each in every),
        ready=sum(each.ready for each in every),
        open=sum(each.open for each in every),
        due=sum(each.due for each in every),
        earliest=_first(each.earliest for each in every),
        expires=_first(each.expires for each in every),
    )


def backlog(standing: Standing, *, now: Millis, ttl: Millis | None) -> Backlog:
    """The backlog for people. The first expiry minus the ttl is the arrival of the oldest record."""
    earliest, expires = standing.earliest, standing.expires
    return Backlog(
        timelines=standing.timelines,
        waiting=standing.waiting,
        ready=standing.ready,
        open=standing.open,
        due=standing.due,
        next_due=None if earliest is None else to_seconds(earliest),
        late=0.0 if earliest is None else max(0.0, to_seconds(now - earliest)),
        oldest=None if expires is None or ttl is None else max(0.0, to_seconds(now - expires + ttl)),
    )


def _first(times: Iterable[Millis | None]) -> Millis | None:
    return min((time for time in times if time is not None), default=None)
