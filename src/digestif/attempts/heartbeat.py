"""The heartbeat: a thread renews the leases, whatever event loop and handlers do."""

import logging
import threading
from collections.abc import Callable

from digestif.core.times import Millis, to_seconds

logger = logging.getLogger("digestif")

BEATS = 3  # in a lease: one may fail


class Heartbeat:
    """Calls `beat` while the block runs, often enough for leases of this duration."""

    def __init__(self, beat: Callable[[], None], *, lease: Millis) -> None:
        self._beat = beat
        self._seconds = to_seconds(lease) / BEATS
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
