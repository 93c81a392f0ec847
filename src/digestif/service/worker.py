"""A worker without HTTP, for the routes of a file of settings."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from digestif.errors import ConfigError
from digestif.service.delivery import Delivery
from digestif.service.engine import open_engine
from digestif.service.reload import Reload, refuse_other_store
from digestif.service.settings import Settings
from digestif.stores.registry import open_store

if TYPE_CHECKING:
    from digestif.aio import AsyncDigests
    from digestif.stores.base import Store

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
        try:
            self._wake = lambda: loop.call_soon_threadsafe(self._delivery.stop)
            await self._serve(store)
        finally:
            self._wake = None
            await asyncio.to_thread(store.close)
        if self._failure is not None:
            raise self._failure

    async def _serve(self, store: "Store") -> None:
        reload = Reload(self._read, self._replace)
        with reload.on_hangup():  # before the worker logs that it has started
            self._digests = self._begin(self._settings, store)
            reloading = asyncio.create_task(reload.run())
            reloading.add_done_callback(self._ended)
            try:
                await self._delivery.ended()
            finally:
                reloading.cancel()
                await reload.closed()
                await self._digests.close()

    def _begin(self, settings: Settings, store: "Store") -> "AsyncDigests":
        """Deliver by these settings. If it raises, nothing has changed."""
        digests = open_engine(settings, store)
        self._prepare(digests)
        self._delivery.begin(digests, self._delivery.worker_of(settings, digests))
        if self._is_stopping:
            self._delivery.stop()
        return digests

    # Reloading

    async def _replace(self, settings: Settings) -> Coroutine[Any, Any, None]:
        """Deliver by other settings. The answer closes the engine before, when its worker has ended."""
        refuse_other_store(settings, self._settings)
        _check_routes(settings)
        before, working = self._digests, self._delivery.current
        self._digests = self._begin(settings, before.store)
        self._settings = settings
        logger.info("reloaded %s: routes=%d", settings.source, len(settings.routes))

        async def close() -> None:
            await self._delivery.ended(working)
            await before.close()

        return close()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._delivery.stop()


def _check_routes(settings: Settings) -> None:
    if not settings.routes:
        raise ConfigError(f"{settings.source}: there are no [[routes]], so there is nothing to deliver; add one")
