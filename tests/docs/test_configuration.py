"""The page about the file of settings: a row for each setting, with its real default."""

import re
import tomllib
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from digestif.routes.route import Route
from digestif.service import route_settings
from digestif.service.config import DEFAULT_STORE, LISTS, NAMED, OVERRIDES, TABLES
from digestif.service.settings import LISTEN, Limits, Settings, WorkerSettings
from tests.docs.pages import DOCS
from tests.docs.test_tables import rows

PAGE = (DOCS / "reference" / "configuration.md").read_text("utf-8")
HEADINGS = {"": "The engine", "serve": "`[serve]`", "tokens": "`[[tokens]]`", "routes": "`[[routes]]`"}
SETTINGS = {**TABLES, "routes": route_settings.NAMES}
# Defaults that the settings of a service hold under another form.
DEFAULTS = {"store": DEFAULT_STORE, "policy": "default", "listen": LISTEN, "hosts": [], "prefix": ""}


def table(name: str) -> dict[str, str]:
    """The defaults on the page, by setting."""
    heading = HEADINGS.get(name, f"`[{name}]`")
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {row[0].strip("`"): row[1].strip("`") for row in rows(section)}


@pytest.mark.parametrize("name", list(SETTINGS))
def test_every_setting_has_its_row(name: str) -> None:
    assert list(table(name)) == list(SETTINGS[name])


def test_the_tables_with_names_of_your_own_are_there() -> None:
    section = PAGE.partition("\n## Names of your own\n")[2].partition("\n## ")[0]

    assert [row[0].strip("`[]") for row in rows(section)] == list(NAMED)
    assert set(LISTS) == {name for name in HEADINGS if HEADINGS[name].startswith("`[[")}


def test_every_variable_is_there() -> None:
    assert [row[0].strip("`") for row in rows(PAGE.partition("\n## ")[0])] == list(OVERRIDES)


@pytest.mark.parametrize(
    ("name", "kind"), [("", Settings), ("serve", Settings), ("limits", Limits), ("worker", WorkerSettings)]
)
def test_every_default_of_a_table_is_the_real_one(name: str, kind: Any) -> None:
    real = {field.name: field.default for field in msgspec.structs.fields(kind)}
    for setting, shown in table(name).items():
        default = DEFAULTS.get(setting, real[setting])
        assert (tomllib.loads(f"x = {shown}")["x"] if shown else None) == default, setting


def test_every_default_of_a_route_is_the_real_one() -> None:
    route = Route(pattern="*", channel="terminal://")
    for setting, shown in table("routes").items():
        if re.match(r'["\d{\[tf]', shown) and setting not in ("wording", "to", "policy", "redelivery"):
            real = getattr(route, setting)
            assert tomllib.loads(f"x = {shown}")["x"] == (list(real) if isinstance(real, tuple) else real), setting


def test_the_starter_file_knows_every_table() -> None:
    starter = files("digestif.service").joinpath("starter.toml").read_text("utf-8")
    for name in ("serve", *NAMED):
        assert f"\n[{name}]\n" in starter
    for name in LISTS:
        assert f"[[{name}]]\n" in starter
