"""An event loop for callers without one. An engine's handlers share it, and keep their connections between calls."""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from digestif.errors import ConfigError

T = TypeVar("T")

CLOSING_SECONDS = 2.0  # for connections, when the engine is closed or the process ends


class BackgroundLoop:
    """A loop in a daemon thread, started at the first call and again after a fork. `release` runs when it is closed."""

    def __init__(self, release: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._release = release
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine and wait for its result. ConfigError on the loop itself, which would wait for ever."""
        if threading.current_thread() is self._thread:
            raise ConfigError("a coroutine that delivers must not call Digests to deliver: use AsyncDigests in it")
        future = asyncio.run_coroutine_threadsafe(call(), self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close what was opened on the loop, and end it. A later call starts another."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None or self._process != os.getpid():
            return
        with suppress(TimeoutError, RuntimeError):
            asyncio.run_coroutine_threadsafe(self._release(), loop).result(CLOSING_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSING_SECONDS)
        if not thread.is_alive():
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="digestif-loop", daemon=True)
                self._thread.start()
                _in_use.add(self)
            return self._loop


_in_use: WeakSet[BackgroundLoop] = WeakSet()


@atexit.register
def _close_all() -> None:
    for background in list(_in_use):
        background.close()
