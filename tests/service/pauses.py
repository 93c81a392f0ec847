"""How long single callbacks keep the event loop of a service that runs in a thread of the test."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

import pytest

from digestif.cli.serve import YOUNG_OBJECTS

MOST = 0.020  # seconds that one client may keep the event loop


class Pauses:
    """The longest pause so far. In processor time, so that a machine that is busy with other things adds nothing."""

    def __init__(self) -> None:
        self.longest = 0.0  # seconds
        self.callback = "none"

    def note(self, seconds: float, callback: object) -> None:
        if seconds > self.longest:
            self.longest, self.callback = seconds, repr(getattr(callback, "__self__", callback))

    def __repr__(self) -> str:
        return f"{self.longest * 1000:.1f} ms by {self.callback}"


@contextmanager
def measured() -> Iterator[Pauses]:
    """Measure each callback of event loops in other threads than the caller's.

    Start the service inside: `with measured() as pauses, serving() as (client, _): ...`, then
    `assert pauses.longest < MOST, pauses`.
    """
    pauses, caller, run = Pauses(), threading.get_ident(), asyncio.Handle._run

    def measured_run(handle: asyncio.Handle) -> None:
        if threading.get_ident() == caller:
            run(handle)
            return
        before, callback = thread_time(), handle._callback  # type: ignore[attr-defined]
        run(handle)
        pauses.note(thread_time() - before, callback)

    with tidied_up(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", measured_run)
        yield pauses


@contextmanager
def tidied_up() -> Iterator[None]:
    """Collect garbage as `digestif serve` does: objects of earlier tests are not looked through."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
