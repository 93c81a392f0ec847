"""An event loop for those who have none: routes that are called by functions share it, and keep their connections."""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

CLOSING_SECONDS = 2.0  # for connections, when the process ends


class Background:
    """One loop in a daemon thread, made when it is first needed; after a fork another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._closers: WeakSet[Any] = WeakSet()

    def run(self, owner: Any, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Wait for a coroutine. Its owner is closed when the process ends."""
        future = asyncio.run_coroutine_threadsafe(call(), self._running())
        self._closers.add(owner)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, owner: Any) -> None:
        """Let an owner close what it has open here."""
        if owner in self._closers and self._process == os.getpid() and self._loop is not None:
            self._closers.discard(owner)
            with suppress(TimeoutError, RuntimeError):
                asyncio.run_coroutine_threadsafe(owner.close(), self._loop).result(CLOSING_SECONDS)

    def close_all(self) -> None:
        for owner in list(self._closers):
            self.close(owner)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._closers = WeakSet()
                threading.Thread(target=self._loop.run_forever, name="digestif-routes", daemon=True).start()
            return self._loop


BACKGROUND = Background()
atexit.register(BACKGROUND.close_all)
