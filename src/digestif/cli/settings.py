"""Commands about the file of settings: init, check, token."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from digestif.cli.configuration import FILE, config_file, outer, settings_reader
from digestif.cli.output import as_json, counted, printable
from digestif.cli.session import outer_json

SCOPES = ("ingest", "read", "admin")


@click.command()
@click.argument("file", default=FILE, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON and nothing else.")
def init(file: Path, force: bool, as_json_: bool) -> None:
    """Write a file of settings to begin with, each explained.

    FILE is digestif.toml unless another one is named. A file that is there is left alone. Passwords go into it, so that
    only its owner can read it.
    """
    from importlib.resources import files

    from digestif.errors import ConfigError

    starter = files("digestif.service").joinpath("starter.toml").read_bytes()
    try:
        _write_private(file, starter, replaces=force)
    except FileExistsError:
        raise ConfigError(f"{file} is there already; --force replaces it") from None
    except OSError as error:
        raise ConfigError(f"{file} can't be written: {error.strerror}") from None
    option = "" if str(file) == FILE else f" --config {file}"
    text = f"wrote {file}; next: digestif serve{option}"
    click.echo(as_json({"file": str(file)}) if as_json_ or outer_json() else text)


def _write_private(file: Path, content: bytes, *, replaces: bool) -> None:
    """Write a file that only its owner can read. A link in its place is not followed."""
    from digestif.channels.files import PRIVATE, replace_file

    if replaces:
        replace_file(file, content)
        return
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as written:
        written.write(content)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json_", is_flag=True, help="Print JSON and nothing else.")
def check(file: Path | None, as_json_: bool) -> int:
    """Report every problem of a file of settings.

    FILE is that of --config or DIGESTIF_CONFIG, else digestif.toml. Texts from the environment have to be there. Exit
    code 2 if something is wrong; warnings do not change it. No store and no channel is connected to.
    """
    from digestif.errors import ConfigError
    from digestif.service.addresses import check_open
    from digestif.service.problems import Problem, WrongSettings, warnings_of

    file = file or config_file(outer("config")) or Path(FILE)
    as_json_ = as_json_ or outer_json()
    warnings: Sequence[Problem] = ()
    try:
        settings = settings_reader(file)()
        check_open(settings)
        warnings = warnings_of(settings)
    except WrongSettings as wrong:
        problems = wrong.problems
    except ConfigError as error:
        problems = (Problem(path="serve", text=str(error)),)
    else:
        problems = ()
    if as_json_:
        found = [{"path": each.path, "line": each.line, "problem": each.text} for each in problems]
        doubts = [{"path": each.path, "warning": each.text} for each in warnings]
        click.echo(as_json({"file": str(file), "good": not problems, "problems": found, "warnings": doubts}))
    elif problems:
        for problem in problems:
            click.echo(printable(f"{file}: {problem}"))
    else:
        for warning in warnings:
            click.echo(printable(f"{file}: warning: {warning}"))
        routes, tokens = counted(len(settings.routes), "route"), counted(len(settings.tokens), "token")
        click.echo(f"{file} is good: {routes}, {tokens}")
    return 2 if problems else 0


@click.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="May be repeated. Default: ingest.")
@click.option("--prefix", default="", help="Only timelines whose names begin so. Default: all.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON and nothing else.")
def token(name: str, scopes: Sequence[str], prefix: str, as_json_: bool) -> None:
    """Make a token for the HTTP API and the dashboard.

    Prints the token, which is kept nowhere, and the table with its hash for the file of settings.

    \b
    digestif token shop --scope ingest --prefix shop:
    digestif token ada --scope admin
    """
    from digestif.service.security.tokens import fresh_token, hash_of

    text = fresh_token()
    table: dict[str, Any] = {"name": name, "hash": hash_of(text), "scopes": list(scopes) or ["ingest"]}
    if prefix:
        table["prefix"] = prefix
    if as_json_ or outer_json():
        click.echo(as_json({"token": text, **table}))
        return
    click.echo(f"token: {text}")
    click.echo("Keep it secret: it is shown only now. For the file of settings:\n")
    click.echo("[[tokens]]")
    for setting, value in table.items():
        click.echo(f"{setting} = {_toml(value)}")


def _toml(value: str | list[str]) -> str:
    """A text or a list of texts in TOML, which writes them as JSON does but for one control character."""
    import json

    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


COMMANDS = [init, check, token]
