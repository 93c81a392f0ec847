"""`digestif dead`: list, show, replay, requeue and discard dead letters."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from digestif.cli.control import is_interactive
from digestif.cli.departure import departure
from digestif.cli.output import (
    as_json,
    clock,
    counted,
    facts,
    plain,
    printable,
    shown_value,
    stamp,
    table,
    time_head,
    when,
)
from digestif.cli.queries import limit_option, time_of
from digestif.cli.session import Session, complete_timeline, help_if_alone, timeline_argument, with_session

if TYPE_CHECKING:
    from digestif import DeadLetter, Digests, Record

Function = TypeVar("Function", bound="Callable[..., Any]")

PAGE = 100
SENT = {
    "no": "no: every attempt failed",
    "maybe": "maybe: an attempt may have gone out",
    "partly": "partly: some recipients have it",
}
UNKNOWN = "there is no dead letter of this id"
RAW = 300  # characters shown of a value that can't be decoded


@click.group(invoke_without_command=True)
def dead() -> int:
    """Look after dead letters: digests that were given up."""
    return help_if_alone()


@dead.command("list")
@timeline_argument(required=False)
@click.option("--after", metavar="ID", help="Begin after this one: the last of the page before.")
@limit_option(100, "How many at most, the oldest first.")
@with_session
def list_(session: Session, timeline: str | None, after: str | None, limit: int) -> None:
    """List dead letters, of TIMELINE or of all."""
    with session.digests(reads=True) as digests:
        letters = digests.dead_letters(timeline, after, limit)
        now = time_of(digests)
    if session.as_json:
        for letter in letters:
            click.echo(as_json({**plain(letter), "sent": _sent(letter)}))
        return
    if not letters:
        click.echo("no dead letters")
        return
    for line in letter_table(letters, now=now):
        click.echo(line)
    if len(letters) == limit:
        click.echo(f"  … there may be more: --limit, or --after {letters[-1].id}")


def letter_table(letters: "Sequence[DeadLetter]", *, now: float) -> Iterator[str]:
    rows = [
        (
            letter.id,
            printable(letter.timeline),
            f"{letter.records:,}",
            when(letter.buried, now=now),
            _sent(letter),
            printable(letter.reason),
        )
        for letter in letters
    ]
    heads = ("id", "timeline", "records", "given up", "sent", "reason")
    return table(heads, rows, right=["records"], give=["reason", "timeline"])


def _sent(letter: "DeadLetter") -> str:
    """Whether it may have reached its receiver."""
    from digestif.core.machine import may_have_gone_out

    return "maybe" if may_have_gone_out(letter) else "partly" if letter.served else "no"


@dead.command()
@click.argument("digest_id", metavar="ID")
@limit_option(20, "How many records at most, the newest first.")
@with_session
def show(session: Session, digest_id: str, limit: int) -> int:
    """Show a dead letter and its records. Exit code 1 if there is none of that ID."""
    with session.digests(reads=True) as digests:
        letter = digests.store.letter(digest_id)
        records = digests.dead_records(digest_id, limit) if letter else []
        unreadable = _unreadable(digests, digest_id, records, limit=limit) if letter else {}
        now = time_of(digests)
    if letter is None:
        return _unknown(session, digest_id)
    if session.as_json:
        contents = [record._asdict() for record in records]
        click.echo(as_json({**plain(letter), "sent": _sent(letter), "contents": contents, "unreadable": unreadable}))
        return 0
    attempts = counted(letter.attempts, "attempt") + (f", {letter.lapses} lapsed" if letter.lapses else "")
    click.echo(
        facts(
            [
                ("id", letter.id),
                ("timeline", printable(letter.timeline)),
                ("reason", printable(letter.reason)),
                ("attempts", attempts),
                ("opened", stamp(letter.opened, now=now)),
                ("given up", f"{stamp(letter.buried, now=now)} ({when(letter.buried, now=now)})"),
                ("records", f"{letter.records:,}" + (f", {letter.dropped:,} dropped" if letter.dropped else "")),
                ("sent", SENT[_sent(letter)]),
                *([("served", printable(", ".join(letter.served)))] if letter.served else []),
            ]
        )
    )
    if letter.traceback:
        click.echo()
        for line in letter.traceback.rstrip().splitlines():
            click.echo(f"  {printable(line)}")
    click.echo()
    rows = [(clock(r.timestamp, now=now), printable(r.key), shown_value(r.value)) for r in records]
    head = time_head("time", (record.timestamp for record in records))
    for line in table((head, "key", "value"), rows, give=["value", "key"]):
        click.echo(line)
    for key, raw in unreadable.items():
        click.echo(f"  {printable(key)} can't be read: {raw}")
    if (more := letter.records - len(rows) - len(unreadable)) > 0:
        click.echo(f"  + {more:,} more" + ("" if len(rows) + len(unreadable) >= limit else " that can't be read"))
    return 0


def _unreadable(digests: "Digests", digest_id: str, records: "Sequence[Record]", *, limit: int) -> dict[str, str]:
    """Keys of records whose values can't be decoded, and what is stored there."""
    from digestif.core.damage import legible
    from digestif.core.texts import shortened

    known = {record.key for record in records}
    stored = digests.store.letter_records(digest_id, after=None, limit=limit)
    raw = {record.key: record.payload for record in stored if record.key not in known}
    return {legible(key): "nothing" if value is None else shortened(value, RAW) for key, value in raw.items()}


