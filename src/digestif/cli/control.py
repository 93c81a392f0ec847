"""Commands that change timelines: flush, pause, resume, retract, delete."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from digestif.cli.departure import flushed, resumption, unflushed
from digestif.cli.output import counted, printable
from digestif.cli.session import Function, Session, complete_timeline, timeline_argument, with_session

if TYPE_CHECKING:
    from digestif import DeadLetter, Digests

PAGE = 1000  # timelines or dead letters that are read at once


def several_timelines(function: Function) -> Function:
    """The arguments of a command for one or more timelines."""
    exact = click.option("--exact", is_flag=True, help="Take each TIMELINE as a name: a star in it is a star.")
    names = click.argument("timelines", metavar="TIMELINE…", nargs=-1, required=True, shell_complete=complete_timeline)
    return exact(names(function))


def _each(
    session: Session,
    names: Sequence[str],
    act: "Callable[[Digests, str], bool]",
    *,
    did: "str | Callable[[Digests, Sequence[str]], str]",
    not_: "str | Callable[[Digests, str], str]",
    exact: bool,
    makes: bool = False,
    letters: bool = False,
) -> int:
    """Call `act` for each timeline; the exit code is 1 if one of the calls answers False.

    A name with a star is a pattern, unless `exact` is given: it stands for all stored timelines that match. That none
    of these had anything to do counts as one False. `did` says what became of those for which there was.
    """
    tell = did if callable(did) else lambda _digests, _names: did
    with session.digests(makes=makes) as digests:
        missed = 0
        for name in names:
            if is_pattern(name) and not exact:
                matches = matching(digests, name, letters=letters)
                done = _each_match(session, digests, name, matches, act, tell=tell)
            else:
                done = act(digests, name)
                text = tell(digests, [name]) if done else not_(digests, name) if callable(not_) else not_
                session.answer(f"{printable(name)} {text}", {"timeline": name, "done": done})
            missed += not done
    return 1 if missed else 0


def _each_match(
    session: Session,
    digests: "Digests",
    pattern: str,
    names: Iterator[str],
    act: "Callable[[Digests, str], bool]",
    *,
    tell: "Callable[[Digests, Sequence[str]], str]",
) -> bool:
    """Call `act` for each timeline that matches, and say how many there were. True if one call did something."""
    found, done = 0, []
    for name in names:
        found += 1
        if act(digests, name):
            done.append(name)
    of = counted(found, "timeline that matches", "timelines that match")
    text = f"{len(done):,} of {of}: each of them {tell(digests, done)}" if done else f"nothing to do for {of}"
    text = text if found else "no stored timeline matches"
    session.answer(f"{printable(pattern)}: {text}", {"pattern": pattern, "matched": found, "done": len(done)})
    return bool(done)


def is_pattern(name: str) -> bool:
    return "*" in name


def matching(digests: "Digests", pattern: str, *, letters: bool = False) -> Iterator[str]:
    """The names of stored timelines that match a pattern; with `letters`, also of those that only have dead letters."""
    from digestif.intake.patterns import stars

    prefix, after, seen = pattern.partition("*")[0], None, set()
    while page := digests.timelines(prefix=prefix, after=after, limit=PAGE):
        after = page[-1].key
        names = [timeline.key for timeline in page if stars(pattern, timeline.key) is not None]
        seen.update(names)
        yield from names
    if letters:
        others = {letter.timeline for letter in _letters(digests)} - seen
        yield from sorted(name for name in others if stars(pattern, name) is not None)


def _letters(digests: "Digests") -> "Iterator[DeadLetter]":
    after = None
    while page := digests.dead_letters(after=after, limit=PAGE):
        yield from page
        after = page[-1].id


@click.command()
@several_timelines
@with_session
def flush(session: Session, timelines: Sequence[str], exact: bool) -> int:
    """Deliver waiting timelines now. Exit code 1 if one is not waiting.

    TIMELINE may be a pattern such as 'mail:*'. Quote it, or your shell reads it.
    """
    return _each(
        session,
        timelines,
        lambda digests, name: digests.flush(name),
        did=flushed,
        not_=unflushed,
        exact=exact,
    )


@click.command()
@several_timelines
@with_session
def pause(session: Session, timelines: Sequence[str], exact: bool) -> int:
    """Hold timelines back: they only gather records. Exit code 1 if one is paused already.

    TIMELINE may be a pattern such as 'mail:*', for all that are stored now; later ones are not paused.
    """
    return _each(
        session,
        timelines,
        lambda digests, name: digests.pause(name),
        did="is paused: it gathers records",
        not_="is paused already",
        exact=exact,
        makes=True,
    )


@click.command()
@several_timelines
@with_session
def resume(session: Session, timelines: Sequence[str], exact: bool) -> int:
    """Let paused timelines go on. Exit code 1 if one is not paused.

    TIMELINE may be a pattern such as 'mail:*'.
    """
    return _each(
        session,
        timelines,
        lambda digests, name: digests.resume(name),
        did=resumption,
        not_="is not paused",
        exact=exact,
    )


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
@several_timelines
@click.option("--yes", is_flag=True, help="Don't ask.")
@with_session
def delete(session: Session, timelines: Sequence[str], exact: bool, yes: bool) -> int:
    """Delete timelines with their records, dead letters and history.

    TIMELINE may be a pattern such as 'mail:*'. Exit code 1 if there was nothing to delete, or if you said no.
    """
    if not yes and not _agreed(session, timelines, exact=exact):
        click.echo("nothing was deleted", err=session.as_json)
        return 1
    return _each(
        session,
        timelines,
        lambda digests, name: digests.delete(name),
        did="was deleted",
        not_="had nothing to delete",
        exact=exact,
        letters=True,
    )


def is_interactive() -> bool:
    return sys.stdin.isatty()


def _agreed(session: Session, timelines: Sequence[str], *, exact: bool) -> bool:
    if not is_interactive():
        raise click.UsageError("there is no terminal to ask in; say --yes to delete")
    with session.digests(reads=True) as digests:
        chosen = list(timelines) if exact else [found for name in timelines for found in _chosen(digests, name)]
        pending = sum(digests.timeline(name).pending for name in chosen)
    names = ", ".join(map(printable, timelines[:3])) + (" …" if len(timelines) > 3 else "")
    many = f" ({counted(len(chosen), 'timeline')})" if any(map(is_pattern, timelines)) and not exact else ""
    return click.confirm(f"Delete {names}{many} with {counted(pending, 'pending record')}?", err=True)


def _chosen(digests: "Digests", name: str) -> Sequence[str]:
    return list(matching(digests, name, letters=True)) if is_pattern(name) else [name]


COMMANDS = [flush, pause, resume, retract, delete]
