"""Handlers: which function delivers the digests of which timelines."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from digestif.core.texts import shortened
from digestif.errors import ConfigError

_CACHED = 10_000  # timelines whose handler is kept at hand


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function that delivers, and how it wants to be called."""

    pattern: str
    call: Callable[[Any], Any]
    batch: int | None  # it takes a list of at most so many digests
    at_most_once: bool  # digests are closed before it is called
    is_async: bool


class Handlers:
    """The handlers of one engine, found by the names of timelines."""

    def __init__(self) -> None:
        self._handlers: list[tuple[re.Pattern[str], Handler]] = []
        self._found: dict[str, Handler | None] = {}

    def __bool__(self) -> bool:
        return bool(self._handlers)

    def __iter__(self) -> Any:
        return iter([handler for _, handler in self._handlers])

    def register(self, pattern: object, call: object, *, batch: object = None, at_most_once: bool = False) -> Handler:
        """Let a function deliver the timelines of a pattern, in which `*` stands for any characters."""
        if not isinstance(pattern, str) or not pattern:
            raise ConfigError(f"pattern: {shortened(pattern)} is not the name of a timeline or a pattern like 'mail:*'")
        if not callable(call):
            raise ConfigError(f"handler: {shortened(call)} is not a function; use @digests.handler({pattern!r})")
        if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
            raise ConfigError(f"handler: {shortened(call)} has a yield in it: called, it would do nothing")
        if batch is not None and (type(batch) is not int or batch < 1):
            raise ConfigError(f"batch: {shortened(batch)} is not a whole number ≥ 1")
        if any(known.pattern == pattern for known in self):
            raise ConfigError(f"handler: {pattern!r} has a handler already")
        handler = Handler(pattern=pattern, call=call, batch=batch, at_most_once=at_most_once, is_async=_is_async(call))
        self._handlers.append((_compiled(pattern), handler))
        self._handlers.sort(key=lambda item: -_literal(item[1].pattern))  # stable: of equals the first one wins
        self._found.clear()
        return handler

    def find(self, timeline: str) -> Handler | None:
        """The handler whose pattern matches with the longest literal part."""
        try:
            return self._found[timeline]
        except KeyError:
            pass
        found = next((handler for pattern, handler in self._handlers if pattern.fullmatch(timeline)), None)
        if len(self._found) >= _CACHED:
            self._found.clear()
        self._found[timeline] = found
        return found


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _literal(pattern: str) -> int:
    return len(pattern.replace("*", ""))


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # its kind, not whether it is there
