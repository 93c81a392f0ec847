"""Proof that the Redis store's work is bounded: in a very large store, no script is slow and no memory leaks.

Times are the server's own (its percentiles of EVALSHA, its log of slow calls), so waiting clients don't count.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import click

from bench import _redis_phases as phases
from bench._measure import Child, Figures, console, start
from bench._redis_gauge import MIB, NOTED, SLOW, Gauge, Reading
from bench._redis_phases import Load, Phase
from bench._table import Report, show
from bench._targets import Target, as_figures, show_targets
from bench.redis import surroundings
from digestif import Digests
from digestif.testing.servers import RedisServer

PRODUCERS = max(1, (os.cpu_count() or 1) - 1)  # more would take the processor from the server
CLIENT = 32  # MiB that a client may need beyond one with a small load
GROWTH = 1  # MiB that the server may keep, apart from the history


class Step(NamedTuple):
    """A phase and its name."""

    name: str
    phase: type[Phase]
    producers: int = 1


class Outcome(NamedTuple):
    """The measurements of a step."""

    name: str
    done: int
    seconds: float
    reading: Reading
    client: float  # MiB at most, in the largest of its processes

    def to_dict(self) -> dict[str, Any]:
        mine = {"phase": self.name, "done": self.done, "seconds": self.seconds, "client_mib": self.client}
        return mine | self.reading.to_dict()


class Leftover(NamedTuple):
    """The content of the store after the last step."""

    grown: float  # MiB
    history: float  # MiB of it
    things: dict[str, int]  # that should not be there
    problems: tuple[str, ...]  # of verify


def steps(load: Load) -> list[Step]:
    many, large, twice, half = load.timelines, load.records, load.records * 2, load.records // 2
    return [
        Step(f"add {many:,} timelines", phases.Fill, load.producers),
        Step("schedule them", phases.Schedule),
        Step("let them wait again", phases.Maintain),
        Step("claim, read, close them", phases.Deliver),
        Step("retire them", phases.Retire),
        Step(f"add {large:,} to one", phases.AddLarge),
        Step(f"open, read, close {large:,}", phases.DeliverLarge),
        Step(f"merge {half:,} with {half:,}", phases.Merge),
        Step(f"add {twice:,}, keep {large // 5:,}", phases.FillUp),
        Step("the same by 1,000", phases.FillUpByPage),
        Step(f"delete {large:,}", phases.Delete),
        Step(f"expire {large:,}", phases.Expire),
    ]


def taken(step: Step, load: Load, gauge: Gauge) -> Outcome:
    """Run the clients of a step, each in a process of its own."""
    print(f"{step.name}…", file=sys.stderr)
    children = [Child(step.phase, load, number) for number in range(step.producers)]
    with ThreadPoolExecutor(len(children)) as pool:
        list(pool.map(lambda child: child.ask("prepare")(), children))
        with gauge.reading() as reading:
            answers: list[Figures] = list(pool.map(lambda child: child.ask("run")(), children))
    done, seconds = sum(int(answer["done"]) for answer in answers), max(answer["seconds"] for answer in answers)
    return Outcome(step.name, done, seconds, reading, max(child.end() for child in children))


def times_of(outcomes: list[Outcome]) -> Report:
    report = Report("all scripts, ms", ("calls", "cpu", "p50", "p99", "max", f"> {SLOW} ms"))
    for outcome in outcomes:
        found = outcome.reading
        numbers = (f"{number:.2f}" for number in (found.cpu, found.p50, found.p99, found.longest))
        report.rows.append((outcome.name, f"{found.calls:,}", *numbers, f"{found.slow:,}"))
    report.notes.append("cpu: of the server for each call, on average; if p50 is much more, others had the processor.")
    return report


def scripts_of(outcomes: list[Outcome]) -> Report:
    report = Report(f"calls over {NOTED} ms", ("", "calls", "p50", "max", f"> {SLOW} ms"))
    for outcome in outcomes:
        for name, script in outcome.reading.scripts.items():
            numbers = f"{len(script.times):,}", f"{script.p50:.2f}", f"{script.longest:.2f}", f"{script.slow:,}"
            report.rows.append((outcome.name, name, *numbers))
    return report


def memory_of(outcomes: list[Outcome]) -> Report:
    report = Report("memory, MiB", ("before", "peak", "after", "client"))
    for outcome in outcomes:
        found = outcome.reading
        numbers = (f"{number:,.1f}" for number in (found.before, found.peak, found.after))
        report.rows.append((outcome.name, *numbers, f"{outcome.client:,.0f}"))
    return report


def targets_of(outcomes: list[Outcome], leftover: Leftover, little: float) -> list[Target]:
    quick = [Target(f"{one.name}, p99", one.reading.p99, SLOW, unit=" ms", at_most=True) for one in outcomes]
    more = max(one.client for one in outcomes) - little
    kept = leftover.grown - leftover.history
    return [
        *quick,
        Target("the client's peak, beyond that with little", more, CLIENT, unit=" MiB", at_most=True),
        Target("the server's memory in the end, without history", kept, GROWTH, unit=" MiB", at_most=True),
    ]


def leftover_of(server: RedisServer, before: float, after: float) -> Leftover:
    history = sum(server.cli("MEMORY", "USAGE", key, "SAMPLES", 0) for key in server.cli("KEYS", "*:history"))
    with Digests(server.url) as digests:
        things = {kind: count for kind, count in digests.store.footprint().items() if count}
        return Leftover(after - before, history / MIB, things, tuple(digests.verify().problems))


def in_words(leftover: Leftover) -> str:
    things = ", ".join(f"{count:,} {kind}" for kind, count in leftover.things.items())
    problems = "; ".join(leftover.problems) or "a recount agrees with the ledger"
    return (
        f"In the end the server has {leftover.grown:+.2f} MiB, of which {leftover.history:.2f} are history. "
        f"Left in the store: {things or 'nothing'}; {problems}."
    )


@click.command("redis_scale", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--timelines", type=click.IntRange(1), default=1_000_000, show_default=True, help="Due at once.")
@click.option("--records", type=click.IntRange(10), default=50_000, show_default=True, help="In a large digest.")
@click.option("--partitions", type=click.IntRange(1, 4096), default=1, show_default=True)
@click.option("--producers", type=click.IntRange(1), default=PRODUCERS, show_default=True, help="Processes that add.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def redis_scale(timelines: int, records: int, partitions: int, producers: int, as_json: bool) -> int:
    """Measure each script of the Redis store in a very large store, on a server of its own."""
    facts = surroundings()
    with RedisServer() as running, closing(Gauge(running)) as gauge:
        load = Load(f"{running.url}?partitions={partitions}", timelines, records, producers)
        little = taken(Step("a little of everything", phases.Little), load, gauge).client
        before = gauge.memory()
        outcomes = [taken(step, load, gauge) for step in steps(load)]
        leftover = leftover_of(running, before, gauge.memory())
    targets = targets_of(outcomes, leftover, little)
    figures = {"phases": [one.to_dict() for one in outcomes], "little_client_mib": little, **leftover._asdict()}
    if as_json:
        print(json.dumps({"surroundings": facts, **load._asdict(), **figures, "asked": as_figures(targets)}, indent=2))
        return 0
    line = "{server} ({allocator}) · Python {python} · redis-py {redis_py} · {cores} cores"
    console().print(f"\n[dim]{line.format(**facts)}[/]")
    memory = memory_of(outcomes)
    memory.notes.append(f"A client that handles little: {little:,.0f}. {in_words(leftover)}")
    for report in (times_of(outcomes), scripts_of(outcomes), memory):
        show(report)
    show_targets(targets)
    return 0


if __name__ == "__main__":
    start(redis_scale, name="./dev bench redis_scale")
