"""The picture of a timeline: arrivals as dots, deliveries as bars, and the due time ahead.

Places are percentages of the width, so that the same drawing fits a phone and a wall.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from digestif.core.explain import Explanation
from digestif.core.records import HistoryEntry, Outcome, Record, State
from digestif.ids import time_of
from digestif.service.excerpts import ShownRecord

DELIVERIES = 40  # that are drawn
ROOM = 0.03  # of the width, left and right
SHORTEST = 120.0  # seconds that the picture shows
LANE = 6  # dots above each other before they hide each other
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


class Dot(Struct, frozen=True, kw_only=True):
    """A record that arrived."""

    x: float
    row: int  # 0 is the lowest
    key: str
    at: float
    is_pending: bool


class Bar(Struct, frozen=True, kw_only=True):
    """A digest that ended."""

    x: float
    height: float  # share of the most
    outcome: Outcome
    records: int
    at: float


class Tick(Struct, frozen=True, kw_only=True):
    x: float
    at: float


class Life(Struct, frozen=True, kw_only=True):
    """The picture. Places from 0 to 100."""

    dots: list[Dot]
    bars: list[Bar]
    ticks: list[Tick]
    now: float
    due: float | None
    due_at: float | None
    latest: float | None  # as far as further records can move the due time, if that is ahead

    @property
    def is_empty(self) -> bool:
        return not self.dots and not self.bars and self.due is None


def life(
    records: Sequence[Record | ShownRecord], history: Iterable[HistoryEntry], explanation: Explanation, *, now: float
) -> Life:
    """Draw a timeline from its pending records, its latest digests, and its explanation."""
    ended = sorted(history, key=lambda entry: entry.ended)[-DELIVERIES:]
    arrivals = [*_delivered(ended), *((record.timestamp, record.key, True) for record in records)]
    due = explanation.next if records and explanation.state in (State.WAITING, State.READY) else None
    latest = explanation.latest if due is not None else None
    begin = _begin(arrivals, ended, now=now)
    end = max(now, due or now, min(latest or now, now + 2 * max((due or now) - now, now - begin)))
    frame = _Frame(begin, end)
    most = max((entry.records for entry in ended), default=1)
    return Life(
        dots=_dots([arrival for arrival in arrivals if arrival[0] >= begin], frame),
        bars=[_bar(entry, frame, most) for entry in ended if entry.ended >= begin],
        ticks=frame.ticks(),
        now=frame.place(now),
        due=None if due is None else frame.place(due),
        due_at=due,
        latest=None if latest is None or due is None or latest <= due else frame.place(latest),
    )


def _begin(arrivals: Sequence[tuple[float, str, bool]], ended: Sequence[HistoryEntry], *, now: float) -> float:
    """The time of the first event that is shown. One that claims to be days older than the rest is left out."""
    times = sorted([at for at, _, _ in arrivals] + [entry.ended for entry in ended])
    times = [at for at in times if at <= now]
    if not times:
        return now - SHORTEST
    middle = times[len(times) // 2]
    kept = [at for at in times if now - at <= 8 * max(SHORTEST, now - middle)]
    return min(kept[0], now - SHORTEST)


def _delivered(ended: Iterable[HistoryEntry]) -> Iterable[tuple[float, str, bool]]:
    """When records of earlier digests arrived, as far as their keys tell."""
    for entry in ended:
        for key in entry.keys:
            at = time_of(key)
            if at is not None and at <= entry.ended:
                yield at, key, False


def _dots(arrivals: Iterable[tuple[float, str, bool]], frame: "_Frame") -> list[Dot]:
    """Dots that would touch each other are set above each other."""
    dots: list[Dot] = []
    column, row = -math.inf, 0
    for at, key, is_pending in sorted(arrivals):
        x = frame.place(at)
        if x - column < 0.8:
            row += 1
        else:
            column, row = x, 0
        dots.append(Dot(x=x if row == 0 else column, row=row % LANE, key=key, at=at, is_pending=is_pending))
    return dots


def _bar(entry: HistoryEntry, frame: "_Frame", most: int) -> Bar:
    height = math.sqrt(max(1, entry.records) / max(1, most))
    return Bar(x=frame.place(entry.ended), height=height, outcome=entry.outcome, records=entry.records, at=entry.ended)


class _Frame:
    """From times to places."""

    def __init__(self, begin: float, end: float) -> None:
        room = ROOM * max(SHORTEST, end - begin)
        self._begin, self._end = begin - room, max(end, begin + SHORTEST) + room

    def place(self, at: float) -> float:
        share = (at - self._begin) / (self._end - self._begin)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self) -> list[Tick]:
        length = self._end - self._begin
        step = next((step for step in STEPS if length / step <= 7), math.ceil(length / 7 / 86_400) * 86_400)
        first = math.ceil(self._begin / step) * step
        times = [first + step * number for number in range(8)]
        return [Tick(x=self.place(at), at=at) for at in times if at < self._end - length * 0.04]
