"""Hints within a process: whoever makes a timeline ready wakes those who wait here."""

import threading
from weakref import ref

from digestif.clock import monotonic
from digestif.stores.base import Wakeups


class Hints:
    """Those who listen to a store in this process."""

    def __init__(self) -> None:
        self._listeners: tuple[ref[LocalWakeups], ...] = ()  # replaced, never changed: many threads read it

    def listen(self, wakeups: "LocalWakeups") -> "LocalWakeups":
        self._listeners = (*(known for known in self._listeners if known() is not None), ref(wakeups))
        return wakeups

    def tell(self, *, worth: bool = True) -> None:
        """A timeline may be taken, if that is so."""
        if worth:
            for known in self._listeners:
                listener = known()
                if listener is not None:
                    listener.hint()


class LocalWakeups(Wakeups):
    """Hints of this process, and of whatever `has_changed` can see of others, looked at every `glance` seconds."""

    glance = 3600.0

    def __init__(self) -> None:
        super().__init__()
        self._hint = (
            threading.Lock()
        )  # free while there is a hint. An Event may stay locked if a signal interrupts `set`
        self._hint.acquire()

    def has_changed(self) -> bool:
        """True if somebody else may have changed something since this was asked last."""
        return False

    def hint(self) -> None:
        try:  # noqa: SIM105  # a signal may come in the middle of contextlib.suppress
            self._hint.release()
        except RuntimeError:  # there is one already
            pass

    def wait(self, timeout: float) -> bool:
        end = monotonic() + timeout
        while not self._closed.is_set():
            left = end - monotonic()
            if self._hint.acquire(timeout=max(0.0, min(left, self.glance))) or self.has_changed():
                return not self._closed.is_set()
            if left <= self.glance:
                return False
        return False

    def close(self) -> None:
        super().close()
        self.hint()
