"""Commands that only read: timelines, show, peek, explain, history, trace."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from digestif.cli.output import (
    as_json,
    clock,
    counted,
    due,
    facts,
    fitted,
    plain,
    printable,
    shown_value,
    stamp,
    table,
    time_head,
    when,
    wrapped,
    zone_name,
)
from digestif.cli.session import Function, Session, timeline_argument, with_session
from digestif.core.times import to_seconds

if TYPE_CHECKING:
    from digestif import Digests, Explanation, Sighting, Timeline

STATES = ("idle", "waiting", "ready", "open")


def time_of(digests: "Digests") -> float:
    """The time by the store's clock, in seconds."""
    return digests.store.time(0) / 1000


def limit_option(default: int, help_: str) -> "Callable[[Function], Function]":
    return click.option("--limit", type=click.IntRange(1), default=default, show_default=True, help=help_)


@click.command()
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--prefix", default="", metavar="TEXT", help="Only those whose name begins so.")
@click.option("--after", metavar="TIMELINE", help="Begin after this one: the last of the page before.")
@limit_option(100, "How many at most.")
@with_session
def timelines(session: Session, state: str | None, prefix: str, after: str | None, limit: int) -> None:
    """List the timelines that are stored, by name."""
    with session.digests(reads=True) as digests:
        found = digests.timelines(state, prefix, after, limit)
        lost = unhandled(digests, found)
        if session.as_json:
            for timeline in found:
                click.echo(as_json(timeline_document(timeline, lost)))
            return
        if not found:
            click.echo("no timelines" + (" of that kind" if state or prefix or after else "; nothing is stored"))
            return
        now = time_of(digests)
    for line in timeline_table(found, now=now):
        click.echo(line)
    for line in unhandled_note(lost):
        click.echo(line)
    if len(found) == limit:
        click.echo(f"  … there may be more: --limit, or --after '{printable(found[-1].key)}'")


def unhandled(digests: "Digests", found: "Iterable[Timeline]") -> list[str]:
    """Those timelines for which no live worker has a handler; none if no worker is known."""
    from digestif.notes.workers import is_unhandled

    workers = digests.workers()
    return [timeline.key for timeline in found if is_unhandled(timeline.key, workers)]


def unhandled_note(names: "Sequence[str]") -> Iterator[str]:
    """A warning, if there is a reason for one."""
    if names:
        yield fitted(click.style("  no worker has a handler", fg="yellow") + f" for {named(names)}")


