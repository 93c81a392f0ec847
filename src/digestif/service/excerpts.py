"""Excerpts: what answers and pages show of stored records, read within a bound of bytes.

Values that are stored as JSON are not decoded: a few bytes of it can become many objects. All of this runs in threads
of the engine, record by record, because a single call into C does not let the event loop in.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from digestif.channels.base import Message
from digestif.core.capacity import Stored
from digestif.core.records import DeadLetter, Record
from digestif.digests import Digests
from digestif.messages import preview_renderer
from digestif.service.api.shapes import RecordAnswer
from digestif.service.dashboard.rendering import cut, one_line
from digestif.service.service import Service
from digestif.stored_records import dead_stored, decoded, peek_stored
from digestif.stores.codec import Sealer, read_timestamp
from digestif.stores.reader import Part

T = TypeVar("T")

ANSWER_BYTES = 8 << 20  # of values in one answer; a single record is always shown
PREVIEW_BYTES = 64 << 20  # of decoded values in a preview
LONG_VALUE = 1024  # bytes of a JSON value from which it is not decoded for a page
FITS = 60  # characters of a value that need not be opened: one line shows them
OPENED = 2_000  # characters of an opened value in a list
MOST_OPENED = 256 * 1024  # the same on the page of a record
FORMATTED = 32 * 1024  # bytes of JSON that are formatted: each of them may become an indented line
LETTER_RECORDS = 100  # of a dead letter, among which a record is looked for
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
    records, total = peek_stored(digests.engine, timeline, limit, max_bytes=ANSWER_BYTES)
    return _encoded(records, total, digests.engine.sealer)


def dead_records(digests: Digests, letter_id: str, limit: int) -> list[bytes]:
    """Read the records of a dead letter, for an answer."""
    records = dead_stored(digests.engine, letter_id, limit, max_bytes=ANSWER_BYTES)
    return _encoded(records, len(records), digests.engine.sealer).records


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


class ShownRecord(NamedTuple):
    """A record on a page: its value on one line, and `opened` where one line does not show all of it."""

    key: str
    timestamp: float
    line: str
    opened: str | None  # over several lines
    is_whole: bool  # `opened` has all of the value


def peek_at(digests: Digests, timeline: str, limit: int) -> list[ShownRecord]:
    """Read the records that the next digest would carry, for a page: long values are shortened."""
    return _shortened(
        peek_stored(digests.engine, timeline, limit, max_bytes=ANSWER_BYTES).records, digests.engine.sealer
    )


def dead_records_at(digests: Digests, letter_id: str, limit: int) -> list[ShownRecord]:
    """Read the records of a dead letter, for a page: long values are shortened."""
    return _shortened(dead_stored(digests.engine, letter_id, limit, max_bytes=ANSWER_BYTES), digests.engine.sealer)


def _shortened(records: Sequence[Stored], sealer: Sealer, *, most: int = OPENED) -> list[ShownRecord]:
    found = []
    for record in records:
        try:
            found.append(_shown(record, sealer, most))
        except ValueError:
            continue
    return found


def _shown(record: Stored, sealer: Sealer, most: int) -> ShownRecord:
    """Show a value: all of its text that fits in `most` characters, formatted if it is JSON and not too long for that.

    JSON is formatted without being decoded. ValueError says why the value can't be read.
    """
    text = sealer.json_text(record.payload)
    if text is None or text.startswith(b'"') or len(text) <= LONG_VALUE:
        line = one_line(sealer.unseal(record.payload))
    else:
        line = text.decode()
    is_json = text is not None and text.startswith((b"{", b"["))
    opened = _formatted(text) if text is not None and is_json and len(text) <= FORMATTED else line
    fits = len(line) <= FITS and "\n" not in line
    return ShownRecord(
        record.key, read_timestamp(record), cut(line), None if fits else opened[:most], is_whole=len(opened) <= most
    )


def _formatted(text: bytes) -> str:
    try:
        return msgspec.json.format(text, indent=2).decode()
    except RecursionError:  # it comes from a release that did not bound how deep values are
        return text.decode()


class Version(NamedTuple):
    """A version of a record whose value is stored, and where."""

    place: Part | DeadLetter
    record: ShownRecord


def versions_of(digests: Digests, timeline: str, record_key: str) -> list[Version]:
    """Read the stored versions of a record, for its own page: pending, in a digest, in the latest dead letter with it.

    Of a large dead letter only the newest records are read.
    """
    stored: list[tuple[Part | DeadLetter, Stored]] = [*digests.store.find(timeline, record_key).items()]
    letter = digests.store.letter_with(timeline, record_key)
    if letter is not None:
        records = dead_stored(digests.engine, letter.id, LETTER_RECORDS, max_bytes=ANSWER_BYTES)
        stored += [(letter, record) for record in records if record.key == record_key]
    return [
        Version(place, shown)
        for place, record in stored
        for shown in _shortened([record], digests.engine.sealer, most=MOST_OPENED)
    ]


class LargePreview(Exception):
    """There is more to preview than may be decoded."""


def has_route(digests: Digests, timeline: str) -> bool:
    """True if this service has a route for a timeline."""
    return digests.engine.route_of(timeline) is not None


def prepare_preview(digests: Digests, timeline: str) -> Callable[[], Message] | None:
    """Read what a preview needs; the answer renders it, and takes longer. None if there is nothing to render.

    Raises LargePreview.
    """

    def read() -> list[Record]:
        records, total = peek_stored(digests.engine, timeline, None, max_bytes=PREVIEW_BYTES)
        sizes = (digests.engine.sealer.decoded_size(record.payload or b"") for record in records)
        if total > len(records) or sum(sizes) > PREVIEW_BYTES:
            raise LargePreview
        return decoded(digests.engine, records)

    return preview_renderer(digests.engine, timeline, read)
