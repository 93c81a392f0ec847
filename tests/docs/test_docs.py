"""What the pages say is so: every public name is explained, every example runs, every link leads somewhere."""

import ast
import code
import inspect
import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
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
from digestif.stores import base, registry
from digestif.stores.redis import keys
from digestif.stores.redis.client.options import Options
from digestif.stores.redis.layout import CLUSTER_PARTITIONS, PARTITIONS
from digestif.testing import plugin, servers
from digestif.testing.servers import HOST, ClusterServers, LoneCluster, RedisServer
from tests.docs.pages import (
    DOCS,
    NO_PLUGINS,
    PAGES,
    ROOT,
    anchors,
    blocks,
    closed_in_the_end,
    code_names,
    links,
    run_page,
)

pytest_plugins = ["pytester"]

REFERENCE = DOCS / "reference"
PRESETS = [name for name, member in vars(Policy).items() if isinstance(member, classmethod)]


def reference(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


def public(owner: object) -> list[str]:
    return [name for name in vars(owner) if not name.startswith("_")]


def by_path(path: Path) -> str:
    return str(path.relative_to(ROOT))


SERVERS = [
    name
    for name in public(servers)
    if getattr(getattr(servers, name), "__module__", "") == servers.__name__
    and name not in ("Binary", "Outlook")  # what they say among themselves
]


# Names


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("testing", [name for name in public(plugin) if name.startswith("digestif_")]),
        ("testing", public(digestif.testing.FakeClock)),
        ("testing", SERVERS),
        ("testing", [name for kind in (RedisServer, ClusterServers) for name in public(kind)]),
        ("policy", [field.name for field in fields(Policy)]),
        ("policy", [f"Policy.{preset}" for preset in PRESETS]),
        ("policy", ["Exponential", "Intervals", "Retry"]),
        ("policy", [field.name for field in fields(digestif.Retry)]),
        ("dsn", [f"{scheme}://" for scheme in registry.BUILT_IN]),
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
    events = [event for event in subclasses(Event) if event.__name__ in digestif.__all__]
    names = [name for event in events for name in (event.__name__, *(f.name for f in fields(event)))]

    assert events
    assert [name for name in names if name not in explained] == []


def test_every_error_is_explained_and_public() -> None:
    """With what it carries."""
    kinds: list[type[Any]] = [DigestifError, *subclasses(DigestifError)]
    errors = {error.__name__ for error in kinds}

    assert errors | {name for error in kinds for name in public(error)} <= code_names(reference("errors"))
    assert errors <= set(digestif.__all__)


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    """Ours only: tests elsewhere may have made others."""
    for child in kind.__subclasses__():
        if child.__module__.startswith(("digestif.errors", "digestif.events")):
            yield child
            yield from subclasses(child)


@pytest.mark.parametrize("scheme", registry.BUILT_IN)
def test_every_option_of_a_dsn_is_explained(scheme: str) -> None:
    with pytest.raises(ConfigError) as refused:
        registry.open_store(f"{scheme}://?qqqqqqqq=1")
    _, _, listed = str(refused.value).replace("there is ", "there are ").partition("there are ")

    assert "it takes none" in str(refused.value) or listed
    assert [option for option in listed.split(", ") if option and option not in code_names(reference("dsn"))] == []


def test_every_kind_of_key_of_the_redis_store_is_explained() -> None:
    explained = code_names((DOCS / "internals.md").read_text("utf-8"))
    kinds = (*keys.PARTITION_KINDS, *keys.TIMELINE_KINDS, *keys.LETTER_KINDS)

    assert [kind for kind in kinds if kind not in explained] == []


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


def test_the_defaults_of_the_options_of_redis_are_the_real_ones() -> None:
    section = reference("dsn").partition("## Redis and Valkey")[2].partition("## PostgreSQL")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
    words = {"ca": "those of the system", "verify": "`yes`", "sentinel_user": "none", "sentinel_password": "none"}
    defaults = {field.name: field.default for field in fields(Options)}
    expected = {name: f"{value:g}" for name, value in defaults.items() if name not in words}

    assert rows.pop("partitions") == f"{PARTITIONS}, on a cluster {CLUSTER_PARTITIONS}"
    assert rows == expected | words


def test_the_limits_are_the_real_ones() -> None:
    numbers = set(re.findall(r"\d+", reference("limits").replace(",", "")))
    limits = [records.KEY_BYTES, records.VALUE_BYTES // 1024, base.PAGE_RECORDS, base.PAGE_TIMELINES]

    assert {str(limit) for limit in [*limits, base.HISTORY_LIMIT, base.HISTORY_KEYS]} <= numbers


# Pages


@pytest.fixture
def start_server() -> Iterator[Callable[[], str]]:
    """Starts a server of the test's own, set up as the pages advise."""
    with ExitStack() as started:

        def start() -> str:
            server = started.enter_context(RedisServer(appendonly=True, appendfsync="always"))
            return f"{HOST}:{server.port}"

        yield start


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_the_examples_run(page: Path, pytester: pytest.Pytester, start_server: Callable[[], str]) -> None:
    """In an empty folder."""

    def run_tests(text: str, options: list[str]) -> None:
        file = pytester.makepyfile(text)
        options = ["-p", "no:cacheprovider", *NO_PLUGINS, *options]
        outcomes = pytester.runpytest_inprocess(file, *options).parseoutcomes()
        assert outcomes.keys() <= {"passed", "deselected"}
        assert outcomes["passed"] > 0

    run_page(page, run_tests, start_server)


@pytest.mark.parametrize("page", PAGES, ids=by_path)
def test_the_links_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page.read_text("utf-8")) if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target.read_text("utf-8")))


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


