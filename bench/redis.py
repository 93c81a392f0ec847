"""What the Redis store costs beside redis-py alone: adding, delivering, memory, growing. Compare within one run only.

Both sides of a comparison take turns in small blocks, because computers are noisy: a ratio is the median over
neighbouring blocks, and beside it stands that of the best blocks.
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

from bench import _redis_memory as memory
from bench._measure import console, start
from bench._redis_adding import BATCH, READY, WAITING, Grown, Ours, Raw
from bench._redis_asked import Asked, as_figures, show_asked
from bench._redis_delivering import RECORDS, Deliveries
from bench._redis_turns import Block, compared, in_turns, middle_ratio
from bench._table import Report, show, times
from digestif.testing.servers import RedisServer


class Scale(NamedTuple):
    """How much is measured."""

    singles: int  # blocks of single adds…
    batches: int  # …and of batches
    deliveries: int  # times that…
    timelines: int  # …so many timelines are delivered
    memory: int  # timelines whose memory is measured
    growth: int  # blocks
    records: tuple[int, ...]  # in one timeline


FULL = Scale(200, 60, 3, 10_000, 1_500, 60, (10, 1_000, 10_000, 100_000))
QUICK = Scale(20, 10, 1, 1_000, 250, 10, (10, 1_000, 10_000))

CALLS = 100  # in a block of single adds
BATCHES = 2  # in a block of batches
PARTITIONS = 64

SINGLE = (0.7, 0.8)  # of the rate of HSET: what must be, and the aim
MANY = (0.7, 1.0)  # of the rate of pipelines of HSET
SPREAD = (0.6, 0.6)  # the same, over partitions
FLAT = 1.2
BYTES = 450


class Section(NamedTuple):
    """What was measured, and what of it had been asked."""

    report: Report
    asked: list[Asked]


class Contest(NamedTuple):
    """A way to add beside HSET: as a block of each, of the same number of records."""

    name: str
    ours: Block
    hset: Block
    records: int
    blocks: int
    bounds: tuple[float, float] | None  # what must be, and the aim


def adds(scale: Scale) -> Section:
    """Adds per second, one by one and together, beside HSET of the same bytes."""
    section = Section(Report("adding, 300 bytes each", ("adds/s", "HSET/s", "×", "best ×", "bound")), [])
    with RedisServer() as server, ExitStack() as opened:
        for contest in _contests(scale, server, opened):
            _add_row(section, contest)
    section.report.notes.append("HSET: redis-py, a call for each record; beside add_many, pipelines of as many.")
    return section


def _contests(scale: Scale, server: RedisServer, opened: ExitStack) -> Iterator[Contest]:
    def ours(namespace: str, **options: Any) -> Ours:
        return opened.enter_context(closing(Ours(server, namespace, **options)))

    raw = opened.enter_context(closing(Raw(server)))
    hset = raw.singles(CALLS)
    for name, policy, bounds in (("ready", READY, SINGLE), ("waiting", WAITING, None)):
        singles = ours(name, policy=policy).singles(CALLS)
        yield Contest(f"add, {name}", singles, hset, CALLS, scale.singles, bounds)
    pipelines, records = raw.batches(BATCHES), BATCHES * BATCH
    many, spread = ours("many").batches(BATCHES), ours("spread", partitions=PARTITIONS).batches(BATCHES)
    yield Contest(f"add_many of {BATCH}", many, pipelines, records, scale.batches, MANY)
    yield Contest(f"add_many, {PARTITIONS} partitions", spread, pipelines, records, scale.batches, SPREAD)


def _add_row(section: Section, contest: Contest) -> None:
    found = compared(contest.ours, contest.hset, blocks=contest.blocks, weight=contest.records)
    asked = [Asked(contest.name, found.ratio, *contest.bounds)] if contest.bounds else []
    rates = f"{found.per_second:,.0f}", f"{found.base_per_second:,.0f}"
    section.report.rows.append((contest.name, *rates, times(found.ratio), times(found.best), _marks(asked)))
    section.report.figures[contest.name] = found._asdict()
    section.asked.extend(asked)


def _marks(asked: list[Asked]) -> str:
    return "".join(one.mark for one in asked)


def delivery(scale: Scale) -> Section:
    """Digests per second, claimed, taken and closed by 200."""
    report = Report(f"delivering, {RECORDS} records each", ("digests/s", "best", "records/s"))
    with RedisServer() as server:
        subjects = {n: Deliveries(server, timelines=scale.timelines, partitions=n) for n in (1, PARTITIONS)}
        measures = {str(n): subject.seconds for n, subject in subjects.items()}
        for partitions, seconds in in_turns(measures, blocks=scale.deliveries).items():
            name = f"claim, take, close, {partitions} partition{'s' if partitions != '1' else ''}"
            rate, best = scale.timelines / statistics.median(seconds), scale.timelines / min(seconds)
            report.rows.append((name, f"{rate:,.0f}", f"{best:,.0f}", f"{rate * RECORDS:,.0f}"))
            report.figures[name] = {"digests_per_second": rate, "best": best, "timelines": scale.timelines}
    return Section(report, [])


def memory_of_records(scale: Scale) -> Section:
    """Bytes that a record takes, everything included."""
    report = Report("memory, 300 + 32 bytes", ("bytes per record", "×", "bound"))
    raw, ours = (
        memory.bytes_per_record(put, timelines=scale.memory) for put in (memory.with_hset, memory.with_digestif)
    )
    asked = Asked("memory of a record", ours, BYTES, unit=" bytes", at_most=True)
    report.rows.append(("HSET", f"{raw:,.0f}", "", ""))
    report.rows.append((f"{memory.RECORDS} in each timeline", f"{ours:,.0f}", times(ours / raw), asked.mark))
    records = scale.memory * memory.RECORDS
    report.figures |= {"bytes": ours, "hset_bytes": raw, "ratio": ours / raw, "records": records}
    return Section(report, [asked])


def growth(scale: Scale) -> Section:
    """What an add costs with many records in its timeline."""
    section = Section(Report("records in the timeline", ("µs per add", "×", "best ×", "bound")), [])
    for full in (False, True):
        with RedisServer() as server, ExitStack() as opened:
            subjects = {n: opened.enter_context(closing(Grown(server, n, full=full))) for n in scale.records}
            measures = {f"{n:,}": partial(subject.seconds, CALLS) for n, subject in subjects.items()}
            found = in_turns(measures, blocks=scale.growth)
        base = next(iter(found.values()))
        for size, seconds in found.items():
            name = f"{size}, {'at capacity' if full else 'no capacity'}"
            _growth_row(section, name, seconds, base)
    return section


def _growth_row(section: Section, name: str, seconds: list[float], base: list[float]) -> None:
    cost = statistics.median(seconds) / CALLS * 1e6
    ratio, best = middle_ratio(seconds, base), min(seconds) / min(base)
    asked = [Asked(f"an add to {name}", ratio, FLAT, at_most=True)] if seconds is not base else []
    section.report.rows.append((name, f"{cost:,.0f}", times(ratio), times(best), _marks(asked)))
    section.report.figures[name] = {"microseconds": cost, "ratio": ratio, "best": best}
    section.asked.extend(asked)


SECTIONS: dict[str, Callable[[Scale], Section]] = {
    "adds": adds,
    "delivery": delivery,
    "memory": memory_of_records,
    "growth": growth,
}


def surroundings() -> dict[str, Any]:
    """What the figures depend on."""
    import redis

    with RedisServer() as server:
        known = server.cli("INFO")
    return {
        "server": f"{known.get('server_name', 'redis')} {known.get('valkey_version') or known['redis_version']}",
        "allocator": known["mem_allocator"],
        "python": platform.python_version(),
        "redis_py": redis.__version__,
        "cores": os.cpu_count(),
    }


def measure(names: tuple[str, ...], scale: Scale, *, as_json: bool) -> dict[str, Any]:
    facts = surroundings()
    if not as_json:
        line = "{server} ({allocator}) · Python {python} · redis-py {redis_py} · {cores} cores"
        console().print(f"\n[dim]{line.format(**facts)}[/]")
    figures: dict[str, Any] = {"surroundings": facts}
    asked: list[Asked] = []
    for name in names:
        print(f"{name}…", file=sys.stderr)
        section = SECTIONS[name](scale)
        figures[name] = section.report.figures
        asked += section.asked
        if not as_json:
            show(section.report)
    if not as_json:
        show_asked(asked)
    return {**figures, "asked": as_figures(asked)}


@click.command("redis", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Smaller numbers, in some 20 seconds instead of minutes.")
@click.option("--only", type=click.Choice(list(SECTIONS)), multiple=True, help="A section; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def redis(quick: bool, only: tuple[str, ...], as_json: bool) -> int:
    """Measure the Redis store on servers of its own, beside redis-py alone.

    On Valkey, or the product that DIGESTIF_REDIS_SERVER=/path/to/the/server names.
    """
    figures = measure(only or tuple(SECTIONS), QUICK if quick else FULL, as_json=as_json)
    if as_json:
        print(json.dumps({"quick": quick, **figures}, indent=2))
    return 0


if __name__ == "__main__":
    start(redis, name="./dev bench redis")
