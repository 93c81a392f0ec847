"""`digestif mailbox`: a mail server on this computer that shows what it gets; `list` and `show` read it later."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from digestif.cli.output import (
    as_json,
    clock,
    counted,
    facts,
    is_terminal,
    printable,
    stamp,
    table,
    time_head,
    zone_name,
)
from digestif.cli.session import outer_json, refuse_store

if TYPE_CHECKING:
    from digestif.mailbox.folder import Mail, MailFolder

Function = TypeVar("Function", bound=Callable[..., Any])

PORT = 2525
LATEST = "latest"
NO_STORE = "it keeps mails in a folder of its own, see --keep"


def _shared(*, envvar: bool = False) -> Callable[[Function], Function]:
    """The options of the command and of its parts."""

    def decorate(function: Function) -> Function:
        for option in (
            click.option("--json", "as_json_", is_flag=True, help="Print JSON and nothing else."),
            click.option(
                "--keep",
                metavar="FOLDER",
                type=click.Path(path_type=Path, file_okay=False),
                envvar="DIGESTIF_MAILBOX" if envvar else None,
                help="The folder of the mails. Default: DIGESTIF_MAILBOX, else ~/.local/share/digestif/mailbox.",
            ),
        ):
            function = option(function)
        return function

    return decorate


@click.group(invoke_without_command=True)
@click.option("--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Where it listens.")
@click.option("--refuse", multiple=True, metavar="ADDRESS", help="Refuse this recipient (550); may be repeated.")
@_shared(envvar=True)
def mailbox(port: int, refuse: Sequence[str], **_: Any) -> int:
    """Take mails on this computer and show them, for trying out.

    Point a channel at smtp://localhost:2525?from=digests@example.org. It prints a line for each mail, keeps the mail
    and sends nothing on. Any user and password will do. Only programs on this computer can connect. Ctrl-C ends it.

    \b
    digestif mailbox
    digestif mailbox show
    digestif mailbox --refuse bob@example.org
    """
    context = click.get_current_context()
    refuse_store(NO_STORE)
    if context.invoked_subcommand is not None:
        return 0
    _serve(_Call(context), port, refuse)
    return 0


@mailbox.command("list")
@_shared()
def list_(**_: Any) -> int:
    """List the mails, the oldest first. Exit code 1 if there are none."""
    call = _Call(click.get_current_context())
    mails = list(call.folder.mails())
    if call.as_json:
        for mail in mails:
            click.echo(as_json(mail.facts()))
    elif mails:
        heads = ("mail", time_head("received", (mail.received for mail in mails)), "to", "subject")
        for line in table(heads, map(_row, mails), right=["mail"], give=["subject"]):
            click.echo(line)
    else:
        click.echo(f"no mails in {call.folder.path}")
    return 0 if mails else 1


@mailbox.command()
@click.argument("which", metavar="[N|latest]", default=LATEST)
@click.option("--html", "as_html", is_flag=True, help="Print its HTML: digestif mailbox show --html > mail.html")
@click.option("--raw", is_flag=True, help="Print it as it came.")
@_shared()
def show(which: str, *, as_html: bool, raw: bool, **_: Any) -> int:
    """Show a mail as its reader sees it: by its number, or the latest.

    Exit code 1 if it is not there, or has no text or HTML to show.
    """
    if as_html and raw:
        raise click.UsageError("--html and --raw: choose one")
    call = _Call(click.get_current_context())
    mail = _find(call.folder, which)
    if mail is None:
        missing = f"there is no mail {printable(which)}" if which != LATEST else "no mails"
        click.echo(f"digestif: {missing} in {call.folder.path}; see digestif mailbox list", err=True)
        return 1
    if call.as_json:
        reading = mail.read()
        document = {**mail.facts(), "text": reading.text, "html": reading.html}
        click.echo(as_json({**document, "raw": mail.raw.decode("utf-8", "replace")} if raw else document))
        return 0
    if raw:
        return _print_bytes(mail.raw)
    return _print_html(mail) if as_html else _print_text(mail)


class _Call:
    """The options of a call, which may stand before or after the name of a part."""

    def __init__(self, context: click.Context) -> None:
        outer = context.parent.params if context.parent and context.parent.info_name == "mailbox" else {}
        self.as_json = bool(context.params["as_json_"] or outer.get("as_json_") or outer_json())
        self._keep: Path | None = context.params["keep"] or outer.get("keep")

    @property
    def folder(self) -> "MailFolder":
        from digestif.mailbox.folder import MailFolder

        return MailFolder(self._keep or _home() / ".local" / "share" / "digestif" / "mailbox")


def _home() -> Path:
    from digestif.errors import ConfigError

    try:
        return Path.home()
    except RuntimeError:
        raise ConfigError("mailbox: there is no home folder to keep mails in; name a folder with --keep") from None


# Serving


def _serve(call: _Call, port: int, refuse: Sequence[str]) -> None:
    from digestif.cli.lines import Lines
    from digestif.clock import wall_clock
    from digestif.errors import ConfigError
    from digestif.mailbox.server import Delivery, MailServer
    from digestif.worker.signals import run

    folder = call.folder
    received = 0

    def tell(text: str, document: dict[str, Any]) -> None:
        lines.add(as_json(document) if call.as_json else text)

    def started(port: int) -> None:
        address = f"smtp://localhost:{port}?from=digests@example.org"
        known = [("listens", address), ("keeps", f"{folder.path}, {counted(len(folder.numbers()), 'mail')} so far")]
        tell(
            facts([*known, ("times", f"in {zone_name(wall_clock())}"), ("stops", "with Ctrl-C")]),
            {"event": "listening", "port": port, "folder": str(folder.path), "channel": address},
        )

    def accept(delivery: Delivery) -> None:
        nonlocal received
        mail = folder.keep(delivery, now=wall_clock())
        received += 1
        tell(_line(mail), {"event": "mail", **mail.facts()})

    def refused(address: str) -> None:
        now = wall_clock()
        document = {"event": "refused", "at": now, "to": address}
        tell(f"{clock(now, now=now)}  {printable(address)}  refused, as --refuse says", document)

    server = MailServer(port, accept=accept, started=started, refused=refused, refuse=refuse)
    lines = Lines(failed=server.stop)  # for example, the reader of our output has ended
    try:
        folder.make()
        run(server)
    except OSError as error:
        if reason := _why_not(error, port):
            raise ConfigError(reason) from None
        raise
    tell(f"stopped; it took {counted(received, 'mail')}", {"event": "stopped", "mails": received})
    lines.close()


def _why_not(error: OSError, port: int) -> str:
    """What keeps the server from listening, and the option that helps."""
    from errno import EACCES, EADDRINUSE

    if error.filename is not None:
        return f"mailbox: {error.filename}: {error.strerror}; name another folder with --keep"
    if error.errno == EADDRINUSE:
        return f"mailbox: port {port} is in use, maybe by another mailbox; stop that, or choose another with --port"
    if error.errno == EACCES:
        return f"mailbox: port {port} is for the system; choose one above 1023 with --port"
    return ""


def _line(mail: "Mail") -> str:
    """A mail that has just come: time, number, recipients, subject."""
    return "  ".join([clock(mail.received, now=mail.received), *_about(mail)])


def _row(mail: "Mail") -> list[str]:
    from digestif.clock import wall_clock

    number, to, subject = _about(mail)
    return [number, clock(mail.received, now=wall_clock()), to, subject]


def _about(mail: "Mail") -> tuple[str, str, str]:
    return f"{mail.number}", printable(", ".join(mail.recipients)), printable(mail.read().subject) or "(no subject)"


# Showing


def _find(folder: "MailFolder", which: str) -> "Mail | None":
    if which == LATEST:
        numbers = folder.numbers()
        return folder.mail(numbers[-1]) if numbers else None
    if not (which.isascii() and which.isdecimal()):
        raise click.UsageError(f"{printable(which)} is neither the number of a mail nor {LATEST!r}")
    return folder.mail(int(which)) if len(which) < 10 else None


def _print_text(mail: "Mail") -> int:
    from digestif.channels.terminal import harmless
    from digestif.clock import wall_clock

    reading = mail.read()
    received = stamp(mail.received, now=wall_clock())
    click.echo(
        facts(
            [
                ("mail", f"{mail.number}, received {received}"),
                ("from", printable(reading.sender or mail.sender)),
                ("to", printable(", ".join(mail.recipients))),
                ("subject", printable(reading.subject)),
            ]
        )
    )
    if reading.text is None:
        other = f"; digestif mailbox show {mail.number} --html" if reading.html is not None else ""
        click.echo(f"digestif: the mail has no text to show{other}", err=True)
        return 1
    text = harmless(reading.text.replace("\r\n", "\n")).rstrip()
    click.echo(f"\n{text}")
    return 0


def _print_html(mail: "Mail") -> int:
    html = mail.read().html
    if html is None:
        click.echo(f"digestif: mail {mail.number} has no HTML", err=True)
        return 1
    return _print_bytes(html.encode("utf-8", "replace"))


def _print_bytes(content: bytes) -> int:
    """As they are into a file or a pipe; without control codes to a terminal."""
    from digestif.channels.terminal import harmless

    if is_terminal():
        click.echo(harmless(content.decode("utf-8", "replace").replace("\r\n", "\n")))
    else:
        click.echo(content, nl=False)
    return 0


COMMANDS = [mailbox]
