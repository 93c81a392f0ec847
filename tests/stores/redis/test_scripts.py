"""Scripts are spliced from small files, and all of them are in order."""

import re
from importlib.resources import files

import pytest

from digestif.stores.redis.client.scripts import GUARD, guarded, load, load_include, spliced
from digestif.stores.redis.keys import PARTITION_KINDS
from tests.servers import empty_server
from tests.stores.redis.proxy import SCRIPTS

LUA = files("digestif.stores.redis").joinpath("lua")
INCLUDES = sorted(file.name for file in LUA.joinpath("include").iterdir())


def test_an_include_stands_where_it_is_first_named() -> None:
    texts = {"a.lua": "-- include: b.lua\nA\n", "b.lua": "B\n"}

    assert spliced("head\n-- include: a.lua\n-- include: b.lua\nmain\n", read=texts.__getitem__) == "head\nB\nA\nmain\n"


def test_an_include_stands_again_where_that_is_asked_for() -> None:
    texts = {"a.lua": "A\n", "b.lua": "-- include: a.lua\nB\n"}

    text = spliced("-- include: b.lua\n  -- include again: a.lua\n-- include: a.lua\nmain\n", read=texts.__getitem__)

    assert text == "A\nB\nA\nmain\n"


def test_a_circle_of_includes_is_refused() -> None:
    texts = {"a.lua": "-- include: b.lua\n", "b.lua": "-- include: a.lua\n"}

    with pytest.raises(ValueError, match=r"a\.lua → b\.lua → a\.lua"):
        spliced("-- include: a.lua\n", read=texts.__getitem__)


def test_an_include_that_is_missing_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.lua"):
        load("nowhere")


def test_functions_of_includes_that_a_script_does_not_use_are_left_out() -> None:
    texts = {
        "a.lua": """\
local X = 1

-- Used by the script.
local function used()
  return helper(X) -- not unused
end

-- Used by nothing.
local function unused()
  return helper(X)
end
""",
        "b.lua": "local function helper(x)\n  return x\nend\n",
    }

    text = spliced("-- include: b.lua\n-- include: a.lua\nreturn used()\n", read=texts.__getitem__)

    assert re.findall(r"local function (\w+)", text) == ["helper", "used"]
    assert "local X = 1\n" in text
    assert "Used by nothing" not in text


def test_a_script_that_writes_is_guarded() -> None:
    assert guarded("#!lua\n-- Do it.\nmain\n") == f"#!lua\n{GUARD}-- Do it.\nmain\n"
    assert guarded("#!lua flags=allow-oom\nmain\n") == f"#!lua flags=allow-oom\n{GUARD}main\n"


@pytest.mark.parametrize("text", ["#!lua flags=no-writes\nmain\n", "#!lua\n-- Do it.\n-- Unguarded  why\nmain\n"])
def test_a_script_that_only_reads_or_says_why_has_no_guard(text: str) -> None:
    assert guarded(text) == text


def test_only_these_scripts_write_without_a_guard() -> None:
    """They have no caller whose answers could be noted, or look for an earlier answer themselves."""
    statement = "local earlier_answer = answered(noted)\n"
    texts = {name: load(name).text for name in SCRIPTS}
    writing = {name for name, text in texts.items() if "no-writes" not in text.splitlines()[0]}

    assert statement in load_include("guard.lua")
    assert {name for name in writing if statement not in texts[name]} == {"add", "confirm", "enter", "settings"}
    assert {name for name in SCRIPTS if statement in texts[name]} <= writing


def test_every_include_is_used() -> None:
    texts = [GUARD, *(LUA.joinpath(f"{name}.lua").read_text() for name in SCRIPTS)]
    texts += [LUA.joinpath("include", name).read_text() for name in INCLUDES]

    assert [name for name in INCLUDES if not any(f"-- include: {name}\n" in text for text in texts)] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_fills_in_its_form(name: str) -> None:
    first, purpose, *rest = LUA.joinpath(f"{name}.lua").read_text().splitlines()

    assert re.fullmatch(r"#!lua( flags=[a-z,-]+)?", first)
    assert re.fullmatch(r"-- [A-Z].*\.", purpose)
    assert any(line.startswith("-- Reply  ") for line in rest)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_server_takes_a_script_as_it_is(name: str) -> None:
    script = load(name)

    sha = empty_server().client().script_load(script.text)

    assert sha in (script.sha, script.sha.encode())


def test_only_what_brings_records_is_refused_when_memory_is_full() -> None:
    """What drains the store, and what only looks, goes on."""
    flags = {name: load(name).text.splitlines()[0].partition("flags=")[2] for name in SCRIPTS}

    assert {name for name, flag in flags.items() if not flag} == {"add", "import_pages", "keep"}


def test_scripts_declare_the_keys_of_a_partition_in_the_order_that_the_client_gives_them() -> None:
    declared = LUA.joinpath("include", "names.lua").read_text()

    [names] = re.findall(r"^local (.*) = unpack\(KEYS, 1, (?:\d+)\)$", declared, re.MULTILINE)

    assert [name.lower() for name in names.split(", ")] == list(PARTITION_KINDS)
