"""Load random events into many timelines, schedule and digest them in rounds until the store is empty.

Each round: load, schedule, digest. Between rounds the clock is turned past the cool-down; the last round finds only
empty timelines, and then the store must be empty.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench._measure import start
from bench._result import Phase, Result
from bench._show import Screen, Show
from bench._stream import Stream
from digestif import ConfigError, Digest, Digests, Policy
from digestif.clock import wall_clock
from digestif.ids import fresh_id
from digestif.testing import FakeClock

PAGE = 500  # events in one call of add_many
FIRST_WAVE = 0.1  # of all events: these find their timelines quiet
WAVES = (60.0, 240.0)  # seconds that they last; the second ends within the cool-down
MOST_ROUNDS = 6
DAY, MORNING = 86_400, 9 * 3600


class Rounds:
    """The program: it needs a store, a clock that can be turned, a stream of events, and a screen."""

    def __init__(self, digests: Digests, clock: FakeClock, stream: Stream, show: Show) -> None:
        self._digests = digests
        self._clock = clock
        self._stream = stream
        self._show = show
        self._ready: list[str] = []  # to be digested in this round
        self._known: set[str] = set()
        self.result = Result()

    def run(self, events: int) -> Result:
        first = min(max(1, int(events * FIRST_WAVE)), events)
        self._round(1, first)
        self._round(2, events - first)
        number = 3
        while number <= MOST_ROUNDS and self._left():
            self._round(number, 0)
            number += 1
        self._check_store()
        return self.result

    def _round(self, number: int, events: int) -> None:
        self._show.heading(number)
        if events:
            self._load(number, events)
        if number > 1:
            self._clock.advance(self._digests.policy.longest_wait)
        self._schedule(number)
        self._digest(number)

    @contextmanager
    def _phase(self, number: int, name: str, unit: str, *, total: int) -> Iterator[Phase]:
        phase = Phase(number, name, unit)
        self.result.phases.append(phase)
        with self._show.progress(phase, total):
            yield phase

    def _load(self, number: int, events: int) -> None:
        seconds = WAVES[number - 1]
        with self._phase(number, "load", "events", total=events) as phase:
            while phase.count < events:
                size = min(PAGE, events - phase.count)
                now = self._clock.advance(seconds * size / events)
                page = self._stream.page(size, now=now)
                with phase.watch.running():
                    answers = self._digests.add_many(page)
                self._ready += [timeline for (timeline, _), ready in zip(page, answers, strict=True) if ready]
                self._known.update(timeline for timeline, _ in page)
                phase.count += size
        self.result.events += events

    def _schedule(self, number: int) -> None:
        with self._phase(number, "schedule", "timelines", total=len(self._known)) as phase, phase.watch.running():
            for entry in self._digests.schedule():
                self._ready.append(entry.key)
                phase.count += 1

    def _digest(self, number: int) -> None:
        """Deliver everything that is ready."""
        ready, self._ready = self._ready, []
        with self._phase(number, "digest", "digests", total=len(ready)) as phase, phase.watch.running():
            for timeline in ready:
                with self._digests.digest(timeline) as digest:
                    self._count(digest)
                phase.count += 1

    def _count(self, digest: Digest) -> None:
        result = self.result
        result.digests += bool(digest)
        result.carried += len(digest)
        result.largest = max(result.largest, len(digest))

    def _left(self) -> dict[str, int]:
        return {kind: count for kind, count in self._digests.store.footprint().items() if count}

    def _check_store(self) -> None:
        self.result.ledger = self._digests.ledger()
        self.result.problems = self._digests.verify().problems
        self.result.left = self._left()


@contextmanager
def opened(store: str | None, clock: FakeClock) -> Iterator[Digests]:
    """Open the store of that DSN in a new namespace; without a DSN, a SQLite file in a temporary folder."""
    with TemporaryDirectory(prefix="digestif-") as folder:
        dsn = f"sqlite:///{Path(folder) / 'rounds.db'}" if store is None else store
        with Digests(dsn, policy=Policy(), namespace=f"rounds-{fresh_id()}", clock=clock) as digests:
            if not digests.enabled:
                raise ConfigError(f"store: {store} accepts nothing; choose a store that keeps records")
            yield digests


@click.command("rounds", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", metavar="DSN", help="Where to put the events. Default: a SQLite file in a temporary folder.")
@click.option("--timelines", type=click.IntRange(1), default=600, show_default=True, help="People and channels.")
@click.option("--records", type=click.IntRange(1), default=30_000, show_default=True, help="Events in all.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another one gives another stream.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and nothing else.")
def rounds(store: str | None, timelines: int, records: int, seed: int, as_json: bool) -> int:
    """Fill a store with random events and digest them in rounds until it is empty."""
    clock = FakeClock(wall_clock() // DAY * DAY + MORNING)
    with opened(store, clock) as digests:
        show = Show() if as_json else Screen()
        show.begin(digests.store, events=records, timelines=timelines)
        result = Rounds(digests, clock, Stream(timelines, seed=seed), show).run(records)
        show.finish(result)
        if as_json:
            store_name = type(digests.store).__name__
            print(json.dumps({"store": store_name, "timelines": timelines, **result.to_dict()}, indent=2))
    return 0 if result.good else 1


if __name__ == "__main__":
    start(rounds, name="./dev bench rounds")
