"""The tables of options in the reference: every option of a DSN is there, with its real default."""

from dataclasses import MISSING, Field, fields
from typing import Any

import pytest

from digestif.channels.apprise_channel import AppriseOptions
from digestif.channels.files import FileOptions
from digestif.channels.http import HttpOptions
from digestif.channels.smtp_options import SmtpOptions
from digestif.channels.webhook import WebhookOptions
from digestif.stores.postgres import PostgresOptions
from digestif.stores.sqlite import SQLiteOptions
from tests.docs.pages import DOCS


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
