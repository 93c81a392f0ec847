"""The events: a Zipf distribution over timelines, values of 200 bytes. Needs Python's own modules only.

A value is `{"id": …, "sent": milliseconds, "text": …}`. Its text is cut from a pool of random letters, so that it can't
be compressed to nothing. `node/producing.mjs` makes the same values.
"""

import json
import string
from itertools import accumulate
from pathlib import Path
from random import Random
from time import time
from typing import Any

VALUE_BYTES = 200
POOL = 4096  # letters
SEED = 20


class Workload:
    """Events by their numbers."""

    def __init__(self, timelines: list[str], pool: str) -> None:
        self.timelines = timelines
        self._pool = pool

    @classmethod
    def made(cls, events: int, timelines: int) -> "Workload":
        """Draw the timelines of so many events; the n-th timeline is 1/n as frequent as the first."""
        random = Random(SEED)
        weights = list(accumulate(1 / rank for rank in range(1, timelines + 1)))
        names = [f"mail:reader-{number:05d}" for number in range(timelines)]
        pool = "".join(random.choices(string.ascii_letters + string.digits, k=POOL))
        return cls(random.choices(names, cum_weights=weights, k=events), pool)

    @classmethod
    def read(cls, path: str) -> "Workload":
        return cls(**json.loads(Path(path).read_text()))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"timelines": self.timelines, "pool": self._pool}))

    def __len__(self) -> int:
        return len(self.timelines)

    def event(self, number: int) -> tuple[str, dict[str, Any]]:
        """Return the timeline and the value of an event that is sent now."""
        sent = int(time() * 1000)
        frame = len(f'{{"id":{number},"sent":{sent},"text":""}}')
        start = number * 7 % (POOL - VALUE_BYTES)
        text = self._pool[start : start + VALUE_BYTES - frame]
        return self.timelines[number], {"id": number, "sent": sent, "text": text}