def _unknown(session: Session, digest_id: str) -> int:
    session.answer(f"there is no dead letter {printable(digest_id)}", {"id": digest_id, "done": False})
    return 1


def _selection(function: Function) -> Function:
    """The arguments that say which dead letters are meant."""
    for option in (
        click.option("--timeline", metavar="TIMELINE", help="Those of a timeline.", shell_complete=complete_timeline),
        click.option("--all", "every", is_flag=True, help="All of them."),
        click.argument("digest_ids", metavar="[ID…]", nargs=-1),
    ):
        function = option(function)
    return function


@dead.command()
@_selection
@with_session
def replay(session: Session, **selection: Any) -> int:
    """Deliver dead letters again, each under its own id.

    Exit code 1 if one is not there, or is refused: its timeline has another unfinished digest, is switched off,
    or the store is being moved.
    """
    with session.digests() as digests:
        chosen = _chosen(digests, **selection)
        return _each(
            session,
            chosen,
            digests.replay,
            done="replayed",
            did=lambda timeline: f"comes again: {departure(digests, [timeline])}",
        )


@dead.command()
@_selection
@click.option("--force", is_flag=True, help="Also those that may have gone out, or have reached some recipients.")
@with_session
def requeue(session: Session, force: bool, **selection: Any) -> int:
    """Let the records of dead letters wait for the next digest of their timeline.

    Exit code 1 if one is not there, or is refused: it may have gone out, or its timeline is switched off.
    """
    with session.digests() as digests:
        chosen = _chosen(digests, **selection)
        act = partial(digests.requeue, force=force)
        return _each(session, chosen, act, done="requeued", did=lambda _: "its records wait for the next digest")


@dead.command()
@_selection
@click.option("--yes", is_flag=True, help="Don't ask.")
@with_session
def discard(session: Session, yes: bool, **selection: Any) -> int:
    """Let dead letters go; their records count as deleted.

    Asks before it discards --all, or those of a --timeline. Exit code 1 if one is not there, or if you said no.
    """
    with session.digests() as digests:
        chosen = _chosen(digests, **selection)
        if chosen and not selection["digest_ids"] and not yes and not _agreed(chosen):
            click.echo("nothing was discarded", err=session.as_json)
            return 1
        return _each(session, chosen, digests.discard, done="discarded", did=lambda _: "was discarded")


class Chosen(NamedTuple):
    """A dead letter that is to be acted on, as it is when the command begins."""

    id: str
    timeline: str | None = None  # None if there is no such letter
    records: int = 0


def _chosen(digests: "Digests", digest_ids: Sequence[str], every: bool, timeline: str | None) -> list[Chosen]:
    """The dead letters that are meant, read before any of them is acted on."""
    if (bool(digest_ids), every, timeline is not None).count(True) != 1:
        raise click.UsageError("name the IDs of dead letters (digestif dead list), or say --all or --timeline")
    if digest_ids:
        letters = [(digest_id, digests.store.letter(digest_id)) for digest_id in digest_ids]
        return [Chosen(name, letter.timeline, letter.records) if letter else Chosen(name) for name, letter in letters]
    found: list[Chosen] = []
    while page := digests.dead_letters(timeline, after=found[-1].id if found else None, limit=PAGE):
        found += [Chosen(letter.id, letter.timeline, letter.records) for letter in page]
    return found


def _agreed(chosen: Sequence[Chosen]) -> bool:
    if not is_interactive():
        raise click.UsageError("there is no terminal to ask in; say --yes to discard")
    records = sum(letter.records for letter in chosen)
    return click.confirm(f"discard {counted(len(chosen), 'dead letter')} with {counted(records, 'record')}?", err=True)


def _each(
    session: Session,
    chosen: Sequence[Chosen],
    act: "Callable[[str], bool]",
    *,
    done: str,
    did: "Callable[[str], str]",
) -> int:
    """Call `act` for each dead letter, also after one that it refuses; the exit code is 1 if there was one.

    `did` says what became of a letter of this timeline.
    """
    failures = 0
    for digest_id, timeline, _ in chosen:
        why_not = _refusal(act, digest_id) if timeline is not None else UNKNOWN
        failures += bool(why_not)
        name = printable(digest_id) + ("" if timeline is None else f" of {printable(timeline)}")
        document = {"id": digest_id, "timeline": timeline, "done": not why_not, "reason": why_not}
        session.answer(
            f"{name}: {why_not or did(timeline or '')}",
            {key: value for key, value in document.items() if value not in (None, "")},
        )
    if not session.as_json and len(chosen) != 1:
        click.echo(
            f"{len(chosen) - failures:,} of {len(chosen):,} dead letters {done}" if chosen else "no dead letters"
        )
    return 0 if chosen and not failures else 1


def _refusal(act: "Callable[[str], bool]", digest_id: str) -> str:
    """Do it; the answer is why that was not possible, or nothing."""
    from digestif.errors import InvalidState
    from digestif.stores.damage import Unreadable

    try:
        return "" if act(digest_id) else UNKNOWN
    except (InvalidState, Unreadable) as error:
        return str(error)


COMMANDS = [dead]
