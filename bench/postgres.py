"""The cost of the PostgreSQL store beside bare upserts with the same driver. Compare within one run only.

Both sides of a comparison take turns in small blocks, because computers are noisy: a ratio is the median over
neighbouring blocks, and the next column is the ratio of the best blocks.
"""

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, NamedTuple

import click
import psycopg

from bench._blocks import compared, in_turns
from bench._grown import Grown
from bench._measure import console, start
from bench._postgres_adds import TIMELINES, Bare, Ours
from bench._postgres_deliveries import Deliveries
from bench._postgres_wakeups import Crowd
from bench._redis_deliveries import RECORDS
from bench._sections import Contest, Section, add_contest, add_growth
from bench._table import Report, show, times
from bench._targets import Target, as_figures, show_targets
from bench._workload import Source
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import ServerMissing


class Scale(NamedTuple):
    """How much is measured."""

    singles: int  # blocks of single adds…
    batches: int  # …and of batches
    deliveries: int  # rounds of a delivery of…
    timelines: int  # …so many timelines
    growth: int  # blocks
    records: tuple[int, ...]  # in one timeline


FULL = Scale(100, 40, 7, 5_000, 60, (10, 1_000, 100_000))
QUICK = Scale(10, 6, 3, 1_000, 10, (10, 1_000, 10_000))

CALLS = 50  # in a block of single adds
THREADS = 8
PROCESSES = 8
SIZES = (100, 1_000)  # of batches
BLOCK = 2_000  # records in a block of batches

HALF = 0.5  # of the rate of bare upserts


def adds(scale: Scale, url: str) -> Section:
    """Adds per second, one by one and together, beside bare upserts of the same bytes."""
    section = Section(Report("adding, 300 bytes each", ("adds/s", "bare/s", "×", "best ×", "bound")), [])
    with ExitStack() as opened:
        for contest in _contests(scale, url, opened):
            _show_progress(f"adds: {contest.name}")
            add_contest(section, contest)
    section.report.notes.append(
        f"{TIMELINES} timelines. bare: an upsert of the record and one of its timeline with a counter, one commit; "
        "beside add_many, both of arrays, as psycopg writes them, or in the binary form that the store uses."
    )
    return section


def _contests(scale: Scale, url: str, opened: ExitStack) -> Iterator[Contest]:
    ours, bare = opened.enter_context(closing(Ours(url))), opened.enter_context(closing(Bare(url)))
    yield Contest("add", ours.singles(CALLS), bare.singles(CALLS), CALLS, scale.singles, HALF)
    together = ours.singles(CALLS, threads=THREADS), bare.singles(CALLS, threads=THREADS)
    yield Contest(f"add in {THREADS} threads", *together, CALLS * THREADS, scale.batches)
    for size in SIZES:
        count = BLOCK // size
        many = ours.batches(count, size)
        yield Contest(f"add_many of {size:,}", many, bare.batches(count, size), BLOCK, scale.batches, HALF)
        binary = bare.batches(count, size, binary=True)
        yield Contest(f"{size:,}, bare in binary", many, binary, BLOCK, scale.batches)


def delivery(scale: Scale, url: str) -> Section:
    """Digests per second, claimed, taken and closed by 200."""
    report = Report(f"delivering, {RECORDS} records each", ("digests/s", "best", "records/s"))
    subject = Deliveries(url, timelines=scale.timelines)
    _show_progress(f"delivery: {scale.timelines:,} timelines, {scale.deliveries + 1} times")
    (seconds,) = in_turns({"deliver": subject.seconds}, blocks=scale.deliveries).values()
    rate, best = scale.timelines / statistics.median(seconds), scale.timelines / min(seconds)
    report.rows.append(("claim, take, close", f"{rate:,.0f}", f"{best:,.0f}", f"{rate * RECORDS:,.0f}"))
    report.figures["claim, take, close"] = {
        "digests_per_second": rate,
        "best": best,
        "timelines": scale.timelines,
    }
    return Section(report, [])


