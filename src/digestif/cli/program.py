"""The program `digestif`: its commands, its exit codes, and errors in one line."""

import os
import sys
from typing import Any, NoReturn

import click

from digestif import __version__
from digestif.cli import (
    add,
    control,
    dead,
    demo,
    ledger,
    mailbox,
    migrate,
    move,
    preferences,
    queries,
    render,
    send_test,
    serve,
    settings,
    top,
    worker,
)
from digestif.cli.completion import script
from digestif.cli.output import broken, printable, width_of
from digestif.cli.session import help_if_alone, shared_options
from digestif.errors import ConfigError, DigestifError, InvalidRecord, StoreError

NEGATIVE = 1  # nothing to do, or the answer is no
WRONG = 2  # usage or configuration
UNREACHABLE = 3  # the store did not do it
INTERRUPTED = 130
READER_GONE = 141


class Program(click.Group):
    """A group of commands that turns an error into one line and an exit code.

    The notes of an error are printed above it: the traceback of an application that can't be imported.
    """

    def main(  # type: ignore[override]  # it always ends in SystemExit, whatever the mode
        self, args: Any = None, prog_name: str | None = None, **_: Any
    ) -> NoReturn:
        _open_closed_streams()
        _replace_unprintable_signs()
        try:
            status = super().main(args=args, prog_name=prog_name or "digestif", standalone_mode=False)
        except click.UsageError as error:
            see = f"; see {error.ctx.command_path} --help" if error.ctx else ""
            status = _refuse(error.format_message().rstrip(".") + see, WRONG)
        except click.ClickException as error:
            status = _refuse(error.format_message(), WRONG)
        except (ConfigError, InvalidRecord) as error:
            _show_notes(error)
            status = _refuse(str(error), WRONG)
        except StoreError as error:
            status = _refuse(str(error), UNREACHABLE)
        except DigestifError as error:
            status = _refuse(str(error), NEGATIVE)
        except click.Abort:
            status = INTERRUPTED
        except _ReaderGone:
            status = READER_GONE
        except OSError as error:
            _silence_stdout()
            status = _refuse(f"{error.strerror or error}; check the disk and where the output goes", UNREACHABLE)
        sys.exit(status or 0)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # as it is called
        """In the order in which people need them."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
            return status
        except BrokenPipeError as error:
            _silence_stdout()
            raise _ReaderGone from error


class _ReaderGone(Exception):
    """The reader of our output has ended: `digestif timelines | head`."""


def _silence_stdout() -> None:
    """Throw away what is left in the buffer; otherwise Python complains about it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _open_closed_streams() -> None:
    """Replace standard streams that a daemon or cron did not give us by /dev/null."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115  # as long as the process lives
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115


def _replace_unprintable_signs() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an old terminal may lack some of our signs


def _show_notes(error: Exception) -> None:
    for note in getattr(error, "__notes__", ()):
        for line in note.splitlines():
            click.echo(printable(line), err=True)


def _refuse(message: str, status: int) -> int:
    text = printable(" ".join(message.split()))
    click.echo(broken("digestif: ", text, columns=width_of(sys.stderr), indent="  "), err=True)
    return status


_NO_COLOR = click.Option(["--no-color"], envvar="NO_COLOR")  # the convention of no-color.org


@click.group(
    "digestif", cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, "--version", message="digestif %(version)s")
@shared_options(envvar=True)
def cli(**_: Any) -> int:
    """Turn a flood of events into a few well-timed digests.

    Begin with: digestif demo
    """
    context = click.get_current_context()
    if _NO_COLOR.resolve_envvar_value(context):
        context.color = False
    return help_if_alone()


for _module in (
    demo,
    serve,
    settings,
    worker,
    add,
    queries,
    control,
    preferences,
    dead,
    render,
    mailbox,
    send_test,
    ledger,
    migrate,
    move,
    top,
):
    for _command in _module.COMMANDS:
        cli.add_command(_command)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that teach SHELL to complete commands.

    \b
    eval "$(digestif completion bash)"        in ~/.bashrc
    eval "$(digestif completion zsh)"         in ~/.zshrc
    digestif completion fish | source         in ~/.config/fish/config.fish
    """
    click.echo(script(shell, click.get_current_context().find_root().command))


def main() -> NoReturn:
    """Run the command line; ends with SystemExit."""
    cli.main()
