"""What handlers of logging that wait for a store have in common: when they are called, and where an error is."""

import logging
import sys
import sysconfig
from functools import lru_cache
from pathlib import PurePath
from types import TracebackType
from typing import Any

from digestif.core.texts import in_one_line, shortened_text

LONGEST_PLACE = 200  # characters
PACKAGES = {"site-packages", "dist-packages"}  # folders of installed libraries
LIBRARIES = ("django", "digestif")  # also where they are installed from a clone
STANDARD = tuple(PurePath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


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


# Where an error is


def error_of(record: logging.LogRecord) -> BaseException | None:
    """Return the exception that was logged."""
    return record.exc_info[1] if record.exc_info else None


def cause_of(error: BaseException) -> str | None:
    """Return the type of an error and its frame, such as `KeyError in shop/views.py:42 total`; None if never raised."""
    found = innermost_frame(error)
    return None if found is None else f"{type(error).__name__} in {place_of(found)}"


def innermost_frame(error: BaseException) -> TracebackType | None:
    """Return the innermost traceback entry of the application, or of all code if only libraries were running."""
    own = last = None
    entry = error.__traceback__
    while entry is not None:
        last = entry
        own = entry if is_of_the_application(entry) else own
        entry = entry.tb_next
    return own or last


def is_of_the_application(entry: TracebackType) -> bool:
    """True unless the frame is Python's, Django's, Digestif's or that of an installed package."""
    module = str(entry.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] not in LIBRARIES and is_application_file(entry.tb_frame.f_code.co_filename)


@lru_cache(maxsize=1000)
def is_application_file(path: str) -> bool:
    file = PurePath(path)
    is_installed = not PACKAGES.isdisjoint(file.parts) or any(file.is_relative_to(folder) for folder in STANDARD)
    return not is_installed and not path.startswith("<")


def place_of(entry: TracebackType) -> str:
    code = entry.tb_frame.f_code
    return place(code.co_filename, entry.tb_lineno, code.co_qualname)


def place(path: str, line: int, function: str) -> str:
    """Name a line of code, such as `shop/views.py:42 total`."""
    return shortened_text(in_one_line(f"{_importable(path)}:{line} {function}"), LONGEST_PLACE)


def _importable(path: str) -> str:
    """Return the path of a file as seen from the folder that it is imported from."""
    file = PurePath(path)
    folders = [PurePath(folder) for folder in sys.path if folder and isinstance(folder, str)]
    found = [file.relative_to(folder) for folder in folders if file.is_relative_to(folder)]
    return min(found, key=lambda relative: len(relative.parts), default=PurePath(*file.parts[-2:])).as_posix()
