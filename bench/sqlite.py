"""What the SQLite store costs: adding, growing, delivering, and the memory that takes. Compare within one run only.

Every subject is measured in a process of its own and all of them in turn, several times over, because computers are
noisy: figures are medians, and ratios are medians of the ratios within each turn.
"""

import json
import os
import platform
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import click

from bench import _adding
from bench._delivering import RECORDS, Deliveries, Due
from bench._growing import Records, Shares, Timelines
from bench._measure import Child, Figures, console, interleaved, middle, middle_ratio, start
from bench._table import Report, at_least, at_most, show, times
from bench._workload import BATCH, CALLERS


class Scale(NamedTuple):
    """How much is measured."""

    rounds: int
    seconds: float  # of adding, in each round
    records: tuple[int, ...]  # in one timeline
    timelines: tuple[int, ...]  # in the store
    due: tuple[int, ...]
    singles: int  # calls in each round
    batches: int
    digests: int


FULL = Scale(5, 0.8, (10, 1_000, 100_000), (100, 10_000, 1_000_000), (1_000, 1_000_000), 300, 20, 1_000)
QUICK = Scale(3, 0.2, (10, 1_000, 10_000), (100, 10_000), (1_000, 10_000), 60, 5, 200)

THREADS, TASKS = f"add in {CALLERS} threads", f"add in {CALLERS} tasks"
BOUNDS = {THREADS: (3, 5), TASKS: (5, 8)}  # times the rate of one caller: must, aim
FLAT, WITHIN = 1.3, 2.0


def adds(scale: Scale, folder: str) -> Report:
    """Adds per second, one by one and together, beside bare upserts."""
    subjects = _adding.SUBJECTS.items()
    children = {name: Child(kind, folder, scale.seconds, *args) for name, (kind, *args) in subjects}
    answers = interleaved(children, "rate", rounds=scale.rounds)
    single, bare = answers["add"], answers["bare upserts, singly"]
    report = Report("adding, 300 bytes each", ("per second", "× add", "× bare", "bound", "peak"))
    for name, child in children.items():
        rate = middle(answers[name], "rate")
        to_single, to_bare = (middle_ratio(answers[name], base, "rate") for base in (single, bare))
        bound = at_least(to_single, *BOUNDS[name]) if name in BOUNDS else ""
        peak = child.end()
        report.rows.append((name, f"{rate:,.0f}", times(to_single), times(to_bare), bound, memory(peak)))
        report.figures[name] = {"per_second": rate, "to_add": to_single, "to_bare": to_bare, "peak_mib": peak}
    return report


def records(scale: Scale, folder: str) -> Report:
    """What an add costs with many records in its timeline."""
    report = Report("records in the timeline", COSTS)
    for full in (False, True):
        label = "{:,}, capacity reached" if full else "{:,}"
        children = {
            label.format(size): Child(Records, folder, size, full, scale.singles, scale.batches)
            for size in scale.records
        }
        _growth(report, children, scale, limit=FLAT)
    return report


def timelines(scale: Scale, folder: str) -> Report:
    """What an add costs with many timelines in the store."""
    report = Report("timelines in the store", COSTS)
    sizes = {f"{size:,}": size for size in scale.timelines}
    children = {name: Child(Timelines, folder, size, scale.singles, scale.batches) for name, size in sizes.items()}
    _growth(report, children, scale, limit=WITHIN)
    few, many = (_shares(folder, size, scale) for size in (scale.timelines[0], scale.timelines[-1]))
    report.figures["batches"] = {"few": few, "many": many}
    report.notes += _finding(few, many, scale.timelines[-1])
    return report


COSTS = ("µs singly", "×", "bound", f"µs in {BATCH}s", "×", "peak")


def _growth(report: Report, children: dict[str, Child], scale: Scale, *, limit: float) -> None:
    """Rows for the same subject in several sizes, each beside the smallest."""
    answers = interleaved(children, "cost", rounds=scale.rounds)
    base = next(iter(answers.values()))
    for name, child in children.items():
        found = answers[name]
        single, batch = middle(found, "single"), middle(found, "batch")
        slower, batch_slower = (middle_ratio(found, base, kind) for kind in ("single", "batch"))
        bound = at_most(slower, limit) if found is not base else ""
        peak = child.end()
        report.rows.append(
            (name, f"{single:,.0f}", times(slower), bound, f"{batch:,.0f}", times(batch_slower), memory(peak))
        )
        figures = {"single_us": single, "single_ratio": slower, "batch_us": batch, "batch_ratio": batch_slower}
        report.figures[name] = {**figures, "peak_mib": peak}