def test_the_first_screen_of_the_readme_says_what_it_is_and_how_to_try_it() -> None:
    """With a picture. At the end a short list leads on, and the home page has all pages."""
    page = (ROOT / "README.md").read_text("utf-8")
    first_screen = "\n".join(page.splitlines()[:40])
    first_sentence = first_screen.partition("\n\n")[2].partition(".\n")[0]

    assert all(
        word in first_sentence for word in ("digest engine in Python", "library", "worker", "service", "dashboard")
    )
    assert "\n./dev demo " in first_screen
    assert "\n./dev test " in first_screen
    assert "![" in first_screen
    assert 5 <= len(re.findall(r"^\d+\. ", page.partition("## Read on")[2], re.MULTILINE)) <= 8


def test_the_home_page_leads_to_every_page() -> None:
    home = DOCS / "index.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(home.read_text("utf-8"))}

    assert sorted(set(DOCS.rglob("*.md")) - linked - {home}) == []


def test_the_tutorial_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks((DOCS / "tutorial.md").read_text("utf-8"))

    assert pasted([block.text + "\n" for block in found if block.language == "python" and not block.mark])


def pasted(texts: list[str]) -> str:
    """What a prompt prints that is given these lines. There a compound statement ends only with an empty line."""
    console = code.InteractiveConsole()
    with (
        closed_in_the_end(console.locals) as look,
        redirect_stdout(StringIO()) as printed,
        redirect_stderr(StringIO()) as complaints,
    ):
        for line in "".join(texts).splitlines():
            console.push(line)
            look()
    assert complaints.getvalue() == ""
    return printed.getvalue()


@pytest.mark.parametrize("server_class", [RedisServer, LoneCluster])
def test_the_rights_that_the_page_gives_are_enough(server_class: type[RedisServer]) -> None:
    """For a whole life: the server finds nothing to refuse."""
    page = (DOCS / "how-to" / "redis-in-production.md").read_text("utf-8")
    command = next(block.text for block in blocks(page) if "ACL SETUSER" in block.text)
    with server_class() as server:
        server.cli(*shlex.split(command.replace("\\\n", ""))[1:])
        with Digests(server.url.replace("://", "://digestif:secret@"), policy=Policy(attempts=1)) as digests:
            live(digests)

        assert server.cli("ACL", "LOG") == []


def live(digests: Digests) -> None:
    """Use everything once, with a timeline of many records and one of few."""
    with closing(digests.store.listen()) as wakeups:
        digests.add_many([("many", number) for number in range(600)])
        digests.add("few", 1, key="k", within=60)
        assert wakeups.wait(10)
    for timeline in ("many", "few"):
        with pytest.raises(KeyError), digests.digest(timeline):
            raise KeyError  # the only attempt: a dead letter
    for letter in digests.dead_letters():
        assert digests.replay(letter.id)
        with digests.digest(letter.timeline):
            digests.add(letter.timeline, 2, key="later")
    assert digests.flush("few")
    assert digests.retract("many", "later")
    assert digests.pause("many")
    assert list(digests.schedule(digests.timeline("few").due)) == []
    digests.maintenance()
    assert [
        digests.explain("few"),
        digests.peek("few"),
        digests.timelines(),
        digests.history(),
        digests.trace("few", "k"),
    ]
    assert digests.delete("few")
    assert digests.verify()
    assert digests.store.footprint()


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
