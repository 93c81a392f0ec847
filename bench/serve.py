"""The service under load: records a second over HTTP, durable and with a token, beside others."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, NamedTuple

import click

from bench._measure import Child, Figures, console, interleaved, middle, middle_ratio, start
from bench._serve_load import Load, Post, cycled, numbered
from bench._serve_starts import seconds_to_start
from bench._serve_subjects import BULK, TIMELINES, Subject, alertmanager, bare, service
from bench._table import Report, show
from bench._targets import Target, as_figures, show_targets
from bench._workload import VALUE, timeline_key
from digestif import Digests

SINGLE, BULK_CONNECTIONS, CALM = 64, 8, 32
BODIES = 32  # different posts of 500
KILL = 10_000_000  # the number of the first record of the run that ends with a kill


class Scale(NamedTuple):
    """How much is measured."""

    rounds: int
    seconds: float


FULL = Scale(7, 3.0)
QUICK = Scale(3, 1.0)


def loaded(pipe: Pipe, port: int, make: Callable[[int], Post], first: int, bulk: bool, options: dict[str, Any]) -> None:
    """In a process of its own: post, and send the figures and what was acknowledged."""
    posts = cycled([make(first + number) for number in range(BODIES)]) if bulk else numbered(make, first)
    load = Load(port, posts, **options)
    pipe.send("begun")
    pipe.send((load.run(), load.acknowledged))


@contextmanager
def loading(subject: Subject, *, first: int, bulk: bool = False, **options: Any) -> Iterator[Pipe]:
    """Load a server from another process, which sends what it found."""
    context = get_context("spawn")
    here, there = context.Pipe()
    make = subject.many if bulk else subject.one
    process = context.Process(target=loaded, args=(there, subject.port, make, first, bulk, options))
    process.start()
    there.close()
    try:
        assert here.recv() == "begun"
        yield here
    finally:
        process.join(60)
        here.close()


class Run:
    """Loads a server again and again. What it posts is new each time."""

    def __init__(self, subject: Subject, seconds: float) -> None:
        self._subject = subject
        self._seconds = seconds
        self._next = 0
        self.acknowledged = 0.0

    def measure(self) -> Figures:
        """Post singly on 64 connections, singly on 32, and 500 at a time on 8."""
        single = self._load(connections=SINGLE)
        calm = self._load(connections=CALM)
        bulk = self._load(connections=BULK_CONNECTIONS, bulk=True)
        return {"single": single["records"], "p99": calm["p99"], "bulk": bulk["records"]}

    def _load(self, **options: Any) -> Figures:
        with loading(self._subject, first=self._next, seconds=self._seconds, **options) as pipe:
            found: tuple[Figures, list[str]] = pipe.recv()
        figures, _ = found
        self._next += 1_000_000 if not options.get("bulk") else BODIES
        self.acknowledged += figures["acknowledged"]
        return figures

    def kill(self) -> list[str]:
        """Post, and kill the server meanwhile: the names of what was acknowledged."""
        with loading(self._subject, first=KILL, connections=SINGLE, seconds=60.0) as pipe:
            sleep(min(1.0, self._seconds))
            self._subject.process.kill()
            found: tuple[Figures, list[str]] = pipe.recv()
        _, names = found
        self.acknowledged += len(names)
        return names


class Engine:
    """The engine without HTTP, which adds 500 records at a time to a store of its own: what the service could reach."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._digests = Digests(f"sqlite:///{folder}/engine.db")
        self._seconds = seconds
        self.close = self._digests.close

    def measure(self) -> Figures:
        records = [(timeline_key(number * 7919 % TIMELINES), VALUE) for number in range(BULK)]
        added, began = 0, monotonic()
        while monotonic() - began < self._seconds:
            self._digests.accept_many(records)
            added += BULK
        return {"single": math.nan, "p99": math.nan, "bulk": added / (monotonic() - began)}


def lost(folder: Path, names: Sequence[str], acknowledged: float) -> int:
    """How many records were acknowledged and are not in the store."""
    with Digests(f"sqlite:///{folder}/digestif.db") as digests:
        ledger = digests.ledger()
        known = {name: {record.key for record in digests.peek(name)} for name in {each.split()[0] for each in names}}
        missing = sum(key not in known[timeline] for timeline, key in map(str.split, names))
        if not digests.verify():
            raise click.ClickException("the store does not agree with its ledger")
        return max(missing, int(acknowledged) - ledger.accepted)


