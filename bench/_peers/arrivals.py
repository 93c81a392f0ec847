"""What arrived: the sink of a system, read as it grows, and compared with what was accepted."""

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

LOOK = 0.2  # seconds


@dataclass
class Arrivals:
    """The notifications in a sink."""

    path: Path
    notifications: int = 0
    payloads: int = 0  # with those that came more than once
    ids: set[int] = field(default_factory=set)
    lateness: list[float] = field(default_factory=list)
    _read: int = 0

    def look(self) -> bool:
        """Read what is new; False if nothing is."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as sink:
            sink.seek(self._read)
            lines = sink.read().rpartition(b"\n")[0].splitlines()
        for line in lines:
            self._read += len(line) + 1
            self._take(json.loads(line))
        return bool(lines)

    def late_p95(self) -> float | None:
        """Return the seconds after which 95 % of the notifications had left, counted from when they were due."""
        return statistics.quantiles(self.lateness, n=20)[18] if len(self.lateness) > 1 else None

    def wait(self, missing: Callable[[set[int]], int], patience: float) -> None:
        """Wait until nothing is missing, or nothing has come for so many seconds."""
        last = monotonic()
        while missing(self.ids) and monotonic() - last < patience:
            sleep(LOOK)
            if self.look():
                last = monotonic()
        self.look()

    def _take(self, line: dict[str, object]) -> None:
        if isinstance(line.get("late"), int | float):
            self.lateness.append(float(str(line["late"])))
        if isinstance(ids := line.get("ids"), list):
            self.notifications += 1
            self.payloads += len(ids)
            self.ids.update(ids)


def missing_of_all(accepted: Iterable[int]) -> Callable[[set[int]], int]:
    """Count the accepted events that have not come."""
    wanted = set(accepted)
    return lambda come: len(wanted - come)


def missing_of_last(accepted: Iterable[int], timelines: list[str], *, together: int = 1) -> Callable[[set[int]], int]:
    """Count the timelines whose last accepted event has not come, for systems that keep the last.

    A later one counts as well, and so do the `together` before it: callers overtake each other.
    """
    last: dict[str, int] = {}
    for number in sorted(accepted):
        last[timelines[number]] = number

    def missing(come: set[int]) -> int:
        latest: dict[str, int] = {}
        for number in come:
            latest[timelines[number]] = max(number, latest.get(timelines[number], -1))
        return sum(latest.get(timeline, -together) <= number - together for timeline, number in last.items())

    return missing
