"""Webhooks: a digest as signed JSON, posted to a program, as in Standard Webhooks (https://www.standardwebhooks.com).

All attempts to send a message have the same id, by which a receiver can ignore what it has. A digest for a webhook is
therefore delivered again unchanged (`redelivery="same"`).
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import quote

from digestif.channels.base import Channel, Format, Message, Receipt, date_of
from digestif.channels.http import HttpOptions, Poster, encoded, failure_of, url_of
from digestif.clock import wall_clock
from digestif.core.secret import Secret
from digestif.dsn import Dsn, option
from digestif.errors import ConfigError

SECRET_PREFIX = "whsec_"
KEY_BYTES = range(24, 65)  # as the standard asks
BODY_BYTES = 1024 * 1024
ID_CHARACTERS = 256
# A message that is too large is cut ever shorter until it fits: to so many entries of each list or mapping, and so many
# characters of each text.
CUTS = ((1000, 65_536), (200, 8192), (50, 1024), (10, 256), (3, 64))
LEAST = 256  # characters of each of the message's own texts, if everything else had to go


class WebhookChannel(Channel):
    """Posts signed JSON to one address. All secrets sign, so that receivers may know the old one or the new one."""

    scheme: ClassVar[str] = "webhook"
    formats: ClassVar[frozenset[Format]] = frozenset({Format.DATA, Format.TEXT})
    redelivery: ClassVar[str] = "same"

    def __init__(
        self,
        url: str,
        *,
        secrets: Sequence[str | Secret],
        timeout: float = 15,
        allow_private: bool = False,
        ca: str | None = None,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        given = [secrets] if isinstance(secrets, str | Secret) else secrets
        self._signer = Signer(given)
        hidden = [Secret(secret) for secret in given]
        self._poster = Poster(url, secrets=hidden, timeout=timeout, allow_private=allow_private, ca=ca)
        self._clock = clock

    @cached_property
    def name(self) -> str:
        return self._poster.name(f"webhook+{self._poster.scheme}")

    async def deliver(self, message: Message) -> Receipt:
        body = body_of(message)
        message_id = id_of(message.key)
        signed = self._signer.headers(message_id, at=self._clock(), body=body)
        answer = await self._poster.post(body, {"Content-Type": "application/json", **signed})
        failure = failure_of(answer, now=self._clock())
        if failure is not None:
            raise failure
        return Receipt(channel=self.scheme, id=message_id, detail=f"{answer.status} {answer.text}".strip())

    async def close(self) -> None:
        await self._poster.close()

    def __repr__(self) -> str:
        return f"WebhookChannel({self._poster.origin}/…)"


def _secrets(text: str) -> tuple[Secret, ...]:
    # A + in a query reads as a space, and no secret has one.
    return tuple(Secret(part) for part in text.replace(" ", "+").split(",") if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions(HttpOptions):
    """Options of the DSN."""

    secret: tuple[Secret, ...] = option(_secrets, ())
    query: str = option(str, "")  # of the receiver's address


def from_dsn(dsn: Dsn) -> WebhookChannel:
    """`webhook+https://receiver.example/path?secret=whsec_…,whsec_…`."""
    options = dsn.read(WebhookOptions)
    scheme = dsn.scheme.removeprefix("webhook+")
    if scheme == "http" and not options.allow_private:
        raise ConfigError("webhook+http:// is for private networks: add allow_private=yes, or use webhook+https://")
    return WebhookChannel(
        url_of(scheme, dsn, options.query),
        secrets=options.secret,
        timeout=options.timeout,
        allow_private=options.allow_private,
        ca=options.ca,
    )


class Signer:
    """Signs the id, the time of sending and the body of a message with each of the secrets."""

    def __init__(self, secrets: Sequence[str | Secret] | str | Secret) -> None:
        given = [secrets] if isinstance(secrets, str | Secret) else secrets
        self._keys = [_key(Secret(secret), number) for number, secret in enumerate(given, 1)]
        if not self._keys:
            raise ConfigError(
                f"secret: a webhook needs at least one; write {SECRET_PREFIX} and 32 random bytes in base64"
            )

    def headers(self, message_id: str, *, at: float, body: bytes) -> dict[str, str]:
        """The headers of a message that is sent `at` this time."""
        seconds = str(int(at))
        # Unambiguous although an id may hold dots: the body begins with a brace, so it can't be a part of the time.
        content = f"{message_id}.{seconds}.".encode() + body
        return {
            "webhook-id": message_id,
            "webhook-timestamp": seconds,
            "webhook-signature": " ".join(f"v1,{_signature(key, content)}" for key in self._keys),
        }


def _signature(key: bytes, content: bytes) -> str:
    return b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def _key(secret: Secret, number: int) -> bytes:
    text = secret.reveal().removeprefix(SECRET_PREFIX)
    try:
        key = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        problem = "is not base64"
    else:
        if len(key) in KEY_BYTES:
            return key
        problem = f"has {len(key)} bytes"
    # Raised outside of the handler, whose exception could show the secret.
    raise ConfigError(f"secret: number {number} {problem}; a webhook's is {SECRET_PREFIX} and 24 to 64 bytes in base64")


def id_of(key: str) -> str:
    """A message's key in a form that fits into a header. Different keys give different ids."""
    text = quote(key, safe="!#$&'()*+,/:;=?@[]~", errors="surrogatepass")
    if len(text) <= ID_CHARACTERS:
        return text
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def body_of(message: Message) -> bytes:
    """The JSON of a message. If it is too large it is cut, and `left_out` says by how much."""
    data = _data_of(message)
    body = _encoded(message, data)
    for entries, characters in CUTS:
        if len(body) <= BODY_BYTES:
            return body
        body = _encoded(message, _Shortener(entries, characters).shortened(data))
    if len(body) <= BODY_BYTES:
        return body
    least = _Shortener(0, LEAST, entries_left_out=len(message.data))
    return _encoded(message, least.shortened(_own_texts(message)))


def _encoded(message: Message, data: Mapping[str, Any]) -> bytes:
    timestamp = date_of(message).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return encoded({"type": "digest", "timestamp": timestamp, "data": data})


def _data_of(message: Message) -> dict[str, Any]:
    return {**message.data, **_own_texts(message)}


def _own_texts(message: Message) -> dict[str, Any]:
    return {
        "key": message.key,
        "timeline": message.timeline,
        "recipient": message.recipient,
        "subject": message.subject,
        "text": message.text,
    }


@dataclass(slots=True)
class _Shortener:
    """Shortens values, and counts what it leaves out."""

    entries: int
    characters: int
    entries_left_out: int = 0
    characters_left_out: int = 0

    def shortened(self, data: Mapping[str, Any]) -> dict[str, Any]:
        cut = {name: self._cut(value) for name, value in data.items()}
        left_out = {"entries": self.entries_left_out, "characters": self.characters_left_out}
        return {**cut, "truncated": True, "left_out": left_out}

    def _cut(self, value: Any) -> Any:
        match value:
            case str():
                self.characters_left_out += max(0, len(value) - self.characters)
                return value[: self.characters]
            case Mapping():
                self.entries_left_out += max(0, len(value) - self.entries)
                return {key: self._cut(item) for key, item in islice(value.items(), self.entries)}
            case list() | tuple():
                self.entries_left_out += max(0, len(value) - self.entries)
                return [self._cut(item) for item in value[: self.entries]]
            case _:
                return value