def named(names: "Sequence[str]") -> str:
    """List the first names, and say how many more there are."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(map(printable, names[:3])) + more


def timeline_document(timeline: "Timeline", lost: "Sequence[str]") -> "dict[str, Any]":
    return {**plain(timeline), "unhandled": timeline.key in lost}


def timeline_table(found: "Iterable[Timeline]", *, now: float) -> Iterator[str]:
    shown = list(found)
    has_choices = any(timeline.cadence for timeline in shown)
    heads = ("timeline", "state", "pending", "in digest", "due", "last delivery", *(["cadence"] * has_choices))
    rows = [_row(each, now=now)[: len(heads)] for each in shown]
    spare = ["last delivery", "in digest"]  # `show` has them
    return table(heads, rows, right=["pending", "in digest"], give=["timeline"], spare=spare)


def _row(timeline: "Timeline", *, now: float) -> tuple[str, ...]:
    at = timeline.was_due if timeline.due is None else timeline.due
    return (
        printable(timeline.key),
        _state(timeline),
        f"{timeline.pending:,}",
        f"{timeline.in_digest:,}" if timeline.in_digest else "",
        "" if at is None else due(at, now=now),
        "" if timeline.last is None else when(timeline.last, now=now),
        printable(timeline.cadence or ""),
    )


def _state(timeline: "Timeline") -> str:
    """The state, and what keeps records from being accepted or delivered."""
    state = "off" if timeline.off and timeline.state == "idle" else str(timeline.state)
    off = ", off" if timeline.off and state != "off" else ""
    return state + off + (", paused" if timeline.paused else "")


@click.command()
@timeline_argument()
@with_session
def show(session: Session, timeline: str) -> int:
    """Show what is known about TIMELINE. Exit code 1 if nothing is stored."""
    with session.digests(reads=True) as digests:
        found = digests.timeline(timeline)
        why = digests.explain(timeline)
        now = time_of(digests)
    digest, has_policy = why.facts.get("digest"), why.source.startswith(("override", "cadence "))
    is_stored = found.state != "idle" or found.paused or has_policy
    if session.as_json:
        failed = None if why.failed is None else plain(why.failed)
        known = {"digest": digest, "failed": failed, "policy": why.policy, "source": why.source}
        click.echo(as_json({**plain(found), **known, "given_up": why.given_up}))
        return 0 if is_stored else 1
    lines = [("timeline", printable(timeline)), ("state", _state(found))]
    at = found.was_due if found.due is None else found.due
    if at is not None:
        lines.append(("due", f"{due(at, now=now)} ({stamp(at, now=now)})"))
    if has_policy:
        lines.append(("policy", printable(f"{why.policy} ({why.source})")))
    lines.append(("pending", counted(found.pending, "record")))
    if digest:
        attempts = f"{counted(digest['records'], 'record')}, attempt {digest['attempt']}, {digest['lapses']} lapsed"
        lines.append(("digest", f"{digest['id']}: {attempts}"))
    if why.failed is not None:
        lines.append(("failed", printable(str(why.failed))))
    if why.given_up is not None:
        lines.append(("given up", printable(_given_up(why))))
    if found.last is not None:
        lines.append(("last", f"delivered {when(found.last, now=now)} ({stamp(found.last, now=now)})"))
    lines.append(("iteration", f"{counted(found.iteration, 'digest')} in a row"))
    click.echo(facts(lines) if is_stored else _idle(why))
    return 0 if is_stored else 1


def _idle(why: "Explanation") -> str:
    """Describe a timeline of which nothing is stored, or only dead letters."""
    if why.given_up is None:
        return f"{printable(why.timeline)} is idle: nothing is stored"
    return wrapped(printable(f"{why.timeline} is idle: nothing is stored but dead letters; {_given_up(why)}"))


def _given_up(why: "Explanation") -> str:
    """How many digests are dead letters, and the command that lists them."""
    return f"{why.given_up}: digestif dead list {shlex.quote(why.timeline)}"


@click.command()
@timeline_argument()
@limit_option(20, "How many records at most, the newest first.")
@with_session
def peek(session: Session, timeline: str, limit: int) -> int:
    """Show the records that the next digest of TIMELINE would carry. Exit code 1 if there are none."""
    from digestif.stored_records import decoded, peek_stored

    with session.digests(reads=True) as digests:
        stored, total = peek_stored(digests.engine, timeline, limit)
        records = decoded(digests.engine, stored)
        now = time_of(digests)
    if session.as_json:
        for record in records:
            click.echo(as_json(record._asdict()))
    elif not records:
        click.echo(f"{printable(timeline)} has no records")
    else:
        rows = [(clock(r.timestamp, now=now), printable(r.key), shown_value(r.value)) for r in records]
        head = time_head("time", (record.timestamp for record in records))
        for line in table((head, "key", "value"), rows, give=["value", "key"]):
            click.echo(line)
        if (more := total - len(stored)) > 0:
            click.echo(f"  + {more:,} more")
    return 0 if records else 1


@click.command()
@timeline_argument()
@with_session
def explain(session: Session, timeline: str) -> None:
    """Explain why TIMELINE is due when it is.

    The policy, the rule and its arithmetic, the window, and what would change the due time.
    """
    with session.digests(reads=True) as digests:
        now = time_of(digests)
        explanation = digests.explain(timeline, now=now)
    if session.as_json:
        click.echo(as_json(explanation.to_dict()))
        return
    by_delays = explanation.by_delays if explanation.aligned is not None else None
    known = [
        ("rule", explanation.rule),
        *explanation.facts.items(),
        ("failed", explanation.failed),
        ("by_delays", by_delays),
        ("zone", explanation.zone or f"{zone_name(now)}, as on this computer"),
    ]
    told = " ".join(_local(sentence, now=now, zone=explanation.zone) for sentence in explanation.sentences())
    if explanation.source == "engine" and not session.knows_policies:
        told += " Without --app or --config, your policies are not known here."
    click.echo(wrapped(printable(told)))
    shown = [(name.replace("_", " "), _fact(name, value, now=now, zone=explanation.zone)) for name, value in known]
    next_ = "never by itself" if explanation.next is None else due(explanation.next, now=now)
    click.echo(facts([*((name, text) for name, text in shown if text), ("next", next_)]))


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:Z|[+-]\d\d:\d\d)")


def _local(text: str, *, now: float, zone: str | None) -> str:
    """A text with its times in local time or in the window's zone."""
    return _INSTANT.sub(lambda found: clock(datetime.fromisoformat(found[0]).timestamp(), now=now, zone=zone), text)


