"""Faults in the scripts: planted in their texts as they are read, and run by the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from textwrap import dedent, indent
from unittest.mock import patch

from digestif.stores.redis.client import scripts

_read_once = cache(scripts._read)


@dataclass(frozen=True, kw_only=True)
class ScriptFault:
    """A name of one file that means something else: a function, or a value that one line defines.

    Its new meaning is an expression of Lua that sees what the definition sees. `sound` in it is the old meaning.
    """

    says: str  # what goes wrong
    file: str  # below lua/
    name: str  # the file has `local function name(` or `local name =`, once
    becomes: str
    found_by: tuple[str, ...]  # sentences, of the conformance suite or of tests/stores/redis, each with its parameters
    model: bool = False  # the Hypothesis state machine finds it, too …
    vectors: bool = False  # … and the arithmetic

    def plant(self, text: str) -> str:
        found = [*re.finditer(_definition(self.name), text, re.MULTILINE | re.DOTALL)]
        if len(found) != 1:
            raise LookupError(f"{self.file} must define {self.name} once, not {len(found)} times")
        [definition] = found
        margin, becomes = definition["margin"], dedent(self.becomes).strip()
        planted = indent(f"local sound = {self.name}\n{self.name} = {becomes}\n", f"{margin}  ")
        # `do` stands behind the definition, so that the loader takes both for one function.
        return f"{text[: definition.end()]} do\n{planted}{margin}end{text[definition.end() :]}"


def _definition(name: str) -> str:
    """Return the pattern of a function up to its `end`, or of the line of a value up to a comment."""
    function = rf"local function {name}\(.*?\n(?P=margin)end"
    value = rf"local (?:\w+, )*{name}(?:, \w+)* = [^\n]*?(?= --|\n)"
    return rf"^(?P<margin> *)(?:{function}|{value})"


def using(place: str, becomes: str, *, given: str = "...") -> str:
    """Return the expression of a function as it was, for which a name or a field means something else while it runs.

    In `becomes`, `usual` is what it meant before. Of the arguments, `given` names those that `place` or `becomes` uses.
    """
    return f"""
function({given})
  local usual = {place}
  {place} = {becomes}
  local function back(...)
    {place} = usual
    return ...
  end
  return back(sound({given}))
end"""


def keeping(field: str, *, given: str = "slot, ...") -> str:
    """Return the expression of a function as it was, except that it leaves a field as it finds it."""
    return using(field, field, given=given)


@contextmanager
def planted(fault: ScriptFault) -> Iterator[None]:
    """Let stores of this process run scripts with the fault."""

    def read_planted(path: str) -> str:
        return fault.plant(_read_once(path)) if path == fault.file else _read_once(path)

    with patch.object(scripts, "_read", read_planted):
        scripts.load.cache_clear()
        try:
            yield
        finally:
            scripts.load.cache_clear()
