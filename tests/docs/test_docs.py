"""What the pages say is so: every public name is explained, every example runs, every link leads somewhere."""

import ast
import code
import inspect
import re
import types
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import MISSING, fields
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import digestif
import digestif.testing
from digestif import AsyncDigests, ConfigError, DigestifError, Digests, Event, Policy
from digestif.core import records
from digestif.core.machine import Rule
from digestif.stores import base, dsn
from digestif.testing import plugin
from tests.docs.pages import DOCS, PAGES, ROOT, anchors, blocks, code_names, links, run_page

pytest_plugins = ["pytester"]

REFERENCE = DOCS / "reference"
PRESETS = [name for name, member in vars(Policy).items() if isinstance(member, classmethod)]


def reference(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


def public(owner: object) -> list[str]:
    return [name for name in vars(owner) if not name.startswith("_")]


def by_path(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Names


@pytest.mark.parametrize("module", [digestif, digestif.testing], ids=lambda module: module.__name__)
def test_all_is_sorted(module: types.ModuleType) -> None:
    assert list(module.__all__) == sorted(module.__all__)


def test_all_is_the_public_namespace() -> None:
    found = {name for name in public(digestif) if not isinstance(getattr(digestif, name), types.ModuleType)}

    assert found == set(digestif.__all__)


def test_everything_that_testing_offers_is_there() -> None:
    assert [name for name in digestif.testing.__all__ if not hasattr(digestif.testing, name)] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("api", digestif.__all__),
        ("testing", digestif.testing.__all__),
        ("testing", [name for name in public(plugin) if name.startswith("digestif_")]),
        ("testing", public(digestif.testing.FakeClock)),
        ("policy", [field.name for field in fields(Policy)]),
        ("policy", [f"Policy.{preset}" for preset in PRESETS]),
        ("policy", ["Exponential", "Intervals", "Retry"]),
        ("policy", [field.name for field in fields(digestif.Retry)]),
        ("dsn", [f"{scheme}://" for scheme in dsn.BUILT_IN]),
        ("api", [field.name for kind in (digestif.Timeline, digestif.Digest) for field in fields(kind)]),
        ("api", [field.name for kind in (digestif.DeadLetter, digestif.HistoryEntry) for field in fields(kind)]),
        ("api", [field.name for kind in (digestif.Ledger, digestif.Verification) for field in fields(kind)]),
        ("api", [field.name for field in fields(digestif.Explanation)]),
        ("api", [str(word) for kind in (digestif.State, digestif.Fate, digestif.Outcome) for word in kind]),
        ("api", [str(word) for word in digestif.Durability]),
        ("api", [str(rule) for rule in Rule if rule is not Rule.STAYS]),
    ],
)
def test_every_name_is_explained(page: str, names: list[str]) -> None:
    explained = code_names(reference(page))

    assert [name for name in names if name not in explained] == []


def test_every_event_is_explained_with_its_fields() -> None:
    explained = code_names(reference("events"))
    names = [name for event in subclasses(Event) for name in (event.__name__, *(f.name for f in fields(event)))]

    assert [name for name in names if name not in explained] == []


def test_every_error_is_explained_and_public() -> None:
    errors = {error.__name__ for error in subclasses(DigestifError)} | {DigestifError.__name__}

    assert errors <= code_names(reference("errors"))
    assert errors <= set(digestif.__all__)


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    """Ours only: tests elsewhere may have made others."""
    for child in kind.__subclasses__():
        if child.__module__ in ("digestif.errors", "digestif.events"):
            yield child
            yield from subclasses(child)


@pytest.mark.parametrize("scheme", dsn.BUILT_IN)
def test_every_option_of_a_dsn_is_explained(scheme: str) -> None:
    with pytest.raises(ConfigError) as refused:
        dsn.open_store(f"{scheme}://?qqqqqqqq=1")
    _, _, listed = str(refused.value).partition("there are ")

    assert "it takes none" in str(refused.value) or listed
    assert [option for option in listed.split(", ") if option and option not in code_names(reference("dsn"))] == []


# Signatures and numbers


@pytest.mark.parametrize("engine", [Digests, AsyncDigests])
def test_every_method_is_shown_with_its_signature(engine: type[Any]) -> None:
    shown = {block.text.strip() for block in blocks(reference("api"))}
    methods = [name for name in public(engine) if callable(getattr(engine, name))]

    assert [call for name in methods if (call := signature(name, getattr(engine, name))) not in shown] == []


