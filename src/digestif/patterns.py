"""Patterns of timelines: `*` stands for any characters, and of several the one with the longest literal part wins."""

import re
from collections.abc import Iterator
from typing import Generic, TypeVar

from digestif.core.texts import shortened
from digestif.errors import ConfigError

T = TypeVar("T")

_CACHED = 10_000  # timelines for which the answer is kept at hand


class Patterns(Generic[T]):
    """Values by pattern, found by the names of timelines."""

    def __init__(self) -> None:
        self._items: list[tuple[str, re.Pattern[str], T]] = []
        self._found: dict[str, T | None] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter([value for *_, value in self._items])

    def __contains__(self, pattern: object) -> bool:
        return any(known == pattern for known, *_ in self._items)

    def add(self, pattern: str, value: T) -> None:
        self._items.append((pattern, compiled(pattern), value))
        self._items.sort(key=lambda item: -_literal(item[0]))  # stable: of equals the first one wins
        self._found.clear()

    def find(self, timeline: str) -> T | None:
        """The value whose pattern matches with the longest literal part."""
        try:
            return self._found[timeline]
        except KeyError:
            pass
        found = next((value for _, pattern, value in self._items if pattern.fullmatch(timeline)), None)
        if len(self._found) >= _CACHED:
            self._found.clear()
        self._found[timeline] = found
        return found


def check_pattern(pattern: object) -> str:
    """Give back a pattern, or refuse it."""
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(f"pattern: {shortened(pattern)} is not the name of a timeline or a pattern like 'mail:*'")
    return pattern


def compiled(pattern: str) -> re.Pattern[str]:
    """A group for each `*`."""
    return re.compile("(.*)".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _literal(pattern: str) -> int:
    return len(pattern.replace("*", ""))
