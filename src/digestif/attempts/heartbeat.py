"""The heartbeat: a thread of its own renews the leases, whatever event loop and handlers do."""

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("digestif")


class Heartbeat:
    """Calls `beat` every so many seconds while the block runs."""

    def __init__(self, beat: Callable[[], None], *, seconds: float) -> None:
        self._beat = beat
        self._seconds = seconds
        self._done = threading.Event()

    def __enter__(self) -> "Heartbeat":
        threading.Thread(target=self._run, name="digestif-heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()  # not joined: it may be waiting for the store

    def _run(self) -> None:
        while not self._done.wait(self._seconds):
            try:
                self._beat()
            except Exception:  # a store of another author: the next beat may do better
                logger.exception("leases could not be renewed")
