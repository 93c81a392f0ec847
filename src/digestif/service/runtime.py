"""A service as a process: HTTP and a worker on one event loop, until a signal ends them or lets them read the file."""

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvicorn
from msgspec.structs import replace

from digestif.core.tenants import MOST_TENANTS
from digestif.dsn import redacted
from digestif.errors import ConfigError, StoreError
from digestif.notes.samples import Sampler
from digestif.service.addresses import Address, check_open, parse
from digestif.service.app import application
from digestif.service.delivery import Delivery
from digestif.service.engine import open_engine
from digestif.service.garbage import Garbage
from digestif.service.reload import Reload, refuse_other_store
from digestif.service.server import uvicorn_config
from digestif.service.service import Service
from digestif.service.settings import Settings
from digestif.stores.registry import open_store

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from digestif.aio import AsyncDigests

logger = logging.getLogger("digestif.service")

BACKLOG = 2048  # connections that wait to be accepted
ACCEPTED_AT_ONCE = 64  # before any of them can be refused; fewer than server.OTHER_FILES
SAMPLED_EVERY = 10.0  # seconds
STORE_ENDS = 5.0  # seconds beyond the grace for calls of the store that are under way when the service stops
REQUESTS_END = 5.0  # seconds after which a reload no longer waits for requests that began before it
STREAMS = frozenset(("/v1/events", "/live"))  # their requests last, and always use the engine of the moment