def measured(scale: Scale) -> tuple[dict[str, list[Figures]], int, int]:
    """Figures of all servers, how many records were acknowledged, and how many of them were lost."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(TemporaryDirectory(prefix="digestif-"))) for _ in range(3)]
        makers = zip((service, bare, alertmanager), folders, strict=True)
        subjects = [stack.enter_context(make(folder)) for make, folder in makers]
        runs = {subject.name: Run(subject, scale.seconds) for subject in subjects if subject is not None}
        engine = Child(Engine, str(folders[0]), scale.seconds)
        measures = {**{name: run.measure for name, run in runs.items()}, "engine, no HTTP": engine.ask("measure")}
        found = interleaved(measures, rounds=scale.rounds)
        engine.end()
        own = runs["digestif"]
        names = own.kill()
        return found, int(own.acknowledged), lost(folders[0], names, own.acknowledged)


def targets_of(found: dict[str, list[Figures]], gone: int, started: float) -> list[Target]:
    own, base = found["digestif"], found["bare"]
    single, ratio = middle(own, "single"), middle_ratio(own, base, "single")
    wanted = [
        Target(
            "in posts of 500, of the engine without HTTP", middle_ratio(own, found["engine, no HTTP"], "bulk"), 0.5, 0.8
        ),
        Target("in posts of 500, of the bare handler", middle_ratio(own, base, "bulk"), 0.5, 0.8),
        Target("singly, records a second", single, 5_000, unit="")
        if single >= 5_000
        else Target("singly, of the bare handler", ratio, 0.5),
        Target("acknowledged and lost", gone, 0, unit="", at_most=True),
        Target("seconds until it is usable in an empty folder", started, 1.5, unit=" s", at_most=True),
    ]
    if other := found.get("Alertmanager"):
        wanted += [
            Target("singly, of Alertmanager", middle_ratio(own, other, "single"), 1, 2),
            Target("in posts of 500, of Alertmanager", middle_ratio(own, other, "bulk"), 0.5, 1),
        ]
    return wanted


def report_of(found: dict[str, list[Figures]]) -> Report:
    report = Report("records a second over HTTP", ("singly, 64", "p99 ms, 32", "posts of 500"))
    for name, figures in found.items():
        single, p99, bulk = (middle(figures, each) for each in ("single", "p99", "bulk"))
        cells = (f"{single:,.0f}", f"{p99:.1f}", f"{bulk:,.0f}")
        report.rows.append((name, *("" if cell == "nan" else cell for cell in cells)))
        spread = {each: [round(one[each], 1) for one in figures] for each in ("single", "p99", "bulk")}
        report.figures[name] = {"single": single, "p99": p99, "bulk": bulk, "rounds": spread}
        if math.isnan(single):
            report.figures[name] = {"bulk": bulk, "rounds": {"bulk": spread["bulk"]}}
    report.notes += [
        "digestif: SQLite with synchronous=FULL, a token, no worker; 202 once it is on the disk.",
        "bare: a Starlette handler under uvicorn, both as they come, that reads the body and answers 202 at once.",
        "Alertmanager keeps alerts in memory: a kill loses them."
        if "Alertmanager" in found
        else "No Alertmanager here.",
    ]
    return report


@click.command("serve", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Fewer and shorter rounds.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the figures into this file, too."
)
def serve(quick: bool, as_json: bool, output: Path | None) -> int:
    """Measure what the service accepts over HTTP, and that a kill loses nothing of it."""
    if not as_json:
        console().print("[dim]three servers in turn…[/]")
    started = seconds_to_start()
    found, acknowledged, gone = measured(QUICK if quick else FULL)
    report, targets = report_of(found), targets_of(found, gone, started)
    report.notes.append(f"Killed at the end: of {acknowledged:,} acknowledged records {gone:,} were lost.")
    figures = {"quick": quick, **report.figures, "acknowledged": acknowledged, "lost": gone, "started": started}
    text = json.dumps({**figures, "asked": as_figures(targets)}, indent=2)
    if output is not None:
        output.write_text(text + "\n")
    if as_json:
        print(text)
    else:
        show(report)
        show_targets(targets)
    return 1 if gone else 0


if __name__ == "__main__":
    start(serve, name="./dev bench serve")
