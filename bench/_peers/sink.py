"""Where notifications arrive: a file with a line for each, which outlives its writer. Standard library only."""

import json
import os
from collections.abc import Iterable
from time import time


class Sink:
    """Notes notifications: when, which events, and how many seconds after they were due."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def note(self, ids: Iterable[int], *, due: float | None = None) -> None:
        """A notification that leaves now. Without `due`, its lateness follows by `note_late`."""
        now = time()
        late = None if due is None else max(0.0, now - due)
        self._write({"at": now, "ids": list(ids), "late": late})

    def note_late(self, seconds: float) -> None:
        self._write({"late": seconds})

    def _write(self, line: dict[str, object]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())
