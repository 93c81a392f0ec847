"""Settings that are read again on SIGHUP."""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from digestif.core.texts import message_of, traceback_of
from digestif.dsn import redacted_lines
from digestif.errors import ConfigError, DigestifError
from digestif.service.problems import WrongSettings
from digestif.service.settings import Settings

logger = logging.getLogger("digestif.service")


class Reload:
    """Reads settings again, one time after the other, however many signals ask for it.

    `replace` lets them replace those in force, and raises before it has replaced anything. What it answers closes what
    served the settings before, when nothing uses that any more.
    """

    def __init__(
        self, read: Callable[[], Settings], replace: Callable[[Settings], Awaitable[Coroutine[Any, Any, None]]]
    ) -> None:
        self._read = read
        self._replace = replace
        self._asked = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    @contextmanager
    def on_hangup(self) -> Iterator[None]:
        """Let each SIGHUP ask for a reload, which `run` makes. Threads other than the main one get no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGHUP)
        loop.add_signal_handler(signal.SIGHUP, self._asked.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, before)

    async def run(self) -> None:
        """Reload whenever it is asked for. What is wrong is logged, and changes nothing."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                closing = asyncio.create_task(await self._replace(await asyncio.to_thread(self._read)))
            except Exception as error:  # noqa: BLE001  # whatever it is, the settings before are still good
                report(error)
            else:
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    async def closed(self) -> None:
        """Wait until all that served earlier settings is closed."""
        if self._closing:
            await asyncio.wait(set(self._closing))


def ignore_hangup() -> None:
    """For a process that can reload: until it has begun, and when it ends, SIGHUP has nothing to do."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def refuse_other_store(settings: Settings, now: Settings) -> None:
    """ConfigError if settings are for another store than those in force."""
    if (settings.store, settings.namespace) != (now.store, now.namespace):
        raise ConfigError("store and namespace can't change while this runs: restart it")


def report(error: Exception) -> None:
    """Log each problem of settings that could not replace those in force."""
    for problem in _problems(error):
        logger.error("not reloaded: %s", problem)
    logger.error("the settings before stay in force")


def _problems(error: Exception) -> list[str]:
    if isinstance(error, WrongSettings):
        return [f"{error.source}: {problem}" for problem in error.problems]
    if isinstance(error, DigestifError):
        return [message_of(error)]
    return [redacted_lines(traceback_of(error))]  # a fault of ours: where it is counts, too
