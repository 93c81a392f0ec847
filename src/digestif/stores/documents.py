"""The part of the port for documents: what a service keeps for a while beside timelines, such as messages it sent.

Documents of a collection are kept in the order in which they came. They belong to no move: they stay behind.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from digestif.core.times import Millis

DOCUMENTS_PAGE = 200  # that one call gives
EVICTED = 1000  # that one call removes at most


class Document(NamedTuple):
    """Bytes under a key that is unique in their collection."""

    key: str
    body: bytes
    timeline: str | None = None  # with which it is deleted
    at: Millis = 0  # when it was kept; the store sets it
    ring: str = ""  # of `Store.tenants`: the documents that it may push out


class Bounds(NamedTuple):
    """How much of each ring of a collection is kept: beyond these, its oldest documents are removed."""

    entries: int
    bytes: int | None = None  # of all bodies
    age: Millis | None = None  # of a document; then it counts as gone


class Documents(ABC):
    """Collections of documents, in partition 0."""

    @abstractmethod
    def keep(
        self, collection: str, document: Document, *, bounds: Bounds, replace: bool | bytes = False, now: Millis | None
    ) -> bool:
        """Keep a document as the newest of its collection. False, with nothing done, if its key is there already.

        With `replace` the document takes the place of the one that is there; given as bytes, only of one with this
        body, and if there is none, the answer is False. Without `now` the time is that of the commit, however long
        the store was waited for. A document that is larger than all bytes of the bounds is not kept, and removes all
        others of its ring. One that replaces a document of another ring leaves that ring. Of the documents that are too
        old, whatever their ring, the oldest are removed.
        """

    @abstractmethod
    def kept(self, collection: str, key: str, *, now: Millis | None) -> Document | None:
        """The document of this key; None if there is none, or if it is too old."""

    @abstractmethod
    def documents(
        self, collection: str, *, timeline: str | None = None, before: str | None = None, limit: int, now: Millis | None
    ) -> list[Document]:
        """Documents, the newest first, at most DOCUMENTS_PAGE: those that came before the one with the key `before`."""

    @abstractmethod
    def forget(self, collection: str, key: str, *, body: bytes | None = None) -> bool:
        """Remove a document, given a body only one with this body. False if there is none."""

    @abstractmethod
    def forget_timeline(self, timeline: str) -> None:
        """Remove the documents of a timeline from all collections."""
