"""One workload through Digestif and through what could be used instead, each installed from its registry when asked."""

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import click

from bench._measure import console, start
from bench._peers.catalog import PEERS, Peer
from bench._peers.figures import COSTS, RATES, agreement, count, share_delivered, share_lost, succeeded
from bench._peers.page import PAGE, PICTURE, STORED, write
from bench._peers.picture import draw
from bench._peers.trial import FULL, QUICK, Scale, tried
from bench._table import Report, show

Run = dict[str, Any]


@click.command("peers", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", multiple=True, metavar="NAME", help="Only systems whose names contain this.")
@click.option("--quick", is_flag=True, help="Fewer events, for a first look.")
@click.option("--twice", is_flag=True, help="Run it twice, and say where the order of systems differs.")
@click.option("--write", "stores", is_flag=True, help="Store the figures of two runs, and make docs/peers.md of them.")
@click.option("--page", is_flag=True, help="Run nothing: make docs/peers.md of the stored figures.")
@click.option(
    "--compare", nargs=2, type=click.Path(exists=True, path_type=Path), help="Run nothing: compare two files."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def peers(
    only: tuple[str, ...], quick: bool, twice: bool, stores: bool, page: bool, compare: tuple[Path, Path], as_json: bool
) -> int:
    """Measure Digestif on each store, and what could be used instead.

    On Valkey, or the product that DIGESTIF_REDIS_SERVER=/path/to/the/server names.
    """
    if page:
        return make_page(*map(stored, STORED))
    if compare:
        return say_order(*map(stored, compare))
    if stores and (only or quick):
        raise click.UsageError("--write stores whole runs: leave out --only and --quick")
    chosen = chosen_by(only)
    scale = QUICK if quick else FULL
    runs = []
    for path in STORED if twice or stores else STORED[:1]:
        runs.append(taken(chosen, scale))
        if stores:
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(runs[-1], indent=2) + "\n")
    if stores:
        make_page(*runs)
    if as_json:
        print(json.dumps(runs if len(runs) > 1 else runs[0], indent=2))
        return 0
    for run in runs:
        show_run(run)
    return say_order(*runs) if len(runs) == 2 else 0


def chosen_by(only: tuple[str, ...]) -> list[Peer]:
    chosen = [peer for peer in PEERS if not only or any(part.lower() in peer.name.lower() for part in only)]
    if not chosen:
        raise click.BadParameter(
            f"there is none; there are {', '.join(peer.name for peer in PEERS)}", param_hint="--only"
        )
    return chosen


def taken(chosen: list[Peer], scale: Scale) -> Run:
    """Try one system after the other."""
    around = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    return {"surroundings": around, "scale": scale._asdict(), "systems": [tried(peer, scale) for peer in chosen]}


def stored(path: Path) -> Run:
    found: Run = json.loads(path.read_text())
    return found


def make_page(first: Run, second: Run) -> int:
    PAGE.write_text(write(first, second), "utf-8")
    PICTURE.write_text(draw([first, second]), "utf-8")
    return 0


def say_order(first: Run, second: Run) -> int:
    """Say where two runs disagree about the order of systems."""
    order = agreement(first, second)
    print(f"\n{order.agreed} of {order.compared} orders of two systems are the same in both runs.")
    for swap in order.swaps:
        print(f"  {swap}")
    return 0


def show_run(run: Run) -> None:
    intake = Report("accepted, events/s", ("one", "32 callers", "batches"))
    costs = Report("all of it", ("late p95", "cpu µs", "MiB", "messages", "% come", "% killed"))
    for trial in succeeded(run):
        intake.rows.append((trial["name"], *(column.text([trial]) for column in RATES)))
        kept = count(trial["notifications"]), f"{share_delivered(trial):.4g}", f"{share_lost(trial):.3g}"
        costs.rows.append((trial["name"], *(column.text([trial]) for column in COSTS), *kept))
    costs.notes.append(
        "cpu: for each event. come: of the events sent. killed: of those acknowledged before a kill, lost."
    )
    for report in (intake, costs):
        show(report)
    for trial in run["systems"]:
        if "failed" in trial:
            console().print(f" {trial['name']} could not be run: {trial['failed'][:300]}", markup=False)
    sys.stdout.flush()


if __name__ == "__main__":
    start(peers, name="./dev bench peers")
