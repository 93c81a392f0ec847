"""`digestif move`: everything from one store into another."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from digestif.cli.output import as_json, counted, span
from digestif.cli.session import outer_json, refuse_store

if TYPE_CHECKING:
    from digestif.stores.transfer import ExportSource, TransferStore
    from digestif.transfer import Progress

FOLLOWING = "following: FROM is empty; switch the producers now"


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO", required=False)
@click.option("--from-namespace", default="d", show_default=True, metavar="NAME", help="The namespace that is moved.")
@click.option("--to-namespace", default="d", show_default=True, metavar="NAME", help="The namespace that it goes to.")
@click.option("--follow", is_flag=True, help="Go on moving whatever comes to FROM, until stopped with Ctrl-C.")
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for deliveries that are under way.",
)
@click.option("--verify/--no-verify", default=True, help="Recount both stores in the end. On by default.")
@click.option("--origin", is_flag=True, help="FROM is a Redis server with timelines in the layout of the origin.")
@click.option("--prefix", default="d", show_default=True, help="With --origin: how its keys begin.")
@click.option(
    "--decoder",
    default="json",
    show_default=True,
    metavar="NAME",
    help="With --origin: json, or a function from the bytes of a value to a value, as module:function.",
)
@click.option("--abandon", is_flag=True, help="Give up a move of FROM that was begun: what is on its way stays there.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON and nothing else.")
def move(source: str, target: str | None, *, as_json_: bool, verify: bool, abandon: bool, **options: Any) -> int:
    """Move everything from one store into another.

    FROM and TO are DSNs. Timelines go with their state, due time and records, unfinished digests under their ids, dead
    letters and counts. Producers and workers may go over meanwhile: until the move is finished or abandoned, FROM
    accepts records and delivers nothing. Interrupted at any point, the same command goes on.
    """
    refuse_store("it names two: digestif move FROM TO")
    quiet = as_json_ or outer_json()
    if abandon:
        return _abandon(source, options["from_namespace"], quiet=quiet)
    if target is None:
        raise click.UsageError("Missing argument 'TO'")
    from digestif.clock import monotonic
    from digestif.transfer import Move

    with ExitStack() as stack:
        source_store, target_store = _open(stack, source, target, options)
        began = monotonic()
        follow = options["follow"]
        with _progress(_size_of(source_store), quiet=quiet, follow=follow) as report:
            moving = Move(source_store, target_store, report=report)
            with _interrupts(moving.stop):
                done = moving.run(patience=options["patience"], follow=follow)
        problems = _problems(source_store, target_store) if verify and done.finished else []
        if done.finished:
            problems += [f"FROM: {left}" for left in source_store.left_behind()]
        advice, verified = _advice(done, follow=follow), verify and done.finished
        _report(done, monotonic() - began, problems, quiet=quiet, verified=verified, advice=advice)
    if problems:
        return 1
    return 0 if done.finished or follow else 130


def _abandon(source: str, namespace: str, *, quiet: bool) -> int:
    from digestif.stores.registry import open_store
    from digestif.transfer import abandon

    _refuse_fleeting(source)
    store: Any = open_store(source, namespace=namespace)
    try:
        stayed = abandon(store)
    finally:
        store.close()
    stays = f"{counted(stayed, 'timeline that was', 'timelines that were')} on the way"
    advice = f"the move is given up: FROM delivers again, also {stays}; what had arrived elsewhere by then stays there"
    click.echo(as_json({"stayed": stayed, "advice": advice}) if quiet else advice)
    return 0


def _open(stack: ExitStack, source: str, target: str, options: dict[str, Any]) -> "tuple[ExportSource, TransferStore]":
    import logging

    from digestif.dsn import redacted
    from digestif.errors import ConfigError
    from digestif.stores.registry import open_store
    from digestif.stores.transfer import ExportSource, TransferStore

    logging.getLogger("digestif").addHandler(logging.NullHandler())  # errors are reported once, in the answer
    if (source, options["from_namespace"]) == (target, options["to_namespace"]):
        raise ConfigError("move: FROM and TO are the same store")
    if not options["origin"] and (options["prefix"] != "d" or options["decoder"] != "json"):
        raise click.UsageError("--prefix and --decoder are for --origin")
    source_store: Any
    if options["origin"]:
        try:
            from digestif.transfer.origin import Origin, load_decoder
        except ModuleNotFoundError as error:
            raise ConfigError(str(error)) from error

        source_store = Origin(source, decoder=load_decoder(options["decoder"]), prefix=options["prefix"])
    else:
        _refuse_fleeting(source)
        source_store = open_store(source, namespace=options["from_namespace"])
    stack.callback(source_store.close)
    _refuse_fleeting(target, is_target=True)
    target_store: Any = open_store(target, namespace=options["to_namespace"])
    stack.callback(target_store.close)
    for store, needed, dsn in ((source_store, ExportSource, source), (target_store, TransferStore, target)):
        if not isinstance(store, needed):
            raise ConfigError(f"move: {redacted(dsn)} is not a store that records can be moved from or to")
    return source_store, target_store


def _refuse_fleeting(dsn: str, *, is_target: bool = False) -> None:
    from pathlib import Path

    from digestif.dsn import Dsn
    from digestif.errors import ConfigError

    place = Dsn.parse(dsn)
    if place.scheme == "memory" or (place.scheme == "sqlite" and not place.location):
        raise ConfigError(f"move: {place.scheme}:// is gone when this command ends; name a store that stays")
    if place.scheme == "sqlite" and not is_target and not Path(place.location[1:]).exists():
        raise ConfigError(f"move: there is no store at {place.location[1:]}")


def _size_of(source_store: Any) -> int | None:
    """How many records there are to move; None if the source has no ledger."""
    from digestif.stores.base import Store

    if not isinstance(source_store, Store):
        return None
    ledger = source_store.ledger()
    return ledger.pending + ledger.open + ledger.dead


@contextmanager
def _interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end a move between two pages; a second one at once."""

    def handle(number: int, _: Any) -> None:
        stop()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(total: int | None, *, quiet: bool, follow: bool) -> "Iterator[Callable[[Progress], None]]":
    """A bar on a terminal; in a log, one line when everything has been moved and the command follows."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(total, follow=follow) as report:
            yield report
    else:
        yield _Announcement() if follow else lambda _: None


@contextmanager
def _bar(total: int | None, *, follow: bool) -> "Iterator[Callable[[Progress], None]]":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = TextColumn("{task.fields[progress]}"), BarColumn(bar_width=30), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("move", total=total, progress="moved 0")
        yield lambda done: bar.update(task, completed=done.records, progress=_progress_text(done, follow=follow))


class _Announcement:
    """Writes to stderr once that the producers can switch now."""

    def __init__(self) -> None:
        self._is_made = False

    def __call__(self, done: "Progress") -> None:
        if done.following and not self._is_made:
            self._is_made = True
            click.echo(FOLLOWING, err=True)


def _progress_text(done: "Progress", *, follow: bool) -> str:
    if follow and done.following and not done.waiting:
        return f"{FOLLOWING} ({counted(done.records, 'record')} moved)"
    waiting = f", waiting for {counted(done.waiting, 'delivery', 'deliveries')}" if done.waiting else ""
    return f"moved {counted(done.records, 'record')} of {counted(done.timelines, 'timeline')}{waiting}"


def _problems(source_store: Any, target_store: Any) -> list[str]:
    from digestif.stores.base import Store

    return [
        f"{word}: {problem}"
        for word, store in (("FROM", source_store), ("TO", target_store))
        if isinstance(store, Store)
        for problem in store.verify().problems
    ]


def _advice(done: "Progress", *, follow: bool) -> str | None:
    """What holds after a run that was stopped, and what to do next; None after the end of the move."""
    if done.finished:
        return None
    holds = "nothing is lost or doubled; until the move has ended, FROM accepts records and delivers nothing"
    if follow and done.following:
        return f"stopped following: {holds}; when nothing writes to FROM any more, run digestif move FROM TO"
    return f"stopped before the end: {holds}; run the same command to go on"


def _report(
    done: "Progress", seconds: float, problems: list[str], *, quiet: bool, verified: bool, advice: str | None
) -> None:
    if quiet:
        facts = {"timelines": done.timelines, "letters": done.letters, "records": done.records}
        verdict = {"problems": problems} if verified else {}
        stopped = {} if advice is None else {"following": done.following, "advice": advice}
        click.echo(as_json({**facts, "waiting": done.waiting, "finished": done.finished, **stopped, **verdict}))
        return
    letters = f" and {counted(done.letters, 'dead letter')}" if done.letters else ""
    what = f"{counted(done.timelines, 'timeline')}{letters} with {counted(done.records, 'record')}"
    click.echo(f"moved {what} in {span(seconds)}")
    for problem in problems:
        click.echo(click.style("problem", fg="red", bold=True) + f": {problem}")
    if verified and not problems:
        click.echo(click.style("both ledgers agree", fg="green") + " with a recount")
    if advice is not None:
        click.echo(advice)


COMMANDS = [move]
