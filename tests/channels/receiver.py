"""A receiver of webhooks on loopback, in its own thread, with several ways to misbehave.

What is behind `behave` happens to every request until something else is said. All requests are kept.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import msgspec
from aiohttp import web

Behaviour = Callable[["Receiver", web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    """A request as it arrived."""

    method: str
    path: str  # with its query
    headers: dict[str, str]
    body: bytes
    peer: tuple[Any, ...]  # the address and port of the sender

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Receiver:
    """Answers 200 until a test sets another behaviour."""

    port: int = 0
    tls: bool = False
    requests: list[Received] = field(default_factory=list)
    arrived: Event = field(default_factory=Event)  # set by every request
    behaviour: Behaviour | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(init=False)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def behave(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour

    def answer(self, status: int, text: str = "", **headers: str) -> None:
        """Give this answer; an underscore in the name of a header stands for a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def behaviour(receiver: Receiver, request: web.Request) -> web.Response:
            return web.Response(status=status, text=text, headers=named)

        self.behave(behaviour)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        peer = request.transport.get_extra_info("peername") if request.transport else ()
        self.requests.append(Received(request.method, request.path_qs, dict(request.headers), body, peer))
        self.arrived.set()
        if self.behaviour is None:
            return web.Response(text="thank you")
        return await self.behaviour(self, request)


async def reset(receiver: Receiver, request: web.Request) -> web.StreamResponse:
    """Read the whole request, then reset the connection instead of answering."""
    return _cut_off(request)


async def never_answer(receiver: Receiver, request: web.Request) -> web.StreamResponse:
    await receiver.over.wait()
    return web.Response()


async def drip(receiver: Receiver, request: web.Request) -> web.StreamResponse:
    """Answer 200 and send the body slowly, without an end."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"well, ")
    await receiver.over.wait()
    return response


async def break_off(receiver: Receiver, request: web.Request) -> web.StreamResponse:
    """Send less than the Content-Length says."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"well, ")
    return _cut_off(request)


async def talk_for_ever(receiver: Receiver, request: web.Request) -> web.StreamResponse:
    """Answer 200 and send an endless body."""
    response = web.StreamResponse()
    await response.prepare(request)
    while not receiver.over.is_set():
        await response.write(b"blah " * 10_000)
    return response


async def talk_nonsense(receiver: Receiver, request: web.Request) -> web.StreamResponse:
    """Answer with something that is not HTTP."""
    assert request.transport is not None
    request.transport.write(b"220 mail.example ready\r\n\r\n")
    request.transport.close()
    return web.Response()


def _cut_off(request: web.Request) -> web.StreamResponse:
    transport = request.transport
    assert transport is not None
    # A linger of 0 makes the kernel send RST rather than FIN.
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    return web.Response()


@contextmanager
def running(receiver: Receiver | None = None, certificate: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver that runs during the block, over TLS if there is a certificate."""
    receiver = receiver or Receiver(tls=certificate is not None)
    started = Event()
    thread = Thread(target=lambda: asyncio.run(_serve(receiver, certificate, started)), name="receiver")
    thread.start()
    assert started.wait(10)
    try:
        yield receiver
    finally:
        receiver.loop.call_soon_threadsafe(receiver.over.set)
        thread.join(10)
        assert not thread.is_alive()


async def _serve(receiver: Receiver, certificate: ssl.SSLContext | None, started: Event) -> None:
    receiver.loop = asyncio.get_running_loop()
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{rest:.*}", receiver.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    receiver.port = listening.getsockname()[1]
    await web.SockSite(runner, listening, ssl_context=certificate).start()
    started.set()
    try:
        await receiver.over.wait()
    finally:
        await runner.cleanup()
