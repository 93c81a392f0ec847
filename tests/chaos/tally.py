"""Many seeds, counted."""

from typing import NamedTuple

from tests.chaos.simulation import STORES, live


class Tally(NamedTuple):
    """What came of some seeds."""

    seeds: int = 0
    happenings: int = 0
    failed: int | None = None  # the first seed that broke a promise; those after it were not lived through

    def __add__(self, other: "Tally") -> "Tally":  # type: ignore[override]
        return Tally(self.seeds + other.seeds, self.happenings + other.happenings, other.failed)


def live_through(store: str, seeds: range) -> Tally:
    tally = Tally()
    for seed in seeds:
        life = live(seed, STORES[store])
        tally += Tally(1, len(life.trace), None if life.violation is None else seed)
        if life.violation is not None:
            break
    return tally
