"""What the table of systems shows: its columns, which of two figures is better, and whether two runs agree."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

Trial = dict[str, Any]  # the figures of one system, as `trial.tried` returns them
CLOSE = 1.25  # figures that differ by less are called equal: a busy machine varies by as much


@dataclass(frozen=True)
class Column:
    """A figure of each system."""

    title: str
    words: str  # in a sentence
    read: Callable[[Trial], float | None]
    show: Callable[[float], str]
    is_better_larger: bool = False

    def text(self, trials: Iterable[Trial]) -> str:
        """The figures of a system in all runs, from the lowest to the highest."""
        return span([found for trial in trials if (found := self.read(trial)) is not None], self.show)


def span(figures: Iterable[float], show: Callable[[float], str]) -> str:
    """One figure, or the lowest and the highest."""
    texts = list(dict.fromkeys(show(figure) for figure in sorted(figures)))
    return f"{texts[0]} – {texts[-1]}" if len(texts) > 1 else "".join(texts) or "–"


def count(number: float) -> str:
    return f"{number:,.0f}"


def rate(number: float) -> str:
    """Two or three digits are meant; more would not be true."""
    return f"{round(number, -1 if number < 1000 else -2):,.0f}"


def seconds(number: float) -> str:
    return f"{number * 1000:,.0f} ms" if number < 1 else f"{number:.1f} s"


def _per_second(how: str) -> Callable[[Trial], float | None]:
    return lambda trial: trial["per_second"].get(how)


def share_delivered(trial: Trial) -> float:
    return float(100 * trial["delivered"] / max(trial["sent"], 1))


def cpu(trial: Trial) -> float:
    return float(1e6 * trial["cpu_seconds"] / max(trial["sent"], 1))


def share_lost(trial: Trial) -> float:
    """Per cent of what was acknowledged before the kill, or of its timelines where only the last event is kept."""
    kill = trial["kill"]
    return float(100 * kill["lost"] / max(kill["expected"], 1))


RATES = [
    Column("one caller, events/s", "events a second by one caller", _per_second("one"), rate, True),
    Column("32 callers, events/s", "events a second by 32 callers", _per_second("callers"), rate, True),
    Column("batches, events/s", "events a second in batches", _per_second("batches"), rate, True),
]
COSTS = [
    Column("late, p95", "lateness", lambda trial: trial["late_p95"], seconds),
    Column("processor, µs an event", "processor time", cpu, count),
    Column("memory, MiB", "memory", lambda trial: trial["memory_mib"], count),
]
KEPT = [
    Column("delivered, %", "events delivered", share_delivered, lambda share: f"{share:.4g}", True),
    Column("lost by kill -9, %", "events lost by a kill", share_lost, lambda share: f"{share:.3g}"),
]
RANKED = [*RATES, *KEPT, *COSTS]


def succeeded(run: dict[str, Any]) -> list[Trial]:
    return [trial for trial in run["systems"] if "failed" not in trial]


def ahead(run: dict[str, Any], column: Column) -> list[Trial]:
    """Return the systems that are better in this than Digestif on every store, by more than is called equal."""
    trials = [trial for trial in succeeded(run) if column.read(trial) is not None]
    ours = [trial for trial in trials if is_ours(trial)]
    return [trial for trial in trials if not is_ours(trial) and all(_order(column, trial, own) > 0 for own in ours)]


def is_ours(trial: Trial) -> bool:
    return str(trial["name"]).startswith("Digestif")


class Agreement(NamedTuple):
    """What two runs say about the order of systems."""

    compared: int  # pairs of systems in one figure that have an order in both runs: close figures have none
    swaps: list[str]  # those whose order differs

    @property
    def agreed(self) -> int:
        return self.compared - len(self.swaps)


def agreement(first: dict[str, Any], second: dict[str, Any]) -> Agreement:
    """Compare the orders of two runs, pair by pair."""
    others = {trial["name"]: trial for trial in succeeded(second)}
    trials = [trial for trial in succeeded(first) if trial["name"] in others]
    compared, swaps = 0, list[str]()
    for column in RANKED:
        for one, two in combinations(trials, 2):
            here, there = _order(column, one, two), _order(column, others[one["name"]], others[two["name"]])
            compared += here * there != 0
            if here * there < 0:
                swaps.append(f"{column.words}: {one['name']} and {two['name']} change places")
    return Agreement(compared, swaps)


def _order(column: Column, one: Trial, two: Trial) -> int:
    """1 if the first is better, -1 if the second is, 0 if they are close or one has no such figure."""
    left, right = column.read(one), column.read(two)
    if left is None or right is None:
        return 0
    low, high = sorted((left, right))
    if high <= low * CLOSE or high - low < 1e-3:
        return 0
    return 1 if (left > right) is column.is_better_larger else -1
