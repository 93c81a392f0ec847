"""The pages about the command line leave nothing out, and show nothing that does not work."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from digestif.cli.program import cli
from tests.docs.pages import DOCS, blocks, code_names

REFERENCE = (DOCS / "reference" / "cli.md").read_text("utf-8")
OPERATING = (DOCS / "how-to" / "operate.md").read_text("utf-8")


def commands(group: click.Group = cli, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        if not isinstance(command, click.Group) or command.params:  # a group with options does something by itself
            yield prefix + name, command


COMMANDS = list(commands())
SHARED = {option for parameter in cli.params for option in parameter.opts}


def section(name: str) -> str:
    """What the reference says about a command."""
    headings = re.split(r"^### (.+)$", REFERENCE, flags=re.MULTILINE)
    return next(text for title, text in zip(headings[1::2], headings[2::2], strict=True) if name in title.split(", "))


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_is_explained_with_its_options(name: str, command: click.Command) -> None:
    text = section(name)
    options = [option for each in command.params if isinstance(each, click.Option) for option in each.opts]

    assert f"digestif {name}" in text
    assert [option for option in options if option not in SHARED and f"`{option}" not in text] == []


def test_the_options_of_all_commands_are_explained() -> None:
    assert [option for option in SHARED if not re.search(rf"`(digestif )?{option}\b", REFERENCE)] == []


def test_every_default_is_the_real_one() -> None:
    for name, command in commands():
        for option in command.params:
            rows = re.findall(rf"^\| `{option.opts[0]}[^`]*` \| `?([^|`]*)`? \|", section(name), re.MULTILINE)
            if isinstance(option, click.Option) and option.show_default and rows:
                default = option.default if isinstance(option.default, str) else f"{option.default:g}"
                assert rows == [default], (name, option.name)


@pytest.mark.parametrize("code", ["0", "1", "2", "3", "130", "141"])
def test_every_exit_code_is_explained(code: str) -> None:
    assert re.search(rf"^\| {code} \| ", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize(
    "variable", ["DIGESTIF_STORE", "DIGESTIF_NAMESPACE", "DIGESTIF_CONFIG", "DIGESTIF_LISTEN", "DIGESTIF_MAILBOX"]
)
def test_the_environment_is_explained(variable: str) -> None:
    assert variable in code_names(REFERENCE)


def calls() -> list[str]:
    """Every call of the command line that the pages show."""
    shown = [line for page in (REFERENCE, OPERATING) for block in blocks(page) for line in block.text.splitlines()]
    shown += re.findall(r"`(digestif [^`]+)`", OPERATING)
    return [match[0] for line in shown if (match := re.search(r"(?:(?<=^)|(?<=\| ))digestif [^|<>]*", line))]


@pytest.mark.parametrize("call", sorted(set(calls())))
def test_every_call_that_is_shown_is_understood(call: str) -> None:
    words = shlex.split(call)[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="digestif")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, command, words = command.resolve_command(context, words)  # type: ignore[assignment]  # never None: it raises

    command.make_context(name, words)
