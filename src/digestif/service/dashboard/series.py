"""Curves of the overview, from the samples that workers and services keep in the store."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from digestif.core.samples import Sample

POINTS = 180  # of a curve
LATELY = 600  # seconds over which rates are taken, at most
RANGES = {"1h": 3600, "6h": 21_600, "24h": 86_400}  # seconds


class Series(Struct, frozen=True, kw_only=True):
    """Curves over the same points in time. None where there is no sample."""

    at: list[float]
    events: list[float | None]  # accepted a minute
    messages: list[float | None]  # sent a minute
    pending: list[float | None]
    late: list[float | None]  # seconds


class Rates(Struct, frozen=True, kw_only=True):
    """What happens a minute; None without samples."""

    events: float | None
    messages: float | None
    period: int  # minutes between the samples that were compared, at least 1; 0 without samples


class Totals(Struct, frozen=True, kw_only=True):
    """What happened in a range."""

    events: int
    delivered: int  # records
    messages: int

    @property
    def removed(self) -> float | None:
        """The share of delivered records that needed no message of their own; None if none was delivered."""
        if not self.delivered or not self.messages:
            return None
        return max(0.0, 1 - self.messages / self.delivered)


def series(samples: Sequence[Sample], *, now: float, length: float) -> Series:
    """The curves of the last seconds before now, in points of equal length."""
    step = length / POINTS
    first = int((now - length) // step) + 1
    points = [_Point() for _ in range(POINTS)]
    for before, sample in zip([None, *samples], samples, strict=False):
        place = int(sample.at // step) - first
        if 0 <= place < POINTS:
            points[place].take(before, sample)
    return Series(
        at=[(first + place + 1) * step for place in range(POINTS)],
        events=[point.rate(point.events) for point in points],
        messages=[point.rate(point.messages) for point in points],
        pending=[point.pending for point in points],
        late=[point.late for point in points],
    )


def totals(samples: Sequence[Sample], *, since: float) -> Totals:
    """The sums since a time. A counter that was set back, by another store, counts from there."""
    within = [sample for sample in samples if sample.at >= since]
    return Totals(
        events=_risen(within, lambda sample: sample.accepted),
        delivered=_risen(within, lambda sample: sample.delivered),
        messages=_risen(within, lambda sample: sample.digests),
    )


def rates(samples: Sequence[Sample], *, now: float) -> Rates:
    """Events and messages a minute in the last minutes."""
    within = [sample for sample in samples if sample.at >= now - LATELY]
    minutes = (within[-1].at - within[0].at) / 60 if within else 0
    if not minutes:
        return Rates(events=None, messages=None, period=0)
    found, period = totals(within, since=0), max(1, round(minutes))
    return Rates(events=found.events / minutes, messages=found.messages / minutes, period=period)


def _risen(samples: Sequence[Sample], counter: Callable[[Sample], int]) -> int:
    counts = [counter(sample) for sample in samples]
    return sum(max(0, after - before) for before, after in pairwise(counts))


class _Point:
    """The samples that share one point of a curve."""

    def __init__(self) -> None:
        self.events = self.messages = 0
        self.seconds = 0.0
        self.pending: float | None = None
        self.late: float | None = None

    def take(self, before: Sample | None, sample: Sample) -> None:
        self.pending = sample.pending
        self.late = max(self.late or 0.0, sample.late)
        if before is not None:
            self.seconds += sample.at - before.at
            self.events += max(0, sample.accepted - before.accepted)
            self.messages += max(0, sample.digests - before.digests)

    def rate(self, number: int) -> float | None:
        return None if not self.seconds else round(60 * number / self.seconds, 2)