def test_every_option_of_the_constructor_is_shown_and_explained() -> None:
    shown = {block.text.strip() for block in blocks(reference("api"))}

    assert signature("Digests", Digests) in shown
    assert inspect.signature(Digests) == inspect.signature(AsyncDigests)
    assert [name for name in inspect.signature(Digests).parameters if name not in code_names(reference("api"))] == []


def signature(name: str, function: Any) -> str:
    """A call with its defaults, and without its types."""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]
    return f"{name}{inspect.Signature(plain)}".replace("'", '"')


def test_the_defaults_of_the_policy_are_the_real_ones() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", reference("policy"), re.MULTILINE))

    for field in fields(Policy):
        if field.default is not MISSING:
            assert ast.literal_eval(rows[field.name]) == field.default, field.name
    for field in fields(digestif.Retry):
        assert ast.literal_eval(rows[field.name]) == field.default, field.name


def test_the_limits_are_the_real_ones() -> None:
    numbers = set(re.findall(r"\d+", reference("limits").replace(",", "")))
    limits = [records.KEY_BYTES, records.VALUE_BYTES // 1024, base.PAGE_RECORDS, base.PAGE_TIMELINES]

    assert {str(limit) for limit in [*limits, base.HISTORY_LIMIT, base.HISTORY_KEYS]} <= numbers


# Pages


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_the_examples_run(page: Path, pytester: pytest.Pytester) -> None:
    """In an empty folder."""

    def run_tests(text: str, options: list[str]) -> None:
        file = pytester.makepyfile(text)
        outcomes = pytester.runpytest_inprocess(file, "-p", "no:cacheprovider", *options).parseoutcomes()
        assert outcomes.keys() <= {"passed", "deselected"}
        assert outcomes["passed"] > 0

    run_page(page, run_tests)


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_the_links_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page.read_text("utf-8")) if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target.read_text("utf-8")))


def test_every_page_can_be_found() -> None:
    """In the navigation, which names no page that does not exist."""
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))

    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_the_first_example_of_the_readme_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And once more: it does not trip over what its first run left in the store."""
    monkeypatch.chdir(tmp_path)
    example = next(
        block.text for block in blocks((ROOT / "README.md").read_text("utf-8")) if block.language == "python"
    )

    printed = pasted([example, example])

    assert printed.splitlines()[0] == "now: ['Build 7 failed']"
    assert printed.count("later:") == 2
    assert len([line for line in example.splitlines() if line]) <= 12


def test_the_tutorial_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks((DOCS / "tutorial.md").read_text("utf-8"))

    assert pasted([block.text + "\n" for block in found if block.language == "python" and not block.mark])


def pasted(texts: list[str]) -> str:
    """What a prompt prints that is given these lines. There a compound statement ends only with an empty line."""
    console = code.InteractiveConsole()
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()) as complaints:
        for line in "".join(texts).splitlines():
            console.push(line)
    assert complaints.getvalue() == ""
    for value in console.locals.values():
        if isinstance(value, Digests):
            value.close()
    return printed.getvalue()


def test_the_picture_shows_what_happens() -> None:
    """Its records, replayed second by second under its policy, give exactly its digests."""
    picture = ET.parse(DOCS / "images" / "timeline.svg").getroot()
    arrivals = {int(dot.attrib["data-second"]) for dot in elements(picture, "record")}
    shown = [(int(d.attrib["data-second"]), int(d.attrib["data-records"])) for d in elements(picture, "digest")]
    policy = Policy(minimum_delay=60, increment_delay=20, maximum_delay=240)

    with Digests("memory://", policy=policy) as digests:
        delivered = [
            (second, len(digest))
            for second in range(max(arrivals) + 1)
            for digest in digests_at(digests, second, second in arrivals)
            if digest
        ]

    assert delivered == shown


def elements(picture: ET.Element, kind: str) -> list[ET.Element]:
    return [element for element in picture.iter() if element.get("class") == kind]


def digests_at(digests: Digests, second: int, arrives: bool) -> Iterator[digestif.Digest]:
    ready = [entry.key for entry in digests.schedule(now=second)]
    if arrives and digests.add("t", second, now=second):
        ready.append("t")
    for timeline in ready:
        with digests.digest(timeline, now=second) as digest:
            yield digest
