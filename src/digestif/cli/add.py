"""`digestif add`: one record from the command line, or many as JSON lines from standard input."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from digestif.cli.output import as_json, counted, due, printable, span
from digestif.cli.session import Session, timeline_argument, with_session

if TYPE_CHECKING:
    from digestif import Timeline
    from digestif.cli.json_lines import BadLine, BulkAdd


def _seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """Read the duration of an option: 90, 5m, 1h30m."""
    from digestif.core.durations import seconds_of

    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 5m, 1h30m or 2d")
    return seconds


@click.command()
@timeline_argument(required=False)
@click.argument("value", metavar="[JSON]", required=False)
@click.option(
    "--key", metavar="KEY", help="Of the record; a pending one of the same key is replaced. Default: a new one."
)
@click.option("--timestamp", type=float, metavar="SECONDS", help="Of the event, since 1970. Default: now.")
@click.option(
    "--within",
    callback=_seconds,
    metavar="DURATION",
    help="Deliver within this time, such as 90 (seconds), 5m or 1h30m: pulls the digest forward.",
)
@click.option(
    "--policy",
    metavar="POLICY",
    help="The policy for these records: 'daily@09:00 Europe/Berlin'. Default: the usual one.",
)
@click.option(
    "--records", is_flag=True, help="Each line is an object: value, and timeline, key, timestamp if you like."
)
@with_session
def add(
    session: Session,
    timeline: str | None,
    value: str | None,
    key: str | None,
    timestamp: float | None,
    within: float | None,
    policy: str | None,
    records: bool,
) -> int:
    """Add a record to TIMELINE, or many from standard input.

    Without JSON each line of standard input is a value in JSON. The lines before a bad one are accepted, it and the
    rest are not. Exit code 1 if a line was refused, or if the store accepts nothing.

    \b
    digestif add mail:ada '{"title": "Build 7 failed"}' --key build-7
    digestif add mail:ada < values.jsonl
    digestif add --records < records.jsonl
    """
    if timeline is None and not records:
        raise click.UsageError("name a TIMELINE, or use --records with lines that do")
    if value is not None:
        if records or timeline is None:
            raise click.UsageError("--records reads standard input; leave out JSON")
        options = {"timestamp": timestamp, "within": within}
        return _add_one(session, timeline, _decoded(value), key=key, policy=policy, **options)
    if key is not None or timestamp is not None:
        raise click.UsageError("--key and --timestamp belong to one record; in lines, give them with --records")
    return _add_lines(session, timeline, records=records, within=within, policy=policy)


def _decoded(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        quoted = as_json(text) if len(text) < 40 else '"…"'
        raise click.UsageError(f"JSON: {printable(str(error))}; a text needs quotes: '{printable(quoted)}'") from None


def _add_one(
    session: Session, timeline: str, value: Any, *, key: str | None, policy: str | None, **options: float | None
) -> int:
    from digestif.ids import fresh_key

    key = fresh_key() if key is None else key
    with session.digests(makes=True, policy=policy) as digests:
        is_ready = digests.add(timeline, value, key=key, **options)
        if not digests.enabled:
            return _refused(session)
        if digests.policy_of(timeline).off:
            return _declined(session, timeline)
        found = digests.timeline(timeline)
        session.answer(
            f"accepted {printable(key)}: {printable(timeline)} {_next(found, now=digests.store.time(0) / 1000)}",
            {"accepted": 1, "timeline": timeline, "key": key, "ready": is_ready, "due": found.due},
        )
    return 0


def _next(found: "Timeline", *, now: float) -> str:
    if found.paused:
        return "is paused and gathers records"
    if found.due is not None:
        return f"is due {due(found.due, now=now)}"
    return "is ready for delivery" if found.state == "ready" else "is being delivered; this goes with its next digest"


def _refused(session: Session) -> int:
    session.answer("nothing was accepted: this store is switched off", {"accepted": 0, "ready": 0})
    return 1


def _declined(session: Session, timeline: str) -> int:
    session.answer(
        f"declined: {printable(timeline)} is switched off",
        {"accepted": 0, "timeline": timeline, "ready": False, "declined": 1},
    )
    return 1


# Lines


def _add_lines(
    session: Session, timeline: str | None, *, records: bool, within: float | None, policy: str | None
) -> int:
    from digestif.cli.json_lines import BadLine, BulkAdd
    from digestif.clock import monotonic

    stream: BinaryIO = sys.stdin.buffer
    if stream.isatty():
        click.echo("digestif: reading JSON lines from the keyboard; end with Ctrl-D", err=True)
    with session.digests(makes=True, policy=policy) as digests:
        if not digests.enabled:
            return _refused(session)
        bulk = BulkAdd(digests, timeline, records=records, within=within)
        dropped, began = digests.ledger().dropped, monotonic()
        try:
            with _progress(session, stream) as progress:
                bulk.run(stream, progress)
        except BadLine as bad:
            return _tell_bad(session, bulk, bad)
        except KeyboardInterrupt:
            click.echo(
                f"digestif: stopped; {counted(bulk.tally.accepted, 'line was', 'lines were')} accepted", err=True
            )
            raise
        _report(session, bulk, monotonic() - began, dropped=digests.ledger().dropped - dropped)
    return 0


def _document(bulk: "BulkAdd") -> dict[str, Any]:
    return {"accepted": bulk.tally.accepted, "ready": len(bulk.tally.ready)}


def _report(session: Session, bulk: "BulkAdd", seconds: float, *, dropped: int) -> None:
    tally = bulk.tally
    rate = f", {tally.accepted / seconds:,.0f}/s" if seconds > 0.5 else ""
    ready = f"; {counted(len(tally.ready), 'timeline is', 'timelines are')} ready for delivery" if tally.ready else ""
    session.answer(
        f"accepted {counted(tally.accepted, 'record')} in {span(seconds)}{rate}{ready}",
        {**_document(bulk), "dropped": dropped},
    )
    if dropped:
        click.echo(f"digestif: {dropped:,} older ones were dropped meanwhile: timelines keep their capacity", err=True)


def _tell_bad(session: Session, bulk: "BulkAdd", bad: "BadLine") -> int:
    if session.as_json:
        click.echo(as_json({**_document(bulk), "line": bad.number, "error": bad.reason}))
    accepted = counted(bulk.tally.accepted, "record before it was", "records before it were")
    click.echo(f"digestif: {printable(str(bad))}; {accepted} accepted, it and what follows was not", err=True)
    return 1


@contextmanager
def _progress(session: Session, stream: BinaryIO) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing in a log."""
    if session.as_json or not sys.stderr.isatty() or stream.isatty():
        yield lambda _accepted, _read: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.fields[progress]}"), BarColumn(bar_width=30), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("add", total=_size(stream), progress="accepted 0")
        yield lambda accepted, read: bar.update(task, completed=read, progress=f"accepted {accepted:,}")


def _size(stream: BinaryIO) -> int | None:
    """The bytes of a file; None of a pipe."""
    import os
    import stat

    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


COMMANDS = [add]
