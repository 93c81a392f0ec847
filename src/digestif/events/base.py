"""The base of all events, and the one place that logs them and passes them to listeners."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from digestif.core.texts import in_one_line, reason_of, traceback_of

logger = logging.getLogger("digestif")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. Durations in seconds."""

    level: ClassVar[int] = logging.INFO
    trace_level: ClassVar[int | None] = None  # of a line of its own for the traceback; None: it follows the event

    def __str__(self) -> str:
        """One line for the log: the event, its timeline, and its fields with rounded numbers."""
        facts = ", ".join(self._facts())
        timeline = getattr(self, "timeline", None)
        subject = "" if timeline is None else f" {in_one_line(timeline)}"
        return f"{type(self).__name__}{subject}{': ' if facts else ''}{facts}"

    @property
    def trace(self) -> BaseException | None:
        """The error whose traceback is logged."""
        return None

    def _facts(self) -> Iterator[str]:
        names = [field.name for field in fields(self) if field.name not in _NAMED_LAST]
        for name in [*names, *_NAMED_LAST[1:]]:
            value = getattr(self, name, None)
            if value is not None and value != "" and value != ():
                yield f"{name}={shown(value)}"


_NAMED_LAST = ("timeline", "attempt", "digest_id")  # but the timeline stands before all others


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, tuple):
        more = f" and {len(value) - 3} more" if len(value) > 3 else ""
        return " ".join(map(shown, value[:3])) + more
    return in_one_line(reason_of(value) if isinstance(value, BaseException) else str(value))


Listener = Callable[[Event], object]


class Events:
    """The listeners of one engine."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with every event from now on; call the returned function to stop."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with suppress(ValueError):  # stopped already
                self._listeners.remove(listener)

        return unsubscribe

    def wanted(self, kind: type[Event]) -> bool:
        """True if the event would be logged or heard: asked before making one that is costly."""
        return bool(self._listeners) or logger.isEnabledFor(kind.level)

    def emit(self, event: Event) -> None:
        """Log the event and call the listeners. If one raises, that is logged, and the others are still called."""
        if logger.isEnabledFor(event.level):
            _log(event)
        for listener in list(self._listeners):
            try:
                listener(event)
            except (Exception, SystemExit):  # sys.exit() in a listener must not silence the listeners after it
                logger.exception("a listener failed on %s", event)


def _log(event: Event) -> None:
    trace = traceback_of(event.trace).rstrip()  # as text of bounded length that any log can write
    if event.trace_level is None:
        logger.log(event.level, "%s\n%s" if trace else "%s%s", event, trace)
        return
    logger.log(event.level, "%s", event)
    if trace:
        logger.log(event.trace_level, "traceback of %s:\n%s", type(event).__name__, trace)
