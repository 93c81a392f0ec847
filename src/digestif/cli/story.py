"""Plays the demo: a store in a temporary folder, events in real time, a worker, and what is shown of it."""

import asyncio
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from digestif.cli.incident import AUDIENCES, IncidentEvent, incident
from digestif.cli.output import WIDTH, clock, counted, cut, is_terminal, span, width
from digestif.clock import monotonic, wall_clock
from digestif.core.backoff import Retry
from digestif.core.ledger import Ledger
from digestif.core.policy import Policy
from digestif.core.records import Digest, Record
from digestif.digests import Digests
from digestif.events import Event, Failed
from digestif.worker.worker import Worker

if TYPE_CHECKING:
    from rich.live import Live

STREAM = 0.7  # the part of the time in which events arrive; the rest is for what is still gathered
TICK = 0.05  # seconds between arrivals
FAILING = "chat:#checkout"  # whose second delivery fails once
NEWEST = 2  # records shown of each kind
KINDS = {"alert": "alert", "build": "failed build", "comment": "comment", "deploy": "deploy"}


@dataclass
class Result:
    """What the demo did."""

    seconds: float = 0.0
    events: int = 0
    messages: int = 0
    largest: int = 0
    failures: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    problems: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        counts = self.ledger
        return counts.balanced and not self.problems and counts.accepted == counts.delivered + counts.superseded

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "problems": list(self.problems), "good": self.good}


class Silence:
    """Shows nothing; the base of what shows something."""

    def playing(self, story: "Story") -> AbstractContextManager[None]:  # noqa: ARG002  # nothing is shown
        return nullcontext()

    def check(self) -> None:
        """Raises BrokenPipeError if the reader of the output has ended."""

    def begin(self, policy: Policy) -> None: ...
    def message(self, digest: Digest, *, at: float, first: bool) -> None: ...
    def failure(self, event: Failed, *, at: float) -> None: ...
    def end(self, result: Result) -> None: ...
    async def dashboard(self, store: str, policy: Policy) -> None: ...


async def play(seconds: float, *, seed: int, show: Silence) -> Result:
    """Play an incident of so many seconds."""
    with TemporaryDirectory(prefix="digestif-demo-") as folder:
        policy = policy_for(seconds)
        store = f"sqlite:///{Path(folder) / 'demo.db'}"
        with Digests(store, policy=policy) as digests:
            story = Story(digests, list(incident(seconds * STREAM, seed=seed)), show)
            show.begin(policy)
            with show.playing(story):
                await story.run(patience=3 * seconds + 20)
        show.end(story.result)
        await show.dashboard(store, policy)
        return story.result


def policy_for(seconds: float) -> Policy:
    """Delays for a demo of this length: 3 s to 6 s where it takes 20 s."""
    return Policy(
        minimum_delay=seconds * 0.15,
        increment_delay=seconds * 0.01,
        maximum_delay=seconds * 0.3,
        retry=Retry(initial=seconds * 0.06, jitter=0),
    )


class Story:
    """One run: adds the events, delivers the digests, counts both."""

    def __init__(self, digests: Digests, events: Sequence[IncidentEvent], show: Silence) -> None:
        self._digests = digests
        self._events = events
        self._show = show
        self._began = monotonic()
        self._delivered: Counter[str] = Counter()  # digests of each timeline
        self.result = Result()
        for pattern in {f"{timeline.partition(':')[0]}:*" for timeline in AUDIENCES}:
            digests.handler(pattern)(self._deliver)
        digests.subscribe(self._on_event)

    @property
    def elapsed(self) -> float:
        return monotonic() - self._began

    async def run(self, *, patience: float) -> None:
        worker = Worker(self._digests)
        serving = asyncio.create_task(worker.serve())
        try:
            await self._arrive()
            with suppress(TimeoutError):  # the ledger will show it
                await asyncio.wait_for(self._drained(), patience)
        finally:
            worker.stop()
            await serving
        self.result.seconds = round(self.elapsed, 3)
        self.result.ledger = self._digests.ledger()
        self.result.problems = self._digests.verify().problems

    async def _arrive(self) -> None:
        """Add each event at its moment."""
        waiting = list(self._events)
        while waiting:
            due = [each for each in waiting if each.at <= self.elapsed]
            if due:
                del waiting[: len(due)]
                now = wall_clock()
                records = [(each.timeline, Record(each.key, each.value, now)) for each in due]
                await asyncio.to_thread(self._digests.add_many, records)
                self.result.events += len(due)
            self._show.check()
            await asyncio.sleep(TICK)

    async def _drained(self) -> None:
        while (counts := self._digests.ledger()).pending or counts.open:  # only the store knows
            self._show.check()
            await asyncio.sleep(TICK)

    async def _deliver(self, digest: Digest) -> None:
        """The handler: here a real one would send a mail."""
        if digest.timeline == FAILING and self._delivered[FAILING] == 1 and digest.attempt == 1:
            raise ConnectionError("the chat server answers 503")
        self._delivered[digest.timeline] += 1
        self.result.messages += 1
        self.result.largest = max(self.result.largest, len(digest))
        self._show.message(digest, at=self.elapsed, first=self._delivered[digest.timeline] == 1)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Failed):
            self.result.failures += 1
            self._show.failure(event, at=self.elapsed)


