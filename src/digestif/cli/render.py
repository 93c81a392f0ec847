"""`digestif render`: what a reader would get."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from digestif.cli.output import as_json, is_terminal
from digestif.cli.session import Session, complete_timeline, with_session

if TYPE_CHECKING:
    from digestif import Digest
    from digestif.routes.preview import Look

FORMATS = ("text", "html", "markdown", "slack", "subject")
SUFFIXES = {".htm": "html", ".html": "html", ".json": "slack", ".md": "markdown", ".txt": "text"}
SAMPLE_LINKS = {"open": "https://app.example/open", "unsubscribe": "https://app.example/unsubscribe"}
MOST_NAMES = 10  # of hidden fields with one reason
NOW = 1_767_614_400.0  # of the sample: the same every time


@click.command()
@click.argument("template", required=False)
@click.option(
    "--templates",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Where your own templates are.",
)
@click.option("--timeline", metavar="NAME", shell_complete=complete_timeline, help="Its pending records, not samples.")
@click.option("--format", "wanted", type=click.Choice(FORMATS), help="Default: text, or what FILE ends with.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Write it there. Default: print it.")
@click.option("--group-by", multiple=True, metavar="FIELD", help="Group by a field; may be given twice.")
@click.option("--distinct", multiple=True, metavar="NAME=FIELD", help="Count different values; may be repeated.")
@click.option(
    "--zone",
    metavar="ZONE",
    help="The reader's time zone. Default: the route's, the chosen one, the window's, else UTC.",
)
@click.option("--hours", type=click.Choice(["12", "24"]), help="The reader's clock. Default: the route's, else 24.")
@with_session
def render(session: Session, template: str | None, *, wanted: str | None, output: Path | None, **options: Any) -> int:
    """Show what a reader would get.

    By the built-in template, or one of yours. With sample records, or with what is pending in a timeline. With --app
    the route of the timeline says how; its hooks keep, prepare and split, and a function for weight, are not called.

    Fields of listed records that the built-in templates do not show are named on stderr, with the reason.
    """
    kind = wanted or SUFFIXES.get(output.suffix.lower() if output else "", "text")
    digest, look = _digest(session, options["timeline"])
    look = _chosen(look, template, options)
    text, hidden = _rendered(digest, look, kind), _hidden(digest, look)
    if output is not None:
        output.write_text(text, "utf-8")
        session.answer(
            f"wrote {len(text.encode()):,} bytes of {kind} to {output}",
            {"format": kind, "file": str(output), "hidden": hidden},
        )
    elif session.as_json:
        click.echo(as_json({"format": kind, "content": text, "hidden": hidden}))
    else:
        click.echo(_harmless(text) if is_terminal() else text)
    if not session.as_json:
        _say_hidden(hidden)
    return 0


def _hidden(digest: "Digest", look: "Look") -> dict[str, str]:
    """Return the fields of listed records that the built-in templates do not show, with the reason."""
    from digestif.routes.preview import hidden

    return hidden(digest, look)


def _say_hidden(hidden: dict[str, str]) -> None:
    """Name hidden fields on stderr, by reason; what is printed stays the message alone."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in hidden.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        listed = ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")
        click.echo(_harmless(f"not shown: {listed} ({reason})"), err=True)


def _harmless(text: str) -> str:
    from digestif.channels.terminal import harmless

    return harmless(text)


def _chosen(look: "Look", template: str | None, options: dict[str, Any]) -> "Look":
    from dataclasses import replace

    from digestif.errors import ConfigError

    given = {
        "group_by": options["group_by"],
        "distinct": _pairs(options["distinct"]),
        "folder": options["templates"],
        "template": template,
        "zone": options["zone"],
        "hours": int(options["hours"]) if options["hours"] else None,
    }
    look = replace(look, **{name: value for name, value in given.items() if value})
    if look.folder is not None and not look.folder.is_dir():
        raise ConfigError(f"templates: there is no folder {str(look.folder)!r}")
    return look


def _rendered(digest: "Digest", look: "Look", kind: str) -> str:
    from digestif.routes.preview import rendered

    made = rendered(digest, look, formats={kind})
    if kind == "slack":
        return as_json({"blocks": list(made.blocks)})
    return {"subject": made.subject, "html": made.html, "markdown": made.markdown}.get(kind, made.text)


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise click.UsageError(f"--distinct {text}: write NAME=FIELD, such as users=user.id")
    return dict(text.split("=", 1) for text in texts)


def _digest(session: Session, timeline: str | None) -> "tuple[Digest, Look]":
    """What is shown, and how."""
    from digestif.core.verdicts import Discard
    from digestif.errors import InvalidState
    from digestif.routes.preview import Look, digest_of, look_of

    if timeline is None:
        return _sample(), Look(group_by=_SAMPLE_GROUPS, links=SAMPLE_LINKS)
    with session.digests(reads=True) as digests:
        records = digests.peek(timeline)
        route = digests.engine.route_of(timeline)
        policy, choice = digests.policy_of(timeline).policy, digests.preference(timeline)
    if not records:
        raise InvalidState(f"{timeline!r} has nothing pending to show; without --timeline there are samples")
    chosen = None if choice is None else choice.zone
    if route is None:
        zone = chosen or policy.zone_of(timeline) or "UTC"
        return digest_of(timeline, records), Look(links=SAMPLE_LINKS, zone=zone)
    try:
        return digest_of(timeline, records), look_of(route, timeline, policy, chosen=chosen)
    except Discard as discard:
        raise InvalidState(f"nothing would be sent of {timeline!r}: its route discards it: {discard}") from discard


_SAMPLE_GROUPS = ("project", "title")


def _sample() -> "Digest":
    """An evening of a small team."""
    from digestif.core.records import Digest, Record

    told = [
        ("web", "Build failed on main", "ada"),
        ("web", "Checkout is slow", "grace"),
        ("api", "Error rate above 2 %", "ada"),
        ("web", "Build failed on main", "linus"),
        ("api", "Certificate expires in 7 days", "grace"),
        ("web", "Build failed on main", "ada"),
        ("docs", "New comment on “Getting started”", "margaret"),
        ("api", "Error rate above 2 %", "linus"),
    ]
    records = [
        Record(f"event-{number}", {"project": project, "title": title, "user": user}, NOW - 540 * number)
        for number, (project, title, user) in enumerate(told)
    ]
    return Digest("mail:you@example.org", "sample", 1, 1, 0, tuple(records))


COMMANDS = [render]
