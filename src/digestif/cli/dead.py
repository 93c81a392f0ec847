"""`digestif dead`: list, show, replay and discard dead letters."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from digestif.cli.output import as_json, clock, counted, facts, plain, printable, shown_value, table, when
from digestif.cli.queries import limit_option, time_of
from digestif.cli.session import Session, help_if_alone, timeline_argument, with_session

if TYPE_CHECKING:
    from digestif import DeadLetter, Digests, Record

PAGE = 100
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
    with session.digests() as digests:
        letters = digests.dead_letters(timeline, after, limit)
        now = time_of(digests)
    if session.as_json:
        for letter in letters:
            click.echo(as_json(plain(letter)))
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
            printable(letter.reason),
        )
        for letter in letters
    ]
    heads = ("id", "timeline", "records", "given up", "reason")
    return table(heads, rows, right=["records"], give=["reason", "timeline"])


@dead.command()
@click.argument("digest_id", metavar="ID")
@limit_option(20, "How many records at most, the newest first.")
@with_session
def show(session: Session, digest_id: str, limit: int) -> int:
    """Show a dead letter and its records. Exit code 1 if there is none of that ID."""
    with session.digests() as digests:
        letter = digests.store.letter(digest_id)
        records = digests.dead_records(digest_id) if letter else []
        unreadable = _unreadable(digests, digest_id, records, limit=limit) if letter else {}
        now = time_of(digests)
    if letter is None:
        return _unknown(session, digest_id)
    if session.as_json:
        contents = [record._asdict() for record in records[:limit]]
        click.echo(as_json({**plain(letter), "contents": contents, "unreadable": unreadable}))
        return 0
    attempts = counted(letter.attempts, "attempt") + (f", {letter.lapses} lapsed" if letter.lapses else "")
    click.echo(
        facts(
            [
                ("id", letter.id),
                ("timeline", printable(letter.timeline)),
                ("reason", printable(letter.reason)),
                ("attempts", attempts),
                ("opened", clock(letter.opened, now=now)),
                ("given up", f"{clock(letter.buried, now=now)} ({when(letter.buried, now=now)})"),
                ("records", f"{letter.records:,}" + (f", {letter.dropped:,} dropped" if letter.dropped else "")),
                *([("served", printable(", ".join(letter.served)))] if letter.served else []),
            ]
        )
    )
    if letter.traceback:
        click.echo()
        for line in letter.traceback.rstrip().splitlines():
            click.echo(f"  {printable(line)}")
    click.echo()
    rows = [(clock(r.timestamp, now=now), printable(r.key), shown_value(r.value)) for r in records[:limit]]
    for line in table(("time", "key", "value"), rows, give=["value", "key"]):
        click.echo(line)
    for key, raw in unreadable.items():
        click.echo(f"  {printable(key)} can't be read: {raw}")
    if (more := letter.records - len(rows) - len(unreadable)) > 0:
        click.echo(f"  + {more:,} more" + ("" if len(records) > limit else " that can't be read"))
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


@dead.command()
@click.argument("digest_ids", metavar="[ID…]", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All of them; those that have to wait are left where they are.")
@with_session
def replay(session: Session, digest_ids: Sequence[str], every: bool) -> int:
    """Deliver dead letters again, under their own ids.

    Exit code 1 if one is not there, or has to wait because its timeline has another unfinished digest, or the store is
    being moved.
    """
    from digestif.core.machine import MOVING
    from digestif.errors import Busy

    def act(digests: "Digests", digest_id: str) -> str:
        try:
            return "" if digests.replay(digest_id) else "there is no dead letter of this id"
        except Busy:
            if digests.store.moving_since() is not None:
                return MOVING
            return "its timeline has another unfinished digest; try again when that has ended"

    with session.digests() as digests:
        return _each(session, digests, digest_ids, every=every, act=act, did="comes again: the next worker delivers it")


@dead.command()
@click.argument("digest_ids", metavar="[ID…]", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All of them.")
@with_session
def discard(session: Session, digest_ids: Sequence[str], every: bool) -> int:
    """Let dead letters go; their records count as deleted. Exit code 1 if one is not there."""

    def act(digests: "Digests", digest_id: str) -> str:
        return "" if digests.discard(digest_id) else "there is no dead letter of this id"

    with session.digests() as digests:
        return _each(session, digests, digest_ids, every=every, act=act, did="was discarded")


def _each(
    session: Session,
    digests: "Digests",
    digest_ids: Sequence[str],
    *,
    every: bool,
    act: "Callable[[Digests, str], str]",
    did: str,
) -> int:
    """Call `act` for each dead letter; it answers why it failed, or nothing."""
    if bool(digest_ids) == every:
        raise click.UsageError("name the IDs of dead letters (digestif dead list), or say --all")
    failures = total = 0
    for digest_id in _all_ids(digests) if every else digest_ids:
        why_not = act(digests, digest_id)
        total += 1
        failures += bool(why_not)
        document = {"id": digest_id, "done": not why_not, **({"reason": why_not} if why_not else {})}
        session.answer(f"{printable(digest_id)}: {why_not or did}", document)
    if not total and not session.as_json:
        click.echo("no dead letters")
    return 0 if total and not failures else 1


def _all_ids(digests: "Digests") -> list[str]:
    """The ids of all dead letters, read before any of them is acted on."""
    found: list[str] = []
    while page := digests.dead_letters(after=found[-1] if found else None, limit=PAGE):
        found += [letter.id for letter in page]
    return found


COMMANDS = [dead]
