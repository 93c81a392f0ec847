"""Commands about the store as a whole: ledger, verify, repair, status."""

from typing import TYPE_CHECKING, Any

import click

from digestif.cli.output import ago, as_json, counted, due, facts, fitted, plain, printable, span, stamp, when
from digestif.cli.queries import named, time_of
from digestif.cli.session import Session, with_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from digestif import Backlog, ChannelOutage, FailedAttempt, Ledger, LiveWorker
    from digestif.core.workers import PolicyConflict

FAILURES = 20  # that are counted
WORKERS = 5  # that are shown one by one


@click.command()
@with_session
def ledger(session: Session) -> None:
    """Show how many records were accepted, and what became of them."""
    with session.digests(reads=True) as digests:
        counts = digests.ledger()
    if session.as_json:
        click.echo(as_json(_with_balance(counts)))
        return
    known = plain(counts)
    size = max(len(f"{count:,}") for count in known.values())
    click.echo(facts((name, f"{count:>{size},}") for name, count in known.items()))
    click.echo(f"  {balance(counts)}")


def _with_balance(counts: "Ledger") -> dict[str, Any]:
    return {**plain(counts), "balanced": counts.balanced}


def balance(counts: "Ledger") -> str:
    """Whether every accepted record is accounted for, in words."""
    if counts.balanced:
        return click.style("balanced", fg="green") + ": every accepted record is accounted for"
    return click.style("does not balance", fg="red", bold=True) + f": {counts.accounted:,} are accounted for"


@click.command()
@with_session
def verify(session: Session) -> int:
    """Recount all records in the store and compare with the ledger. Exit code 1 if they differ."""
    with session.digests(reads=True) as digests:
        report = digests.verify()
    if session.as_json:
        problems = list(report.problems)
        click.echo(as_json({"agrees": not problems, "recounted": report.recounted, "problems": problems}))
    else:
        counts = ", ".join(f"{count:,} {name}" for name, count in report.recounted.items())
        click.echo(f"recounted {counts}")
        for problem in report.problems:
            click.echo(fitted(click.style("problem", fg="red", bold=True) + f": {printable(problem)}"))
        if report:
            click.echo(click.style("the ledger agrees", fg="green"))
    return 0 if report else 1


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@with_session
def repair(session: Session, dry_run: bool) -> int:
    """Quarantine what is damaged in the store.

    Its records become dead letters, and the ledger agrees again. With --dry-run, exit code 1 if anything is damaged.
    """
    with session.digests(reads=dry_run) as digests:
        damages = digests.repair(dry_run=dry_run)
    if session.as_json:
        click.echo(as_json({"dry_run": dry_run, "damages": [plain(damage) for damage in damages]}))
        return 1 if dry_run and damages else 0
    word = "damaged" if dry_run else "quarantined"
    for damage in damages:
        records = f" ({counted(damage.records, 'record')})" if damage.records else ""
        click.echo(fitted(click.style(word, fg="red", bold=True) + f": {printable(str(damage))}{records}"))
    if not damages:
        click.echo(click.style("nothing is damaged", fg="green"))
    elif dry_run:
        click.echo("nothing was changed; without --dry-run it is quarantined")
    elif any(damage.records for damage in damages):
        click.echo("what could be kept is among the dead letters; see digestif dead list")
    return 1 if dry_run and damages else 0


@click.command()
@with_session
def status(session: Session) -> None:
    """Show store, workers, closed channels, backlog and ledger."""
    from digestif.core.workers import policy_conflicts
    from digestif.notes.workers import UNHANDLED_LOOKED_AT, unhandled_among
    from digestif.stores.versions import versions

    with session.digests(reads=True) as digests:
        store, store_line = digests.store, session.described(digests)
        counts, backlog, now = digests.ledger(), digests.backlog(), time_of(digests)
        outages, workers, failures = digests.outages(), digests.workers(), digests.failures(FAILURES)
        conflicts = policy_conflicts(workers)
        first = digests.timelines_page(due=True, limit=UNHANDLED_LOOKED_AT)
        unhandled = unhandled_among(first.timelines, workers)
        known: dict[str, Any] = {
            "store": session.place_of(digests),
            "namespace": store.namespace,
            "enabled": digests.enabled,
            "durability": str(store.durability),
            "partitions": store.partitions,
            "versions": versions(store),
            "moving_since": _moving_since(store),
        }
    if session.as_json:
        found: dict[str, Sequence[Any]] = {
            "workers": workers,
            "policy_conflicts": conflicts,
            "outages": outages,
            "failures": failures,
        }
        lists: dict[str, list[Any]] = {name: [plain(each) for each in values] for name, values in found.items()}
        lists["unhandled"] = unhandled
        click.echo(as_json({**known, **lists, "backlog": plain(backlog), "ledger": _with_balance(counts)}))
        return
    survives = "switched off: accepts nothing" if not known["enabled"] else f"records survive {known['durability']}"
    click.echo(
        facts(
            [
                ("store", f"{store_line}, namespace {known['namespace']}"),
                ("durability", survives),
                *([("move", _move(known["moving_since"], now=now))] if known["moving_since"] is not None else []),
                ("partitions", f"{known['partitions']}"),
                ("versions", ", ".join(f"{name} {version}" for name, version in known["versions"].items())),
                *workers_live(workers, now=now),
                *policies_that_differ(conflicts),
                *channels_down(outages, now=now),
                *being_retried(failures),
                ("timelines", in_states(backlog)),
                *without_handler(unhandled, at_least=first.after is not None),
                ("due", lateness(backlog, now=now)),
                *([("oldest", f"record arrived {ago(backlog.oldest)}")] if backlog.oldest is not None else []),
                *fates(counts),
                ("dead", dead_advice(counts)),
                ("ledger", balance(counts)),
            ]
        )
    )


