"""Commands that change timelines: flush, pause, resume, retract, delete."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from digestif.cli.output import counted, printable
from digestif.cli.session import Session, complete_timeline, timeline_argument, with_session

if TYPE_CHECKING:
    from digestif import Digests

TIMELINES = click.argument("timelines", metavar="TIMELINE…", nargs=-1, required=True, shell_complete=complete_timeline)


def _each(
    session: Session,
    names: Sequence[str],
    act: "Callable[[Digests, str], bool]",
    *,
    did: str,
    not_: str,
    makes: bool = False,
) -> int:
    """Call `act` for each timeline; the exit code is 1 if one of the calls answers False."""
    with session.digests(makes=makes) as digests:
        missed = 0
        for name in names:
            done = act(digests, name)
            session.answer(f"{printable(name)} {did if done else not_}", {"timeline": name, "done": done})
            missed += not done
    return 1 if missed else 0


@click.command()
@TIMELINES
@with_session
def flush(session: Session, timelines: Sequence[str]) -> int:
    """Deliver waiting timelines now. Exit code 1 if one is not waiting."""
    return _each(
        session,
        timelines,
        lambda digests, name: digests.flush(name),
        did="is ready: the next worker delivers it",
        not_="is not waiting: there is nothing to flush",
    )


@click.command()
@TIMELINES
@with_session
def pause(session: Session, timelines: Sequence[str]) -> int:
    """Hold timelines back: they only gather records. Exit code 1 if one is paused already."""
    return _each(
        session,
        timelines,
        lambda digests, name: digests.pause(name),
        did="is paused: it gathers records",
        not_="is paused already",
        makes=True,
    )


@click.command()
@TIMELINES
@with_session
def resume(session: Session, timelines: Sequence[str]) -> int:
    """Let paused timelines go on. Exit code 1 if one is not paused."""
    return _each(session, timelines, lambda digests, name: digests.resume(name), did="goes on", not_="is not paused")


@click.command()
@timeline_argument()
@click.argument("key")
@with_session
def retract(session: Session, timeline: str, key: str) -> int:
    """Take back the pending record KEY of TIMELINE. Exit code 1 if it is not pending."""
    with session.digests() as digests:
        done = digests.retract(timeline, key)
    what = f"{printable(key)} of {printable(timeline)}"
    not_ = "is not pending: unknown, or in a digest already (digestif trace)"
    session.answer(f"{what} {'was taken back' if done else not_}", {"timeline": timeline, "key": key, "done": done})
    return 0 if done else 1


@click.command()
@TIMELINES
@click.option("--yes", is_flag=True, help="Don't ask.")
@with_session
def delete(session: Session, timelines: Sequence[str], yes: bool) -> int:
    """Delete timelines with their records, dead letters and history.

    Exit code 1 if there was nothing to delete, or if you said no.
    """
    if not yes and not _agreed(session, timelines):
        click.echo("nothing was deleted", err=session.as_json)
        return 1
    return _each(
        session,
        timelines,
        lambda digests, name: digests.delete(name),
        did="was deleted",
        not_="had nothing to delete",
    )


def is_interactive() -> bool:
    return sys.stdin.isatty()


def _agreed(session: Session, timelines: Sequence[str]) -> bool:
    if not is_interactive():
        raise click.UsageError("there is no terminal to ask in; say --yes to delete")
    with session.digests() as digests:
        pending = sum(digests.timeline(name).pending for name in timelines)
    names = ", ".join(map(printable, timelines[:3])) + (" …" if len(timelines) > 3 else "")
    return click.confirm(f"Delete {names} with {counted(pending, 'pending record')}?", err=True)


COMMANDS = [flush, pause, resume, retract, delete]
