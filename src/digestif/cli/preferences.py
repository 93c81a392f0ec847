"""Commands about policies at run time: prefer, policy, replan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from digestif.cli.output import counted, due, printable
from digestif.cli.session import Session, timeline_argument, with_session

if TYPE_CHECKING:
    from digestif import Digests


def complete_cadence(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of cadences for the shell's completion: those of the program, else the usual ones."""
    from digestif.core.cadences import Cadences
    from digestif.errors import DigestifError

    try:
        with Session(context, context.params).digests() as digests:
            names = list(digests.cadences)
    except (DigestifError, click.ClickException):
        names = list(Cadences())
    return [name for name in names if name.startswith(incomplete)]


@click.command()
@timeline_argument()
@click.argument("words", metavar="[CADENCE]", nargs=-1, shell_complete=complete_cadence)
@click.option(
    "--zone", metavar="ZONE", help="The reader's time zone: Europe/Berlin. Default: the stored one, else UTC."
)
@with_session
def prefer(session: Session, timeline: str, words: Sequence[str], zone: str | None) -> int:
    """Choose how often TIMELINE is delivered.

    CADENCE is off, instant, hourly, daily, weekly, or one of your program's. Times of your own are stored as a policy.
    Without it, show what was chosen; exit code 1 if nothing was.

    \b
    digestif prefer mail:ada daily --zone Europe/Berlin
    digestif prefer mail:ada daily@08:00 Europe/Berlin
    digestif prefer mail:ada
    """
    chosen = " ".join(words)
    if not chosen and zone is not None:
        raise click.UsageError("--zone belongs to a CADENCE: name one")
    with session.digests(makes=bool(chosen), reads=not chosen) as digests:
        stored = _stored_zone(digests, timeline) if chosen else None
        if "@" in chosen:  # which the name of a cadence can't have
            digests.set_policy(timeline, _with_zone(chosen, zone, stored))
        elif chosen:
            digests.prefer(timeline, chosen, zone=stored if zone is None else zone)
        return _show_choice(session, digests, timeline)


def _stored_zone(digests: "Digests", timeline: str) -> str | None:
    """The time zone that was chosen before, with another cadence."""
    found = digests.preference(timeline)
    return None if found is None else found.zone


def _with_zone(text: str, zone: str | None, stored: str | None) -> str:
    """Times as the text of a policy, in the zone that is given, else the stored one, else as for cadences UTC."""
    from digestif.core.windows import check_zone
    from digestif.errors import ConfigError

    try:
        check_zone(text.rpartition(" ")[2])
    except ConfigError:
        return (
            text if "=" in text else f"{text} {zone or stored or 'UTC'}"
        )  # fields come last: then the text is complete
    if zone is not None:
        raise click.UsageError("the time zone is given twice: leave out --zone")
    return text


def _show_choice(session: Session, digests: "Digests", timeline: str) -> int:
    """Print the cadence or the policy that is stored for a timeline; the code is 1 if there is none."""
    found, in_force = digests.preference(timeline), digests.policy_of(timeline)
    document: dict[str, Any] = {"timeline": timeline, "cadence": None, "zone": None, "policy": None}
    if found is None and in_force.source != "override":
        session.answer(f"nothing was chosen for {printable(timeline)}", document)
        return 1
    text = None if in_force.off else _text(in_force.policy)
    told = "no record is accepted" if text is None else f"{text}{_due(digests, timeline)}"
    name, zone = ("on a policy of its own", None) if found is None else (printable(found.cadence), found.zone)
    known = {"cadence": None if found is None else found.cadence, "zone": zone, "policy": text}
    in_zone = f", in the zone {zone}" if zone is not None and text is not None and zone not in text else ""
    session.answer(f"{printable(timeline)} is {name}{in_zone}: {told}", {**document, **known})
    return 0


@click.command()
@timeline_argument()
@click.argument("text", metavar="[POLICY]", nargs=-1)
@click.option("--clear", is_flag=True, help="Remove the policy or cadence that is stored for it.")
@with_session
def policy(session: Session, timeline: str, text: Sequence[str], clear: bool) -> int:
    """Show, set or clear the policy of TIMELINE.

    Without POLICY, show the one in force and where it comes from. Exit code 1 if there is nothing to clear.

    \b
    digestif policy mail:ada
    digestif policy mail:ada daily@09:00 Europe/Berlin
    digestif policy mail:ada minimum=1m,increment=10s,maximum=5m
    digestif policy mail:ada --clear --app shop:digests
    """
    if clear and text:
        raise click.UsageError("--clear removes a policy; leave out POLICY")
    with session.digests(makes=bool(text), reads=not text and not clear) as digests:
        if clear and not session.knows_policies and _due(digests, timeline):
            raise click.UsageError("records wait: --clear needs --app or --config, to plan them by your policies")
        if text:
            digests.set_policy(timeline, " ".join(text))
        done = digests.clear_policy(timeline) if clear else True
        found = digests.policy_of(timeline)
        written = "off" if found.off else _text(found.policy)
        nothing = "" if done else "nothing was stored for it; "
        origin = found.source + (
            "" if session.knows_policies or found.source != "engine" else ": the default, without --app"
        )
        session.answer(
            f"{printable(timeline)}: {nothing}{written} ({printable(origin)}){_due(digests, timeline)}",
            {"timeline": timeline, "policy": written, "source": found.source, "off": found.off, "done": done},
        )
    return 0 if done else 1


@click.command()
@click.argument("pattern", default="*")
@with_session
def replan(session: Session, pattern: str) -> None:
    """Plan waiting timelines again, by the policies of your program.

    Those that match PATTERN; by default all. --app names the program, --config the file of settings.

    \b
    digestif replan --app shop:digests
    digestif replan 'mail:*' --app shop:digests
    """
    if not session.knows_policies:
        raise click.UsageError("replan needs --app or --config: the policies are in your program or file of settings")
    with session.digests() as digests:
        moved = digests.replan(pattern)
    session.answer(
        f"{counted(moved, 'timeline has', 'timelines have')} another due time", {"pattern": pattern, "moved": moved}
    )


def _text(policy: Any) -> str:
    from digestif.core.policy_shown import policy_text

    return policy_text(policy)


def _due(digests: "Digests", timeline: str) -> str:
    found = digests.timeline(timeline)
    if found.due is None or not found.pending:
        return ""
    return f"; due {due(found.due, now=digests.store.time(0) / 1000)}"


COMMANDS = [prefer, policy, replan]
