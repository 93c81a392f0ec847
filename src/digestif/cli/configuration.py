"""The file of settings that a command uses: which one, and what is typed beside it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from digestif.service.settings import Settings

VARIABLE = "DIGESTIF_CONFIG"
FILE = "digestif.toml"  # in the working directory


def config_file(typed: str | None) -> Path | None:
    """The file that was named, else the one in the working directory, if it is there."""
    if typed:
        return Path(typed)
    return Path(FILE) if Path(FILE).is_file() else None


def settings_reader(
    file: Path | None,
    *,
    looks: bool = False,
    store: str | None = None,
    namespace: str | None = None,
    listen: str | None = None,
) -> "Callable[[], Settings]":
    """Reads the settings, each time anew. What is typed goes before the environment, and that before the file.

    Without a file there are defaults; `looks` lets each read look for one that was written since, until there is one.
    """
    from digestif.dsn import forgetful

    typed = {"DIGESTIF_STORE": store, "DIGESTIF_NAMESPACE": namespace, "DIGESTIF_LISTEN": listen}
    environment: Mapping[str, str] = {**_environment(), **{name: text for name, text in typed.items() if text}}

    @forgetful
    def read() -> "Settings":
        from digestif.service import config

        nonlocal file
        if looks and file is None:
            file = config_file(None)
        return config.defaults(environment) if file is None else config.read(file, environment)

    return read


def outer(name: str) -> str | None:
    """A shared option that stands before the command, or in the environment."""
    found: str | None = click.get_current_context().find_root().params.get(name)
    return found


def _environment() -> Mapping[str, str]:
    return os.environ  # noqa: TID251  # the way in which secrets come
