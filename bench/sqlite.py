"""The cost of the SQLite store: adds, growth, deliveries, and their memory. Compare within one run only.

Each subject is measured in a process of its own, all of them in turn, several times, because computers are noisy:
figures are medians, and ratios are medians of the ratios within each turn.
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

from bench import _adds
from bench._deliveries import RECORDS, Deliveries, Due
from bench._growth import Cached, Kind, Records, Timelines
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
    calls: tuple[int, int]  # of add and of add_many, in each round
    digests: int


FULL = Scale(7, 0.7, (10, 1_000, 100_000), (100, 10_000, 1_000_000), (1_000, 1_000_000), (150, 15), 600)
QUICK = Scale(3, 0.2, (10, 1_000, 10_000), (100, 10_000), (1_000, 10_000), (50, 5), 200)

BOUNDS = {f"add in {CALLERS} threads": (3, 5), f"add in {CALLERS} tasks": (5, 8)}  # times the rate of add: must, aim
COMPARED = {"add": 0.9, f"add_many of {BATCH}": 0.9, f"add in {CALLERS} threads": 1.0, f"add in {CALLERS} tasks": 1.0}
FLAT, WITHIN = 1.3, 2.0
GROWTH = ("µs per add", "×", "bound", f"µs by {BATCH}", "×", "MiB")

Answers = dict[str, list[Figures]]


def adds(scale: Scale, folder: str) -> Report:
    """Adds per second, one by one and together, beside bare upserts."""
    subjects = _adds.SUBJECTS.items()
    children = {name: Child(kind, folder, scale.seconds, *args) for name, (kind, args) in subjects}
    answers = interleaved({name: child.ask("rate") for name, child in children.items()}, rounds=scale.rounds)
    single, bare = answers["add"], answers["bare upserts"]
    report = Report("adding, 300 bytes each", ("per second", "× add", "× bare", "bound", "MiB"))
    for name, child in children.items():
        rate = middle(answers[name], "rate")
        to_single, to_bare = (middle_ratio(answers[name], base, "rate") for base in (single, bare))
        bound = at_least(to_single, *BOUNDS[name]) if name in BOUNDS else ""
        peak = child.end()
        report.rows.append((name, f"{rate:,.0f}", times(to_single), times(to_bare), bound, f"{peak:,.0f}"))
        report.figures[name] = {"per_second": rate, "to_add": to_single, "to_bare": to_bare, "peak_mib": peak}
    return report


def compared(scale: Scale, folder: str, tree: Path) -> Report:
    """The same adds by this tree and by another, in turn."""
    sources = {"this": None, "that": tree / "src"}
    children: dict[tuple[str, str], Child] = {}
    for which, source in sources.items():
        place = Path(folder, which)
        place.mkdir()
        for name in COMPARED:
            kind, args = _adds.SUBJECTS[name]
            children[name, which] = Child(kind, str(place), scale.seconds, *args, source=source)
    asks = {f"{name}, {which}": children[name, which].ask("rate") for name in COMPARED for which in sources}
    answers = interleaved(asks, rounds=scale.rounds)
    report = Report(f"adding, beside {tree.name}", ("per second", "there", "ratio", "bound"))
    for name, must in COMPARED.items():
        this, that = (answers[f"{name}, {which}"] for which in sources)
        ratio = middle_ratio(this, that, "rate")
        rates = [middle(found, "rate") for found in (this, that)]
        report.rows.append((name, *(f"{rate:,.0f}" for rate in rates), times(ratio), at_least(ratio, must, must)))
        report.figures[name] = {"per_second": rates[0], "there": rates[1], "ratio": ratio}
    for child in children.values():
        child.end()
    return report


def records(scale: Scale, folder: str) -> Report:
    """The cost of an add to a timeline with many records."""
    report = Report("records in the timeline", GROWTH)
    for kind in Kind:
        children = {f"{size:,}, {kind}": Child(Records, folder, size, kind, scale.calls) for size in scale.records}
        answers = interleaved({name: child.ask("cost") for name, child in children.items()}, rounds=scale.rounds)
        _compare_sizes(report, children, answers, limit=FLAT)
    report.notes.append(
        "Batches: in a large timeline each random key falls on a page of its own, to be changed and logged; "
        "rising keys share theirs."
    )
    return report


def timelines(scale: Scale, folder: str) -> Report:
    """The cost of an add to a store with many timelines, and where the time of batches goes."""
    children = {f"{size:,}": Child(Timelines, folder, size, scale.calls) for size in scale.timelines}
    asks = {name: child.ask("cost") for name, child in children.items()}
    few, many = scale.timelines[0], scale.timelines[-1]
    for which, size in (("few", few), ("many", many)):
        cached = Child(Cached, folder, size, scale.calls)
        asks[f"{which}, cached"] = cached.ask("cost")
        asks[f"{which}, unchecked"] = cached.ask("cost_without_checkpoints")
    answers = interleaved(asks, rounds=scale.rounds)
    answers |= {"few": answers[f"{few:,}"], "many": answers[f"{many:,}"]}
    report = Report("timelines in the store", GROWTH)
    _compare_sizes(report, children, answers, limit=WITHIN)
    report.notes.append(_finding(answers, report.figures))
    return report


def _compare_sizes(report: Report, children: dict[str, Child], answers: Answers, *, limit: float) -> None:
    """Add rows for one subject in several sizes, each compared with the smallest."""
    base = answers[next(iter(children))]
    for name, child in children.items():
        found = answers[name]
        single, batch = middle(found, "single"), middle(found, "batch")
        slower, batch_slower = (middle_ratio(found, base, kind) for kind in ("single", "batch"))
        bound = at_most(slower, limit) if found is not base else ""
        peak = child.end()
        costs = f"{single:,.0f}", times(slower), bound, f"{batch:,.0f}", times(batch_slower)
        report.rows.append((name, *costs, f"{peak:,.0f}"))
        figures = {"single_us": single, "single_ratio": slower, "batch_us": batch, "batch_ratio": batch_slower}
        report.figures[name] = {**figures, "peak_mib": peak}


def _finding(answers: Answers, figures: dict[str, Any]) -> str:
    """Explain where the time of batches goes in a large store."""
    few, cached_few, unchecked_few = (middle(answers[f"few{how}"], "batch") for how in HOW)
    many, cached_many, unchecked_many = (middle(answers[f"many{how}"], "batch") for how in HOW)
    misses = (many - cached_many) - (few - cached_few)
    checkpoints = (cached_many - unchecked_many) - (cached_few - unchecked_few)
    rest = unchecked_many - unchecked_few
    reads, less_reads = (middle(answers[which], "reads") for which in ("many", "few"))
    written, less_written = (middle(answers[which], "kibibytes") for which in ("many", "few"))
    figures["batches"] = {"misses_us": misses, "checkpoints_us": checkpoints, "pages_us": rest, "reads": reads}
    figures["batches"] |= {"kibibytes": written, "kibibytes_with_few": less_written}
    whole = many - few
    return (
        f"Batches: a record takes {whole:,.0f} µs more in the largest store than in the smallest. Page cache misses: "
        f"{_part(misses, whole)}, gone with a cache for the whole file ({reads:.1f} reads per record, with few "
        f"timelines {less_reads:.1f}). Checkpoints: {_part(checkpoints, whole)}, gone without them. Pages to change "
        f"and log, which records no longer share: {_part(rest, whole)} ({written:.0f} KiB written per record, with "
        f"few {less_written:.0f})."
    )


def _part(microseconds: float, whole: float) -> str:
    return f"{microseconds:,.0f} µs" if microseconds > whole / 20 else "too little to measure"


HOW = ("", ", cached", ", unchecked")


def delivery(scale: Scale, folder: str) -> Report:
    """The cost of finding due timelines, and of delivering them."""
    report = Report("delivering", ("", "", "×", "bound", "MiB"))
    due = {f"{size:,}": Child(Due, folder, size, 3) for size in scale.due}
    found = interleaved({size: child.ask("milliseconds") for size, child in due.items()}, rounds=scale.rounds)
    base = next(iter(found.values()))
    peaks = {size: child.end() for size, child in due.items()}
    for what, kind in (("claim 200", "claim"), ("schedule 1,000", "page")):
        for size, answers in found.items():
            cost, ratio = middle(answers, kind), middle_ratio(answers, base, kind)
            bound = at_most(ratio, WITHIN) if answers is not base else ""
            name = f"{what} of {size}"
            report.rows.append((name, f"{cost:,.1f}", "ms", times(ratio), bound, f"{peaks[size]:,.0f}"))
            report.figures[name] = {"milliseconds": cost, "ratio": ratio, "peak_mib": peaks[size]}
    _deliver(report, scale, folder)
    return report


def _deliver(report: Report, scale: Scale, folder: str) -> None:
    child = Child(Deliveries, folder, scale.digests)
    answers = interleaved({"all": child.ask("rate")}, rounds=scale.rounds)["all"]
    peak = child.end()
    for what, kind in ((f"digest() of {RECORDS}", "digest"), ("claim, take, close by 200", "page")):
        rate, ratio = middle(answers, kind), middle_ratio(answers, answers, kind, "digest")
        report.rows.append((what, f"{rate:,.0f}", "digests/s", times(ratio), "", f"{peak:,.0f}"))
        report.figures[what] = {"digests_per_second": rate, "ratio": ratio, "peak_mib": peak}


SECTIONS: dict[str, Callable[[Scale, str], Report]] = {
    "adds": adds,
    "records": records,
    "timelines": timelines,
    "delivery": delivery,
}


def surroundings(folder: str) -> dict[str, Any]:
    """Return what the figures depend on."""
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
@click.option("--rounds", type=click.IntRange(1), help="How often each is measured; more is steadier.")
@click.option("--folder", type=click.Path(exists=True, file_okay=False, writable=True), help="Whose disk is measured.")
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another checkout: adds by its code and by this one's, in turns, and nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def sqlite(
    quick: bool, only: tuple[str, ...], rounds: int | None, folder: str | None, against: Path | None, as_json: bool
) -> int:
    """Measure the SQLite store, durable as it is by default (WAL, synchronous=FULL)."""
    figures: dict[str, Any] = {}
    scale = QUICK if quick else FULL
    scale = scale._replace(rounds=rounds or scale.rounds)
    with TemporaryDirectory(prefix="digestif-bench-", dir=folder) as place:
        facts = surroundings(place)
        if not as_json:
            line = "Python {python} · SQLite {sqlite} · {cores} cores · fsync {fsync_ms:.2f} ms"
            console().print(f"[dim]{line.format(**facts)} · MiB: peak memory[/]")
        for name in ("compared",) if against else only or SECTIONS:
            report = compared(scale, place, against) if against else SECTIONS[name](scale, place)
            figures[name] = report.figures
            if not as_json:
                show(report)
    if as_json:
        print(json.dumps({"surroundings": facts, "quick": quick, **figures}, indent=2))
    return 0


if __name__ == "__main__":
    start(sqlite, name="./dev bench sqlite")
