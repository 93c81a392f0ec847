"""What an operation costs while the store grows: records, timelines, workers and partitions, on each store."""

import json
import os
import platform
from typing import Any

import click

from bench._measure import start
from bench._scaling import FULL, QUICK, measured
from bench._scaling_page import PAGE, PICTURE, STORED, draw, write
from bench._table import Report, show, times

STORES = ("SQLite", "Valkey", "PostgreSQL")


@click.command("scaling", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", "kinds", multiple=True, type=click.Choice(STORES, case_sensitive=False), help="Only these.")
@click.option("--quick", is_flag=True, help="Less of everything, for a first look.")
@click.option("--write", "stores", is_flag=True, help="Store the figures, and make docs/scaling.md of them.")
@click.option("--page", is_flag=True, help="Run nothing: make docs/scaling.md of the stored figures.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def scaling(kinds: tuple[str, ...], quick: bool, stores: bool, page: bool, as_json: bool) -> int:
    """Measure the cost of add, add_many and deliveries while one thing in the store grows."""
    if page:
        return make_page(json.loads(STORED.read_text()))
    if stores and (kinds or quick):
        raise click.UsageError("--write stores a whole run: leave out --store and --quick")
    scale = QUICK if quick else FULL
    around = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    curves = {kind: measured(kind, scale) for kind in kinds or STORES}
    run = json.loads(json.dumps({"surroundings": around, "scale": scale._asdict(), "stores": curves}))
    if stores:
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(run, indent=2) + "\n")
        make_page(run)
    if as_json:
        print(json.dumps(run, indent=2))
    else:
        show_run(run)
    return 0


def make_page(run: dict[str, Any]) -> int:
    PAGE.write_text(write(run), "utf-8")
    PICTURE.write_text(draw(run), "utf-8")
    return 0


def show_run(run: dict[str, Any]) -> None:
    for kind, grown in run["stores"].items():
        for what, curves in grown.items():
            sizes = list(curves["add"])
            report = Report(f"{kind}, {what}, µs", (*(f"{int(size):,}" for size in sizes), "×"))
            for operation, curve in curves.items():
                costs = [curve[size] for size in sizes]
                report.rows.append((operation, *(f"{cost:,.1f}" for cost in costs), times(costs[-1] / costs[0])))
            show(report)


if __name__ == "__main__":
    start(scaling, name="./dev bench scaling")