def _shares(folder: str, size: int, scale: Scale) -> Figures:
    child = Child(Shares, folder, size, scale.singles, scale.batches)
    figures = child.ask("shares")
    child.end()
    return figures


def _finding(few: Figures, many: Figures, size: int) -> list[str]:
    """Where the time of batches goes in a large store."""
    more = many["plain"] - few["plain"]
    misses, checkpoints = many["plain"] - many["cached"], many["cached"] - many["unchecked"]
    rest = many["unchecked"] - few["unchecked"]
    return [
        f"In batches a record takes {more:,.0f} µs more with {size:,} timelines, because each falls on pages of its own:",
        f"{misses:,.0f} µs go with a cache for the whole file (page cache misses: {many['reads']:.1f} reads per record, "
        f"{few['reads']:.1f} with few timelines),",
        f"{checkpoints:,.0f} µs go without checkpoints, and {rest:,.0f} µs are more pages to change and log",
        f"({many['kibibytes']:.0f} KiB written per record, {few['kibibytes']:.0f} with few timelines).",
    ]


def delivery(scale: Scale, folder: str) -> Report:
    """What it costs to find what is due, and to deliver it."""
    report = Report("delivering", ("", "", "×", "bound", "peak"))
    due = {f"{size:,}": Child(Due, folder, size, 3) for size in scale.due}
    found = interleaved(due, "milliseconds", rounds=scale.rounds)
    base = next(iter(found.values()))
    peaks = {size: child.end() for size, child in due.items()}
    for what, kind in (("claim of 200", "claim"), ("schedule page of 1,000", "page")):
        for size, answers in found.items():
            cost, ratio = middle(answers, kind), middle_ratio(answers, base, kind)
            bound = at_most(ratio, WITHIN) if answers is not base else ""
            name = f"{what}, of {size} due"
            report.rows.append((name, f"{cost:,.1f}", "ms", times(ratio), bound, memory(peaks[size])))
            report.figures[name] = {"milliseconds": cost, "ratio": ratio, "peak_mib": peaks[size]}
    _deliveries(report, scale, folder)
    return report


def _deliveries(report: Report, scale: Scale, folder: str) -> None:
    child = Child(Deliveries, folder, scale.digests)
    answers = [child.ask("rate") for _ in range(scale.rounds)]
    peak = child.end()
    for what, kind in ((f"digest() of {RECORDS} records", "digest"), ("claim, take, close by 200", "page")):
        rate, ratio = middle(answers, kind), middle_ratio(answers, answers, kind, "digest")
        report.rows.append((what, f"{rate:,.0f}", "digests/s", times(ratio), "", memory(peak)))
        report.figures[what] = {"digests_per_second": rate, "ratio": ratio, "peak_mib": peak}


def memory(mebibytes: float) -> str:
    return f"{mebibytes:,.0f} MiB"


SECTIONS: dict[str, Callable[[Scale, str], Report]] = {
    "adds": adds,
    "records": records,
    "timelines": timelines,
    "delivery": delivery,
}


def surroundings(folder: str) -> dict[str, Any]:
    """What the figures depend on."""
    with (Path(folder) / "probe").open("wb") as file:
        began = perf_counter()
        for _ in range(100):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        sync = (perf_counter() - began) * 10
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": os.cpu_count(),
        "fsync_ms": round(sync, 3),
    }


@click.command("sqlite", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Smaller numbers, in some 20 seconds instead of minutes.")
@click.option("--only", type=click.Choice(list(SECTIONS)), multiple=True, help="A section; may be repeated.")
@click.option("--folder", type=click.Path(exists=True, file_okay=False, writable=True), help="Whose disk is measured.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def sqlite(quick: bool, only: tuple[str, ...], folder: str | None, as_json: bool) -> int:
    """Measure the SQLite store, durable as it is by default (WAL, synchronous=FULL)."""
    figures: dict[str, Any] = {}
    with TemporaryDirectory(prefix="digestif-bench-", dir=folder) as place:
        facts = surroundings(place)
        if not as_json:
            line = "Python {python}, SQLite {sqlite}, {cores} cores, an fsync takes {fsync_ms:.2f} ms"
            console().print(f"[dim]{line.format(**facts)}; compare ratios, within one run[/]")
        for name in only or SECTIONS:
            report = SECTIONS[name](QUICK if quick else FULL, place)
            figures[name] = report.figures
            if not as_json:
                show(report)
    if as_json:
        print(json.dumps({"surroundings": facts, "quick": quick, **figures}, indent=2))
    return 0


if __name__ == "__main__":
    start(sqlite, name="./dev bench sqlite")
