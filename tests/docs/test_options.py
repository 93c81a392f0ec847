"""Options in the reference: every option of a DSN, a route or a renderer is there, in tables with its real default."""

import re
from dataclasses import MISSING, Field, fields
from inspect import signature
from typing import Any

import pytest

from digestif import Renderer, Wording, summarize
from digestif.channels.apprise_channel import AppriseOptions
from digestif.channels.files import FileOptions
from digestif.channels.http import HttpOptions
from digestif.channels.smtp_options import SmtpOptions
from digestif.channels.webhook import WebhookOptions
from digestif.routes.route import FORMS, Route
from digestif.stores.postgres import PostgresOptions
from digestif.stores.sqlite import SQLiteOptions
from tests.docs.pages import DOCS, code_names


@pytest.mark.parametrize(
    ("page", "section", "table"),
    [
        ("dsn", "SQLite", SQLiteOptions),
        ("dsn", "PostgreSQL", PostgresOptions),
        ("channels", "smtp", SmtpOptions),
        ("channels", "file", FileOptions),
        ("channels", "webhook", WebhookOptions),
        ("channels", "slack", HttpOptions),
        ("channels", "apprise", AppriseOptions),
    ],
)
def test_every_option_is_explained_with_its_default(page: str, section: str, table: type[Any]) -> None:
    text = (DOCS / "reference" / f"{page}.md").read_text("utf-8").partition(f"\n## {section}\n")[2]
    rows = text.partition("| option ")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    defaults = {row[0].strip("`"): row[-2].strip("`") for row in cells}

    for field in fields(table):
        name = field.name.rstrip("_")
        assert name in defaults, name
        if (default := shown(field)) is not None:
            assert defaults[name] == default, name


def shown(field: "Field[Any]") -> str | None:
    """A default as the pages write it; None for one that they put into words."""
    match field.default:
        case _ if field.default is MISSING or field.default == ():
            return "required"
        case bool():
            return "yes" if field.default else "no"
        case int() if field.name == "mode":
            return f"{field.default:o}"
        case int() | float():
            return f"{field.default:g}"
        case None | "":
            return None
        case _:
            return str(field.default)


def test_every_word_of_the_templates_is_explained_with_its_default() -> None:
    page = (DOCS / "how-to" / "templates.md").read_text("utf-8")
    explained = code_names(page.partition("\n## Other words, other languages\n")[2].partition("\n## ")[0])

    for field in fields(Wording):
        assert field.name in explained, field.name
        if isinstance(field.default, str):
            assert field.default in explained, field.name


def test_every_option_of_a_route_is_explained() -> None:
    page = (DOCS / "reference" / "routes.md").read_text("utf-8")
    call = page.partition("```text\n")[2].partition("```")[0]
    explained = code_names(page.partition("| option ")[2].partition("\n\n")[0])

    names = [field.name for field in fields(Route)]
    assert [name for name in names if name not in explained] == []
    assert [name for name in names if name not in re.findall(r"(\w+)[,=)]", call)] == []


def test_what_each_function_of_a_route_is_called_with_is_explained() -> None:
    page = (DOCS / "reference" / "routes.md").read_text("utf-8")
    table = page.partition("| function | is called with |\n|---|---|\n")[2].partition("\n\n")[0]
    cells = [row.strip("| ").split(" | ") for row in table.splitlines()]
    explained = {name: tuple(forms.split("; or ")) for names, forms in cells for name in re.findall(r"`(\w+)`", names)}

    others = {"policy": ("timeline",), "group_by": ("record",), "distinct": ("record",)}
    assert explained == FORMS | others


@pytest.mark.parametrize("public", [summarize, Renderer])
def test_every_option_of_a_call_is_explained(public: Any) -> None:
    page = (DOCS / "reference" / "api.md").read_text("utf-8")
    explained = code_names(page.partition(f"\n### {public.__name__}\n")[2].partition("\n### ")[0])

    options = [name for name, option in signature(public).parameters.items() if option.kind is option.KEYWORD_ONLY]
    assert options
    assert [name for name in options if name not in explained] == []
