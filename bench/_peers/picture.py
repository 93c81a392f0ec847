"""The picture of the comparison: a row for each system, its figures in four panels."""

from collections.abc import Callable, Iterator
from statistics import mean
from typing import Any

from bench._peers.figures import RATES, Trial, cpu, is_ours, share_delivered, succeeded
from bench._svg import Scale, bar, dot, drawing, line, short, text

Read = Callable[[Trial], float | None]

WIDTH, ROW, TOP = 960, 34, 84
NAMES = 176  # the panels begin here
PANELS = {"rates": (NAMES, 420), "delivered": (450, 600), "late": (630, 770), "cpu": (800, 940)}
KINDS = ("a", "b", "c")  # of the three rates


Rows = dict[str, list[Trial]]  # the trials of each system, in all runs


def draw(runs: list[dict[str, Any]]) -> str:
    """The picture of some runs: each has its own dots."""
    rows: Rows = {}
    for run in runs:
        for trial in succeeded(run):
            rows.setdefault(trial["name"], []).append(trial)
    bottom = TOP + ROW * len(rows)
    return drawing(
        WIDTH,
        bottom + 40,
        title="One workload through Digestif and its alternatives",
        summary="; ".join(f"{name}: {_share(trials):.4g} % delivered" for name, trials in rows.items()),
        body=_body(rows, bottom),
    )


def _share(trials: list[Trial]) -> float:
    return mean(map(share_delivered, trials))


def _body(rows: Rows, bottom: int) -> Iterator[str]:
    for number, (name, trials) in enumerate(rows.items()):
        yield text(16, _middle(number) + 4, name, "lane" if is_ours(trials[0]) else "")
        yield line(16, _middle(number) + ROW / 2, WIDTH - 16, _middle(number) + ROW / 2)
    yield from _rates(rows, bottom)
    yield from _delivered(rows)
    yield from _costs("late", "late, p95, seconds", rows, bottom, lambda trial: trial["late_p95"])
    yield from _costs("cpu", "processor, µs each", rows, bottom, cpu)


def _middle(row: int) -> float:
    return TOP + ROW * row + ROW / 2


def _rates(rows: Rows, bottom: int) -> Iterator[str]:
    start, end = PANELS["rates"]
    yield text(start, 28, "events accepted a second", "lane")
    for number, (kind, name) in enumerate(zip(KINDS, ("one caller", "32 callers", "batches"), strict=True)):
        yield dot(start + 6 + 82 * number, 44, kind)
        yield text(start + 15 + 82 * number, 48, name, "note")
    scale = _scale(rows, [column.read for column in RATES], start, end)
    yield from _axis(scale, bottom)
    for kind, column in zip(KINDS, RATES, strict=True):
        yield from _dots(rows, scale, column.read, kind)


def _delivered(rows: Rows) -> Iterator[str]:
    start, end = PANELS["delivered"]
    yield text(start, 28, "delivered, % of events", "lane")
    for row, trials in enumerate(rows.values()):
        share, y = _share(trials), _middle(row)
        width = (end - start - 44) * share / 100
        yield bar(start, y - 8, width, 16, "c")
        yield text(start + width + 6, y + 5, f"{share:.3g}", "note")


def _costs(panel: str, title: str, rows: Rows, bottom: int, read: Read) -> Iterator[str]:
    start, end = PANELS[panel]
    scale = _scale(rows, [read], start, end)
    yield text(start, 28, title, "lane")
    yield from _axis(scale, bottom)
    yield from _dots(rows, scale, read)


def _scale(rows: Rows, reads: list[Read], start: float, end: float) -> Scale:
    found = [read(trial) or 0.0 for trials in rows.values() for trial in trials for read in reads]
    return Scale.around(found, start + 10, end - 10)


def _dots(rows: Rows, scale: Scale, read: Read, kind: str = "") -> Iterator[str]:
    """Of one kind, or of two: ours and others."""
    for row, trials in enumerate(rows.values()):
        for trial in trials:
            if found := read(trial):
                yield dot(scale.at(found), _middle(row), kind or ("a" if is_ours(trial) else "d"))


def _axis(scale: Scale, bottom: int) -> Iterator[str]:
    for tick in scale.ticks():
        yield line(scale.at(tick), TOP - 8, scale.at(tick), bottom)
        yield text(scale.at(tick), bottom + 18, short(tick), "note middle")
