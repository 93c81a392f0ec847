"""The limit on streams, with applications called directly: what comes at once, and what ends before it has begun."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from starlette.types import ASGIApp, Message, Scope

from digestif import AsyncDigests
from digestif.service.api.events import Hub
from digestif.service.app import application
from digestif.service.service import Service
from digestif.service.settings import Limits
from tests.service.harness import settings_with

PLACES = ("/v1/events", "/live")
Use = Callable[[ASGIApp, Service], Awaitable[None]]


def with_service(use: Use) -> None:
    """Use a service that allows two streams."""

    async def run() -> None:
        async with AsyncDigests("memory://") as digests:
            service = Service(settings_with(limits=Limits(streams=2)), digests)
            await use(application(service), service)
            assert len(service.part(Hub)) == 0

    asyncio.run(asyncio.wait_for(run(), 20))


def scope_of(path: str, method: str = "GET") -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8321),
        "state": {},
    }


class Clients:
    """Clients that connect at the same time and stay until the test ends their streams."""

    def __init__(self, app: ASGIApp, count: int) -> None:
        self._app, self._count = app, count
        self.statuses: list[int] = []
        self._all_answered, self._leave = asyncio.Event(), asyncio.Event()

    async def _receive(self) -> Message:
        await self._leave.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
            if len(self.statuses) == self._count:
                self._all_answered.set()
            await self._all_answered.wait()  # a slow network: no stream goes on before all are answered

    async def come_and_leave(self, path: str) -> None:
        coming = [
            asyncio.ensure_future(self._app(scope_of(path), self._receive, self._send)) for _ in range(self._count)
        ]
        await self._all_answered.wait()
        self._leave.set()
        await asyncio.gather(*coming)


@pytest.mark.parametrize("path", PLACES)
def test_of_clients_that_come_at_once_only_so_many_may_listen(path: str) -> None:
    async def use(app: ASGIApp, _: Service) -> None:
        clients = Clients(app, 5)
        await clients.come_and_leave(path)

        assert sorted(clients.statuses) == [200, 200, 429, 429, 429]

    with_service(use)


class LeftAtOnce(Exception):
    """The connection of a client is gone."""


@pytest.mark.parametrize("path", PLACES)
def test_a_client_that_leaves_before_its_stream_begins_takes_no_place(path: str) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        raise LeftAtOnce

    async def use(app: ASGIApp, service: Service) -> None:
        for _ in range(3):
            with suppress(LeftAtOnce):
                await app(scope_of(path), receive, send)
            assert len(service.part(Hub)) == 0

        clients = Clients(app, 3)
        await clients.come_and_leave(path)
        assert sorted(clients.statuses) == [200, 200, 429]

    with_service(use)


@pytest.mark.parametrize("path", PLACES)
def test_a_request_for_the_head_of_a_stream_takes_no_place(path: str) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def use(app: ASGIApp, service: Service) -> None:
        for _ in range(3):
            await app(scope_of(path, "HEAD"), receive, send)
            assert len(service.part(Hub)) == 0

        assert statuses == [200] * 3

    with_service(use)
