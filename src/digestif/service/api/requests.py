"""A request as endpoints see it, and the answers that they give."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from digestif.service.api.bodies import decoded, read_body, wrong_shape
from digestif.service.api.problems import CONTENT_TYPE, Fault, Problem
from digestif.service.security.rates import COUNTED_BYTES
from digestif.service.security.tokens import Principal
from digestif.service.service import Service

T = TypeVar("T")
MOST_PARAMETERS = 20
SHORT_BODY = 64 * 1024  # bytes, of requests that add no records
PART = 256 << 10  # bytes of a large answer in one write
JSON = b"application/json"
NDJSON = b"application/x-ndjson"
EXCHANGE = "digestif.exchange"  # in the scope, where the server can send a whole answer at once
STREAMING = "digestif.streaming"  # in the state of a request whose answer ends only with its connection

encode = msgspec.json.Encoder().encode
Headers = Sequence[tuple[bytes, bytes]]


class Request:
    """What an endpoint is asked, by whom. `keys` are the variable segments of the path."""

    __slots__ = ("headers", "keys", "principal", "receive", "scope", "service")

    def __init__(
        self,
        service: Service,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        principal: Principal,
        keys: Sequence[str],
    ) -> None:
        self.service = service
        self.scope = scope
        self.receive = receive
        self.principal = principal
        self.keys = keys
        self.headers = headers

    async def body(self, most: int | None = None) -> bytes:
        """The whole body. 413 if it is longer than is allowed: by the settings, and by the request's own limit."""
        allowed = self.service.settings.limits.body
        body = await read_body(self.headers, self.receive, most=allowed if most is None else min(most, allowed))
        if len(body) >= COUNTED_BYTES:
            self.service.rates.charge_body(self.principal.name, len(body))
        return body

    async def json(self, decoder: "msgspec.json.Decoder[T]") -> T:
        """The body as a value of the decoder's type, for requests that say little."""
        require_type(self.headers, JSON)
        return decoded(await self.body(SHORT_BODY), decoder)

    def query(self, kind: type[T]) -> T:
        """The parameters behind the question mark, as a struct."""
        return msgspec.convert({}, kind) if not self.scope["query_string"] else parsed_query(self.scope, kind)

    def refuse_outside(self, timeline: str) -> None:
        """403 for a timeline that the token does not reach."""
        if not self.principal.reaches(timeline):
            raise Problem(403, f"this token reaches only timelines that begin with {self.principal.prefix!r}")


def require_type(headers: Mapping[bytes, bytes], *accepted: bytes) -> bytes:
    """The type of the body, if it is one of those; otherwise 415."""
    given = headers.get(b"content-type", b"")
    if given in accepted:  # the usual case
        return given
    kind, _, parameters = given.partition(b";")
    charset = parameters.strip().lower().removeprefix(b"charset=").strip(b'"')
    found = kind.strip().lower()
    if found not in accepted or charset not in (b"", b"utf-8", b"utf8"):
        wanted = " or ".join(each.decode() for each in accepted)
        raise Problem(415, f"content-type: send {wanted}, in UTF-8", headers={"accept": wanted.replace(" or ", ", ")})
    return found


def parsed_query(scope: Scope, kind: type[T]) -> T:
    try:
        text = scope["query_string"].decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise Problem(400, f"the query is not UTF-8, or has more than {MOST_PARAMETERS} parameters") from None
    names = [name for name, _ in pairs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Problem(422, "a parameter was given twice", errors=[Fault(name, "given twice") for name in sorted(twice)])
    try:
        return msgspec.convert(dict(pairs), kind, strict=False)
    except msgspec.ValidationError as error:
        raise wrong_shape(error, "a parameter is wrong") from None


class Answer(Struct, frozen=True):
    """An answer that says more than a value: another status, other headers, bytes that are no JSON."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: Headers = ()
    rest: Sequence[bytes] = ()  # further blocks of a large body

    @property
    def size(self) -> int:
        """The bytes of the whole body."""
        return len(self.body) + sum(map(len, self.rest))


class Stream(Struct, frozen=True):
    """An answer that goes on until the client leaves or the service stops."""

    parts: AsyncIterator[bytes]
    content_type: bytes
    close: Callable[[], None]  # called at the end, also if no part was asked for


def answer(status: int, value: Any, headers: Headers = ()) -> Answer:
    return Answer(status, encode(value), JSON, headers)


def listing(name: str, items: Iterable[bytes], **more: Any) -> Answer:
    """Answer with a JSON object that has a list of encoded items, and further fields behind it.

    To be called in a thread if the items may be many or large. The blocks of the body are never put together.
    """
    head = b"{%b:[" % encode(name)
    tail = b"".join([b"]", *(b",%b:%b" % (encode(field), encode(value)) for field, value in more.items()), b"}"])
    first, *rest = _blocks(chain([head], _separated(items), [tail]))
    return Answer(200, first, rest=rest)


def _separated(items: Iterable[bytes]) -> Iterator[bytes]:
    for place, item in enumerate(items):
        if place:
            yield b","
        yield item


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces to blocks of at least PART bytes, except for the last."""
    block, size = list[bytes](), 0
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size >= PART:
            yield b"".join(block)
            block, size = [], 0
    yield b"".join(block)


def answer_of(problem: Problem, instance: str) -> Answer:
    headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
    return Answer(problem.status, encode(problem.document(instance)), CONTENT_TYPE, headers)


COMMON: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
HEAD = b"content-type: %b\r\ncontent-length: %d\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in COMMON)
START, BODY = "http.response.start", "http.response.body"


async def respond(scope: Scope, send: Send, given: Answer) -> None:
    exchange = scope.get(EXCHANGE)
    is_large = given.rest or len(given.body) > PART
    if exchange is not None and not given.headers and exchange.can_answer and not is_large:  # the usual and cheap case
        exchange.answer(given.status, HEAD % (given.content_type, len(given.body)), given.body)
        return
    length = b"%d" % given.size
    headers = [(b"content-type", given.content_type), (b"content-length", length), *COMMON, *given.headers]
    await send({"type": START, "status": given.status, "headers": headers})
    if not is_large:
        await send({"type": BODY, "body": given.body})
        return
    for block in (given.body, *given.rest):
        for start in range(0, len(block), PART):
            await send({"type": BODY, "body": block[start : start + PART], "more_body": True})
            await asyncio.sleep(0)  # the client may read so fast that `send` never waits
    await send({"type": BODY, "body": b""})
