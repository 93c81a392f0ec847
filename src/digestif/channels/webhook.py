"""Webhooks: a digest as signed JSON, posted to a program. The form is that of Standard Webhooks.

The id of a message stays the same over all attempts, so that a receiver can ignore what it has seen. A digest for a
webhook is therefore delivered again as it was (`redelivery="same"`).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import quote

from digestif.channels.base import Channel, Format, Message, Receipt
from digestif.channels.http import HttpOptions, Poster, encoded, failure_of, url_of
from digestif.channels.signatures import Signer
from digestif.clock import wall_clock
from digestif.core.secret import Secret
from digestif.dsn import Dsn, option
from digestif.errors import ConfigError

BODY_BYTES = 1024 * 1024
ID_CHARACTERS = 256
# What is left of a message that is too large, until it fits: entries of each list or mapping, characters of each text.
ALLOWANCES = ((1000, 65_536), (200, 8192), (50, 1024), (10, 256), (3, 64))
LEAST = 256  # characters of each of the message's own texts, if nothing else fits
LATEST = 253402300799.0  # the last second that ISO 8601 has four digits for


class WebhookChannel(Channel):
    """Posts signed JSON to one address. Several secrets sign side by side, for as long as one replaces another."""

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
        raise ConfigError("webhook+http:// is for private networks: add allow_private=true, or use webhook+https://")
    return WebhookChannel(
        url_of(scheme, dsn, options.query),
        secrets=options.secret,
        timeout=options.timeout,
        allow_private=options.allow_private,
        ca=options.ca,
    )


def id_of(key: str) -> str:
    """A message's key as a header can carry it: different keys give different ids."""
    text = quote(key, safe="!#$&'()*+,/:;=?@[]~", errors="surrogatepass")
    if len(text) <= ID_CHARACTERS:
        return text
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def body_of(message: Message) -> bytes:
    """The JSON of a message: in full, or as much as fits, and then it says how much is missing."""
    data = _data_of(message)
    body = _encoded(message, data)
    for allowance in ALLOWANCES:
        if len(body) <= BODY_BYTES:
            return body
        body = _encoded(message, _Scissors(*allowance).shortened(data))
    if len(body) <= BODY_BYTES:
        return body
    least = _Scissors(0, LEAST, entries_left_out=len(message.data))
    return _encoded(message, least.shortened(_own_texts(message)))


def _encoded(message: Message, data: Mapping[str, Any]) -> bytes:
    made = datetime.fromtimestamp(min(max(message.timestamp, 0.0), LATEST), UTC)
    timestamp = made.isoformat(timespec="milliseconds").replace("+00:00", "Z")
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
class _Scissors:
    """Shortens values, and counts what falls off."""

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
