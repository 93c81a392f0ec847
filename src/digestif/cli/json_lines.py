"""Adds JSON lines to a store, page by page as they arrive; errors name the number of the line."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

import msgspec

from digestif.clock import wall_clock
from digestif.core.records import Record
from digestif.digests import Digests
from digestif.errors import InvalidRecord, StoreError
from digestif.ids import fresh_key
from digestif.stores.base import PAGE_RECORDS

CHUNK = 1 << 18
LONGEST_LINE = 1 << 22  # bytes; four times what the largest value needs when all of it is escaped


class JsonLine(NamedTuple):
    number: int
    timeline: str
    value: Any  # or a Record


class BadLine(Exception):
    """A line that is not accepted."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number:,}: {reason}")
        self.number = number
        self.reason = reason


class RecordLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line of `digestif add --records`."""

    value: Any
    timeline: str | None = None
    key: str | None = None
    timestamp: float | None = None


@dataclass
class Tally:
    """How many lines were accepted, and which timelines became ready."""

    accepted: int = 0
    ready: set[str] = field(default_factory=set)


class BulkAdd:
    """Reads lines and adds them, up to the first bad line."""

    def __init__(self, digests: Digests, timeline: str | None, *, records: bool, within: float | None) -> None:
        self._digests = digests
        self._timeline = timeline
        self._decode = msgspec.json.Decoder(RecordLine).decode if records else msgspec.json.Decoder().decode
        self._within = within
        self.tally = Tally()

    def run(self, stream: BinaryIO, progress: Callable[[int, int], None]) -> None:
        """Add all lines; call `progress` with lines accepted and bytes read. Raises BadLine or StoreError."""
        read = 0
        for texts in pages(stream):
            lines, bad = self._parsed(texts)
            self._add(lines)
            read += sum(len(text) + 1 for _, text in texts)
            progress(self.tally.accepted, read)
            if bad is not None:
                raise bad

    def _parsed(self, texts: list[tuple[int, bytes]]) -> tuple[list[JsonLine], BadLine | None]:
        lines: list[JsonLine] = []
        for number, text in texts:
            try:
                lines.append(self._line(number, text))
            except BadLine as bad:
                return lines, bad
        return lines, None

    def _line(self, number: int, text: bytes) -> JsonLine:
        if len(text) > LONGEST_LINE:
            raise BadLine(number, f"longer than {LONGEST_LINE:,} bytes; is every value on a line of its own?")
        try:
            value = self._decode(text)
        except (ValueError, RecursionError) as error:  # msgspec's own errors are kinds of ValueError
            raise BadLine(number, str(error)) from None
        timeline = self._timeline
        if isinstance(value, RecordLine):
            timeline = value.timeline or timeline
            value = _record(value)
        if timeline is None:
            raise BadLine(number, "has no timeline; give each line one, or all of them as TIMELINE")
        return JsonLine(number, timeline, value)

    def _add(self, lines: list[JsonLine]) -> None:
        if not lines:
            return
        try:
            answers = self._digests.add_many([(line.timeline, line.value) for line in lines], within=self._within)
        except InvalidRecord:  # nothing of the page was written: find the bad line
            self._add_until_bad(lines)
            return
        except StoreError as error:
            raise type(error)(f"{error}; {self.tally.accepted:,} lines were accepted before that") from error
        for line, is_ready in zip(lines, answers, strict=True):
            self._count(line, is_ready)

    def _add_until_bad(self, lines: list[JsonLine]) -> None:
        """Add the lines before the bad one, which is found by halving."""
        if len(lines) > 1:
            middle = len(lines) // 2
            self._add(lines[:middle])
            self._add(lines[middle:])
            return
        [line] = lines
        try:
            self._count(line, self._digests.add(line.timeline, line.value, within=self._within))
        except InvalidRecord as error:
            raise BadLine(line.number, str(error)) from None

    def _count(self, line: JsonLine, is_ready: bool) -> None:
        self.tally.accepted += 1
        if is_ready:
            self.tally.ready.add(line.timeline)


def _record(entry: RecordLine) -> Any:
    if entry.key is None and entry.timestamp is None:
        return entry.value
    key = fresh_key() if entry.key is None else entry.key
    return Record(key, entry.value, wall_clock() if entry.timestamp is None else entry.timestamp)


def pages(stream: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Numbered lines without the blank ones. A page holds what one read gave: a slow writer is not waited for."""
    number = 0
    for chunk in _chunks(stream):
        numbered = [
            (number + place, text) for place, text in enumerate(chunk, 1) if text.strip() or len(text) > LONGEST_LINE
        ]
        number += len(chunk)
        for start in range(0, len(numbered), PAGE_RECORDS):
            yield numbered[start : start + PAGE_RECORDS]


def _chunks(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of each read."""
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while data := read(CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LONGEST_LINE:  # and no end of it to be seen
            yield [*lines, rest]
            return
        if lines:
            yield lines
    if rest:
        yield [rest]
