"""A request and its answer, between a connection and the application (ASGI)."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

logger = logging.getLogger(__name__)

BODY_AHEAD = 64 << 10  # bytes of a body that are read before the application asks for them
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
WITHOUT_BODY = (204, 304)
FAILED = (b"content-type: text/plain\r\ncontent-length: 21\r\n", b"Internal Server Error")

Headers = Iterable[tuple[bytes, bytes]]


class Wire(Protocol):
    """What an exchange needs of its connection."""

    address: str

    def write(self, data: bytes) -> None: ...
    def read_on(self) -> None: ...
    async def drained(self) -> None: ...
    def common_head(self) -> bytes: ...
    def ended(self, exchange: "Exchange") -> None: ...
    def done(self, exchange: "Exchange") -> None: ...
    def give_up_body(self) -> None: ...
    def close(self) -> None: ...

    @property
    def is_full(self) -> bool: ...


class Exchange:
    """One request and its answer. `answer` sends a whole one at once, `send` in parts."""

    __slots__ = (
        "_body",
        "_chunked",
        "_expects_continue",
        "_head",
        "_is_read",
        "_left",
        "_waiter",
        "_wire",
        "ahead",
        "held",
        "is_over",
        "keeps_alive",
        "more_body",
        "received",
        "scope",
        "started",
        "task",
    )

    def __init__(self, wire: Wire, scope: Scope, *, keeps_alive: bool, expects_continue: bool) -> None:
        self._wire = wire
        self.task: asyncio.Task[None] | None = None  # in which the application answers
        self.scope = scope
        self.keeps_alive = keeps_alive
        self._expects_continue = expects_continue
        self._body = bytearray()
        self.received = 0  # bytes of the body
        self.ahead = 0  # bytes of head and body that came before its turn
        self.held = 0  # bytes of the memory that all bodies share
        self.more_body = True
        self._is_read = False  # the application has the whole body
        self._waiter: asyncio.Future[None] | None = None
        self.started = False  # the head of the answer was sent
        self.is_over = False  # the answer was sent, or the client is gone
        self._head = b""  # of an answer of known length: it goes out with the first part of the body
        self._chunked = False
        self._left: int | None = 0  # bytes of the answer's body; None if it ends with the connection

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception:
            logger.exception("a request failed: %s %s", self.scope["method"], self.scope["path"])
        finally:
            self._wire.done(self)
        if not self.is_over:
            if self.started:  # what is missing can't be said any more
                self._wire.close()
            else:
                self.keeps_alive = False
                self.answer(500, *FAILED)

    # the request

    def feed(self, data: bytes) -> bool:
        """Take a part of the body. True if there is enough for now."""
        if self.is_over or not self.more_body:
            return False
        self._body += data
        self.received += len(data)
        self._wake()
        return len(self._body) > BODY_AHEAD

    def end_body(self) -> None:
        self.more_body = False
        self._wake()

    @property
    def address(self) -> str:
        return self._wire.address

    def give_up_body(self) -> None:
        """Refuse the rest of the body, so that others have room."""
        self._wire.give_up_body()

    def abandon(self) -> None:
        """The client is gone."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> Message:
        """The next part of the body; after the last one, that the exchange is over."""
        if self._expects_continue and self.more_body and not self.is_over:
            self._expects_continue = False
            self._wire.write(CONTINUE)
        while not self.is_over and (self._is_read or (self.more_body and not self._body)):
            self._wire.read_on()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.is_over:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        self._is_read = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    # the answer

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Send a whole answer in one piece; `head` are the lines of its headers, with the content-length."""
        if self.is_over:
            return
        if self.more_body:
            self._give_up_rest()
        end = b"\r\n" if self.keeps_alive else b"connection: close\r\n\r\n"
        if self.scope["method"] == "HEAD":
            body = b""
        self._wire.write(b"".join((STATUS_LINE[status], self._wire.common_head(), head, end, body)))
        self._end()

    def _give_up_rest(self) -> None:
        """Close behind an answer that comes before the end of the body, or instead of the word to go on with it."""
        self._expects_continue = self.keeps_alive = False

    @property
    def can_answer(self) -> bool:
        """False while the client does not read what it was sent: then `send` waits."""
        return not self._wire.is_full

    async def send(self, message: Message) -> None:
        """Send a part of the answer, first its head."""
        if self._wire.is_full and not self.is_over:
            await self._wire.drained()
        if self.is_over:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))

    def _begin(self, status: int, headers: Headers) -> None:
        if self.started:
            raise RuntimeError("the answer has begun already")
        if self.more_body:
            self._give_up_rest()
        names = {name.lower(): value for name, value in headers}
        if b"close" in names.get(b"connection", b"").lower():
            self.keeps_alive = False
        lines = [line(name, value) for name, value in headers]
        if not self.keeps_alive and b"connection" not in names:
            lines.append(b"connection: close\r\n")
        has_body = self.scope["method"] != "HEAD" and status not in WITHOUT_BODY
        length = names.get(b"content-length") if has_body else b"0"
        self._left = None if length is None else int(length)
        self._chunked = length is None and self.scope["http_version"] == "1.1"  # others do not know chunks
        if self._chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        self.started = True
        head = b"".join((STATUS_LINE[status], self._wire.common_head(), *lines, b"\r\n"))
        if length is None:
            self._wire.write(head)
        else:
            self._head = head

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if not self.started:
            raise RuntimeError("an answer begins with its head")
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._wire.write(data if more else data + b"0\r\n\r\n")
        else:
            body = b"" if self.scope["method"] == "HEAD" else body
            self._count(len(body), more=more)
            self._wire.write(self._head + body)
            self._head = b""
        if not more:
            self._end()

    def _count(self, size: int, *, more: bool) -> None:
        if self._left is None:
            return
        self._left -= size
        if self._left < 0 or (self._left and not more):
            raise RuntimeError("the answer is not as long as its head says")

    def _end(self) -> None:
        self.started = self.is_over = True
        self._wake()
        self._wire.ended(self)


def line(name: bytes, value: bytes) -> bytes:
    """A line of a head. ValueError if the header would be more than a line."""
    if b"\n" in value or b"\r" in value or b"\0" in value or b"\n" in name or b"\r" in name or b":" in name:
        raise ValueError("a header has a line break")
    return b"%b: %b\r\n" % (name, value)
