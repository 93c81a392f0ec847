"""What a page tells people to install is enough for what it shows."""

import ast
import re
import sys
from importlib.metadata import distribution
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import PAGES, ROOT, Block, blocks
from tests.test_wheel import closure, required

INSTALL = re.compile(r"pip install\s+((?:'[^']*'|[\w.\-]+)(?: (?:'[^']*'|[\w.\-]+))*)")
SCHEME = re.compile(r"\b([a-z][a-z0-9]*)(?:\+[a-z]+)?://")
EXTRA_OF = {
    "apprise": "apprise",
    "postgres": "postgres",
    "postgresql": "postgres",
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), "redis"),
    **dict.fromkeys(("smtp", "smtps"), "mail"),
    **dict.fromkeys(("slack", "webhook"), "webhooks"),
}
DIGESTIF = distribution("digestif")


def named(page: str) -> list[Requirement]:
    """What a page tells people to install, with the extras of all lines together."""
    words = chain.from_iterable(found[1].split() for found in INSTALL.finditer(page))
    return [Requirement(re.sub(r"^\.", "digestif", word.strip("'"))) for word in words if not word.endswith(".whl")]


def extras(page: str) -> set[str]:
    return {extra for each in named(page) if each.name == "digestif" for extra in each.extras}


def is_how_to(page: Path) -> bool:
    return "how-to" in page.parts and re.search(r"pip install '?digestif\b", page.read_text("utf-8")) is not None


HOW_TOS = [page for page in PAGES if is_how_to(page)]


def shown(page: str, *languages: str) -> list[Block]:
    return [block for block in blocks(page) if block.language in languages]


def imported(source: str) -> set[str]:
    """The packages that a block imports."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names


def provided(page: str) -> set[str]:
    """The packages that can be imported after one has installed what the page says."""
    wanted = [each for each in named(page) if each.name != "digestif"]
    for extra in ("", *extras(page)):
        wanted += required(DIGESTIF, extra=extra)
    files = chain.from_iterable(package.files or [] for package in closure(wanted))
    return {file.parts[0].removesuffix(".py") for file in files} | {"digestif"} | own(page)


def own(page: str) -> set[str]:
    """The packages that the page itself writes, in blocks that are whole files."""
    return {name.partition("/")[0].removesuffix(".py") for name in re.findall(r"<!-- file (\S+) -->", page)}


@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: page.stem)
def test_a_page_names_the_extras_of_the_stores_and_channels_that_it_shows(page: Path) -> None:
    text = page.read_text("utf-8")
    schemes = {scheme for block in shown(text, "python") for scheme in SCHEME.findall(block.text)}

    assert {EXTRA_OF[scheme] for scheme in schemes & EXTRA_OF.keys()} <= extras(text)


@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: page.stem)
def test_a_page_names_all_that_its_examples_import(page: Path) -> None:
    text = page.read_text("utf-8")
    wanted = set().union(*(imported(block.text) for block in shown(text, "python")))

    assert wanted <= provided(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_extra_that_a_page_names_exists(page: Path) -> None:
    assert extras(page.read_text("utf-8")) <= set(DIGESTIF.metadata.get_all("Provides-Extra") or [])