class Screen(Silence):
    """Prints messages and figures, on a terminal with a live line below."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._is_alone = False  # the reader of the output has ended
        self._width = min(WIDTH, width())

    def _say(self, text: str = "") -> None:
        if self._live is None:
            try:
                click.echo(text)
            except BrokenPipeError:  # not here: a handler that raises would only be called again
                self._is_alone = True
            return
        from rich.text import Text

        self._live.console.print(Text.from_ansi(text, no_wrap=True, overflow="ignore"), crop=False)

    def check(self) -> None:
        if self._is_alone:
            raise BrokenPipeError

    @contextmanager
    def playing(self, story: Story) -> Iterator[None]:
        """With a line of figures below, where there is a terminal."""
        if not is_terminal():
            yield
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        def figures() -> Text:
            result = story.result
            told = f"{result.events} events in    {result.messages} messages out    {story.elapsed:.0f} s"
            return Text(f" ● {told}", style="cyan")

        with Live(console=Console(highlight=False), get_renderable=figures, transient=True) as self._live:
            yield
        self._live = None

    def begin(self, policy: Policy) -> None:
        delays = f"{span(policy.minimum_delay)} to {span(policy.maximum_delay)}"
        self._say(f"{click.style('Digestif', bold=True)} turns a flood of events into a few well-timed digests.")
        self._say(f"An incident begins. Events arrive for {len(AUDIENCES)} timelines, a worker delivers them:")
        self._say(f"the first of each at once, what follows together {delays} later.")

    def message(self, digest: Digest, *, at: float, first: bool) -> None:
        what = "1 event" if len(digest) == 1 else f"{len(digest)} events in one message"
        what += ", at once" if first else ""
        again = click.style(f"  (attempt {digest.attempt})", fg="yellow") if digest.attempt > 1 else ""
        self._say()
        self._say(f"{_elapsed(at)}{click.style(digest.timeline, fg='cyan', bold=True)}  {what}{again}")
        for line in letter(digest, self._width):
            self._say(line)

    def failure(self, event: Failed, *, at: float) -> None:
        kept = f"{counted(event.records, 'event')} kept, again in {span(event.retry_in or 0)}"
        self._say()
        self._say(f"{_elapsed(at)}{click.style(event.timeline, fg='red', bold=True)}  delivery failed")
        self._say(f"{MARGIN}{event.reason}")
        self._say(f"{MARGIN}{kept}; newer ones join")

    def end(self, result: Result) -> None:
        counts = result.ledger
        each = result.events / max(1, result.messages)
        verdict = click.style("balanced", fg="green") if counts.balanced else click.style("DOES NOT BALANCE", fg="red")
        self._say()
        self._say("─" * self._width)
        total = click.style(f"{result.events} events in, {counted(result.messages, 'message')} out", bold=True)
        self._say(f" {total} in {span(result.seconds)}: {each:.0f} events per message on average")
        sum_ = f"{counts.delivered} delivered + {counts.superseded} replaced by newer readings"
        self._say(f" ledger  {counts.accepted} accepted = {sum_}: {verdict}")
        recount = "agrees" if not result.problems else "; ".join(result.problems)
        self._say(f" verify  a recount of the store {recount}")
        failed = counted(result.failures, "delivery", "deliveries")
        self._say(f" retry   {failed} failed and came again; nothing was lost")
        self._say()
        for command, meaning in NEXT:
            self._say(f" {f'{program()} {command}':<42}{click.style(meaning, dim=True)}")

    async def dashboard(self, store: str, policy: Policy) -> None:
        """Show the dashboard of this run until a key is pressed, where there is a terminal."""
        if not (is_terminal() and sys.stdin.isatty()):
            return
        from digestif.cli.demo_dashboard import shown_until_key

        await shown_until_key(store, policy, say=self._say)


MARGIN = " " * 9
NEXT = (
    ("add mail:you '\"Hello\"'", "put a record into ./digestif.db"),
    ("explain mail:you", "when it is delivered, and why"),
    ("status", "the store, its backlog, its ledger"),
    ("worker app", "deliver with your handlers in app.py"),
    ("serve", "the HTTP API and the dashboard"),
)


def program() -> str:
    """What to type for `digestif` here: it may stand in a virtual environment that is not on PATH."""
    started = Path(sys.argv[0])
    if started.name != "digestif" or shutil.which("digestif") == str(started):
        return "digestif"
    return os.path.relpath(started) if started.is_relative_to(Path.cwd()) else str(started)


def _elapsed(at: float) -> str:
    return click.style(f"{at:5.1f} s  ", dim=True)


def letter(digest: Digest, columns: int) -> Iterator[str]:
    """A digest as it would be read: by kind, newest first, and how many more there are."""
    counts = Counter(record.value["kind"] for record in digest).most_common()
    for kind, count in counts:
        if len(digest) > 1:
            yield MARGIN + click.style(counted(count, KINDS[kind]), bold=True)
        some = [record for record in digest if record.value["kind"] == kind]
        for record in some[:NEWEST]:
            yield cut(f"{MARGIN}{clock(record.timestamp, now=record.timestamp)}  {record.value['title']}", columns)
        if count > NEWEST:
            yield MARGIN + click.style(f"+ {count - NEWEST} more", dim=True)
