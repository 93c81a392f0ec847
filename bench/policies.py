"""The cost of windows and of stored policies: an add with them beside one without, in turns, on every store."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench._measure import Child, Figures, console, interleaved, middle, middle_ratio, start
from bench._policy_adds import CHOSEN, OVERRIDE, PLAIN, WINDOW, Adds
from bench._table import Report, show, times
from bench._targets import Target, as_figures, show_targets
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import RedisServer

STORES = ("sqlite", "redis", "postgres")
STATES = ("cooling", "ready")
WAYS = ("single", "batch")
MUST, AIM = 1.25, 1.1  # times the cost of an add without them
OLD = "plain, other tree"


@contextmanager
def opened(kind: str) -> Iterator[str]:
    """Start an empty store, and yield its DSN."""
    if kind == "sqlite":
        with TemporaryDirectory(prefix="digestif-") as folder:
            yield f"sqlite:///{Path(folder) / 'policies.db'}"
    elif kind == "redis":
        with RedisServer() as server:
            yield server.url
    else:
        with PostgresServer() as server:
            yield server.url


def measured(
    store: str, *, timelines: int, seconds: float, rounds: int, against: Path | None
) -> dict[str, dict[str, list[Figures]]]:
    """Figures by state and kind of policy, one for each round."""
    found: dict[str, dict[str, list[Figures]]] = {}
    with opened(store) as dsn:
        children = {kind: Child(Adds, dsn, kind, timelines, seconds) for kind in (PLAIN, OVERRIDE, WINDOW, CHOSEN)}
        if against is not None:
            with opened(store) as other:
                children = {OLD: Child(Adds, other, PLAIN, timelines, seconds, source=against / "src"), **children}
                found = _in_turns(children, rounds)
        else:
            found = _in_turns(children, rounds)
    return found


def _in_turns(children: dict[str, Child], rounds: int) -> dict[str, dict[str, list[Figures]]]:
    found = {
        state: interleaved({kind: child.ask(state) for kind, child in children.items()}, rounds=rounds)
        for state in STATES
    }
    for child in children.values():
        child.end()
    return found


@click.command("policies", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", "kinds", multiple=True, type=click.Choice(STORES), help="Only these.")
@click.option("--against", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Another checkout.")
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.01), help="Of each measurement.")
@click.option("--quick", is_flag=True, help="Less of everything, for a first look.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def policies(
    kinds: tuple[str, ...], against: Path | None, rounds: int, seconds: float, quick: bool, as_json: bool
) -> int:
    """Measure what windows and stored policies add to the cost of an add.

    Half of 10,000 timelines cool down, the others are ready. Ratios are medians of those of each round.
    """
    screen = console()
    timelines, seconds = (1_000, 0.2) if quick else (10_000, seconds)
    targets: list[Target] = []
    figures: dict[str, float] = {}
    for store in kinds or STORES:
        if not as_json:
            screen.print(f"[dim]{store}…[/]")
        found = measured(store, timelines=timelines, seconds=seconds, rounds=rounds, against=against)
        report = Report(f"{store}: cost of an add", ("single/s", "cost", "batch/s", "cost", "bound"))
        for state, by_kind in found.items():
            base = by_kind[OLD if against is not None else PLAIN]
            for kind, answers in by_kind.items():
                costs = {way: middle_ratio(base, answers, way) for way in WAYS}
                wanted = [
                    Target(f"{store}, {state}, {kind}, {way}", costs[way], MUST, AIM, at_most=True) for way in WAYS
                ]
                targets += [] if answers is base else wanted
                mark = "" if answers is base else " ".join(one.mark for one in wanted[:1])
                rates = {way: middle(answers, way) for way in WAYS}
                figures |= {f"{store}, {state}, {kind}, {way}": costs[way] for way in WAYS}
                columns = [text for way in WAYS for text in (f"{rates[way]:,.0f}", times(costs[way]))]
                report.rows.append((f"{state}, {kind}", *columns, mark))
        if not as_json:
            show(report)
    if as_json:
        print(json.dumps({"quick": quick, "cost": figures, "asked": as_figures(targets)}, indent=2))
    else:
        show_targets(targets)
    return 0


if __name__ == "__main__":
    start(policies, name="./dev bench policies")
