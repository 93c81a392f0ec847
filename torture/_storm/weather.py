"""The weather of a storm: what clocks and the channel `post` do at each moment, from a seed.

All processes compute the same weather, without talking to each other: the monotonic clock is that of the machine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

from digestif import clock
from digestif.clock import monotonic

HOUR, DAY = 3600.0, 86_400.0
SHIFTS = (-HOUR, HOUR, -DAY)  # seconds by which clocks are wrong
FARTHEST = 2 * HOUR  # ahead of every time that a process of the storm has stored
CLOCK_EVERY = 15.0  # seconds; in each such part of the storm the clocks may jump once, and back
SHIFTED = (2.0, 6.0)  # seconds until they are set right
POST_EVERY = 40.0  # seconds; in each such part the channel is away in another way
WHOLE = 0.4  # of these parts have a whole outage
AWAY = (10.0, 20.0)  # seconds of a whole outage
SHARE = (0.05, 0.2)  # of the messages that are refused while a part of the channel is away
UNKNOWN_SHARE = 0.02  # of the messages to which no answer comes


class Jump(NamedTuple):
    """A jump of clocks, in seconds from the beginning of its part of the storm."""

    begins: float
    ends: float
    seconds: float
    processes: tuple[int, ...]  # the remainders of their names by 2


class Outage(NamedTuple):
    """A whole outage of the channel, and the share of messages that it refuses before and after."""

    begins: float
    ends: float
    share: float


@cache
def _jump(seed: int, number: int) -> Jump:
    random = Random(f"{seed}/clocks/{number}")
    begins = random.uniform(2, 8)
    ends = begins + random.uniform(*SHIFTED)
    return Jump(begins, ends, random.choice(SHIFTS), random.choice([(0,), (1,), (0, 1), (0, 1)]))


@cache
def _outage(seed: int, number: int) -> Outage:
    random = Random(f"{seed}/post/{number}")
    begins = random.uniform(0, 10)
    ends = begins + (random.uniform(*AWAY) if random.random() < WHOLE else 0)
    return Outage(begins, ends, random.uniform(*SHARE))


class Weather:
    """The faults of the surroundings. A part of the mix that is left out has none."""

    def __init__(self, seed: int, parts: frozenset[str], *, began: float) -> None:
        self.has_jumps = "clocks" in parts
        self._has_outages = "outages" in parts
        self.seed = seed
        self.began = began

    def _now(self, every: float) -> tuple[int, float]:
        """Return the number of the present part of the storm, and how many seconds of it have passed."""
        number, passed = divmod(monotonic() - self.began, every)
        return int(number), passed

    # Clocks

    def shift(self, process: str) -> float:
        """Return the seconds by which the clock of a process is wrong now: that of every second process, or of all."""
        if not self.has_jumps:
            return 0.0
        number, passed = self._now(CLOCK_EVERY)
        jump = _jump(self.seed, number)
        is_concerned = sum(process.encode()) % 2 in jump.processes
        return jump.seconds if is_concerned and jump.begins <= passed < jump.ends else 0.0

    # The channel

    def refuses(self, chances: Random) -> bool:
        """True if the channel can't be reached with a message now."""
        if not self._has_outages:
            return False
        number, passed = self._now(POST_EVERY)
        outage = _outage(self.seed, number)
        return outage.begins <= passed < outage.ends or chances.random() < outage.share

    def is_silent(self, chances: Random) -> bool:
        """True if no answer to a message comes, whether it went out or not."""
        return self._has_outages and chances.random() < UNKNOWN_SHARE


@contextmanager
def shifted_clock(shift: Callable[[], float]) -> Iterator[None]:
    """Let the wall clock of this process be wrong by some seconds, also where it was imported before."""
    shifted = SimpleNamespace(time=lambda: time.time() + shift(), monotonic=time.monotonic)
    with mock.patch.object(clock, "time", shifted):
        yield
