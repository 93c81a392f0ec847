"""Requests as values, what their answers mean, and how often they are made. No I/O: transports do that."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from digestif.client.problems import error_of, wait_of
from digestif.core.secret import Secret
from digestif.core.texts import shortened
from digestif.errors import ConfigError, DigestifError, StoreUnavailable

T = TypeVar("T")
JSON = "application/json"
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two tries
IDLE_SECONDS = 15.0  # for which a connection is kept: many proxies close theirs after 60


class Request(NamedTuple):
    """What is sent."""

    method: str
    target: str  # path and query, encoded
    headers: Mapping[str, str]
    body: bytes | None


class Reply(NamedTuple):
    """What comes back. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class NotSent(Exception):
    """No connection could be made: the service has seen nothing of the request."""


class Lost(Exception):
    """The connection ended before the answer did: the service may have done what was asked."""


class Wait(NamedTuple):
    """Seconds for the transport to let pass."""

    seconds: float


class Call(Struct, Generic[T], frozen=True, kw_only=True):
    """One thing to ask of the service, and how its answer is read."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, Any] = {}
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    reads: Sequence[int] = ()  # statuses that are read as success is
    otherwise: Mapping[int, Any] = {}  # answers by status, without a body
    adds: bool = False  # a 4xx is a record that was refused
    is_repeatable: bool = True  # also if the service may have done it already


def get(path: str, read: Callable[[bytes], T], **query: Any) -> Call[T]:
    given = {name: each for name, each in query.items() if each is not None and each is not False and each != ""}
    return Call(method="GET", path=path, read=read, query=given)


def path_of(*parts: str) -> str:
    """A path of segments. A segment of dots is encoded: clients take it for a step up or down otherwise."""
    return "/v1/" + "/".join(_segment(part) for part in parts)


def _segment(key: str) -> str:
    return key.replace(".", "%2E") if key in (".", "..") else quote(key, safe="")


class Address:
    """Where the service is, and who asks."""

    def __init__(self, url: str, token: str | Secret | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError("url: give the address of a service, such as http://127.0.0.1:8321")
        if parts.username is not None or parts.password is not None:
            raise ConfigError("url: give the token as `token`, not in the address")
        try:
            self.port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            raise ConfigError("url: the port is not a number up to 65535") from None
        self.is_secure = parts.scheme == "https"
        self.host = parts.hostname
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/")
        self._headers = {"Accept": f"{JSON}, application/problem+json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_checked(Secret(token))}"

    def request(self, call: Call[Any]) -> Request:
        query = "" if not call.query else f"?{urlencode(call.query)}"
        kind = {} if call.body is None else {"Content-Type": JSON}
        headers = {**self._headers, **kind, **call.headers}
        return Request(call.method, f"{self._base}{call.path}{query}", headers, call.body)


def _checked(token: Secret) -> str:
    text = token.reveal()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError("token: it is empty, or has characters that no token has")
    return text


Steps = Generator[Request | Wait, Reply | NotSent | Lost | None, T]


def exchange(address: Address, call: Call[T], *, patience: float, clock: Callable[[], float]) -> Steps[T]:
    """Make a call until it is answered, as long as patience lasts. Yields requests and pauses, returns the answer."""
    request = address.request(call)
    end, pause = clock() + patience, FIRST_PAUSE
    while True:
        reply = yield request
        assert reply is not None
        wait = _again(call, reply, pause)
        if wait is None or clock() + wait > end:
            return answer(address, call, reply)
        yield Wait(wait)
        pause = min(2 * pause, LONGEST_PAUSE)


def _again(call: Call[Any], reply: Reply | NotSent | Lost, pause: float) -> float | None:
    """The seconds after which the call is worth another try; None if it is not."""
    if isinstance(reply, NotSent):
        return pause
    if isinstance(reply, Lost):
        return pause if call.is_repeatable else None
    asked = wait_of(reply.headers.get("retry-after"))
    if reply.status == 429 or (reply.status == 409 and asked is not None):
        return pause if asked is None else asked
    if reply.status in (502, 503, 504) and call.is_repeatable:  # it may have been done
        return pause if asked is None else asked
    return None


def answer(address: Address, call: Call[T], reply: Reply | NotSent | Lost) -> T:
    if isinstance(reply, NotSent):
        raise StoreUnavailable(f"{address.origin} can't be reached: {reply}; nothing was sent")
    if isinstance(reply, Lost):
        raise StoreUnavailable(f"{address.origin} ended the connection before it answered: it may have been done")
    if reply.status in call.otherwise and is_problem(reply):
        found: T = call.otherwise[reply.status]
        return found
    if not reply.is_success and reply.status not in call.reads:
        raise error_of(reply.status, reply.headers, reply.body, adds=call.adds)
    return read_answer(address, call.read, reply)


def is_problem(reply: Reply) -> bool:
    """True for an answer of the service itself, not of a proxy before it."""
    return reply.headers.get("content-type", "").startswith("application/problem+json")


def read_answer(address: Address, read: Callable[[bytes], T], reply: Reply) -> T:
    try:
        return read(reply.body)
    except DigestifError:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        if not reply.is_success:
            raise error_of(reply.status, reply.headers, reply.body, adds=True) from None
        beginning = shortened(reply.body[:80].decode(errors="replace"))
        raise ConfigError(f"{address.origin} gave no answer of a digestif service: {beginning}") from error


def words_of(error: BaseException) -> str:
    """Why a connection could not be made, or was lost."""
    return str(error) or type(error).__name__
