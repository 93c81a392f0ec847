"""Where a simulated world gets its chances, names and times from: one seed, and nothing else."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from digestif import clock, ids
from digestif.attempts import leases
from digestif.attempts.leases import HeldLease, Running
from digestif.core.times import Millis


class Chances(random.Random):
    """Stands for the modules `random` and `secrets` in digestif.ids; names are counted: easy to read, never equal."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._names = 0

    def token_hex(self, nbytes: int) -> str:
        self._names += 1
        return f"{self._names:03x}"

    def happens(self, probability: float) -> bool:
        return self.random() < probability


class Times:
    """Stands for the module `time` in digestif.clock, in milliseconds: a clock that may step, one that never does."""

    def __init__(self, wall: Millis) -> None:
        self.wall = wall
        self.steady: Millis = 0

    def time(self) -> float:
        return self.wall / 1000

    def monotonic(self) -> float:
        return self.steady / 1000

    def pass_by(self, duration: Millis) -> None:
        self.wall += duration
        self.steady += duration

    def step(self, distance: Millis) -> None:
        self.wall += distance


class RunningHere:
    """Stands for the count of attempts that a process runs: each process of the world has its own."""

    def __init__(self, here: Callable[[], Running]) -> None:
        self._here = here

    @property
    def is_idle(self) -> bool:
        return self._here().is_idle

    def __contains__(self, held: HeldLease) -> bool:
        return held in self._here()

    def begin(self, held: HeldLease) -> None:
        self._here().begin(held)

    def end(self, held: HeldLease) -> bool:
        return self._here().end(held)


class Pages(NamedTuple):
    """How much one call handles, and how many records a claim reads. With small ones a few records are many pages."""

    records: int
    timelines: int
    records_in_hand: int
    suspects: int  # that a worker tries together


@contextmanager
def installed(chances: Chances, times: Times, pages: Pages, running: Callable[[], Running]) -> Iterator[None]:
    """Let digestif take them from here while the block runs."""
    attributes: list[tuple[Any, str, Any]] = [
        (ids, "random", chances),
        (ids, "secrets", chances),
        (clock, "time", times),
        (leases, "RUNNING", RunningHere(running)),
        *((module, "PAGE_RECORDS", pages.records) for module in _with("PAGE_RECORDS")),
        *((module, "PAGE_TIMELINES", pages.timelines) for module in _with("PAGE_TIMELINES")),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in attributes]
    try:
        for owner, name, value in attributes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _with(constant: str) -> list[Any]:
    """The modules that have imported a constant by its name."""
    if constant not in _MODULES:
        named = sorted(sys.modules.items())
        _MODULES[constant] = [
            module for name, module in named if name.startswith("digestif.") and constant in vars(module)
        ]
    return _MODULES[constant]


_MODULES: dict[str, list[Any]] = {}
