"""Draining: claim until nothing is left of what was due at the start."""

from digestif.clock import monotonic
from digestif.core.times import Millis
from digestif.worker.loop import Loop

LOOK_SECONDS = 1.0  # between two looks, while nothing changes


class Drain:
    """One drain of a store.

    It ends although producers go on. It stops claiming after many rounds in a row that found nothing due before
    `began`: with several partitions a single such round proves little. Handlers that do not end are waited for
    `patience` seconds.
    """

    def __init__(self, loop: Loop, *, began: Millis, partitions: int, patience: float) -> None:
        self._loop = loop
        self._began = began
        self._patience = patience
        self._rounds_left = self._most_rounds = 2 * partitions + 1  # that find nothing old, before no more is claimed
        self._changed = monotonic()
        self._running = 0
        self.claimed = 0
        self.is_over = False

    async def step(self) -> None:
        """Claim once, or wait for what is running. Raises StoreError."""
        claimed = await self._claim() if self._rounds_left else 0
        running = len(self._loop.timelines)
        if claimed or running != self._running:
            self._changed, self._running = monotonic(), running
        if not self._loop.is_busy:
            self.is_over = not self._rounds_left
        elif not claimed:
            self.is_over = monotonic() - self._changed >= self._patience
            await self._loop.change(0 if self.is_over else LOOK_SECONDS)

    async def _claim(self) -> int:
        found = await self._loop.run_once()
        self.claimed += found.claimed
        if found.first is not None and found.first <= self._began:
            self._rounds_left = self._most_rounds
        elif found.claimed or not self._loop.is_busy:
            self._rounds_left -= 1
        if not (found.claimed or found.more or self._loop.is_busy):
            self._rounds_left = 0
        return found.claimed
