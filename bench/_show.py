"""The rounds on a screen: progress bars on a terminal, lines in a file, and the figures at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from bench._measure import Stopwatch, console
from bench._result import Phase, Result
from digestif.stores.base import Durability, Store

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

INDENT = "   "
BAR = 26

STORY = {
    1: "Events arrive. The first one of a quiet timeline goes out at once.",
    2: "More arrive during the cool-down: they are gathered, and leave together.",
    3: "Another cool-down, no events: the digests are empty, the timelines retire.",
}
SURVIVES = {
    Durability.POWER_LOSS: "each survives power loss",
    Durability.PROCESS_KILL: "each survives a kill",
    Durability.NOTHING: "in memory",
}


class Show:
    """Shows nothing, for JSON."""

    def begin(self, store: Store, *, events: int, timelines: int) -> None: ...
    def heading(self, number: int) -> None: ...
    def finish(self, result: Result) -> None: ...

    @contextmanager
    def progress(self, phase: Phase, total: int) -> Iterator[None]:  # noqa: ARG002  # nothing is shown
        yield


class Screen(Show):
    """Shows each round on a terminal or in a file."""

    def __init__(self) -> None:
        self._screen = console()

    def begin(self, store: Store, *, events: int, timelines: int) -> None:
        self._say("[bold]Digestif[/] turns a flood of events into a few well-timed digests.")
        self._say(f"{events:,} events for {timelines:,} people, channels and pagers; {SURVIVES[store.durability]}.")
        self._say("[dim]The clock is turned by hand, so that a cool-down of minutes passes at once.[/]")

    def heading(self, number: int) -> None:
        self._say()
        self._say(f"[bold cyan]{number}[/]  {STORY.get(number, 'Once more, for what is still waiting.')}")

    @contextmanager
    def progress(self, phase: Phase, total: int) -> Iterator[None]:
        if not self._screen.is_terminal:
            yield
            self._say(INDENT + f"{phase.name:<9}" + outcome(phase))
            return
        with self._bar() as bar:
            task = bar.add_task(phase.name, total=total or 1, outcome="")
            with _watched(lambda: bar.update(task, completed=phase.count, outcome=f"{phase.count:>7,} {phase.unit}")):
                yield
            bar.update(task, completed=total or 1, outcome=outcome(phase))

    def _bar(self) -> "Progress":
        from rich.progress import BarColumn, Progress, TextColumn

        bar = BarColumn(bar_width=BAR, complete_style="cyan", finished_style="cyan")
        name, figures = TextColumn(INDENT + "{task.description:<8}"), TextColumn("{task.fields[outcome]}")
        return Progress(name, bar, figures, console=self._screen)

    def finish(self, result: Result) -> None:
        self._say()
        self._screen.print(_totals(result.phases))
        self._say()
        each = result.events / max(result.digests, 1)
        self._say(
            f" [bold]{result.events:,} events in, {result.digests:,} digests out[/]: "
            f"{each:.1f} events per digest, at most {result.largest:,}"
        )
        self._say(f" ledger  {_ledger(result)}")
        self._say(f" verify  {_verdict(result)}")

    def _say(self, text: str = "") -> None:
        self._screen.print(text, soft_wrap=True)


@contextmanager
def _watched(refresh: Callable[[], None]) -> Iterator[None]:
    """Update a progress bar ten times a second from a thread of its own, so that the work has no part in it."""
    done = Event()

    def watch() -> None:
        while not done.wait(0.1):
            refresh()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def outcome(phase: Phase) -> str:
    """Return how much a phase handled, in what time, and how fast."""
    milliseconds = phase.watch.seconds * 1000
    rate = f"{phase.watch.rate(phase.count):>9,.0f}/s" if phase.count else ""
    return f"{phase.count:>7,} {phase.unit:<9} {milliseconds:>7,.0f} ms {rate}"


def _totals(phases: list[Phase]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold", pad_edge=True)
    table.add_column("phase", min_width=10)
    for name in ("rounds", "handled", "", "ms", "ms per round", "per second"):
        table.add_column(name, justify="left" if name == "" else "right")
    for name in dict.fromkeys(phase.name for phase in phases):
        some = [phase for phase in phases if phase.name == name]
        count = sum(phase.count for phase in some)
        watch = Stopwatch()
        watch.seconds = sum(phase.watch.seconds for phase in some)
        each = watch.seconds * 1000 / len(some)
        figures = f"{watch.seconds * 1000:,.0f}", f"{each:,.0f}", f"{watch.rate(count):,.0f}"
        table.add_row(name, str(len(some)), f"{count:,}", some[0].unit, *figures)
    return table


def _ledger(result: Result) -> str:
    ledger = result.ledger
    fates = ("delivered", "superseded", "pending", "open", "dropped", "expired", "deleted", "dead")
    parts = [f"{getattr(ledger, fate):,} {fate}" for fate in fates if getattr(ledger, fate)]
    verdict = "[bold green]balanced[/]" if ledger.balanced else "[bold red]DOES NOT BALANCE[/]"
    return f"{ledger.accepted:,} accepted = {' + '.join(parts) or 0}: {verdict}"


def _verdict(result: Result) -> str:
    if result.problems:
        return f"[bold red]{'; '.join(result.problems)}[/]"
    if result.left:
        left = ", ".join(f"{count:,} of {kind}" for kind, count in result.left.items())
        return f"a recount agrees, but [bold red]the store still holds {left}[/]"
    return "a recount of the store agrees, and [bold green]nothing is left[/] in it"
