"""The leading edge: how soon the first record of a quiet timeline reaches its handler, and the cost of waiting."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from bench._edge_worker import POLICY, Idle, add_now_and_then
from bench._measure import Child, Figures, console, start
from bench._table import Report, show
from bench._targets import Target, as_figures, show_targets
from digestif import Digests
from digestif.testing.servers import RedisServer

P50, P99 = 10.0, 50.0  # milliseconds
SHARE = 1.0  # per cent of a core
PARTITIONS = 64
STORES = ("sqlite", "redis")


class Scale(NamedTuple):
    """How much is measured."""

    adds: int
    seconds: float


FULL = Scale(500, 10.0)
QUICK = Scale(50, 1.0)


class Case(NamedTuple):
    """A store, and the process that adds."""

    name: str
    kind: str
    query: str = ""
    here: bool = False  # added by the process of the worker
    has_targets: bool = True


def cases(kinds: tuple[str, ...]) -> Iterator[Case]:
    for kind in kinds:
        if kind == "sqlite":
            yield Case("sqlite, one process", kind, here=True)
            yield Case("sqlite, two processes", kind, has_targets=False)
        else:
            yield Case(f"{kind}, two processes", kind)
            yield Case(f"{kind}, {PARTITIONS} partitions", kind, f"?partitions={PARTITIONS}")


@contextmanager
def opened(case: Case) -> Iterator[str]:
    """Open an empty store, and yield its DSN."""
    if case.kind == "sqlite":
        with TemporaryDirectory(prefix="digestif-") as folder:
            yield f"sqlite:///{Path(folder) / 'edge.db'}"
    else:
        with RedisServer() as server:
            yield server.url + case.query


def measured(case: Case, scale: Scale) -> Figures:
    with opened(case) as dsn:
        worker = Child(Idle, dsn, scale.adds, scale.seconds)
        idle = worker.ask("idle")()
        if case.here:
            edge = worker.ask("adds_here")()
        else:
            with Digests(dsn, policy=POLICY) as digests:
                add_now_and_then(digests, scale.adds)
            edge = worker.ask("noted")()
        worker.end()
    return {**edge, **idle}


def targets_of(case: Case, found: Figures) -> list[Target]:
    edge = [
        Target(f"{case.name}: p50", found["p50"], P50, unit=" ms", at_most=True),
        Target(f"{case.name}: p99", found["p99"], P99, unit=" ms", at_most=True),
    ]
    idle = Target(f"{case.name}: idle", found["share"], SHARE, unit=" %", at_most=True)
    return [*(edge if case.has_targets else []), idle]


@click.command("edge", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", "kinds", multiple=True, type=click.Choice(STORES), help="Only these.")
@click.option("--quick", is_flag=True, help="Less of everything, for a first look.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def edge(kinds: tuple[str, ...], quick: bool, as_json: bool) -> int:
    """Measure how soon workers begin, and what they cost while idle."""
    screen = console()
    say: Callable[[str], None] = (lambda _: None) if as_json else (lambda text: screen.print(f"[dim]{text}[/]"))
    report = Report("add to handler", ("p50 ms", "p99 ms", "most ms", "idle", "bound"))
    targets: list[Target] = []
    for case in cases(kinds or STORES):
        say(f"{case.name}…")
        found = measured(case, QUICK if quick else FULL)
        wanted = targets_of(case, found)
        targets += wanted
        mark = "[green]✓[/]" if all(one.met for one in wanted) else "[red]✗[/]"
        times = (f"{found[name]:.1f}" for name in ("p50", "p99", "most"))
        report.rows.append((case.name, *times, f"{found['share']:.2f} %", mark))
        report.figures[case.name] = found
    report.notes.append(f"idle: of one core, beside {'1 s' if quick else '10 s'} of waiting with 1,000 timelines.")
    if as_json:
        print(json.dumps({"quick": quick, **report.figures, "asked": as_figures(targets)}, indent=2))
    else:
        show(report)
        show_targets(targets)
    return 0


if __name__ == "__main__":
    start(edge, name="./dev bench edge")
