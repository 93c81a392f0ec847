"""Live through many seeds, up to the first that fails: python -m tests.chaos --seeds 1000 --from 0 --store memory."""

import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial

import click

from tests.chaos.simulation import STORES, Life, live
from tests.chaos.tally import Tally, live_through

CHUNK = 50  # seeds between two signs of progress


@click.command(help=__doc__)
@click.option("--seeds", default=1000, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--from", "first", default=0, show_default=True, type=click.IntRange(min=0), help="The first of them.")
@click.option("--store", default="memory", show_default=True, type=click.Choice(sorted(STORES)))
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Processes side by side.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON, no progress.")
@click.option("--trace", type=click.IntRange(min=0), metavar="SEED", help="Tell all that happens with this seed.")
def main(seeds: int, first: int, store: str, jobs: int, as_json: bool, trace: int | None) -> None:
    if trace is not None:
        life = live(trace, STORES[store])
        _tell_life(life, store, as_json=as_json)
        sys.exit(1 if life.violation else 0)
    began = time.monotonic()
    tally = Tally()
    with _mapped(jobs, partial(live_through, store), _chunks(first, seeds)) as tallies:
        for each in tallies:
            tally += each
            seconds = time.monotonic() - began
            if not as_json:
                _show_progress(tally, seeds, seconds)
            if tally.failed is not None:
                break
    if tally.failed is not None and not as_json:
        _tell_life(live(tally.failed, STORES[store]), store, as_json=False)
    _tell_tally(tally, store, seconds, as_json=as_json)
    sys.exit(0 if tally.failed is None else 1)


def _chunks(first: int, seeds: int) -> list[range]:
    end = first + seeds
    return [range(start, min(start + CHUNK, end)) for start in range(first, end, CHUNK)]


@contextmanager
def _mapped(jobs: int, work: "partial[Tally]", chunks: list[range]) -> Iterator[Iterable[Tally]]:
    """The answers in the order of the chunks, from so many processes."""
    if jobs == 1:
        yield map(work, chunks)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool.map(work, chunks)
    finally:
        pool.shutdown(cancel_futures=True)


def _show_progress(tally: Tally, seeds: int, seconds: float) -> None:
    if sys.stderr.isatty():
        rate = tally.seeds / seconds
        click.echo(f"\r{tally.seeds:,} of {seeds:,} seeds, {rate:.0f} seeds/s ", nl=tally.seeds == seeds, err=True)


def _tell_life(life: Life, store: str, *, as_json: bool) -> None:
    violation = None if life.violation is None else f"{type(life.violation).__name__}: {life.violation}"
    if as_json:
        told = {"store": store, "seed": life.seed, "violation": violation, "trace": life.told.splitlines()}
        click.echo(json.dumps(told))
        return
    click.echo(life.told, nl=False)
    if violation is not None:
        click.echo(f"seed {life.seed} broke a promise: {violation}")
        click.echo(f"again: python -m tests.chaos --store {store} --trace {life.seed}")


def _tell_tally(tally: Tally, store: str, seconds: float, *, as_json: bool) -> None:
    rate = tally.seeds / seconds
    if as_json:
        told = {"store": store, **tally._asdict(), "seconds": round(seconds, 3), "seeds_per_second": round(rate, 1)}
        click.echo(json.dumps(told))
    else:
        click.echo(f"{tally.seeds:,} seeds on {store}, {tally.happenings:,} happenings, {rate:.0f} seeds/s")


if __name__ == "__main__":
    main()
