"""Work on long bodies in turns, beside the event loop: the bodies of all requests share one thread."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from digestif.clock import monotonic
from digestif.service.service import Service
from digestif.threads import DaemonThreads

T = TypeVar("T")

TURN = 0.004  # seconds: less than the interpreter leaves to a thread while the event loop waits


class Turns:
    """A thread that gives each piece of work a short turn, and then the next one its turn.

    So a short body does not wait for long ones, and no thread of the store is taken. Between two turns of a work the
    event loop runs.
    """

    def __init__(self, _: Service) -> None:
        self._thread = DaemonThreads(1, "digestif-bodies")

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Take all steps of some work, in turns, and return its result."""
        while (ended := await self._thread.run(partial(_turn, steps))) is None:
            pass
        return ended.result  # type: ignore[no-any-return]

    async def call(self, call: Callable[[], T]) -> T:
        """Make a call that lets other threads run while it works, in one turn."""
        return await self._thread.run(call)


class _Ended(NamedTuple):
    result: Any


def _turn(steps: Generator[None, None, T]) -> _Ended | None:
    """Take steps until the turn is over; the result, if that was the last one."""
    end = monotonic() + TURN
    try:
        while monotonic() < end:
            next(steps)
    except StopIteration as stop:
        return _Ended(stop.value)
    return None


def finished(steps: Generator[None, None, T]) -> T:
    """Take all steps of some work here and now, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
