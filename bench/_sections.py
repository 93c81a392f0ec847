"""Sections of a benchmark that compares our adds with the driver alone: their tables, figures and targets."""

import statistics
from typing import NamedTuple

from bench._blocks import Block, compared, middle_ratio
from bench._table import Report, times
from bench._targets import Target

FLAT = 1.2  # times the cost of an add to the smallest timeline


class Section(NamedTuple):
    """A table, and the targets of its figures."""

    report: Report
    targets: list[Target]


class Contest(NamedTuple):
    """A way to add beside the driver alone: a block of each, with the same number of records."""

    name: str
    ours: Block
    base: Block
    records: int
    blocks: int
    bound: float | None = None  # of the ratio
    aim: float | None = None


def add_contest(section: Section, contest: Contest) -> None:
    """Measure both ways, and add a row."""
    found = compared(contest.ours, contest.base, blocks=contest.blocks, weight=contest.records)
    targets = [Target(contest.name, found.ratio, contest.bound, contest.aim)] if contest.bound else []
    rates = f"{found.per_second:,.0f}", f"{found.base_per_second:,.0f}"
    section.report.rows.append((contest.name, *rates, times(found.ratio), times(found.best), _marks(targets)))
    section.report.figures[contest.name] = found._asdict()
    section.targets.extend(targets)


def add_growth(section: Section, found: dict[str, list[float]], *, calls: int) -> None:
    """Add a row for each size of a timeline, beside the first: the seconds of its blocks, with so many adds each."""
    base = next(iter(found.values()))
    for name, seconds in found.items():
        cost = statistics.median(seconds) / calls * 1e6
        ratio, best = middle_ratio(seconds, base), min(seconds) / min(base)
        targets = [Target(f"an add to {name}", ratio, FLAT, at_most=True)] if seconds is not base else []
        section.report.rows.append((name, f"{cost:,.0f}", times(ratio), times(best), _marks(targets)))
        section.report.figures[name] = {"microseconds": cost, "ratio": ratio, "best": best}
        section.targets.extend(targets)


def _marks(targets: list[Target]) -> str:
    return "".join(one.mark for one in targets)
