"""Comparisons in small blocks that alternate: a noisy moment then disturbs both sides alike."""

import statistics
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from bench._measure import Stopwatch

# Makes the inputs of a block, and returns the function to be timed.
Block: TypeAlias = Callable[[], Callable[[], None]]


class Comparison(NamedTuple):
    """The rates of two ways to do the same thing."""

    per_second: float
    base_per_second: float
    ratio: float  # of the rates: the median over neighbouring blocks
    best: float  # of the rates of the best blocks


def compared(ours: Block, base: Block, *, blocks: int, weight: int) -> Comparison:
    """Run blocks of both ways in turn; `weight` is the number of records in a block."""
    seconds = in_turns({"ours": lambda: timed(ours), "base": lambda: timed(base)}, blocks=blocks)
    mine, theirs = seconds["ours"], seconds["base"]
    return Comparison(
        per_second=weight / statistics.median(mine),
        base_per_second=weight / statistics.median(theirs),
        ratio=middle_ratio(theirs, mine),
        best=min(theirs) / min(mine),
    )


def in_turns(measures: Mapping[str, Callable[[], float]], *, blocks: int) -> dict[str, list[float]]:
    """Return the seconds of each block. The order is reversed each time, and the first block is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    names = list(measures)
    for number in range(blocks + 1):
        for name in names if number % 2 else reversed(names):
            taken = measures[name]()
            if number:
                seconds[name].append(taken)
    return seconds


def timed(block: Block) -> float:
    """Return the seconds of one block, without those for making its inputs."""
    run = block()
    watch = Stopwatch()
    with watch.running():
        run()
    return watch.seconds


def middle_ratio(seconds: list[float], base: list[float]) -> float:
    """Return the median of the ratios of neighbouring blocks."""
    return statistics.median(one / other for one, other in zip(seconds, base, strict=True))
