"""Messages that routes have sent, kept in the store for people to look at: only if that was asked for, and bounded."""

from dataclasses import dataclass
from typing import Any

import msgspec

from digestif.channels.base import Message
from digestif.core.records import Digest
from digestif.core.times import to_millis, to_seconds
from digestif.stores.base import Store
from digestif.stores.damage import UNDECODABLE
from digestif.stores.documents import Bounds, Document

COLLECTION = "messages"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMessage:
    """A message that was sent. Formats that its channel does not need are empty."""

    id: str  # of its digest; if that was split, followed by a dot and the recipient
    timeline: str
    recipient: str
    channel: str  # the scheme
    at: float  # when it was sent, in seconds
    subject: str
    text: str
    html: str


class MessageArchive:
    """Keeps messages once `bounds` are set."""

    def __init__(self, store: Store) -> None:
        self.bounds: Bounds | None = None
        self._store = store

    def keep(self, digest: Digest, message: Message, *, channel: str, split: bool, now: float) -> None:
        """Keep a message that was sent; one of the same digest and recipient is replaced. Raises StoreError."""
        if self.bounds is None:
            return
        key = f"{digest.id}.{message.recipient}" if split else digest.id
        shown = {"recipient": message.recipient, "channel": channel, "subject": message.subject}
        body = _encode({**shown, "text": message.text, "html": message.html})
        document = Document(key, body, digest.timeline, ring=self._store.tenants().of(digest.timeline))
        self._store.keep(COLLECTION, document, bounds=self.bounds, replace=True, now=to_millis(now))


def kept_message(document: Document) -> KeptMessage | None:
    """The message in a document; None if it can't be read."""
    try:
        found: dict[str, Any] = _decode(document.body)
        return KeptMessage(id=document.key, timeline=document.timeline or "", at=to_seconds(document.at), **found)
    except (*UNDECODABLE, TypeError):
        return None
