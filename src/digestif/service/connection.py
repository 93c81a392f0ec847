"""A connection of the HTTP server: requests one after the other, within limits of bytes and seconds.

uvicorn's own protocol costs more per request than the rest of the service, and has no such limits.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
from digestif.service.shares import Bodies, Places, network_of

HEAD_BYTES = 32 << 10  # of a request line and its headers
MOST_HEADERS = 100  # of a request
HEADER_COST = 200  # bytes of memory for a header, beside its name and value
HEAD_SECONDS = 10.0  # for them to arrive
BODY_SECONDS = 30.0  # for the body of a request to arrive
LAST_SECONDS = 1.0  # for the body of a request to arrive when the service stops
READ_SECONDS = 60.0  # for the client to read what it was sent
LINGER_SECONDS = 1.0  # for the client to read an answer while it still sends
LINGER_BYTES = 16 << 20  # that it may send in them
MOST_AHEAD = 8  # requests that are parsed before those in front of them are answered
AHEAD_BYTES = 32 << 10  # of their heads and bodies
SLICE = 8 << 10  # bytes that are parsed at once, with all requests in them
SMALL_SLICE = 256  # bytes in one call of the parser, if a slice may hold several requests
VERSION = b"HTTP/1"  # in each request that another one can follow
MOST_READ = 8 * SLICE  # bytes in one read from the socket
BODY_FREE = 32 << 10  # bytes of a body that need none of the memory that all bodies share
PARSE_SECONDS = 0.005  # after which other connections have their turn
SMALL_CHUNKS = 1_000  # chunks in a row that may have less than CHUNK_BYTES each, as a mean
CHUNK_BYTES = 16


class ConnectionConfig(Config):
    """uvicorn's settings, and what all connections of a server share."""

    def __init__(self, *args: Any, bodies: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.places = Places(self.limit_concurrency)
        self.bodies = Bodies(bodies)


class Connection(asyncio.Protocol):
    """Parses requests and lets the application answer them. uvicorn makes one for each connection, and stops it."""

    head_seconds: ClassVar[float] = HEAD_SECONDS
    body_seconds: ClassVar[float] = BODY_SECONDS
    read_seconds: ClassVar[float] = READ_SECONDS
    _common: ClassVar[tuple[Any, bytes]] = (None, b"")  # uvicorn's headers, and the same as lines

    def __init__(
        self,
        config: ConnectionConfig,
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
        self._places, self._bodies = config.places, config.bodies
        self._parser = httptools.HttpRequestParser(self)
        self._exchanges: deque[Exchange] = deque()  # the first one is being answered
        self._in_head, self._head_size = True, 0
        self._chunks = 0  # of a body, in a row that is too small so far
        self._chunks_from = 0  # the byte of the body with which they begin
        self._unused = 0  # bytes behind the last part of a body: of the lines between chunks, and of trailers
        self._ahead = 0  # bytes of requests that wait for their turn
        self._is_closing = False
        self._is_full = False  # the client does not read what it was sent
        self._is_paused = False  # nothing is read or parsed
        self._is_going_on = False  # that ends soon
        self._unparsed = bytearray()  # behind MOST_AHEAD requests
        self._aborting: asyncio.TimerHandle | None = None  # while the client does not read
        self._draining: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._since = self._loop.time()  # when the latest wait began
        self._end: float | None = None  # when the wait ends that is under way
        self._on_end: Callable[[], None] = self.close

    # asyncio's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        if hasattr(transport, "max_size"):  # of asyncio's own transports
            transport.max_size = MOST_READ
        client = get_remote_addr(transport)
        self.address = "" if client is None else network_of(client[0])
        self._addresses = {"server": get_local_addr(transport), "client": client}
        self._server.connections.add(self)  # type: ignore[arg-type]  # its type names uvicorn's protocols
        self._wait(self.head_seconds, self._refuse_slow_head)
        if not self._places.enter(self, now=self._since):
            self._write_problem(Problem(503, "there are as many connections as may be", retry_after=1))
            self.close()

    def waits_since(self) -> float | None:
        """Return since when the server waits for the client; None while the server works for it."""
        if self._aborting is not None:
            return self._aborting.when() - self.read_seconds
        if self._exchanges and not self._exchanges[0].more_body:
            return None
        return self._since

    def give_up(self) -> None:
        """Make room for another connection."""
        self._is_closing = True
        self.transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._server.connections.discard(self)
        self._places.leave(self)
        self._is_closing = True
        self._end = None
        for timer in (self._timer, self._aborting):
            if timer is not None:
                timer.cancel()
        for exchange in self._exchanges:
            exchange.abandon()
        self.resume_writing()
        del self._parser, self._on_end  # they refer to this connection, which garbage collection would find late

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
        if len(data) <= SLICE and not self._unparsed and data.count(VERSION) < 2:
            self._parse(data)
        else:
            self._unparsed += data
            self._parse_slices()

    def _parse_slices(self) -> None:
        """Parse what has come, until reading pauses or others have to have their turn: the parser itself can't stop."""
        until = self._loop.time() + PARSE_SECONDS
        while self._unparsed and not self._is_paused and not self._is_closing:
            if self._loop.time() > until:
                self._pause_reading()
                self.read_on()
                break
            data = bytes(self._unparsed[:SLICE])
            if data.count(VERSION) > 1:
                data = data[:SMALL_SLICE]
            del self._unparsed[: len(data)]
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # what follows would be another protocol, which is not spoken here
            self._close_after_answers()
        except httptools.HttpParserError:
            self._refuse(Problem(400, "this is not a request of HTTP/1.1"))
        if self._is_closing:
            return
        if self._in_head:
            self._head_size += len(data)
            self._watch_head()
        elif self._exchanges and self._exchanges[-1].more_body:
            self._unused += len(data)
            self._watch_body(self._exchanges[-1])

    def _watch_head(self) -> None:
        if self._head_size > HEAD_BYTES + SLICE:  # the first slice may begin with the end of another request
            self._refuse_large_head()
        elif self._head_size and not self._exchanges and self._on_end != self._refuse_slow_head:
            self._wait(self.head_seconds, self._refuse_slow_head)

    def _watch_body(self, exchange: Exchange) -> None:
        """Limit what is no part of a body: the parser copies all of a trailer again for each part that comes."""
        if self._unused > HEAD_BYTES + SLICE:
            self._refuse(Problem(431, f"a line between chunks, or the trailers, have more than {HEAD_BYTES} bytes"))
        elif self._has_small_chunks(exchange.received):
            self._refuse(Problem(400, f"{SMALL_CHUNKS} chunks of the body have less than {CHUNK_BYTES} bytes each"))
        elif self._end is None:
            self._wait(self.body_seconds, self._refuse_slow_body)

    def _has_small_chunks(self, received: int) -> bool:
        """Judge the chunks that came in a row. A large one ends the row, and does not make up for those behind it."""
        spare = received - self._chunks_from - self._chunks * CHUNK_BYTES
        if spare >= 0:
            self._chunks, self._chunks_from = 0, received - min(spare, CHUNK_BYTES)  # of a chunk that has not ended
        return self._chunks > SMALL_CHUNKS

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
        if len(self._headers) == MOST_HEADERS:
            if not self._is_closing:
                self._refuse(Problem(431, f"the request has more than {MOST_HEADERS} headers"))
            return
        name = name.lower()
        self._length += len(name) + len(value)
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        elif name == b"transfer-encoding":
            self._chunks = self._chunks_from = self._unused = 0
            if value.lower() != b"chunked":
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
        if self._is_closing:
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
        else:
            self._put_ahead(exchange, self._length + HEADER_COST * len(self._headers))

    def _put_ahead(self, exchange: Exchange, size: int) -> None:
        """Count bytes of a request that waits for its turn."""
        exchange.ahead += size
        self._ahead += size
        if not self._has_room_ahead:
            self._pause_reading()

    @property
    def _has_room_ahead(self) -> bool:
        return len(self._exchanges) <= MOST_AHEAD and self._ahead <= AHEAD_BYTES

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

    def on_chunk_complete(self) -> None:
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        if self._is_closing:
            return
        self._unused = 0
        exchange = self._exchanges[-1]
        if exchange.task is None:
            self._put_ahead(exchange, len(body))
        if exchange.feed(body):
            self._pause_reading()
        if exchange.received > BODY_FREE and exchange.task is not None:
            self._hold(exchange, len(body))

    def _hold(self, exchange: Exchange, size: int) -> None:
        if not self._bodies.take(exchange, size, now=self._loop.time()):
            self.give_up_body()

    def on_message_complete(self) -> None:
        if not self._is_closing:
            self._end = None
            self._exchanges[-1].end_body()

    # the exchange's side

    def _start(self, exchange: Exchange) -> None:
        self._ahead -= exchange.ahead
        exchange.task = self._loop.create_task(exchange.run(self._app))
        self._server.tasks.add(exchange.task)

    def done(self, exchange: Exchange) -> None:
        """Forget a request that the application is done with, without a callback for each task.

        A scope that still named its exchange would keep the whole head until garbage is collected.
        """
        del exchange.scope[EXCHANGE]
        if exchange.task is not None:
            self._server.tasks.discard(exchange.task)
        if exchange.held:
            self._bodies.free(exchange)

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
        """Go on with the next request. If there is more of this one's body, close: it is not read."""
        self._server.total_requests += 1
        self._exchanges.popleft()
        if exchange.more_body:
            self._linger()
            return
        if not exchange.keeps_alive:
            self.close()
            return
        if self._exchanges:
            self._start(self._exchanges[0])
        else:
            self._wait(self._keep_alive, self.close)
        self.read_on()

    def close(self) -> None:
        self._is_closing = True
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._abort_unless_read()

    def _linger(self) -> None:
        """Close when the client has had time to read the last answer.

        If the connection were closed while the client still sends, its system would throw the answer away.
        """
        self._is_closing = True
        self._unparsed.clear()
        self.transport.set_protocol(Lingering(self))
        with suppress(OSError):  # the client is gone
            self.transport.write_eof()
        self._wait(LINGER_SECONDS, self.close)
        self.transport.resume_reading()

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
        """Go on with what was read already, then with what comes, unless enough requests wait for their turn."""
        if self._is_paused and self._has_room_ahead and not self._is_going_on:
            self._is_going_on = True
            if self._unparsed:
                self._loop.call_soon(self._go_on)
            else:
                self._go_on()

    def _go_on(self) -> None:
        self._is_paused = self._is_going_on = False
        self._parse_slices()
        if not self._is_paused and not self._is_closing:
            self.transport.resume_reading()

    def _wait(self, seconds: float, on_end: Callable[[], None]) -> None:
        """Call a method after some seconds, unless the wait is over by then. The timer serves many waits."""
        self._since = self._loop.time()
        self._end, self._on_end = self._since + seconds, on_end
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

    def give_up_body(self) -> None:
        """Refuse a body for which there is no memory."""
        self._refuse(Problem(503, "the bodies of other requests take all memory for them", retry_after=1))

    def _refuse_last(self) -> None:
        self._refuse(Problem(503, "the service stops, and the body of the request has not arrived"))

    def _refuse_slow(self, part: str, seconds: float) -> None:
        self._refuse(Problem(408, f"the {part} of the request did not arrive within {seconds:g} seconds"))

    def _refuse(self, problem: Problem) -> None:
        """Close, with a problem for an answer, behind the answers to the requests before.

        What follows can't be told from the next request.
        """
        if self._is_closing:
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
        self._write_problem(problem)
        self._linger()

    def _write_problem(self, problem: Problem) -> None:
        body = msgspec.json.encode(problem.document())
        more = b"".join(line(name.encode(), value.encode()) for name, value in problem.headers.items())
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n" % (CONTENT_TYPE, len(body))
        self.transport.write(b"".join((STATUS_LINE[problem.status], head, more, b"\r\n", body)))


class Lingering(asyncio.Protocol):
    """Takes the place of a connection whose last answer is on its way: what still comes is thrown away, unparsed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left = LINGER_BYTES

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._connection.close()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)


BODY_HEADERS = (b"content-length", b"transfer-encoding")
ASGI = {"version": "3.0", "spec_version": "2.3"}


def _target(url: bytes) -> tuple[bytes, bytes]:
    """The path and the query of a request."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
