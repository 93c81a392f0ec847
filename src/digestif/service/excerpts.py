"""Excerpts: what answers and pages show of stored records, read within a bound of bytes.

Values that are stored as JSON are not decoded: a few bytes of it can become many objects. All of this runs in threads
of the engine, record by record, because a single call into C does not let the event loop in.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from digestif.channels.base import Message
from digestif.core.capacity import Stored
from digestif.core.records import Record
from digestif.digests import Digests
from digestif.service.api.shapes import RecordAnswer
from digestif.service.dashboard.rendering import shown_value
from digestif.service.service import Service
from digestif.stores.codec import Sealer, read_timestamp

T = TypeVar("T")

ANSWER_BYTES = 8 << 20  # of values in one answer; a single record is always shown
PREVIEW_BYTES = 64 << 20  # of decoded values in a preview
LONG_VALUE = 1024  # bytes of a value of which a page shows the beginning of its text
SIDE_BY_SIDE = 4  # reads of records: each may hold ANSWER_BYTES two or three times

_encode = msgspec.json.Encoder().encode


class Excerpts:
    """Reads records for the answers and pages of a service, a few answers at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turns = asyncio.Semaphore(SIDE_BY_SIDE)

    async def read(self, call: Callable[[Digests], T]) -> T:
        """Make a call of this module in a thread of the engine, when it has its turn."""
        async with self._turns:
            return await self._service.ask(call)


class EncodedRecords(NamedTuple):
    """Records as JSON texts, newest first, and how many there are."""

    records: list[bytes]
    total: int


def peek(digests: Digests, timeline: str, limit: int) -> EncodedRecords:
    """Read the records that the next digest would carry, for an answer."""
    records, total = digests._peek_stored(timeline, limit, room=ANSWER_BYTES)
    return _encoded(records, total, digests._sealer)


def dead_records(digests: Digests, letter_id: str, limit: int) -> list[bytes]:
    """Read the records of a dead letter, for an answer."""
    records = digests._dead_stored(letter_id, limit, room=ANSWER_BYTES)
    return _encoded(records, len(records), digests._sealer).records


def _encoded(records: list[Stored], total: int, sealer: Sealer) -> EncodedRecords:
    """Encode records until there are enough bytes. Those that can't be read are left out, and not counted."""
    room, found = ANSWER_BYTES, list[bytes]()
    for record in _consumed(records):
        try:
            text = sealer.json_text(record.payload)
            value = sealer.unseal(record.payload) if text is None else msgspec.Raw(text)
        except ValueError:
            total -= 1
            continue
        encoded = _encode(RecordAnswer(record.key, value, read_timestamp(record)))
        room -= len(encoded)
        if room < 0 and found:
            break
        found.append(encoded)
    return EncodedRecords(found, total)


def _consumed(records: list[Stored]) -> Iterable[Stored]:
    """Yield records from the first to the last, and free each before the next."""
    records.reverse()
    while records:
        yield records.pop()


def peek_at(digests: Digests, timeline: str, limit: int) -> list[Record]:
    """Read the records that the next digest would carry, for a page: long values are shortened."""
    return _shortened(digests._peek_stored(timeline, limit, room=ANSWER_BYTES).records, digests._sealer)


def dead_records_at(digests: Digests, letter_id: str, limit: int) -> list[Record]:
    """Read the records of a dead letter, for a page: long values are shortened."""
    return _shortened(digests._dead_stored(letter_id, limit, room=ANSWER_BYTES), digests._sealer)


def _shortened(records: Sequence[Stored], sealer: Sealer) -> list[Record]:
    found = []
    for record in records:
        try:
            value = _beginning(record.payload, sealer)
        except ValueError:
            continue
        found.append(Record(record.key, value, read_timestamp(record)))
    return found


def _beginning(payload: bytes | None, sealer: Sealer) -> Any:
    """Decode a stored value; of a long one, return the beginning of its text."""
    text = sealer.json_text(payload)
    if text is None:
        return shown_value(sealer.unseal(payload))
    if len(text) <= LONG_VALUE:
        return sealer.unseal(payload)
    if text.startswith(b'"'):
        return str(sealer.unseal(payload))[:LONG_VALUE]
    return text[:LONG_VALUE].decode(errors="ignore")


class LargePreview(Exception):
    """There is more to preview than may be decoded."""


def prepare_preview(digests: Digests, timeline: str) -> Callable[[], Message] | None:
    """Read what a preview needs; the answer renders it, and takes longer. None if there is nothing to render.

    Raises LargePreview.
    """

    def read() -> list[Record]:
        records, total = digests._peek_stored(timeline, None, room=PREVIEW_BYTES)
        sizes = (digests._sealer.decoded_size(record.payload or b"") for record in records)
        if total > len(records) or sum(sizes) > PREVIEW_BYTES:
            raise LargePreview
        return digests._decoded(records)

    return digests._prepare_preview(timeline, read)
