"""Lua scripts: what the server runs, and the digest it knows them by.

A script is a file in `lua/`. A line `-- include: name.lua` stands for a file of `lua/include/`, spliced in once however
often it is named. What is loaded here is what the server gets.
"""

import re
from collections.abc import Callable
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple, TypeAlias

Read: TypeAlias = Callable[[str], str]  # from the name of an include to its text

_INCLUDE = re.compile(r"^ *-- include: (\S+)\n", re.MULTILINE)


class Script(NamedTuple):
    """A script as it is sent once (its text) and called ever after (its digest)."""

    name: str
    text: str
    sha: str
    grows: bool = False  # it brings records: the server refuses it when its memory is full

    @classmethod
    def of(cls, name: str, text: str) -> "Script":
        sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
        return cls(name, text, sha, grows=text.startswith("#!lua\n"))


@cache
def load(name: str) -> Script:
    """The script of this name, with its includes."""
    text = _read(f"{name}.lua")
    if not text.startswith("#!lua"):
        raise ValueError(
            f"{name}.lua does not begin with #!lua: the server would let it touch keys that it never named"
        )
    return Script.of(name, spliced(text, read=load_include))


def load_include(name: str) -> str:
    """The text of an include."""
    return _read(f"include/{name}")


def spliced(text: str, *, read: Read) -> str:
    """The text with its includes in place: each at its first mention, those that it needs itself before it."""
    return _splice(text, read, done=set(), within=())


def _splice(text: str, read: Read, *, done: set[str], within: tuple[str, ...]) -> str:
    def body(mention: re.Match[str]) -> str:
        name = mention[1]
        if name in within:
            raise ValueError(f"includes go in a circle: {' → '.join([*within, name])}")
        if name in done:
            return ""
        done.add(name)
        return _splice(read(name), read, done=done, within=(*within, name))

    return _INCLUDE.sub(body, text)


def _read(path: str) -> str:
    return files("digestif.stores.redis").joinpath("lua", path).read_text(encoding="utf-8")
