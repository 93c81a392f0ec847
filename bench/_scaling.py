"""The curves of `./dev bench scaling`: what an operation costs while one thing in the store grows."""

import statistics
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench._blocks import in_turns
from bench._measure import Child, Figures
from bench._scaling_subjects import Filled
from digestif.testing.postgres import PostgresServer
from digestif.testing.servers import RedisServer

OPERATIONS = ("add", "add_many", "deliver")
RECORDS = 10  # in a timeline, where something else grows
TIMELINES = 1_000
SHARED = 4_000  # timelines, where several processes work
DELIVERED = 20_000  # records in all digests of a delivery, where records of a timeline grow

Curve = dict[int, float]  # from a size to microseconds
Curves = dict[str, Curve]  # by operation
Dsn = Callable[[str], str]  # of an empty store with this name


class Scale(NamedTuple):
    """How much is measured."""

    records: tuple[int, ...]  # in one timeline
    timelines: tuple[int, ...]
    workers: tuple[int, ...]
    partitions: tuple[int, ...]
    blocks: int  # that are measured for each point; the median counts
    calls: int  # single adds in a block


FULL = Scale(
    (10, 100, 1_000, 10_000, 100_000), (100, 1_000, 10_000, 100_000, 1_000_000), (1, 2, 3, 4), (1, 4, 16, 64), 7, 100
)
QUICK = Scale((10, 1_000, 10_000), (100, 1_000, 10_000), (1, 2), (1, 16), 3, 40)


@contextmanager
def stores(kind: str) -> Iterator[Dsn]:
    """Start a server, and yield a function that makes empty stores."""
    if kind == "SQLite":
        with TemporaryDirectory(prefix="digestif-scaling-") as folder:
            yield lambda name: f"sqlite:///{Path(folder) / name}.db"
    elif kind == "Valkey":
        with RedisServer(appendonly=True, appendfsync="everysec") as server:
            yield lambda _: server.url
    else:
        with PostgresServer(fsync=True, synchronous_commit="on") as postgres:
            yield lambda name: postgres.new_database(name)


def measured(kind: str, scale: Scale) -> dict[str, Curves]:
    """Return all curves of a store, by what grows."""
    with stores(kind) as dsn:
        found = {"records": _records(kind, dsn, scale), "timelines": _timelines(kind, dsn, scale)}
        found["workers"] = _workers(kind, dsn, scale)
        if kind == "Valkey":
            found["partitions"] = _partitions(kind, dsn, scale)
        return found


def _records(kind: str, dsn: Dsn, scale: Scale) -> Curves:
    """Grow one timeline. A delivery counts by the record: a digest of more records takes longer."""
    with ExitStack() as opened:
        subjects = {}
        for size in scale.records:
            _say(kind, f"a timeline of {size:,} records")
            subjects[size] = opened.enter_context(_filled(dsn, f"records_{size}", 1, size, scale))
        curves = _adds(subjects, scale)
    curves["deliver"] = {}
    for size in scale.records:
        name = f"large_{size}"
        with _filled(dsn, name, max(1, DELIVERED // size), size, scale) as subject:
            curves["deliver"][size] = subject.deliver()["cost"] / size
    return curves


def _timelines(kind: str, dsn: Dsn, scale: Scale) -> Curves:
    """Grow the store."""
    with ExitStack() as opened:
        subjects = {}
        for size in scale.timelines:
            _say(kind, f"{size:,} timelines")
            subjects[size] = opened.enter_context(_filled(dsn, f"timelines_{size}", size, 1, scale))
        curves = _adds(subjects, scale)
        curves["deliver"] = {size: subject.deliver()["cost"] for size, subject in subjects.items()}
    return curves


def _partitions(kind: str, dsn: Dsn, scale: Scale) -> Curves:
    with ExitStack() as opened:
        subjects = {}
        for size in scale.partitions:
            _say(kind, f"{size} partitions")
            subjects[size] = opened.enter_context(
                _filled(partial(_partitioned, dsn, size), f"partitions_{size}", TIMELINES, RECORDS, scale)
            )
        curves = _adds(subjects, scale)
        curves["deliver"] = {size: subject.deliver()["cost"] for size, subject in subjects.items()}
    return curves


def _partitioned(dsn: Dsn, partitions: int, name: str) -> str:
    return f"{dsn(name)}?partitions={partitions}"


def _workers(kind: str, dsn: Dsn, scale: Scale) -> Curves:
    """Let several processes do the same at once: the cost is the time of all over all that they did."""
    curves: Curves = {operation: {} for operation in OPERATIONS}
    for size in scale.workers:
        _say(kind, f"{size} processes")
        name = f"workers_{size}"
        url = dsn(name)
        children = [Child(Filled, url, name, SHARED, RECORDS, scale.calls, number) for number in range(size)]
        children[0].ask("fill")()
        with ThreadPoolExecutor(size) as pool:
            for operation in OPERATIONS:
                times = 1 if operation == "deliver" else scale.blocks
                costs = [_together(pool, children, operation) for _ in range(times)]
                curves[operation][size] = statistics.median(costs)
        for child in children:
            child.end()
    return curves


def _together(pool: ThreadPoolExecutor, children: list[Child], operation: str) -> float:
    answers: list[Figures] = list(pool.map(lambda child: child.ask(operation)(), children))
    seconds, count = max(answer["seconds"] for answer in answers), sum(answer["count"] for answer in answers)
    return seconds / count * 1e6


def _adds(subjects: dict[int, Filled], scale: Scale) -> Curves:
    """Measure all sizes in turns, so that a noisy moment disturbs all alike."""
    curves: Curves = {}
    for operation in ("add", "add_many"):
        measures = {str(size): _cost(subject, operation) for size, subject in subjects.items()}
        found = in_turns(measures, blocks=scale.blocks)
        curves[operation] = {int(size): statistics.median(costs) for size, costs in found.items()}
    return curves


def _cost(subject: Filled, operation: str) -> Callable[[], float]:
    def measure() -> float:
        found: dict[str, float] = getattr(subject, operation)()
        return found["cost"]

    return measure


@contextmanager
def _filled(dsn: Dsn, name: str, timelines: int, records: int, scale: Scale) -> Iterator[Filled]:
    with closing(Filled(dsn(name), name, timelines, records, scale.calls)) as subject:
        subject.fill()
        yield subject


def _say(kind: str, text: str) -> None:
    print(f"{kind}: {text}…", file=sys.stderr, flush=True)
