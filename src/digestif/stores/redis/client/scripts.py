"""Lua scripts: what the server runs, and the digest it knows them by.

A script is a file in `lua/`. A line `-- include: name.lua` stands for a file of `lua/include/`, spliced in once however
often it is named. `-- include again: name.lua` splices it in once more, so that a function has names of its own: each
name of the script that it uses costs the server when the function is defined, though it may never be called. A script
that writes begins with `include/guard.lua`, which answers a repeated call; only one whose header has a line
`-- Unguarded`, with the reason, goes without. Functions of includes that the script does not use are left out: each one
would cost the server up to a microsecond at every call.
"""

import re
from collections.abc import Callable
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple, TypeAlias

Read: TypeAlias = Callable[[str], str]  # from the name of an include to its text

GUARD = "-- include: guard.lua\n"
_INCLUDE = re.compile(r"^ *-- include( again)?: (\S+)\n", re.MULTILINE)
_FUNCTION = re.compile(r"((?:^-- [^\n]*\n)*^local function (\w+)\(.*?^end\n\n?)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"--.*")
_WORD = re.compile(r"\w+")


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
    """The script of this name, with its guard and its includes."""
    text = _read(f"{name}.lua")
    if not text.startswith("#!lua"):
        raise ValueError(
            f"{name}.lua does not begin with #!lua: the server would let it touch keys that it never named"
        )
    return Script.of(name, spliced(guarded(text), read=load_include))


def load_include(name: str) -> str:
    """The text of an include."""
    return _read(f"include/{name}")


def guarded(text: str) -> str:
    """The text with its guard, unless it only reads or says that it goes without."""
    flags, _, rest = text.partition("\n")
    if "no-writes" in flags or "\n-- Unguarded  " in text:
        return text
    return f"{flags}\n{GUARD}{rest}"


def spliced(text: str, *, read: Read) -> str:
    """The text with its includes in place: each at its first mention, those that it needs itself before it."""
    used = _used_words(text, read)

    def read_used(name: str) -> str:
        return "".join(piece.text for piece in _pieces(read(name)) if piece.function is None or piece.function in used)

    return _splice(text, read_used, done=set(), within=())


def _splice(text: str, read: Read, *, done: set[str], within: tuple[str, ...]) -> str:
    def body(mention: re.Match[str]) -> str:
        again, name = mention[1], mention[2]
        if name in within:
            raise ValueError(f"includes go in a circle: {' → '.join([*within, name])}")
        if name in done and not again:
            return ""
        done.add(name)
        return _splice(read(name), read, done=done, within=(*within, name))

    return _INCLUDE.sub(body, text)


class _Piece(NamedTuple):
    """A function of an include with its comment, or the text between two of them."""

    text: str
    function: str | None
    words: frozenset[str]


@cache
def _pieces(text: str) -> tuple[_Piece, ...]:
    first, *others = _FUNCTION.split(text)  # text; then a function, its name and the text after it, in turn
    pieces = [_Piece(first, None, _words(first))]
    for function, name, between in zip(others[0::3], others[1::3], others[2::3], strict=True):
        pieces += [_Piece(function, name, _words(function)), _Piece(between, None, _words(between))]
    return tuple(pieces)


def _used_words(text: str, read: Read) -> set[str]:
    """The words of a script, of the statements of its includes, and of the functions that any of these name."""
    names = list(dict.fromkeys(_included(text)))
    pieces = [_Piece(text, None, _words(text))]
    for name in names:  # the list grows meanwhile
        included = read(name)
        names += [further for further in _included(included) if further not in names]
        pieces += _pieces(included)
    used: set[str] = set()
    seen = -1
    while seen < len(used):  # a function that is used names others
        seen = len(used)
        used.update(*(piece.words for piece in pieces if piece.function is None or piece.function in used))
    return used


def _included(text: str) -> list[str]:
    return [name for _, name in _INCLUDE.findall(text)]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(_COMMENT.sub("", text)))


def _read(path: str) -> str:
    return files("digestif.stores.redis").joinpath("lua", path).read_text(encoding="utf-8")