def workers_live(workers: "Sequence[LiveWorker]", *, now: float) -> list[tuple[str, str]]:
    """A line for each of the first workers, and how many there are."""
    if not workers:
        return [("workers", "none was seen in the last minute")]
    shown = [("worker", printable(_worker(each, now=now))) for each in workers[:WORKERS]]
    more = len(workers) - len(shown)
    return [*shown, *([("", f"and {counted(more, 'more worker')}")] if more else [])]


def _worker(worker: "LiveWorker", *, now: float) -> str:
    patterns = ", ".join(worker.patterns[:3]) + (f" and {len(worker.patterns) - 3:,} more" * (len(worker.patterns) > 3))
    silence = worker.silence(now=now)
    seen = "" if silence is None else f"; {silence}"
    place = f"{worker.name} on {worker.host} (process {worker.pid})"
    return f"{place} serves {patterns}, started {ago(now - worker.since)}{seen}"


def policies_that_differ(conflicts: "Sequence[PolicyConflict]") -> list[tuple[str, str]]:
    """Return a line for each pattern for which live workers have different policies."""
    differ = click.style("differ", fg="yellow") + " between workers for "
    return [("policies", f"{differ}{printable(str(conflict))}") for conflict in conflicts]


def without_handler(names: "Sequence[str]", *, at_least: bool) -> list[tuple[str, str]]:
    """Return a line about timelines with records that no live worker delivers."""
    if not names:
        return []
    have = "has" if len(names) == 1 else "have"
    many = "at least " * at_least + f"{counted(len(names), 'timeline')} {have} "
    return [("unhandled", many + click.style("no handler", fg="yellow") + f": {named(names)}")]


def channels_down(outages: "Sequence[ChannelOutage]", *, now: float) -> list[tuple[str, str]]:
    """A line for each channel that is not open, and why."""
    return [("channel", f"{printable(outage.channel)} {_state_of(outage, now=now)}") for outage in outages]


def being_retried(failures: "Sequence[FailedAttempt]") -> list[tuple[str, str]]:
    """How many timelines are tried again, and why the latest of them failed."""
    if not failures:
        return []
    many = "at least " * (len(failures) == FAILURES) + counted(len(failures), "timeline")
    return [("retried", f"{many}; {printable(failures[0].timeline)}: {printable(str(failures[0]))}")]


def _state_of(outage: "ChannelOutage", *, now: float) -> str:
    since = span(max(0.0, now - outage.since))
    if outage.next_probe is None:
        return click.style("answers again", fg="green") + f" after {since}; its digests return"
    again = f"next try {due(outage.next_probe, now=now)}"
    down = click.style(f"down for {since}", fg="red", bold=True)
    return f"{down}, {again}: {printable(outage.reason)}"


def _moving_since(store: Any) -> float | None:
    since = store.moving_since()
    return None if since is None else since / 1000


def _move(since: float, *, now: float) -> str:
    """That a move is under way, and what ends it."""
    return (
        f"under way since {stamp(since, now=now)} ({span(max(0.0, now - since))}): "
        "accepts records and delivers nothing; digestif move FROM TO ends it, digestif move FROM --abandon gives it up"
    )


def in_states(backlog: "Backlog") -> str:
    return (
        f"{backlog.timelines:,} stored: {backlog.waiting:,} waiting, {backlog.ready:,} ready, {backlog.open:,} open"
        + _paused(backlog)
    )


def _paused(backlog: "Backlog") -> str:
    paused = backlog.timelines - backlog.waiting - backlog.ready - backlog.open
    return f", {paused:,} paused or idle" if paused > 0 else ""


def lateness(backlog: "Backlog", *, now: float) -> str:
    """How many may be delivered now, and how late they are; otherwise when the next one is due."""
    if backlog.due:
        return f"{backlog.due:,} now" + (f", the first for {span(backlog.late)}" if backlog.late >= 1 else "")
    if backlog.next_due is None or backlog.next_due <= now:
        return "none"
    return f"none; the next {when(backlog.next_due, now=now)} ({stamp(backlog.next_due, now=now)})"


def fates(counts: "Ledger") -> list[tuple[str, str]]:
    """Counts of records in one or two lines; rare fates only if they happened."""
    usual = ", ".join(f"{getattr(counts, name):,} {name}" for name in ("accepted", "delivered", "pending", "open"))
    rare = ("superseded", "dropped", "expired", "deleted", "dead", "lost", "declined")
    happened = ", ".join(f"{getattr(counts, name):,} {name}" for name in rare if getattr(counts, name))
    return [("records", usual), *([("", happened)] if happened else [])]


def dead_advice(counts: "Ledger") -> str:
    return "none" if not counts.dead else f"{counted(counts.dead, 'record')}; see digestif dead list"


COMMANDS = [ledger, verify, repair, status]
