"""The HTTP server: uvicorn's settings, and limits that it does not have by itself."""

import asyncio
import resource
from typing import Any

import msgspec
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from digestif.service.api.problems import CONTENT_TYPE, Problem
from digestif.service.api.requests import STREAMING

HEAD_BYTES = 32 << 10  # of a request line and its headers
HEAD_SECONDS = 10.0  # for them to arrive
BODY_SECONDS = 30.0  # for the body of a request to arrive
KEEP_ALIVE = 75  # seconds; proxies often keep connections for 60
CONNECTIONS = 2_000
OTHER_FILES = 256  # that the process may have open: of the store, of channels
GRACE = 10  # seconds for requests that are under way when the service stops


def uvicorn_config(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0, **more: Any) -> Config:
    """How uvicorn is to run the application."""
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "http": Protocol,
        "ws": "none",
        "lifespan": "off",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,
        "limit_concurrency": most_connections(),
        "timeout_keep_alive": KEEP_ALIVE,
        "timeout_graceful_shutdown": GRACE,
        **more,
    }
    return Config(app, **options)


def most_connections() -> int:
    """How many connections leave files for the rest: without any, neither store nor channels could be reached."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OTHER_FILES
    if files < wanted <= most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
        files = wanted
    return min(CONNECTIONS, max(files - OTHER_FILES, files // 2))


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol with limits for the head of a request, in bytes, and for head and body in time."""

    head_seconds = HEAD_SECONDS
    body_seconds = BODY_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Corked(transport))  # type: ignore[arg-type]
        self._is_large = False
        self._in_head, self._head_size = True, 0
        self._timer: asyncio.TimerHandle | None = None  # set while a part of a request is awaited
        self._await_head()
        most, self.limit_concurrency = (
            self.limit_concurrency,
            None,
        )  # uvicorn would also refuse those that it has let in
        if most is not None and len(self.connections) > most:
            self._refuse(Problem(503, "there are as many connections as may be"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._is_large = len(data) > HEAD_BYTES
        super().data_received(data)
        if self.transport.is_closing():  # refused: there may be no request at all
            return
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES:
                self._refuse_large_head()
            elif self._timer is None:
                self._await_head()
        elif self._timer is None and self.cycle.more_body and not self.cycle.response_complete:
            self._timer = self.loop.call_later(self.body_seconds, self._refuse_slow, "body", self.body_seconds)

    def on_message_begin(self) -> None:
        if not self._in_head:
            self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._end_wait()
        if self._is_large and len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._refuse_large_head()
        else:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._end_wait()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.transport.flush()  # type: ignore[attr-defined]  # an answer may have no body
        super().on_response_complete()

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._refuse_slow, "head", self.head_seconds)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse_large_head(self) -> None:
        self._refuse(Problem(431, f"the head of the request is longer than {HEAD_BYTES} bytes"))

    def _refuse_slow(self, part: str, seconds: float) -> None:
        self._refuse(Problem(408, f"the {part} of the request did not arrive within {seconds:g} seconds"))

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, msg))

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem and close: what follows can't be told from the next request."""
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(problem.document())
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (CONTENT_TYPE, len(body))
        self.transport.write(STATUS_LINE[problem.status] + head + body)
        self.transport.close()

    def shutdown(self) -> None:
        """End streams as well, which would never end by themselves."""
        super().shutdown()
        is_idle = self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # before the first
        if not is_idle and self.scope["state"].get(STREAMING):
            self.transport.close()


class _Corked:
    """A transport that sends the head of an answer together with its body, unless that is a stream.

    Each system call lets the threads run that wait for the store, and costs the event loop its turn.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.is_closing = transport.is_closing
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/") and b"\r\ncontent-length: " in data:
            self._head = data
            return
        self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Send a head whose answer has no body."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""
