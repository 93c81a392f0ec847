"""Full garbage collections: while the process holds little, they take a few milliseconds."""

import asyncio
import gc
from collections.abc import Callable

from digestif.clock import monotonic

LOOKS_EVERY = 10.0  # seconds
EVERY, AT_LATEST = 180.0, 900.0  # seconds between two collections while it holds little, and in any case
LITTLE = 4 << 20  # bytes of decoded records
MANY = 10  # collections of the middle generation: about a million objects have come and not gone


class Garbage:
    """Collects cyclic garbage of all generations. Python's own full collections stop everything at a bad moment."""

    def __init__(self, held: Callable[[], int], now: Callable[[], float] = monotonic) -> None:
        self._held = held  # bytes of records
        self._now = now
        self._last = now()

    async def collect_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LOOKS_EVERY)
            self.tick()

    def tick(self) -> None:
        """Collect if it is time, or if there may be much garbage, and little is held."""
        waited = self._now() - self._last
        is_wanted = waited >= EVERY or gc.get_count()[2] >= MANY
        if waited >= AT_LATEST or (is_wanted and self._held() < LITTLE):
            gc.collect()
            self._last = self._now()
