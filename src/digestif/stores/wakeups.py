"""Wake-ups within a process: a call that makes a timeline ready wakes the idle workers of the same process."""

import threading
from weakref import ref

from digestif.clock import monotonic
from digestif.stores.base import Wakeups


class Hints:
    """The wake-ups of a store in this process."""

    def __init__(self) -> None:
        self._listeners: tuple[ref[LocalWakeups], ...] = ()  # replaced as a whole: many threads read it

    def listen(self, wakeups: "LocalWakeups") -> "LocalWakeups":
        self._listeners = (*(known for known in self._listeners if known() is not None), ref(wakeups))
        return wakeups

    def wake(self, *, worth: bool = True) -> None:
        """Wake the listeners if a timeline may have become ready."""
        if worth:
            for known in self._listeners:
                listener = known()
                if listener is not None:
                    listener.hint()


class LocalWakeups(Wakeups):
    """Hints from this process; every `glance` seconds `has_changed` looks for changes by others."""

    glance = 3600.0

    def __init__(self) -> None:
        super().__init__()
        # Unlocked while there is a hint. An Event would stay locked if a signal interrupted `set`.
        self._hint = threading.Lock()
        self._hint.acquire()

    def has_changed(self) -> bool:
        """True if another process may have changed something since the last call."""
        return False

    def hint(self) -> None:
        try:  # noqa: SIM105  # a signal may come in the middle of contextlib.suppress
            self._hint.release()
        except RuntimeError:  # there is a hint already
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
