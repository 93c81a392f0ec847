"""What channels over HTTP share: posting within limits, and the meaning of answers.

Nothing here follows redirects, uses proxies of the environment, or shows more of an address than its host: a path may
be as secret as a password.
"""

import asyncio
import re
import socket
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from digestif.channels.addresses import AddressRefused, is_address, is_public, public_socket, refuse_unless_public
from digestif.channels.names import fingerprint
from digestif.channels.tls import tls_context
from digestif.core.placeholders import unfilled_fault
from digestif.core.secret import Secret
from digestif.core.times import is_duration
from digestif.core.verdicts import DeliveryFailed, Unavailable
from digestif.dsn import Dsn, existing_file, number, option, yes_or_no
from digestif.errors import ConfigError
from digestif.exports import needs
from digestif.sockets import Sockets, plain_socket

with needs("webhooks", module=__name__):
    import aiohttp
    from aiohttp.abc import ResolveResult
    from aiohttp.resolver import ThreadedResolver
    from yarl import URL

ANSWER_BYTES = 64 * 1024  # that are read…
ANSWER_CHARACTERS = 200  # …and shown
LONGEST_WAIT = 24 * 3600.0  # seconds that a receiver may ask for
SHORTEST_WAIT = 1.0  # throttling counts as no attempt, so that no wait would mean an endless loop
IDLE_SECONDS = 4.0  # that a connection is kept: many servers close theirs after 5
LONGEST_TIMEOUT = 600.0
TOKEN_CHARACTERS = 12  # a part of an address of this length may be a token

REFUSES_US = frozenset({401, 403})
GONE = 410
TOO_MANY = 429
UNAVAILABLE = 503
GATEWAY = frozenset({502, 504})  # the receiver behind it may have the message


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Options of the DSN that channels over HTTP share."""

    timeout: float = option(number("seconds"), 15.0)
    allow_private: bool = option(yes_or_no, False)
    ca: str | None = option(existing_file, None)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a receiver."""

    host: str
    status: int
    text: str  # the beginning, harmless and without secrets
    retry_after: str | None  # the header

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def line(self) -> str:
        return f"{self.host} answered {self.status}{f': {self.text}' if self.text else ''}"


def failure_of(answer: Answer, *, now: float) -> DeliveryFailed | None:
    """The failure that an answer means; None if the receiver took the message."""
    if answer.is_success:
        return None
    after = wait_of(answer.retry_after, now=now)
    if answer.status in REFUSES_US:
        return Unavailable(f"configuration: {answer.line}")
    if answer.status == UNAVAILABLE:
        return Unavailable(answer.line, after=after)
    if answer.status in GATEWAY:
        return DeliveryFailed(answer.line, unknown=True)
    if answer.status == TOO_MANY:
        return DeliveryFailed(answer.line, after=after, throttled=True)
    if answer.status == GONE:
        return DeliveryFailed(f"gone: {answer.line}", retry=False)
    hint = "; redirects are not followed: give the address that it leads to" if 300 <= answer.status < 400 else ""
    return DeliveryFailed(f"{answer.line}{hint}", after=after)


def wait_of(header: str | None, *, now: float) -> float | None:
    """The seconds to wait by a Retry-After header, within bounds; None if it is missing or unreadable."""
    if header is None:
        return None
    if re.fullmatch(r"\d{1,15}", header.strip(), re.ASCII):
        seconds = float(header)
    else:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now
        except (ValueError, OverflowError, IndexError, TypeError):
            return None
    return min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT)


@dataclass(slots=True)
class Progress:
    """How far a request has come."""

    is_body_begun: bool = False


class Poster:
    """Posts JSON to one address. Connections are kept for a few seconds; after `close` new ones are made."""

    def __init__(
        self, url: str, *, secrets: Sequence[Secret] = (), timeout: float, allow_private: bool, ca: str | None = None
    ) -> None:
        self._url = _checked(url, allow_private)
        if ca is not None and self._url.scheme != "https":
            raise ConfigError("ca: only for TLS; use an https address")
        self._tls = None if ca is None else tls_context(ca)
        self.scheme = self._url.scheme
        self.host = self._url.host or ""
        self.origin = str(self._url.origin())
        self.has_path = self._url.path.strip("/") != ""
        self._timeout = _checked_timeout(timeout)
        self._allow_private = allow_private
        self._hidden = _hidden(self._url, secrets)
        self._session: aiohttp.ClientSession | None = None
        self._sockets = Sockets()  # of the session
        self._loop: asyncio.AbstractEventLoop | None = None  # of the session

    def name(self, scheme: str) -> str:
        """The name of a channel of this scheme to this address: its host, and a fingerprint of the whole."""
        _, _, place = self.origin.partition("://")
        return f"{scheme}://{place} #{fingerprint(str(self._url))}"

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post a body.

        Raises Unavailable if nothing of it was sent, DeliveryFailed with `unknown` if no answer came afterwards.
        """
        session = self._open_session()
        progress = Progress()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(session, body, headers, progress)
        except TimeoutError:
            problem = f"{self.host} did not answer within {self._timeout:g} s"
        except (aiohttp.ClientError, OSError) as error:
            problem = _problem(error, self.host)
        # Raised outside of the handlers: aiohttp's errors show the address, and would stay as context.
        reason = self._without_secrets(problem)
        raise DeliveryFailed(reason, unknown=True) if progress.is_body_begun else Unavailable(reason)

    async def close(self) -> None:
        session, sockets, self._session = self._session, self._sockets, None
        if session is not None:
            await session.close()
            await sockets.end()

    async def _exchange(
        self, session: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str], progress: Progress
    ) -> Answer:
        async with session.post(
            self._url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=progress
        ) as response:
            beginning = await _read(response)
            text = self._without_secrets(beginning.decode("utf-8", "replace"))
            return Answer(self.host, response.status, excerpt(text), response.headers.get("Retry-After"))

    def _open_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._loop = loop
            self._sockets = Sockets(plain_socket if self._allow_private else public_socket)
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                timeout=aiohttp.ClientTimeout(total=None),  # `post` has one around everything
                headers={"User-Agent": "digestif", "Accept-Encoding": "identity"},
                auto_decompress=False,  # 64 KB could become gigabytes
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                trace_configs=[_progress_noted()],
            )
        return self._session

    def _connector(self) -> aiohttp.TCPConnector:
        checks: dict[str, Any] = {}
        if not self._allow_private:
            checks["resolver"] = PublicResolver()
        if self._tls is not None:
            checks["ssl"] = self._tls
        # No limit of connections: waiting for a free one would count against the receiver's time.
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=self._sockets, **checks)

    def _without_secrets(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "…")
        return text


class PublicResolver(ThreadedResolver):
    """Resolves names. Raises AddressRefused for a name with any address that is not public."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await super().resolve(host, port, family)
        for result in results:
            refuse_unless_public(result["host"])
        return results