def growth(scale: Scale, url: str) -> Section:
    """The cost of an add to a timeline with many records."""
    section = Section(Report("records in the timeline", ("µs per add", "×", "best ×", "bound")), [])
    for full in (False, True):
        kind = "at capacity" if full else "no capacity"
        _show_progress(f"growth: {', '.join(f'{size:,}' for size in scale.records)} records, {kind}")
        with ExitStack() as opened:
            subjects = {n: opened.enter_context(closing(Grown(url, n, Source(1), full=full))) for n in scale.records}
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")  # otherwise the server does so by itself at any moment
            measures = {f"{n:,}, {kind}": partial(subject.seconds, CALLS) for n, subject in subjects.items()}
            found = in_turns(measures, blocks=scale.growth)
        add_growth(section, found, calls=CALLS)
    return section


def notices(scale: Scale, url: str) -> Section:
    """The cost of NOTIFY for concurrent adds: it makes their commits wait for each other."""
    report = Report(f"{PROCESSES} processes, single adds", ("adds/s", "without NOTIFY", "×", "best ×"))
    _show_progress(f"notices: {PROCESSES} processes")
    with closing(Crowd(url, processes=PROCESSES, adds=CALLS)) as crowd:
        ready, waiting = crowd.block(first_delay=0), crowd.block(first_delay=3600)
        found = compared(ready, waiting, blocks=scale.batches, weight=PROCESSES * CALLS)
    rates = f"{found.per_second:,.0f}", f"{found.base_per_second:,.0f}"
    report.rows.append(("to timelines that become ready", *rates, times(found.ratio), times(found.best)))
    report.figures["notices"] = found._asdict()
    return Section(report, [])


def _show_progress(what: str) -> None:
    print(f"postgres: {what}…", file=sys.stderr)


SECTIONS: dict[str, Callable[[Scale, str], Section]] = {
    "adds": adds,
    "delivery": delivery,
    "growth": growth,
    "notices": notices,
}


def surroundings(server: PostgresServer) -> dict[str, Any]:
    """Return what the figures depend on."""
    ((version, fsync, commit),) = server.sql(
        "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
    )
    return {
        "server": f"PostgreSQL {version.split()[0]}",
        "fsync": fsync,
        "synchronous_commit": commit,
        "python": platform.python_version(),
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "cores": os.cpu_count(),
    }


def measure(server: PostgresServer, names: tuple[str, ...], scale: Scale, *, as_json: bool) -> dict[str, Any]:
    facts = surroundings(server)
    if not as_json:
        line = "{server}, fsync {fsync} · Python {python} · psycopg {psycopg} · {cores} cores"
        console().print(f"\n[dim]{line.format(**facts)}[/]")
    figures: dict[str, Any] = {"surroundings": facts}
    targets: list[Target] = []
    for name in names:
        section = SECTIONS[name](scale, server.new_database(name))
        figures[name] = section.report.figures
        targets += section.targets
        if not as_json:
            show(section.report)
    if not as_json:
        show_targets(targets)
    return {**figures, "asked": as_figures(targets)}


@click.command("postgres", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Smaller numbers, in some 20 seconds instead of minutes.")
@click.option("--only", type=click.Choice(list(SECTIONS)), multiple=True, help="A section; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def postgres(quick: bool, only: tuple[str, ...], as_json: bool) -> int:
    """Measure the PostgreSQL store on a server of its own, durable as it is by default, beside bare upserts."""
    scale, names = QUICK if quick else FULL, only or tuple(SECTIONS)
    try:
        with PostgresServer(fsync=True) as server:
            figures = measure(server, names, scale, as_json=as_json)
    except ServerMissing as missing:
        raise click.ClickException(str(missing)) from missing
    if as_json:
        print(json.dumps({"quick": quick, **figures}, indent=2))
    return 0


if __name__ == "__main__":
    start(postgres, name="./dev bench postgres")
