"""The stage: actors are ordinary synchronous code, and only one of them runs at a time.

Whoever holds the baton runs. An actor that pauses in the middle of something keeps its stack in its thread, and another
thread goes on with the play; so switches cost something only where actors really interleave.
"""

import threading
from collections.abc import Callable, Hashable
from typing import Protocol


class Crashed(BaseException):
    """The process of this actor has ended, right here."""


class Baton(Protocol):
    """A lock on which one thread waits."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


class Stage:
    """Plays one play after the other; its threads are kept."""

    def __init__(self) -> None:
        self._step: Callable[[], bool]
        self._mine = threading.local()
        self._idle: list[Baton] = []
        self._parked: dict[Hashable, Baton] = {}
        self._home: Baton = _baton()
        self._is_over = True
        self._error: BaseException | None = None

    @property
    def parked(self) -> list[Hashable]:
        """Who has paused, the longest first."""
        return list(self._parked)

    def play(self, step: Callable[[], bool]) -> None:
        """Call `step` until it gives False or raises. Those who have paused by then crash."""
        self._step, self._is_over, self._error = step, False, None
        self._mine.baton = self._home = _baton()
        self._perform()
        if self._error is not None:
            raise self._error

    def pause(self, actor: Hashable) -> None:
        """Let others go on until this actor is resumed. Raises Crashed if that never happens."""
        baton = self._mine.baton
        self._parked[actor] = baton
        self._wake_another()
        baton.acquire()
        if self._is_over:
            raise Crashed

    def resume(self, actor: Hashable) -> None:
        """Let an actor go on; a step that does this does nothing afterwards."""
        baton = self._mine.baton
        self._idle.append(baton)
        self._parked.pop(actor).release()
        baton.acquire()

    def _perform(self) -> None:
        """Step after step, on whichever thread has the baton."""
        while True:
            if self._is_over and not self._parked:
                return
            if self._is_over:
                self.resume(next(iter(self._parked)))
            else:
                self._perform_step()

    def _perform_step(self) -> None:
        try:
            if not self._step():  # others may have come to the end meanwhile
                self._is_over = True
        except Crashed:
            pass
        except BaseException as error:  # noqa: BLE001  # raised again where the play began
            self._is_over = True
            self._error = self._error or error

    def _wake_another(self) -> None:
        if self._idle:
            self._idle.pop().release()
        else:
            threading.Thread(target=self._work, name="chaos", daemon=True).start()

    def _work(self) -> None:
        self._mine.baton = baton = _baton()
        while True:
            self._perform()
            self._idle.remove(self._home)
            self._idle.append(baton)
            self._home.release()
            baton.acquire()


def _baton() -> Baton:
    baton = threading.Lock()
    baton.acquire()
    return baton