DUE_TIMES = ("due", "deadline")
TIMES = (*DUE_TIMES, "by_delays", "last", "first_pending", "lease_until")


def _fact(name: str, value: object, *, now: float, zone: str | None) -> str:
    from digestif.core.transfer import FOREVER

    if value is None or value is False:
        return ""
    if name in TIMES and isinstance(value, float):
        if value >= to_seconds(FOREVER):
            return "the move ends or is given up"
        seen = due(value, now=now) if name in DUE_TIMES else when(value, now=now)
        return f"{clock(value, now=now, zone=zone)} ({seen})"
    if isinstance(value, dict):
        return ", ".join(f"{part} {what}" for part, what in value.items())
    return printable(str(value))


@click.command()
@timeline_argument(required=False)
@limit_option(20, "How many at most, the latest first.")
@with_session
def history(session: Session, timeline: str | None, limit: int) -> None:
    """List the digests that ended lately, of TIMELINE or of all."""
    with session.digests(reads=True) as digests:
        entries = digests.history(timeline, limit)
        now = time_of(digests)
    if session.as_json:
        for entry in entries:
            click.echo(as_json(plain(entry)))
        return
    if not entries:
        click.echo("no digest has ended yet")
        return
    rows = [
        (
            printable(entry.timeline),
            str(entry.outcome),
            f"{entry.records:,}",
            when(entry.ended, now=now),
            entry.id,
            printable(entry.reason or entry.receipt or ""),
        )
        for entry in entries
    ]
    heads = (
        "timeline",
        "outcome",
        "records",
        "ended",
        "digest",
        "reason or receipt" if any(row[-1] for row in rows) else "",
    )
    for line in table(heads, rows, right=["records"], give=[heads[-1], "timeline"]):
        click.echo(line)


@click.command()
@timeline_argument()
@click.argument("key")
@with_session
def trace(session: Session, timeline: str, key: str) -> int:
    """Find out what became of the record KEY of TIMELINE.

    As far as history reaches; the latest version comes first, then what may have happened to it. Exit code 1 if
    nothing is certain.
    """
    from digestif.core.sightings import in_words

    with session.digests(reads=True) as digests:
        sightings = digests.trace(timeline, key)
        now = time_of(digests)
    if session.as_json:
        for sighting in sightings:
            click.echo(as_json({**sighting._asdict(), "text": in_words(sighting)}))
    else:
        for line in _traced(timeline, key, sightings, now=now):
            click.echo(line)
    return 0 if any(sighting.certain for sighting in sightings) else 1


SUPERSEDED = "if an earlier version was still pending when the next one was added, that one replaced it (superseded)"


def _traced(timeline: str, key: str, sightings: "Sequence[Sighting]", *, now: float) -> Iterator[str]:
    """A table of what is certain, then a line for each fate that the record may have had."""
    from digestif.core.sightings import in_words

    certain = [sighting for sighting in sightings if sighting.certain]
    name = f"{printable(key)} in {printable(timeline)}"
    if certain:
        ended = ["" if s.ended is None else f"{when(s.ended, now=now)} ({clock(s.ended, now=now)})" for s in certain]
        rows = [(str(s.fate), s.digest_id or "", at) for s, at in zip(certain, ended, strict=True)]
        head = time_head("ended", (s.ended for s in certain if s.ended is not None))
        yield from table(("fate", "digest", head), rows, give=[head])
        yield SUPERSEDED
    elif sightings:
        yield f"nothing is certain about {name}:"
    else:
        yield f"nothing is known of {name}: no such record was seen"
    for sighting in sightings[len(certain) :]:
        yield in_words(sighting, time=lambda at: f"{when(at, now=now)} ({stamp(at, now=now)})")


COMMANDS = [timelines, show, peek, explain, history, trace]
