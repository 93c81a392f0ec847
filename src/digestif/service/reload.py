"""Settings that are read again on SIGHUP."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from digestif.core.texts import message_of
from digestif.errors import ConfigError, DigestifError
from digestif.service.problems import WrongSettings
from digestif.service.settings import Settings

logger = logging.getLogger("digestif.service")


class Reload:
    """Reads settings again, one time after the other, however many signals ask for it."""

    def __init__(self, read: Callable[[], Settings], check: Callable[[Settings], None]) -> None:
        self._read = read
        self._check = check
        self._asked = asyncio.Event()

    @contextmanager
    def on_hangup(self) -> Iterator[None]:
        """Let each SIGHUP ask for it. In other threads than the main one there are no signals."""
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

    async def next(self) -> Settings:
        """The next settings that can be used. What is wrong is logged, and changes nothing."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                settings = await asyncio.to_thread(self._read)
                self._check(settings)
            except DigestifError as error:
                report(error)
            else:
                return settings


def ignore_hangup() -> None:
    """For a process that can reload: until it has begun, and when it ends, SIGHUP has nothing to do."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def refuse_other_store(settings: Settings, now: Settings) -> None:
    """ConfigError if settings are for another store than those in force."""
    if (settings.store, settings.namespace) != (now.store, now.namespace):
        raise ConfigError("store and namespace can't change while this runs: restart it")


def report(error: DigestifError) -> None:
    """Log each problem of settings that could not be read again."""
    wrong = [f"{error.source}: {problem}" for problem in error.problems] if isinstance(error, WrongSettings) else []
    for problem in wrong or [message_of(error)]:
        logger.error("not reloaded: %s", problem)
    logger.error("the settings before stay in force")
