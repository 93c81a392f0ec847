"""The cost of a log call with DigestHandler beside `logging.FileHandler`, in turns, on SQLite."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import click

from bench._measure import Figures, console, interleaved, middle, middle_ratio, start
from bench._table import Report, show, times
from bench._targets import Target, as_figures, show_targets
from digestif import Digests, Policy
from digestif.integrations.logging import DigestHandler

MUST, AIM = 2.0, 1.0  # times the cost of a call with FileHandler, below ERROR
FILE, DIGEST = "FileHandler", "DigestHandler"
BURST = 1_000  # calls without a pause; then the queue is emptied, outside of the measurement
QUEUE = 100_000
WAYS_TOLD = {
    "bursts": f"below ERROR, {BURST:,} at a time",
    "stream": "below ERROR, without a pause",
    "errors": "ERROR, committed on return",
}
WAYS = tuple(WAYS_TOLD)
DEADLINE = 0.1  # seconds until a record below ERROR is committed


class Calls:
    """Log calls in bursts, through one handler."""

    def __init__(self, handler: logging.Handler, *, calls: int) -> None:
        self._calls = calls
        self._handler = handler
        self._logger = logging.Logger("bench", logging.INFO)  # noqa: LOG001  # outside of the tree
        self._logger.addHandler(handler)

    def bursts(self) -> Figures:
        return self._timed(self._logger.warning, self._calls, BURST)

    def stream(self) -> Figures:
        """Without a pause: the thread that commits takes its share of the interpreter meanwhile."""
        return self._timed(self._logger.warning, self._calls, self._calls)

    def errors(self) -> Figures:
        return self._timed(self._logger.error, max(1, self._calls // 50), BURST)

    def _timed(self, log: Callable[..., None], calls: int, burst: int) -> Figures:
        seconds = 0.0
        for first in range(0, calls, burst):
            count = min(burst, calls - first)
            began = perf_counter()
            for number in range(count):
                log("order %d of %s failed", number, "ada")
            seconds += perf_counter() - began
            self._handler.flush()
        return {"microseconds": 1e6 * seconds / calls}


def delay_until_committed(digests: Digests, handler: DigestHandler) -> Figures:
    """Seconds from a log call below ERROR until a reader finds it in the store."""
    logger = logging.Logger("bench")  # noqa: LOG001  # outside of the tree
    logger.addHandler(handler)
    before = digests.ledger().accepted
    began = perf_counter()
    logger.warning("one alone")
    while digests.ledger().accepted == before:
        sleep(0.001)
    return {"seconds": perf_counter() - began}


@click.command("logging", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1))
@click.option("--calls", default=20_000, show_default=True, type=click.IntRange(100), help="Of each measurement.")
@click.option("--quick", is_flag=True, help="Less of everything, for a first look.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def run(rounds: int, calls: int, quick: bool, as_json: bool) -> int:
    """Measure what a log call costs its caller. Ratios are medians of those of each round."""
    calls = 2_000 if quick else calls
    with TemporaryDirectory(prefix="digestif-") as name:
        folder = Path(name)
        dsn = f"sqlite:///{folder / 'logs.db'}"
        plain = logging.FileHandler(folder / "app.log")
        with Digests(dsn, policy=Policy(capacity=100_000)) as digests:
            handler = DigestHandler(digests, "logs:bench", queue_size=QUEUE)
            subjects = {FILE: Calls(plain, calls=calls), DIGEST: Calls(handler, calls=calls)}
            found = {
                way: interleaved({name: getattr(subject, way) for name, subject in subjects.items()}, rounds=rounds)
                for way in WAYS
            }
            delays = [delay_until_committed(digests, handler) for _ in range(10 * rounds)]
            dropped = handler.dropped
            handler.close()
        plain.close()
    costs = {way: {name: middle(found[way][name], "microseconds") for name in subjects} for way in WAYS}
    ratios = {way: middle_ratio(found[way][DIGEST], found[way][FILE], "microseconds") for way in WAYS}
    longest = max(delay["seconds"] for delay in delays)
    targets = [Target(f"a call below ERROR, {way}", ratios[way], MUST, AIM, at_most=True) for way in WAYS[:2]]
    targets.append(Target("longest delay until committed", longest, DEADLINE, unit=" s", at_most=True))
    if as_json:
        figures = {"microseconds": costs, "ratios": ratios, "longest delay": longest, "dropped": dropped}
        print(json.dumps({"quick": quick, **figures, "asked": as_figures(targets)}, indent=2))
        return 0
    report = Report("a log call, in µs", (FILE, DIGEST, "ratio"))
    for way in WAYS:
        report.rows.append((WAYS_TOLD[way], *(f"{cost:,.1f}" for cost in costs[way].values()), times(ratios[way])))
    show(report)
    show_targets(targets)
    delay = 1000 * middle(delays, "seconds")
    console().print(f"[dim] {rounds} rounds of {calls:,} calls; committed after {delay:.0f} ms; {dropped} dropped[/]")
    return 0


if __name__ == "__main__":
    start(run, name="./dev bench logging")
