"""The events of a week for one reader, from a seed: conversations, storms, nights, a weekend, and a clock change."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

ZONE = "Europe/Berlin"
BERLIN = ZoneInfo(ZONE)


@dataclass(frozen=True)
class Week:
    """Seven days, from Thursday to Wednesday, with a clock change on Sunday."""

    name: str
    change: datetime
    seed: int

    def moment(self, day: int, hour: int, minute: int = 0) -> float:
        """The instant of a local time; days are counted from Thursday."""
        date = self.change.date() + timedelta(days=day - 3)
        return datetime(date.year, date.month, date.day, hour, minute, tzinfo=BERLIN).timestamp()


SPRING = Week("spring", datetime(2026, 3, 29, 1, tzinfo=UTC), seed=1)
AUTUMN = Week("autumn", datetime(2026, 10, 25, 1, tzinfo=UTC), seed=2)
WEEKS = [SPRING, AUTUMN]


def local(at: float) -> datetime:
    return datetime.fromtimestamp(at, BERLIN)


def is_night(at: float) -> bool:
    return not 7 <= local(at).hour < 22


@dataclass(frozen=True)
class Storm:
    """Dozens of events within minutes."""

    start: float
    minutes: int
    events: int


def arrivals(week: Week) -> list[float]:
    """When events arrive, in order, on whole seconds."""
    random = Random(week.seed)
    found = [at for day in range(7) for at in _ordinary(week, day, random)]
    for storm in storms(week):
        found += _spread(random, storm.start, 60 * storm.minutes, storm.events)
    return sorted(found)


def _ordinary(week: Week, day: int, random: Random) -> Iterator[float]:
    """Conversations of up to eight events within a quarter of an hour."""
    for hour in range(24):
        start = week.moment(day, hour)
        for _ in range(_up_to(random, _most_conversations(hour, is_weekend=local(start).weekday() >= 5))):
            yield from _spread(random, start + _up_to(random, 3600), 900, 1 + _up_to(random, 7))


def _most_conversations(hour: int, *, is_weekend: bool) -> int:
    """In an hour of the day."""
    if is_weekend or not 8 <= hour < 18:
        return 1 if 7 <= hour < 23 else 0
    return 3


def storms(week: Week) -> list[Storm]:
    return [
        Storm(week.moment(0, 14, 20), minutes=12, events=60),
        Storm(week.moment(1, 16, 45), minutes=8, events=40),
        Storm(week.change.timestamp() - 600, minutes=20, events=50),  # while the clock changes
        Storm(week.moment(4, 10, 5), minutes=15, events=80),
        Storm(week.moment(5, 3, 10), minutes=10, events=36),
    ]


def _spread(random: Random, start: float, seconds: int, count: int) -> list[float]:
    """So many events at random times."""
    return [start + _up_to(random, seconds) for _ in range(count)]


def _up_to(random: Random, most: int) -> int:
    """A random number from 0 to `most`. Of a seeded generator only `random` gives the same on every Python."""
    return int(random.random() * (most + 1))
