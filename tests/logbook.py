"""Notes of processes that may be killed at any time."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any


class Logbook:
    """A file that many processes append to. A kill may tear a line: then the noted event has not happened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def note(self, what: Any) -> None:
        """Write in one call, on a new line even after a torn one."""
        if self._file is None:
            self._file = os.open(self._path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(self._file, b"\n" + json.dumps(what).encode() + b"\n")

    def read(self) -> Iterator[Any]:
        if not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            with suppress(ValueError):  # torn, or between two
                yield json.loads(line)