def encoded(value: object) -> bytes:
    """A value as JSON. Raises DeliveryFailed without retry if JSON can't express it."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = type(error).__name__
    raise DeliveryFailed(f"the message can't be written as JSON: {problem}", retry=False)


def excerpt(text: str) -> str:
    """The beginning of a receiver's text, on one line, without characters that steer terminals or turn text around."""
    beginning = text[: 4 * ANSWER_CHARACTERS]
    visible = "".join("\N{REPLACEMENT CHARACTER}" if _is_harmful(character) else character for character in beginning)
    line = " ".join(visible.split())
    return line if len(line) <= ANSWER_CHARACTERS else line[: ANSWER_CHARACTERS - 1] + "…"


def url_of(scheme: str, dsn: Dsn, query: str = "") -> str:
    """The address in a DSN as it was written, with `query` in place of the options."""
    return f"{scheme}://{dsn.rest.partition('?')[0]}{f'?{query}' if query else ''}"


def _is_harmful(character: str) -> bool:
    return unicodedata.category(character).startswith("C") and not character.isspace()


def _progress_noted() -> aiohttp.TraceConfig:
    """Notes in the `Progress` of each request that its body is about to be sent."""

    async def note(_: aiohttp.ClientSession, context: Any, __: aiohttp.TraceRequestChunkSentParams) -> None:
        context.trace_request_ctx.is_body_begun = True

    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(note)
    return trace


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of an answer. If more follows, the connection is closed."""
    parts: list[bytes] = []
    missing = ANSWER_BYTES
    while missing and (part := await response.content.read(missing)):
        parts.append(part)
        missing -= len(part)
    if not missing:
        response.close()
    return b"".join(parts)


def _problem(error: Exception, host: str) -> str:
    """Why there is no answer, in words that show no more of the address than its host."""
    cause = getattr(error, "os_error", error)
    match error:
        case _ if isinstance(cause, AddressRefused):
            return f"{host} was not connected to: {cause}; allow_private allows it"
        case aiohttp.ClientConnectorCertificateError():
            advice = "ca names the file of an authority of your own"
            return f"configuration: {host} has a certificate that is not trusted; {advice}"
        case aiohttp.ClientConnectorDNSError():
            return f"{host} is a name that can't be resolved"
        case aiohttp.ClientConnectorError():
            return f"{host} can't be connected to: {error.strerror or type(cause).__name__}"
        case aiohttp.ClientPayloadError():
            return f"{host} broke its answer off"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | OSError():
            return f"{host} closed the connection without an answer"
        case aiohttp.ClientResponseError():
            return f"{host} answered something that is not HTTP"
        case _:
            return f"{host} could not be talked to: {type(error).__name__}"


def _checked(url: str, allow_private: bool) -> URL:
    """The parsed address. ConfigError does not show it."""
    try:
        parsed = URL(url)
        port = parsed.port
    except (ValueError, TypeError):
        parsed, port = URL(), None
    if parsed.scheme not in ("http", "https") or not parsed.host or not port:
        raise ConfigError("url: not an address such as https://receiver.example/path")
    if unfilled_fault(url):
        raise ConfigError("url: a name in braces is not filled in here; write %7B and %7D for braces")
    if parsed.user is not None or parsed.password is not None or parsed.fragment:
        raise ConfigError("url: an address for webhooks has no user, no password and no #fragment")
    if not allow_private and is_address(parsed.host) and not is_public(parsed.host):
        raise ConfigError(f"url: {parsed.host} is not a public address; allow_private=yes allows it")
    return parsed


def _checked_timeout(timeout: float) -> float:
    if not is_duration(timeout) or not 0 < timeout <= LONGEST_TIMEOUT:
        raise ConfigError(f"timeout: not a number of seconds above 0, up to {LONGEST_TIMEOUT:g}")
    return float(timeout)


def _hidden(url: URL, secrets: Sequence[Secret]) -> list[str]:
    """Texts to hide if a receiver sends them back: the secrets, and possible tokens in the address."""
    parts = [url.raw_path, *url.raw_parts, *url.parts, *url.query.values(), url.raw_query_string]
    texts = {secret.reveal() for secret in secrets} | {part for part in parts if len(part) >= TOKEN_CHARACTERS}
    return sorted((text for text in texts if text), key=len, reverse=True)
