"""Patterns of timelines: `*` stands for any characters; the pattern with the longest literal part wins."""

from bisect import insort
from collections.abc import Iterator
from typing import Generic, TypeVar

from digestif.core.texts import shortened
from digestif.errors import ConfigError

T = TypeVar("T")

_CACHED = 10_000  # timelines whose match is remembered


class Patterns(Generic[T]):
    """Values by pattern, looked up by the name of a timeline."""

    def __init__(self) -> None:
        self._items: list[tuple[str, T]] = []
        self._found: dict[str, T | None] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter([value for _, value in self._items])

    def items(self) -> list[tuple[str, T]]:
        """Patterns with their values; those with a longer literal part first."""
        return list(self._items)

    def __contains__(self, pattern: object) -> bool:
        return any(known == pattern for known, _ in self._items)

    def add(self, pattern: str, value: T) -> None:
        insort(self._items, (pattern, value), key=lambda item: -_literal(item[0]))  # among equals the first one wins
        self._found.clear()

    def find(self, timeline: str) -> T | None:
        """The value whose pattern matches with the longest literal part."""
        try:
            return self._found[timeline]
        except KeyError:
            pass
        found = next((value for pattern, value in self._items if stars(pattern, timeline) is not None), None)
        if len(self._found) >= _CACHED:
            self._found.clear()
        self._found[timeline] = found
        return found


def check_pattern(pattern: object) -> str:
    """The pattern itself. Raises ConfigError unless it is a text that is not empty."""
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(f"pattern: {shortened(pattern)} is not the name of a timeline or a pattern like 'mail:*'")
    return pattern


def stars(pattern: str, timeline: str) -> list[str] | None:
    """The texts that each `*` stands for; None if the pattern does not match.

    It searches the literal parts one after the other: no name takes long to match, unlike with a regular expression.
    """
    first, *middle = pattern.split("*")
    if not middle:
        return [] if timeline == pattern else None
    last = middle.pop()
    end = len(timeline) - len(last)
    place = len(first)
    if place > end or not timeline.startswith(first) or not timeline.endswith(last):
        return None
    found = []
    for part in middle:
        at = timeline.find(part, place, end)
        if at < 0:
            return None
        found.append(timeline[place:at])
        place = at + len(part)
    return [*found, timeline[place:end]]


def _literal(pattern: str) -> int:
    return len(pattern.replace("*", ""))
