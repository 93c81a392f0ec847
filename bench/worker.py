"""How fast workers deliver with handlers that do nothing, so that all cost is Digestif's. Compare within one run."""

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from bench._measure import console, start
from bench._table import Report, show
from bench._targets import Target, as_figures, show_targets
from bench._worker_drain import RECORDS, Load, drain, fill
from digestif.ids import fresh_id
from digestif.testing.servers import RedisServer

AIM = {"sqlite": 2_000, "redis": 5_000}  # digests a second, by one process or by two


class Scale(NamedTuple):
    """How much is measured."""

    timelines: int
    times: int
    crowd: int  # timelines that are due in the same second


FULL = Scale(10_000, 3, 100_000)
QUICK = Scale(1_000, 1, 5_000)


@contextmanager
def store(kind: str) -> Iterator[str]:
    """Open an empty store of that kind, and yield its DSN."""
    if kind == "sqlite":
        with TemporaryDirectory(prefix="digestif-") as folder:
            yield f"sqlite:///{Path(folder) / 'worker.db'}"
    else:
        with RedisServer() as server:
            yield server.url


def rates(kind: str, scale: Scale, say: Callable[[str], None]) -> tuple[Report, list[Target]]:
    report = Report(f"{kind}, {RECORDS} records each", ("digests/s", "best", "records/s", "bound"))
    best_of_all = 0.0
    for processes, is_async, handler in ((1, True, "coroutine"), (2, True, "coroutine"), (1, False, "function")):
        name = f"{processes} process{'es' if processes > 1 else ''}, {handler}"
        say(f"{kind}: {name}…")
        seconds = [_seconds(kind, scale.timelines, processes, is_async) for _ in range(scale.times)]
        rate, best = scale.timelines / statistics.median(seconds), scale.timelines / min(seconds)
        best_of_all = max(best_of_all, rate)
        report.rows.append((name, f"{rate:,.0f}", f"{best:,.0f}", f"{rate * RECORDS:,.0f}", ""))
        report.figures[name] = {"digests_per_second": rate, "best": best, "timelines": scale.timelines}
    say(f"{kind}: {scale.crowd:,} due in the same second…")
    seconds_of_crowd = _seconds(kind, scale.crowd, 2, True)
    crowd = scale.crowd / seconds_of_crowd
    report.rows.append(
        (f"{scale.crowd:,} due at once, 2 processes", f"{crowd:,.0f}", "", f"{crowd * RECORDS:,.0f}", "")
    )
    report.figures["crowd"] = {"digests_per_second": crowd, "timelines": scale.crowd, "seconds": seconds_of_crowd}
    target = Target(f"{kind}, digests a second", best_of_all, AIM[kind], unit="")
    report.rows[0] = (*report.rows[0][:-1], target.mark)
    return report, [target]


def _seconds(kind: str, timelines: int, processes: int, is_async: bool) -> float:
    with store(kind) as dsn:
        load = Load(dsn, f"worker-{fresh_id()[:6]}", timelines, processes, is_async)
        fill(load)
        return drain(load)


@click.command("worker", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", "kinds", multiple=True, type=click.Choice(list(AIM)), help="Only these.")
@click.option("--quick", is_flag=True, help="Less of everything, for a first look.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def worker(kinds: tuple[str, ...], quick: bool, as_json: bool) -> int:
    """Measure how many digests workers deliver in a second, on each store.

    On Valkey, or the product that DIGESTIF_REDIS_SERVER=/path/to/the/server names.
    """
    scale = QUICK if quick else FULL
    screen = console()
    say: Callable[[str], None] = (lambda _: None) if as_json else (lambda text: screen.print(f"[dim]{text}[/]"))
    figures: dict[str, object] = {}
    targets: list[Target] = []
    for kind in kinds or AIM:
        report, wanted = rates(kind, scale, say)
        figures[kind] = report.figures
        targets += wanted
        if not as_json:
            show(report)
    if as_json:
        print(json.dumps({**figures, "asked": as_figures(targets)}, indent=2))
    else:
        show_targets(targets)
    return 0


if __name__ == "__main__":
    start(worker, name="./dev bench worker")
