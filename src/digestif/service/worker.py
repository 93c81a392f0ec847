"""A worker without HTTP, for the routes of a file of settings."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from digestif.errors import ConfigError
from digestif.service.delivery import Delivery
from digestif.service.engine import open_engine
from digestif.service.reload import Reload, refuse_other_store
from digestif.service.settings import Settings
from digestif.stores.registry import open_store

if TYPE_CHECKING:
    from digestif.aio import AsyncDigests

logger = logging.getLogger("digestif.service")


class SettingsWorker:
    """Delivers what a file of settings describes, and reads it again on SIGHUP.

    `options` are those of `Worker` that go before the file's; `prepare` is called with each engine.
    """

    def __init__(
        self,
        read: Callable[[], Settings],
        *,
        options: Mapping[str, Any],
        prepare: "Callable[[AsyncDigests], object]" = lambda _: None,
    ) -> None:
        self._read = read
        self._settings = read()
        _check_routes(self._settings)
        self._prepare = prepare
        self._failure: BaseException | None = None
        self._delivery = Delivery(works=True, on_failure=self._fail, options=options)
        self._wake: Callable[[], object] | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Claim nothing more; deliveries may finish. May be called in a signal handler."""
        self._is_stopping = True
        if self._wake is not None:
            self._wake()

    async def serve(self) -> None:
        """Work until `stop`."""
        loop = asyncio.get_running_loop()
        store = await asyncio.to_thread(open_store, self._settings.store.reveal(), namespace=self._settings.namespace)
        engines = [self._begin(open_engine(self._settings, store))]
        self._wake = lambda: loop.call_soon_threadsafe(self._delivery.stop)
        if self._is_stopping:
            self._delivery.stop()
        reloading = asyncio.create_task(self._reload(engines))
        try:
            await self._delivery.ended()
        finally:
            self._wake = None
            reloading.cancel()
            for engine in engines:
                await engine.close()
            await asyncio.to_thread(store.close)
        if self._failure is not None:
            raise self._failure

    def _begin(self, digests: "AsyncDigests") -> "AsyncDigests":
        self._prepare(digests)
        self._delivery.begin(self._settings, digests)
        return digests

    async def _reload(self, engines: "list[AsyncDigests]") -> None:
        """Deliver by other settings. An engine is closed when its worker has ended."""
        reload = Reload(self._read, self._check)
        with reload.on_hangup():
            while True:
                settings = await reload.next()
                before, working = engines[-1], self._delivery.current
                self._settings = settings
                engines.append(self._begin(open_engine(settings, before.store)))
                logger.info("reloaded %s: routes=%d", settings.source, len(settings.routes))
                await self._delivery.ended(working)
                engines.remove(before)
                await before.close()

    def _check(self, settings: Settings) -> None:
        refuse_other_store(settings, self._settings)
        _check_routes(settings)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._delivery.stop()


def _check_routes(settings: Settings) -> None:
    if not settings.routes:
        raise ConfigError(f"{settings.source}: there are no [[routes]], so there is nothing to deliver; add one")
