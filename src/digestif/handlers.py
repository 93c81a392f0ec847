"""Handlers: which function delivers the digests of which timelines."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from digestif.core.texts import shortened
from digestif.errors import ConfigError
from digestif.patterns import Patterns, check_pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function that delivers, and how it wants to be called."""

    pattern: str
    call: Callable[[Any], Any]
    batch: int | None = None  # it takes a list of at most so many digests
    at_most_once: bool = False  # digests are closed before it is called
    is_async: bool = False
    is_route: bool = False  # it is called with an `Errand`, not with the digest alone


class Handlers:
    """The handlers of one engine, found by the names of timelines."""

    def __init__(self) -> None:
        self._handlers: Patterns[Handler] = Patterns()
        self.find = self._handlers.find

    def __bool__(self) -> bool:
        return bool(self._handlers)

    def __iter__(self) -> Any:
        return iter(self._handlers)

    def register(self, pattern: object, call: object, *, batch: object = None, at_most_once: bool = False) -> Handler:
        """Let a function deliver the timelines of a pattern."""
        name = check_pattern(pattern)
        if not callable(call):
            raise ConfigError(f"handler: {shortened(call)} is not a function; use @digests.handler({pattern!r})")
        if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
            raise ConfigError(f"handler: {shortened(call)} has a yield in it: called, it would do nothing")
        if batch is not None and (type(batch) is not int or batch < 1):
            raise ConfigError(f"batch: {shortened(batch)} is not a whole number ≥ 1")
        return self.add(
            Handler(pattern=name, call=call, batch=batch, at_most_once=at_most_once, is_async=_is_async(call))
        )

    def add(self, handler: Handler) -> Handler:
        """Take in a handler; ConfigError if its pattern has one."""
        if handler.pattern in self._handlers:
            raise ConfigError(f"handler: {handler.pattern!r} has a handler already")
        self._handlers.add(handler.pattern, handler)
        return handler


def _is_async(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # its kind, not whether it is there
