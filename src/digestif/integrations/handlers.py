"""What handlers of logging that wait for a store have in common."""

import logging
import sys
from typing import Any


class UnlockedHandler(logging.Handler):
    """A handler whose `emit` may wait for a store, and may raise.

    It is called without the lock of other handlers: while one thread waits, others log, and so may a thread of the
    store. An error is printed to stderr, as every handler does: a log call must not fail.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        kept: Any = self.filter(record)
        if kept:
            wanted = kept if isinstance(kept, logging.LogRecord) else record
            try:
                self.emit(wanted)
            except Exception:  # noqa: BLE001
                self.handleError(wanted)
        return bool(kept)


def is_inside_a_store() -> bool:
    """True if a store is at work in this thread: to wait for it here would be to wait for itself."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("digestif.stores"):
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    return False
