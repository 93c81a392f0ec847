"""Lines on standard output that hold up nothing, for a command that serves others while it prints."""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Full, Queue

UNREAD = 10_000  # lines that are kept for a reader that lags; further ones are left out
LINGER = 1.0  # seconds for the last lines, when the command ends


class Lines:
    """Prints lines in a thread of its own. If that is impossible, for example as the reader has ended, calls `failed`.

    Not by `sys.stdout`: a thread that is stuck in it keeps a lock that Python needs to end.
    """

    def __init__(self, *, failed: Callable[[], None]) -> None:
        self._failed = failed
        self._error: OSError | None = None
        self._lines: Queue[str | None] = Queue(UNREAD)
        self._thread = threading.Thread(target=self._print, name="digestif-lines", daemon=True)
        self._thread.start()

    def add(self, text: str) -> None:
        """Print a line, later if the reader is slow."""
        with suppress(Full):
            self._lines.put_nowait(text)

    def close(self) -> None:
        """Print what is left, as far as it is read within a moment. Raises the OSError that kept it from printing."""
        with suppress(Empty):
            while self._lines.full():
                self._lines.get_nowait()
        self._lines.put_nowait(None)
        self._thread.join(LINGER)
        if self._error is not None:
            raise self._error

    def _print(self) -> None:
        try:
            while (text := self._lines.get()) is not None:
                _write(f"{text}\n".encode(sys.stdout.encoding or "utf-8", "replace"))
        except OSError as error:
            self._error = error
            self._failed()


def _write(content: bytes) -> None:
    while content:
        content = content[os.write(sys.stdout.fileno(), content) :]
