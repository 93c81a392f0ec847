"""The tables of commands, events and testing helpers: each has a row for everything that there is, and no other."""

import logging
import re
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

import pytest

import digestif
import digestif.testing
from digestif import Event
from digestif.events.base import Event as Base
from tests.cli.test_reference import COMMANDS
from tests.docs.pages import DOCS, code_names

ALTERNATIVES = (DOCS / "alternatives.md").read_text("utf-8")
CLI, EVENTS, TESTING = ((DOCS / "reference" / f"{name}.md").read_text("utf-8") for name in ("cli", "events", "testing"))


def rows(table: str) -> list[list[str]]:
    """The cells of each row of the first table, without its head."""
    lines = re.findall(r"^\|.*\|$", table, re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_the_table_of_commands_names_every_command_once() -> None:
    listed = rows(CLI.partition("## Which store")[0])
    named = [name for row in listed for text in re.findall(r"`([^`]+)`", row[0]) for name in [_command(text)] if name]

    assert sorted(named) == sorted(name for name, _ in COMMANDS)


def _command(text: str) -> str:
    """The name in a call: what follows in capitals or brackets are its arguments."""
    words = [word for word in text.removeprefix("digestif ").split() if re.fullmatch(r"[a-z][a-z-]*", word)]
    return " ".join(words)


def test_the_table_of_events_has_each_with_its_level_and_fields() -> None:
    listed = {row[0].strip("`"): row for row in rows(EVENTS)}
    kinds: dict[str, Any] = {name: getattr(digestif, name) for name in digestif.__all__}
    events = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Base)}

    assert listed.keys() == events.keys()
    for name, kind in events.items():
        _, level, _, shown = listed[name]
        own = {field.name for field in fields(kind)} or {"level"}
        assert own <= code_names(shown), name
        if kind is not Event and level:
            assert level == logging.getLevelName(kind.level).lower(), name


def test_the_page_about_testing_names_every_helper() -> None:
    assert [name for name in digestif.testing.__all__ if name not in code_names(TESTING)] == []


@pytest.mark.parametrize(
    ("asked_for", "module"),
    [
        ("a web interface", "digestif.service.dashboard"),
        ("producers in several languages", "digestif.service.api"),
        ("each reader chooses how often", "digestif.preferences"),
        ("a preview of the message", "digestif.messages"),
        ("grouping, templates and channels are there", "digestif.compose"),
    ],
)
def test_the_comparison_denies_nothing_that_digestif_has(asked_for: str, module: str) -> None:
    found = re.findall(rf"^\| {asked_for} \| (\S+) \|", ALTERNATIVES, re.MULTILINE)

    assert found == ["yes"]
    assert find_spec(module) is not None
