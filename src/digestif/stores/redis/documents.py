"""Documents: a hash and an order for each collection, and one index by timeline and ring, all in partition 0."""

import math
from collections.abc import Sequence
from functools import partial
from struct import Struct as Packing

from digestif.core.times import Millis
from digestif.stores.documents import DOCUMENTS_PAGE, Bounds, Document
from digestif.stores.redis import encoding
from digestif.stores.redis.calls import Call
from digestif.stores.redis.client.commands import Command, Packed, pack
from digestif.stores.redis.keys import as_text
from digestif.stores.redis.verbs import RedisVerbs
from digestif.stores.transfer import TransferStore

HOME = 0  # the partition of all documents
DOCUMENT_KINDS = ("docs", "docorder", "docindex")
NAMED = 2**52  # added to the numbers of documents in named rings
_HEAD = Packing(">ddH")  # expiry, time, length of the owners
_NUMBER = Packing(">Q")
NO_TEXT = b"\xff"  # between the owners, the timeline and the ring


class RedisDocuments(RedisVerbs, TransferStore):
    """The verbs of the store for documents."""

    def keep(
        self, collection: str, document: Document, *, bounds: Bounds, replace: bool | bytes = False, now: Millis | None
    ) -> bool:
        names = {"collection": collection, "key": document.key, "timeline": document.timeline or ""}
        limits = {name: limit for name, limit in bounds._asdict().items() if limit is not None}
        rings = {"ring": document.ring} if document.ring else {}
        compares = isinstance(replace, bytes)
        request = encoding.encode({**names, **rings, **limits, "replace": replace is True, "compares": compares})
        call = Call(HOME, self._declared(collection), pack((request, document.body, replace if compares else b"")))
        return encoding.flags(self._scripts.write_one("keep", call, now=now))[0]

    def kept(self, collection: str, key: str, *, now: Millis | None) -> Document | None:
        return next(iter(self._documents(collection, [key.encode()], now=now)), None)

    def documents(
        self, collection: str, *, timeline: str | None = None, before: str | None = None, limit: int, now: Millis | None
    ) -> list[Document]:
        number = NAMED
        if before is not None:
            [last] = self._scripts.get([self._command("ZSCORE", self._order(collection), before.encode())])
            if last is None:
                return []
            number = int(float(last)) % NAMED
        newest = self._newest if timeline is None else partial(self._newest_of, timeline)
        keys = newest(collection, before=number, limit=min(limit, DOCUMENTS_PAGE))
        return self._documents(collection, keys, now=now) if keys else []

    def _newest(self, collection: str, *, before: int, limit: int) -> list[bytes]:
        """The keys of the newest documents. Those of named rings stand behind all others in the order."""
        order, rest = self._order(collection), (b"WITHSCORES", b"LIMIT", 0, limit)
        pages = self._scripts.get(
            [
                self._command("ZREVRANGEBYSCORE", order, b"(%d" % (before + offset), offset, *rest)
                for offset in (0, NAMED)
            ]
        )
        found = [
            (int(float(score)) % NAMED, key) for page in pages for key, score in zip(page[::2], page[1::2], strict=True)
        ]
        return [key for _, key in sorted(found, reverse=True)[:limit]]

    def _newest_of(self, timeline: str, collection: str, *, before: int, limit: int) -> list[bytes]:
        prefix = _prefix(timeline, collection)
        start, end = b"(" + prefix + _NUMBER.pack(before), b"[" + prefix
        [members] = self._scripts.get([self._command("ZREVRANGEBYLEX", self._index, start, end, b"LIMIT", 0, limit)])
        return [member[len(prefix) + _NUMBER.size :] for member in members]

    def _documents(self, collection: str, keys: Sequence[bytes], *, now: Millis | None) -> list[Document]:
        at = self.time(HOME) if now is None else now
        [stored] = self._scripts.get([self._command("HMGET", self._hash(collection), *keys)])
        found = [(key, body) for key, body in zip(keys, stored, strict=True) if body is not None]
        return [_document(key, body) for key, body in found if _HEAD.unpack_from(body)[0] > at]

    def forget(self, collection: str, key: str, *, body: bytes | None = None) -> bool:
        return self._forget(collection, [key.encode()], body) > 0

    def _forget(self, collection: str, keys: Sequence[bytes], body: bytes | None = None) -> int:
        names = {"collection": collection, "keys": [encoding.text(key) for key in keys]}
        request = encoding.encode({**names, "compares": body is not None})
        call = Call(HOME, self._declared(collection), pack((request, body or b"")))
        return int(self._scripts.write_one("forget", call, now=None))

    def forget_timeline(self, timeline: str) -> None:
        prefix = _prefix(timeline)
        page = ("ZRANGEBYLEX", self._index, b"[" + prefix, b"(" + prefix + b"\xff", b"LIMIT", 0, DOCUMENTS_PAGE)
        while members := self._scripts.get([self._command(*page)])[0]:
            removed = 0
            for collection, keys in _by_collection(members, len(prefix)).items():
                removed += self._forget(collection, keys)
            if not removed:
                return  # others are removing them

    # Keys

    def _command(self, *parts: bytes | str | int) -> Command:
        return Command(HOME, parts)

    def _hash(self, collection: str) -> bytes:
        return self._scripts.keys.key(HOME, "docs", collection)

    def _order(self, collection: str) -> bytes:
        return self._scripts.keys.key(HOME, "docorder", collection)

    @property
    def _index(self) -> bytes:
        return self._scripts.keys.key(HOME, "docindex")

    def _declared(self, collection: str) -> Packed:
        return pack((self._hash(collection), self._order(collection), self._index))


def _prefix(timeline: str, collection: str | None = None) -> bytes:
    """What members of the index begin with: lengths come before names, so that no name is taken for another."""
    name = timeline.encode()
    head = len(name).to_bytes(2) + name
    return head if collection is None else head + bytes([len(collection.encode())]) + collection.encode()


def _by_collection(members: Sequence[bytes], begin: int) -> dict[str, list[bytes]]:
    """The keys in members of the index, by collection; `begin` is where the collections stand in them."""
    found: dict[str, list[bytes]] = {}
    for member in members:
        end = begin + 1 + member[begin]
        found.setdefault(as_text(member[begin + 1 : end]), []).append(member[end + _NUMBER.size :])
    return found


def _document(key: bytes, stored: bytes) -> Document:
    _, at, size = _HEAD.unpack_from(stored)
    begin = _HEAD.size
    timeline, _, ring = stored[begin : begin + size].partition(NO_TEXT)
    at = 0 if math.isinf(at) else int(at)
    return Document(as_text(key), stored[begin + size :], as_text(timeline) or None, at, as_text(ring))
