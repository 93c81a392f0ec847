"""Every page installs Digestif in the same way, one that works before a release, and enough for what it shows."""

import ast
import re
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from digestif.exports import explain_missing
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, links
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
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
INSTALL_PAGE = DOCS / "install.md"  # which may name other places of the source, and a wheel
TEXTS = [
    path
    for path in chain(ROOT.glob("*.md"), *((ROOT / folder).rglob("*") for folder in ("deploy", "docs", "src")))
    if (path.suffix in (".html", ".js", ".md", ".py") or path.name == "Dockerfile") and path != INSTALL_PAGE
]
NO_REGISTRY_HAS_IT = re.compile(r"\bdigestif\[[a-z]|pip install[^\n`]*[ '\"]digestif\b")


def named(page: str) -> list[Requirement]:
    """What a page tells people to install, with the extras of all lines together."""
    return [requirement(word.strip("'")) for found in INSTALL.finditer(page) for word in found[1].split()]


def requirement(word: str) -> Requirement:
    """What a word after `pip install` names. A path is one of Digestif: its source or a wheel."""
    place, bracket, extras = word.partition("[")
    return Requirement(("digestif" if "." in place else place) + bracket + extras)


def extras(page: str) -> set[str]:
    return {extra for each in named(page) if each.name == "digestif" for extra in each.extras}


def is_how_to(page: Path) -> bool:
    return "how-to" in page.parts and installs(page)


def installs(page: Path) -> bool:
    return re.search(r"pip install '?\.", page.read_text("utf-8")) is not None


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


# One way to install


def test_nothing_says_to_install_digestif_from_a_registry() -> None:
    """Neither pages nor errors: no registry has it yet. All say `pip install .` instead, for a clone."""
    assert INSTALL_PAGE not in TEXTS
    assert len(TEXTS) > 300
    assert [str(path) for path in TEXTS if NO_REGISTRY_HAS_IT.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "line",
    ["pip install digestif", "pip install 'digestif[redis]'", "`pip install\n'digestif[mail]'`", "uses digestif[x]"],
)
def test_lines_that_need_a_registry_are_recognised(line: str) -> None:
    assert NO_REGISTRY_HAS_IT.search(line)


@pytest.mark.parametrize("page", [page for page in PAGES if installs(page)], ids=lambda page: page.stem)
def test_a_page_that_installs_links_to_the_page_about_it(page: Path) -> None:
    if page != INSTALL_PAGE:
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in links(page.read_text("utf-8"))}

        assert INSTALL_PAGE in targets


def test_the_page_about_it_lists_what_every_extra_brings() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", INSTALL_PAGE.read_text("utf-8"), re.MULTILINE)
    brings = {extra: ", ".join(sorted(Requirement(line).name for line in lines)) for extra, lines in EXTRAS.items()}

    assert dict(rows) == {extra: names for extra, names in brings.items() if extra not in ("dev", "docs")}


# Errors


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_error_for_a_missing_module_installs_what_its_extra_brings(extra: str) -> None:
    said = explain_missing("shelf", extra=extra)

    beginning, _, command = said.partition("; ")
    assert beginning == f"needs the module shelf of the extra {extra}"
    assert command.startswith("pip install ")
    named_packages = [Requirement(word) for word in shlex.split(command)[2:]]
    brought = [Requirement(line.partition(";")[0]) for line in EXTRAS[extra]]
    assert sorted(map(str, named_packages)) == sorted(map(str, brought))


def test_the_page_about_it_shows_such_an_error() -> None:
    assert f"store: redis:// {explain_missing('redis', extra='redis')}\n" in INSTALL_PAGE.read_text("utf-8")


def test_the_error_names_the_extra_alone_where_digestif_has_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", unknown)

    said = explain_missing("redis", extra="redis")

    assert said == "needs the module redis of the extra redis; install Digestif with it"
