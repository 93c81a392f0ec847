"""The cost of the Redis store beside redis-py alone: adds, deliveries, memory, growth. Compare within one run only.

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

from bench import _redis_memory as memory
from bench._blocks import in_turns
from bench._grown import Grown
from bench._measure import console, start
from bench._redis_adds import BATCH, READY, WAITING, LongKeys, Ours, Raw
from bench._redis_deliveries import RECORDS, Deliveries
from bench._sections import Contest, Section, add_contest, add_growth
from bench._table import Report, show, times
from bench._targets import Target, as_figures, show_targets
from digestif.testing.servers import RedisServer


class Scale(NamedTuple):
    """How much is measured."""

    singles: int  # blocks of single adds…
    batches: int  # …and of batches
    deliveries: int  # rounds of a delivery of…
    timelines: int  # …so many timelines
    memory: int  # timelines whose memory is measured
    growth: int  # blocks
    records: tuple[int, ...]  # in one timeline


FULL = Scale(200, 60, 3, 10_000, 1_500, 60, (10, 1_000, 10_000, 100_000))
QUICK = Scale(20, 10, 1, 1_000, 250, 10, (10, 1_000, 10_000))

CALLS = 100  # in a block of single adds
BATCHES = 2  # in a block of batches
PARTITIONS = 64

SINGLE = (0.7, 0.8)  # of the rate of HSET: the bound, and the aim
MANY = (0.75, 1.0)  # of the rate of pipelines of HSET
SPREAD = (0.6, 0.6)  # the same, over partitions
BYTES = 440


def adds(scale: Scale) -> Section:
    """Adds per second, one by one and together, beside HSET of the same bytes."""
    section = Section(Report("adding, 300 bytes each", ("adds/s", "HSET/s", "×", "best ×", "bound")), [])
    with RedisServer() as server, ExitStack() as opened:
        for contest in _contests(scale, server, opened):
            server.cli("CONFIG", "RESETSTAT")
            add_contest(section, contest)
            section.report.figures[contest.name] |= _script_times(server)
    section.report.notes.append("HSET: redis-py, a call for each record; beside add_many, pipelines of as many.")
    calls = [f"{name} {of['script_p99_us'] / 1000:.2g}" for name, of in section.report.figures.items()]
    section.report.notes.append(f"A call of the script takes the server, in ms, p99: {', '.join(calls)}.")
    return section


def _script_times(server: RedisServer) -> dict[str, float]:
    """How long the server worked on the calls of a script since its statistics were reset."""
    found = server.cli("INFO", "latencystats")["latency_percentiles_usec_evalsha"]
    return {"script_p50_us": found["p50"], "script_p99_us": found["p99"]}


def _contests(scale: Scale, server: RedisServer, opened: ExitStack) -> Iterator[Contest]:
    def ours(namespace: str, **options: Any) -> Ours:
        return opened.enter_context(closing(Ours(server, namespace, **options)))

    raw = opened.enter_context(closing(Raw(server)))
    hset = raw.singles(CALLS)
    for name, policy, bounds in (("ready", READY, SINGLE), ("waiting", WAITING, (None, None))):
        singles = ours(name, policy=policy).singles(CALLS)
        yield Contest(f"add, {name}", singles, hset, CALLS, scale.singles, *bounds)
    pipelines, records = raw.batches(BATCHES), BATCHES * BATCH
    many, spread = ours("many").batches(BATCHES), ours("spread", partitions=PARTITIONS).batches(BATCHES)
    yield Contest(f"add_many of {BATCH}", many, pipelines, records, scale.batches, *MANY)
    yield Contest(f"add_many, {PARTITIONS} partitions", spread, pipelines, records, scale.batches, *SPREAD)


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
    """The memory of a record in bytes, everything included."""
    section = Section(Report("memory, keys of 32 bytes", ("bytes per record", "HSET", "×", "bound")), [])
    for name, sizes in memory.SIZES.items():
        raw, ours = (
            memory.bytes_per_record(put, sizes, timelines=scale.memory)
            for put in (memory.with_hset, memory.with_digestif)
        )
        target = Target(f"memory of a record, {name}", ours, BYTES, unit=" bytes", at_most=True)
        section.report.rows.append((name, f"{ours:,.0f}", f"{raw:,.0f}", times(ours / raw), target.mark))
        section.report.figures[name] = {"bytes": ours, "hset_bytes": raw, "ratio": ours / raw}
        section.targets.append(target)
    section.report.notes.append(f"{scale.memory:,} timelines with {memory.RECORDS} records each.")
    return section


def growth(scale: Scale) -> Section:
    """The cost of an add to a timeline with many records."""
    section = Section(Report("records in the timeline", ("µs per add", "×", "best ×", "bound")), [])
    for full in (False, True):
        with RedisServer() as server, ExitStack() as opened:
            subjects = {
                n: opened.enter_context(closing(Grown(server.url, n, LongKeys(1), full=full))) for n in scale.records
            }
            kind = "at capacity" if full else "no capacity"
            measures = {f"{n:,}, {kind}": partial(subject.seconds, CALLS) for n, subject in subjects.items()}
            found = in_turns(measures, blocks=scale.growth)
        add_growth(section, found, calls=CALLS)
    return section


SECTIONS: dict[str, Callable[[Scale], Section]] = {
    "adds": adds,
    "delivery": delivery,
    "memory": memory_of_records,
    "growth": growth,
}


def surroundings() -> dict[str, Any]:
    """Return what the figures depend on."""
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
    targets: list[Target] = []
    for name in names:
        print(f"{name}…", file=sys.stderr)
        section = SECTIONS[name](scale)
        figures[name] = section.report.figures
        targets += section.targets
        if not as_json:
            show(section.report)
    if not as_json:
        show_targets(targets)
    return {**figures, "asked": as_figures(targets)}


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