class Runtime:
    """Runs a service. `read` reads the settings again on SIGHUP; `ready` is called with the address once it listens."""

    def __init__(
        self,
        settings: Settings,
        *,
        works: bool = True,
        read: Callable[[], Settings],
        ready: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_open(settings)
        self._settings = settings
        self._works = works
        self._read = read
        self._ready = ready
        self._failure: BaseException | None = None
        self._stop: Callable[[], object] | None = None
        self._is_stopping = False
        self.is_held_up = False  # it has ended, and calls of a store that does not answer have not

    def stop(self) -> None:
        """Accept nothing more, finish requests and deliveries, then end. May be called in a signal handler."""
        self._is_stopping = True
        if self._stop is not None:
            self._stop()

    async def serve(self) -> None:
        """Serve until `stop`. Raises what ended the worker, if that is why it ends."""
        listener = bind(parse(self._settings.listen))
        try:
            host, port = parse(self._settings.listen).host, listener.getsockname()[1]
            self._settings = replace(self._settings, listen=str(Address(host, port)))
            store = await asyncio.to_thread(
                open_store, self._settings.store.reveal(), namespace=self._settings.namespace
            )
            try:
                await self._serve(listener, open_engine(self._settings, store))
            finally:
                if not self.is_held_up:
                    await asyncio.to_thread(store.close)
        finally:
            listener.close()
        if self._failure is not None:
            raise self._failure

    async def _serve(self, listener: socket.socket, digests: "AsyncDigests") -> None:
        service = Service(self._settings, digests)
        requests = Requests(application(service))
        grace = max(1, round(self._settings.worker.grace))
        config = uvicorn_config(
            requests,
            bodies=self._settings.limits.memory,
            backlog=ACCEPTED_AT_ONCE,
            log_level="warning",
            timeout_graceful_shutdown=grace,
        )
        server = Server(config)
        delivery = Delivery(works=self._works, on_failure=self._fail)
        loop = asyncio.get_running_loop()

        ends_at = math.inf

        def stop() -> None:
            nonlocal ends_at
            if not service.stopping.is_set():
                logger.info("stopping: requests and deliveries have %d s to finish", grace)
                ends_at = loop.time() + grace + STORE_ENDS
            server.should_exit = True
            service.stopping.set()
            delivery.stop()

        self._stop = lambda: loop.call_soon_threadsafe(stop)
        if self._is_stopping:
            stop()

        async def replace_all(settings: Settings) -> Coroutine[Any, Any, None]:
            closing = await self._replace(settings, service, requests, delivery)
            config.bodies.most = settings.limits.memory
            return closing

        reload = Reload(self._read, replace_all)
        with reload.on_hangup():  # before anything is logged that says that the service runs
            log_missing(self._settings, works=self._works)
            delivery.begin(digests, delivery.worker_of(self._settings, digests))
            lasting = (reload.run(), self._tell(server), sample(service), name_tenants(service))
            tasks = [asyncio.create_task(each) for each in (*lasting, Garbage(delivery.held).collect_for_ever())]
            for task in tasks:
                task.add_done_callback(self._ended)
            try:
                await server.serve(sockets=[listener])
            finally:
                self._stop = None
                stop()
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await self._end(delivery, reload, service, until=ends_at)

    async def _end(self, delivery: Delivery, reload: Reload, service: Service, *, until: float) -> None:
        """Wait for deliveries and calls of the store, but not for a store that does not answer."""
        try:
            async with asyncio.timeout_at(until):
                await delivery.ended()
                await reload.closed()
                await service.digests.close()
        except TimeoutError:
            self.is_held_up = True
            logger.warning("the store does not answer: ending without it; digests that are open come again")

    async def _tell(self, server: "Server") -> None:
        await server.listening.wait()
        self._ready(address_of(self._settings))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.stop()

    # Reloading

    async def _replace(
        self, settings: Settings, service: Service, requests: "Requests", delivery: Delivery
    ) -> Coroutine[Any, Any, None]:
        """Answer and deliver by other settings. What can fail is made before anything is replaced."""
        self._check(settings)
        settings = replace(settings, listen=self._settings.listen)
        before, working, under_way = service.digests, delivery.current, requests.current
        digests = open_engine(settings, before.store)
        worker = delivery.worker_of(settings, digests)
        service.replace(settings, digests)
        requests.begin()
        with suppress(TimeoutError):  # so that what they add is planned by the policies of now, too
            await asyncio.wait_for(under_way.ended(), REQUESTS_END)
        delivery.begin(digests, worker)
        self._settings = settings
        logger.info("reloaded %s: routes=%d, tokens=%d", settings.source, len(settings.routes), len(settings.tokens))
        log_missing(settings, works=self._works)

        async def close() -> None:
            await under_way.ended()
            await delivery.ended(working)
            await before.close()

        return close()

    def _check(self, settings: Settings) -> None:
        """ConfigError if settings can't replace those in force."""
        now = self._settings
        check_open(replace(settings, listen=now.listen))
        refuse_other_store(settings, now)
        asked = parse(settings.listen)
        if asked.port and str(asked) != now.listen:
            raise ConfigError(f"serve.listen: {asked} can't replace {now.listen} while the service runs: restart it")


async def sample(service: Service) -> None:
    """Note samples of the counters, from the start on: its worker does so too, later, and may not run at all."""
    sampler = Sampler(service.digests.store)
    while True:
        with suppress(StoreError):
            await service.in_thread(sampler.tick)
        await asyncio.sleep(SAMPLED_EVERY)


async def name_tenants(service: Service) -> None:
    """Let the store note the prefixes of tokens, from the start on and after each reload; its worker may not run."""
    warned: Settings | None = None
    while True:
        settings, named = service.settings, dict[str, int]()
        with suppress(StoreError):
            named = (await service.in_thread(service.digests.store.tenants)).named
        beyond = {token.prefix for token in settings.tokens} - named.keys() - {""}
        if beyond and len(named) >= MOST_TENANTS and settings is not warned:
            logger.warning(
                "%d prefixes are named, and %d of tokens are not: they share bounds", len(named), len(beyond)
            )
            warned = settings
        await asyncio.sleep(SAMPLED_EVERY)


class Requests:
    """Counts the requests under way, by the engine that they began with."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app
        self.current = Count()

    def begin(self) -> None:
        """Count those that come from now on on their own."""
        self.current = Count()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope.get("path") in STREAMS:
            await self._app(scope, receive, send)
            return
        with self.current:
            await self._app(scope, receive, send)


class Count:
    """How many requests are under way."""

    def __init__(self) -> None:
        self._number = 0
        self._none = asyncio.Event()
        self._none.set()

    def __enter__(self) -> None:
        self._number += 1
        self._none.clear()

    def __exit__(self, *_: object) -> None:
        self._number -= 1
        if not self._number:
            self._none.set()

    async def ended(self) -> None:
        await self._none.wait()


class Server(uvicorn.Server):
    """A server that leaves signals to the process, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)  # uvicorn has set it to as many as are accepted at once
        self.listening.set()


def bind(address: Address) -> socket.socket:
    """Listen. ConfigError if the address is taken or is not one of this computer."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"listen: {address} is in use by another program; choose another port with --listen, or end that one"
            ) from None
        raise ConfigError(f"listen: can't listen on {address}: {error.strerror or error}") from None


def address_of(settings: Settings) -> str:
    """The link to the dashboard."""
    return settings.public or f"http://{settings.listen}/"


def log_missing(settings: Settings, *, works: bool) -> None:
    """Say what the service lacks to deliver anything."""
    store = redacted(settings.store.reveal())
    logger.info("store=%s, routes=%s", store, " ".join(route.pattern for route in settings.routes) or "none")
    if works and not settings.routes:
        logger.warning(
            "there are no routes: records gather and nothing is delivered; digestif init writes digestif.toml "
            "with a route to begin with"
        )
