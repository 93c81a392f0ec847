"""The faults that tests/nets/test_scripts.py plants fit the scripts as they are."""

import re

import pytest

from digestif.stores.redis.client import scripts
from tests.nets.patches import ScriptFault, planted
from tests.nets.script_faults import FAULTS

LONG = 24  # characters: shorter statements may be written twice
LUA = {"and", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or", "return"}
LUA |= {"then", "true", "math", "pairs", "string", "tostring"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_fault_names_what_its_file_defines_once(fault: ScriptFault) -> None:
    assert f" {fault.name} = " in fault.plant(scripts._read(fault.file))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_no_fault_quotes_the_scripts(fault: ScriptFault) -> None:
    statements = {line.partition("--")[0].strip() for line in scripts._read(fault.file).splitlines()}

    assert [each for each in statements if len(each) > LONG and each in fault.becomes] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_a_fault_uses_names_that_are_there(fault: ScriptFault) -> None:
    """Any other is an error when the script runs, which a sentence could take for what it looks for."""
    before, planted_here, _ = script_with(fault).partition(f"local sound = {fault.name}\n")

    assert planted_here
    assert names_used(fault.becomes) <= {*words(before), *names_declared(fault.becomes), *LUA, "sound"}


def script_with(fault: ScriptFault) -> str:
    """Return a script that has the fault, and that of an include has little else."""
    folder, _, file = fault.file.rpartition("/")
    with planted(fault):
        if not folder:
            return scripts.load(file.removesuffix(".lua")).text
        text = f"-- include: partition.lua\n-- include: {file}\nreturn {fault.name}\n"
        return scripts.spliced(text, read=scripts.load_include)


def words(lua: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"--.*", "", lua)))


def names_used(lua: str) -> set[str]:
    """Return the words of an expression that are neither texts nor fields."""
    bare = re.sub(r"'[^']*'|\.\w+|:\w+", "", lua)
    return set(re.findall(r"(?<!\w)[A-Za-z_]\w*", bare))


def names_declared(lua: str) -> set[str]:
    declared = re.findall(r"(?:local|for|function \w*\(|function\(|{) ?([\w, ]+)", lua)
    return words(" ".join(declared))


@pytest.mark.parametrize(("text", "times"), [("local x = 1\n", 0), ("local function f()\nend\nlocal f = 1\n", 2)])
def test_a_fault_whose_name_is_missing_or_defined_twice_is_an_error(text: str, times: int) -> None:
    fault = ScriptFault(says="", file="add.lua", name="f", becomes="nil", found_by=())

    with pytest.raises(LookupError, match=rf"^add\.lua must define f once, not {times} times$"):
        fault.plant(text)
