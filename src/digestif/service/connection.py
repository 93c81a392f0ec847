"""A connection of the HTTP server: requests one after the other, within limits of bytes and seconds.

uvicorn's own protocol costs more per request than the rest of the service, and has no such limits.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import unquote

import httptools
import msgspec
from starlette.types import ASGIApp, Scope
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from digestif.service.api.problems import CONTENT_TYPE, Problem
from digestif.service.api.requests import EXCHANGE, STREAMING
from digestif.service.exchange import Exchange, line

HEAD_BYTES = 32 << 10  # of a request line and its headers
HEAD_SECONDS = 10.0  # for them to arrive
BODY_SECONDS = 30.0  # for the body of a request to arrive
LAST_SECONDS = 1.0  # for the body of a request to arrive when the service stops
READ_SECONDS = 60.0  # for the client to read what it was sent
MOST_AHEAD = 8  # requests that are parsed before those in front of them are answered
SLICE = 8 << 10  # bytes that are parsed at once, with all requests in them


class Connection(asyncio.Protocol):
    """Parses requests and lets the application answer them. uvicorn makes one for each connection, and stops it."""

    head_seconds: ClassVar[float] = HEAD_SECONDS
    body_seconds: ClassVar[float] = BODY_SECONDS
    read_seconds: ClassVar[float] = READ_SECONDS
    _common: ClassVar[tuple[Any, bytes]] = (None, b"")  # uvicorn's headers, and the same as lines

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002  # of the application's start, which has none
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._app: ASGIApp = config.loaded_app
        self._server = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._keep_alive: float = config.timeout_keep_alive
        self._most = config.limit_concurrency
        self._parser = httptools.HttpRequestParser(self)
        self._exchanges: deque[Exchange] = deque()  # the first one is being answered
        self._in_head, self._head_size = True, 0
        self._is_full = False  # the client does not read what it was sent
        self._is_paused = False  # nothing is read
        self._unparsed = bytearray()  # behind MOST_AHEAD requests
        self._aborting: asyncio.TimerHandle | None = None  # while the client does not read
        self._draining: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._end: float | None = None  # when the wait ends that is under way
        self._on_end: Callable[[], None] = self.close

    # asyncio's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._addresses = {"server": get_local_addr(transport), "client": get_remote_addr(transport)}
        self._server.connections.add(self)  # type: ignore[arg-type]  # its type names uvicorn's protocols
        self._wait(self.head_seconds, self._refuse_slow_head)
        if self._most is not None and len(self._server.connections) > self._most:
            self._refuse(Problem(503, "there are as many connections as may be"))

    def connection_lost(self, _: Exception | None) -> None:
        self._server.connections.discard(self)
        self._end = None
        for timer in (self._timer, self._aborting):
            if timer is not None:
                timer.cancel()
        for exchange in self._exchanges:
            exchange.abandon()
        self.resume_writing()

    def eof_received(self) -> bool:
        """Keep open for the answers to whole requests. A client of a stream that sends no more has left."""
        if self._exchanges and self._exchanges[-1].more_body:
            self._exchanges.pop().abandon()
            self._end = None
        if not self._exchanges or self._is_streaming:
            return False
        self._exchanges[-1].keeps_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        if len(data) <= SLICE and not self._unparsed:
            self._parse(data)
        else:
            self._unparsed += data
            self._parse_slices()

    def _parse_slices(self) -> None:
        """Parse what has come, up to as many requests as may be ahead: the parser itself can't stop."""
        while self._unparsed and len(self._exchanges) <= MOST_AHEAD and not self.transport.is_closing():
            data = bytes(self._unparsed[:SLICE])
            del self._unparsed[:SLICE]
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # what follows would be another protocol, which is not spoken here
            self._close_after_answers()
        except httptools.HttpParserError:
            self._refuse(Problem(400, "this is not a request of HTTP/1.1"))
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_size += len(data)
            self._watch_head()
        elif self._exchanges and self._exchanges[-1].more_body and self._end is None:
            self._wait(self.body_seconds, self._refuse_slow_body)

    def _watch_head(self) -> None:
        if self._head_size > HEAD_BYTES + SLICE:  # the first slice may begin with the end of another request
            self._refuse_large_head()
        elif self._head_size and not self._exchanges and self._on_end != self._refuse_slow_head:
            self._wait(self.head_seconds, self._refuse_slow_head)

    def pause_writing(self) -> None:
        self._is_full = True
        self._abort_unless_read()

    def _abort_unless_read(self) -> None:
        if self._aborting is None:
            self._aborting = self._loop.call_later(self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_full = False
        if self._aborting is not None and not self.transport.is_closing():
            self._aborting.cancel()
            self._aborting = None
        for waiter in self._draining:
            if not waiter.done():
                waiter.set_result(None)
        self._draining.clear()

    # the parser's side

    def on_message_begin(self) -> None:
        if not self._in_head:
            self._in_head, self._head_size = True, 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._length = 0  # of url and headers
        self._expects_continue = False
        self._is_coded = False  # by a transfer coding that is not known here

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._length += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer, behind a body in chunks: guards have read the headers by then
            return
        name = name.lower()
        self._length += len(name) + len(value)
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        elif name == b"transfer-encoding" and value.lower() != b"chunked":
            self._is_coded = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._length > HEAD_BYTES:
            self._refuse_large_head()
        elif self._parser.should_upgrade() and any(name in BODY_HEADERS for name, _ in self._headers):
            self._refuse(Problem(400, "no other protocol is spoken here: send the request without Upgrade"))
        elif self._is_coded:
            self._refuse(Problem(501, "transfer-encoding: only chunked is known here"))
        if self.transport.is_closing():
            return
        self._end = None
        version = self._parser.get_http_version()
        scope = self._scope(version)
        keeps_alive = version == "1.1" and self._parser.should_keep_alive()
        exchange = Exchange(self, scope, keeps_alive=keeps_alive, expects_continue=self._expects_continue)
        scope[EXCHANGE] = exchange
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self._start(exchange)
        elif len(self._exchanges) > MOST_AHEAD:
            self._pause_reading()

    def _scope(self, version: str) -> Scope:
        raw_path, query = _target(self._url)
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": ASGI,
            "http_version": version,
            "scheme": "http",
            "root_path": "",
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._headers,
            "state": {},
            **self._addresses,
        }

    def on_body(self, body: bytes) -> None:
        if self._exchanges and self._exchanges[-1].feed(body):
            self._pause_reading()

    def on_message_complete(self) -> None:
        if self._exchanges:  # otherwise it was answered before
            self._end = None
            self._exchanges[-1].end_body()

    # the exchange's side

    def _start(self, exchange: Exchange) -> None:
        exchange.task = self._loop.create_task(exchange.run(self._app))
        self._server.tasks.add(exchange.task)

    def done(self, exchange: Exchange) -> None:
        """Forget the task of a request that the application is done with, without a callback for each task."""
        if exchange.task is not None:
            self._server.tasks.discard(exchange.task)

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    @property
    def is_full(self) -> bool:
        return self._is_full

    async def drained(self) -> None:
        """Wait until the client reads again, or is gone."""
        waiter = self._loop.create_future()
        self._draining.append(waiter)
        await waiter

    def common_head(self) -> bytes:
        """The headers that uvicorn adds to each answer, such as the date."""
        given, lines = Connection._common
        if given is not self._server.default_headers:
            lines = b"".join(line(name, value) for name, value in self._server.default_headers)
            Connection._common = (self._server.default_headers, lines)
        return lines

    def ended(self, exchange: Exchange) -> None:
        """Go on with the next request. If there is more of this one's body, it is thrown away."""
        self._server.total_requests += 1
        self._exchanges.popleft()
        if not exchange.keeps_alive:
            self.close()
            return
        if self._exchanges:
            self._start(self._exchanges[0])
        else:
            self._wait(self._keep_alive, self.close)
        if self._unparsed:
            self._parse_slices()
        self.read_on()

    def close(self) -> None:
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._abort_unless_read()

    def shutdown(self) -> None:
        """End as soon as the requests are answered that are here, or do not arrive within a moment.

        Streams would never end by themselves.
        """
        if not self._exchanges or self._is_streaming:
            self.close()
        elif self._exchanges[-1].more_body:
            self._exchanges[-1].keeps_alive = False
            self._wait(LAST_SECONDS, self._refuse_last)
        else:
            self._close_after_answers()

    @property
    def _is_streaming(self) -> bool:
        return bool(self._exchanges[0].scope["state"].get(STREAMING))

    def _close_after_answers(self) -> None:
        self._unparsed.clear()
        if self._exchanges:
            self._exchanges[-1].keeps_alive = False
            self._pause_reading()
        else:
            self.close()

    # limits

    def _pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def read_on(self) -> None:
        if self._is_paused and len(self._exchanges) <= MOST_AHEAD:
            self._is_paused = False
            self.transport.resume_reading()

    def _wait(self, seconds: float, on_end: Callable[[], None]) -> None:
        """Call a method after some seconds, unless the wait is over by then. The timer serves many waits."""
        self._end, self._on_end = self._loop.time() + seconds, on_end
        if self._timer is None or self._timer.when() > self._end:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._end, self._look)

    def _look(self) -> None:
        """End a wait whose time has come; look again for one that has begun since."""
        self._timer = None
        if self._end is None:
            return
        if self._end <= self._loop.time():
            self._end = None
            self._on_end()
        else:
            self._timer = self._loop.call_at(self._end, self._look)

    def _refuse_large_head(self) -> None:
        self._refuse(Problem(431, f"the head of the request is longer than {HEAD_BYTES} bytes"))

    def _refuse_slow_head(self) -> None:
        self._refuse_slow("head", self.head_seconds)

    def _refuse_slow_body(self) -> None:
        self._refuse_slow("body", self.body_seconds)

    def _refuse_last(self) -> None:
        self._refuse(Problem(503, "the service stops, and the body of the request has not arrived"))

    def _refuse_slow(self, part: str, seconds: float) -> None:
        self._refuse(Problem(408, f"the {part} of the request did not arrive within {seconds:g} seconds"))

    def _refuse(self, problem: Problem) -> None:
        """Close, with a problem for an answer, behind the answers to the requests before.

        What follows can't be told from the next request.
        """
        if self.transport.is_closing():
            return
        if self._exchanges and self._exchanges[-1].more_body:
            refused = self._exchanges.pop()
            refused.abandon()
            if refused.started:
                self.close()
                return
        if self._exchanges:  # the client may ask again for what has no answer
            self._close_after_answers()
            return
        body = msgspec.json.encode(problem.document())
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (CONTENT_TYPE, len(body))
        self.transport.write(STATUS_LINE[problem.status] + head + body)
        self.close()


BODY_HEADERS = (b"content-length", b"transfer-encoding")
ASGI = {"version": "3.0", "spec_version": "2.3"}


def _target(url: bytes) -> tuple[bytes, bytes]:
    """The path and the query of a request."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
