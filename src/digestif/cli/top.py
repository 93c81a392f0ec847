"""`digestif top`: a live view of rates, backlog, overdue timelines and dead letters."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from digestif.cli.dead import letter_table
from digestif.cli.ledger import balance, channels_down, fates, in_states, lateness
from digestif.cli.output import ago, as_json, counted, cut, facts, is_terminal, plain, printable, stamp, width
from digestif.cli.queries import time_of, timeline_document, timeline_table, unhandled, unhandled_note
from digestif.cli.session import Session, with_session
from digestif.errors import StoreError

if TYPE_CHECKING:
    from digestif import Backlog, ChannelOutage, DeadLetter, Digests, Ledger, LiveWorker, Timeline

LOOKED_AT = 1000  # timelines of which the most overdue are shown
ROWS = 12  # without a terminal
LETTERS = 3
FIXED_ROWS = 17  # of the screen, beside timelines and letters


class Snapshot(NamedTuple):
    """The store at one moment."""

    at: float  # by the store's clock
    taken: float  # by the clock that never steps
    ledger: "Ledger"
    backlog: "Backlog"
    timelines: "list[Timeline]"  # the most overdue first
    letters: "list[DeadLetter]"
    outages: "list[ChannelOutage]"
    workers: "list[LiveWorker]"
    unhandled: list[str]  # names of timelines
    accepted_rate: float | None = None  # per second, since the one before
    delivered_rate: float | None = None


def take(digests: "Digests", before: Snapshot | None = None) -> Snapshot:
    """Read the store; rates are counted since the snapshot `before`."""
    from digestif.clock import monotonic

    taken, at = monotonic(), time_of(digests)
    counts = digests.ledger()
    seconds = taken - before.taken if before else 0.0
    rates: dict[str, float] = {}
    if before and seconds > 0:
        rates = {
            "accepted_rate": (counts.accepted - before.ledger.accepted) / seconds,
            "delivered_rate": (counts.delivered - before.ledger.delivered) / seconds,
        }
    timelines = sorted(digests.timelines(limit=LOOKED_AT), key=_urgency)
    return Snapshot(
        at=at,
        taken=taken,
        ledger=counts,
        backlog=digests.backlog(),
        timelines=timelines,
        letters=digests.dead_letters(limit=LETTERS) if counts.dead else [],
        outages=digests.outages(),
        workers=digests.workers(),
        unhandled=unhandled(digests, timelines),
        **rates,
    )


def _urgency(timeline: "Timeline") -> tuple[bool, bool, bool, float, int, str]:
    """Sort key: timelines to be delivered now, then by due time, then empty ones, then paused ones."""
    is_now = timeline.state in ("ready", "open")
    return (
        timeline.paused,
        not (timeline.pending or timeline.in_digest or is_now),
        not is_now,
        timeline.due or timeline.was_due or 0.0,
        -timeline.pending - timeline.in_digest,
        timeline.key,
    )


def document(snapshot: Snapshot, rows: int) -> dict[str, Any]:
    return {
        "at": snapshot.at,
        "rates": {"accepted": snapshot.accepted_rate, "delivered": snapshot.delivered_rate},
        "backlog": plain(snapshot.backlog),
        "ledger": plain(snapshot.ledger),
        "timelines": [timeline_document(timeline, snapshot.unhandled) for timeline in snapshot.timelines[:rows]],
        "workers": [plain(worker) for worker in snapshot.workers],
        "outages": [plain(outage) for outage in snapshot.outages],
        "dead_letters": [plain(letter) for letter in snapshot.letters],
    }


def lines(snapshot: Snapshot, place: str, rows: int) -> Iterator[str]:
    """The view, line by line."""
    now, backlog, counts = snapshot.at, snapshot.backlog, snapshot.ledger
    title = f"digestif top  {stamp(now, now=now)}  "
    yield click.style("digestif top", bold=True) + title.removeprefix("digestif top") + cut(place, width() - len(title))
    yield ""
    oldest = "none" if backlog.oldest is None else f"arrived {ago(backlog.oldest)}"
    yield from facts(
        [
            ("rates", f"in {_rate(snapshot.accepted_rate)}   out {_rate(snapshot.delivered_rate)}"),
            *((name, cut(text, width() - 14)) for name, text in channels_down(snapshot.outages, now=now)),
            ("workers", _seen(snapshot)),
            ("timelines", in_states(backlog)),
            ("due", lateness(backlog, now=now)),
            ("oldest", oldest if oldest == "none" else f"record {oldest}"),
            *fates(counts),
            ("ledger", balance(counts)),
        ]
    ).splitlines()
    yield ""
    shown = snapshot.timelines[:rows]
    if shown:
        yield from timeline_table(shown, now=now)
    yield from unhandled_note(snapshot.unhandled)
    if backlog.timelines > len(shown):
        of = f", found among the first {LOOKED_AT:,} by name" if backlog.timelines > LOOKED_AT else ""
        yield f"  + {backlog.timelines - len(shown):,} more{of}"
    if snapshot.letters:
        yield ""
        yield click.style(f"  {counted(counts.dead, 'record')} in dead letters, the oldest:", fg="red")
        yield from letter_table(snapshot.letters, now=now)


def _seen(snapshot: Snapshot) -> str:
    names = [printable(f"{worker.host}:{worker.pid}") for worker in snapshot.workers]
    return (
        cut(f"{len(names):,} live: {', '.join(names)}", width() - 14) if names else "none was seen in the last minute"
    )


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:,.1f}/s"


@click.command()
@click.option("--once", is_flag=True, help="Print one view and end; so it is too where there is no terminal.")
@click.option(
    "--interval", type=click.FloatRange(0.1), default=1.0, show_default=True, metavar="SECONDS", help="Between looks."
)
@with_session
def top(session: Session, once: bool, interval: float) -> None:
    """Watch rates, backlog, overdue timelines and dead letters.

    q or Ctrl-C ends it. With --json it prints one object per look.
    """
    with session.digests(reads=True) as digests:
        if session.as_json:
            _stream(digests, once=once, interval=interval)
        elif once or not is_terminal():
            for line in lines(take(digests), session.described(digests), ROWS):
                click.echo(line)
        else:
            _live(digests, session.described(digests), interval)


def _stream(digests: "Digests", *, once: bool, interval: float) -> None:
    from threading import Event

    snapshot, never = None, Event()
    while True:
        snapshot = take(digests, snapshot)
        click.echo(as_json(document(snapshot, ROWS)))
        sys.stdout.flush()
        if once:
            return
        never.wait(interval)


def _live(digests: "Digests", place: str, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    snapshot, trouble = take(digests), ""
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_screen(snapshot, place, trouble, height=console.height), refresh=True)
            if pressed(interval) in ("q", "Q", "\x04"):
                return
            try:
                snapshot, trouble = take(digests, snapshot), ""
            except StoreError as error:  # it may come back
                trouble = str(error)


def _screen(snapshot: Snapshot, place: str, trouble: str, *, height: int) -> Any:
    from rich.text import Text

    letters = len(snapshot.letters) + 3 if snapshot.letters else 0
    rows = max(1, height - FIXED_ROWS - letters - len(snapshot.outages))
    view = list(lines(snapshot, place, rows))[: height - 2]
    last = click.style(f"  {trouble}", fg="red") if trouble else click.style("  q ends", dim=True)
    view += [""] * (height - 1 - len(view)) + [last]
    return Text.from_ansi("\n".join(view), no_wrap=True)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for a key, at most so many seconds; without a keyboard it only waits."""
    import select

    if not sys.stdin.isatty():
        from threading import Event

        never = Event()
        yield lambda seconds: str(never.wait(seconds) or "")
        return
    import os
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed(seconds: float) -> str:
        found, _, _ = select.select([keyboard], [], [], seconds)
        return os.read(keyboard, 16).decode(errors="replace") if found else ""

    try:
        tty.setcbreak(keyboard)
        yield pressed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


COMMANDS = [top]
