"""Cursors that leave the process: sealed, so that they tell nothing and serve only who got them, for the same list.

A cursor of the store may name timelines or dead letters that its reader must not know. The key derives from the secret
that all processes of a store share. Encryption is a keystream of HMAC-SHA256 over a random number, and a MAC over that
number, the purpose and the encrypted text.
"""

import base64
import hmac
from binascii import Error
from collections.abc import Sequence
from functools import partial

from digestif.errors import ConfigError
from digestif.ids import fresh_bytes
from digestif.service.security.sessions import shared_secret
from digestif.service.security.tokens import Principal
from digestif.service.service import Service
from digestif.stores.base import Store

NONCE, MAC, LENGTH = 16, 16, 2  # bytes; the length of the text stands before it
BLOCK = 32  # bytes of keystream in one HMAC
STEP = 128  # bytes, to a multiple of which a text is padded
LONGEST = 8_192  # characters of a sealed cursor


class Cursors:
    """Seals and opens the cursors of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._keys: tuple[Store, Keys] | None = None

    async def seal(self, cursor: str | None, principal: Principal, *query: str | None) -> str | None:
        """Seal the cursor of a list that was asked for by a query; None stays None."""
        return None if cursor is None else (await self._of_store()).sealed(cursor, _purpose(principal, query))

    async def open(self, text: str | None, principal: Principal, *query: str | None, name: str = "after") -> str | None:
        """Open a sealed cursor. ConfigError unless it was sealed for the same principal and query."""
        if text is None:
            return None
        found = (await self._of_store()).opened(text, _purpose(principal, query))
        if found is None:
            raise ConfigError(f"{name}: not from a page of this list")
        return found

    async def _of_store(self) -> "Keys":
        store = self._service.digests.store
        if self._keys is None or self._keys[0] is not store:
            self._keys = store, Keys(await self._service.in_thread(partial(shared_secret, store)))
        return self._keys[1]


def _purpose(principal: Principal, query: Sequence[str | None]) -> bytes:
    """What a cursor is bound to, as unambiguous bytes."""
    return repr((principal.name, principal.prefix, *query)).encode("utf-8", "surrogatepass")


class Keys:
    """The keys of cursors: one that encrypts, one that signs."""

    def __init__(self, secret: bytes) -> None:
        self._stream, self._mac = (_hmac(secret, b"cursors:" + use) for use in (b"stream", b"mac"))

    def sealed(self, cursor: str, purpose: bytes) -> str:
        text = cursor.encode("utf-8", "surrogatepass")
        padded = len(text).to_bytes(LENGTH) + text
        padded += bytes(-len(padded) % STEP)
        nonce = fresh_bytes(NONCE)
        hidden = self._mixed(padded, nonce)
        return base64.urlsafe_b64encode(nonce + self._signature(nonce + hidden, purpose) + hidden).decode().rstrip("=")

    def opened(self, text: str, purpose: bytes) -> str | None:
        """The cursor; None if it was sealed for another purpose, cut, changed, or is none of ours."""
        sealed = _bytes_of(text)
        nonce, mac, hidden = sealed[:NONCE], sealed[NONCE : NONCE + MAC], sealed[NONCE + MAC :]
        if not hidden or not hmac.compare_digest(mac, self._signature(nonce + hidden, purpose)):
            return None
        padded = self._mixed(hidden, nonce)
        end = LENGTH + int.from_bytes(padded[:LENGTH])
        return padded[LENGTH:end].decode("utf-8", "surrogatepass")

    def _mixed(self, text: bytes, nonce: bytes) -> bytes:
        blocks = range(-(-len(text) // BLOCK))
        stream = b"".join(_hmac(self._stream, nonce + block.to_bytes(4)) for block in blocks)[: len(text)]
        return (int.from_bytes(text) ^ int.from_bytes(stream)).to_bytes(len(text))

    def _signature(self, content: bytes, purpose: bytes) -> bytes:
        return _hmac(self._mac, len(purpose).to_bytes(4) + purpose + content)[:MAC]


def _hmac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


def _bytes_of(text: str) -> bytes:
    """The bytes of a text in the one form that `sealed` writes; none if it is another."""
    if len(text) > LONGEST or not text.isascii():
        return b""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except Error:
        return b""
    return found if base64.urlsafe_b64encode(found).decode().rstrip("=") == text else b""
