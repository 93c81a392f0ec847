"""Verbs that add records. All are checked before any is sent, by the rules of the engine."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from digestif.client.answers import results_of, value_of
from digestif.client.requests import Call, path_of
from digestif.core.records import (
    MOST_VALUE_BYTES,
    Acceptance,
    Addition,
    Record,
    check_record_key,
    check_timeline,
    check_timestamp,
    check_within,
)
from digestif.core.texts import shortened
from digestif.core.times import Duration, Instant
from digestif.errors import InvalidRecord
from digestif.ids import fresh_id, fresh_key
from digestif.stores.codec import Sealer

T = TypeVar("T")
CHUNK_RECORDS = 500
CHUNK_BYTES = 2 << 20

_seal = Sealer("json", limit=MOST_VALUE_BYTES).seal  # the service knows what its namespace allows
_encode = msgspec.json.Encoder().encode
_acceptance = value_of(Acceptance)

Outcome = Acceptance | InvalidRecord


class NewRecord(Struct, frozen=True, omit_defaults=True):
    """A record as it is sent."""

    value: msgspec.Raw
    key: str
    timeline: str = ""  # of one among many
    timestamp: float | None = None
    within: float | None = None


class Batch(Struct, Generic[T], frozen=True):
    """Several calls whose answers are one answer."""

    calls: Sequence[Call[list[Outcome]]]
    read: Any  # from all outcomes to the answer


def accept(
    timeline: str,
    value: Any,
    *,
    key: str | None = None,
    timestamp: Instant | None = None,
    within: Duration | None = None,
) -> Call[Acceptance]:
    """Accept a record as `add` does, and say under which key, and when its timeline is delivered next."""
    return _one(Addition(timeline, value, key, timestamp, within), _acceptance)


def add(
    timeline: str,
    value: Any,
    *,
    key: str | None = None,
    timestamp: Instant | None = None,
    within: Duration | None = None,
) -> Call[bool]:
    """Accept a record: a value, or a `Record` with its own key and timestamp.

    True if the timeline became ready: it should be delivered now. A pending record of the same key is replaced.
    """
    return _one(Addition(timeline, value, key, timestamp, within), lambda body: _acceptance(body).ready)


def _one(given: Addition, read: Any) -> Call[Any]:
    path = path_of("timelines", check_timeline(given.timeline), "records")
    return _adding(path, _encode(_record(given)), read)


def _adding(path: str, body: bytes, read: Any, reads: Sequence[int] = ()) -> Call[Any]:
    """A call that may be made again: the service knows it by its key, and answers as the first time."""
    headers = {"Idempotency-Key": fresh_id()}
    return Call(method="POST", path=path, body=body, read=read, reads=reads, headers=headers, adds=True)


def accept_valid(records: Iterable[tuple[str, Any] | Addition]) -> Batch[list[Outcome]]:
    """Accept those of many records that are valid; in the place of each other one is what is wrong with it."""
    checked = [_checked(item) for item in records]
    sent = [each for each in checked if isinstance(each, NewRecord)]

    def read(outcomes: list[Outcome]) -> list[Outcome]:
        found = iter(outcomes)
        return [next(found) if isinstance(each, NewRecord) else each for each in checked]

    return Batch(list(_chunks(sent)), read)


def accept_many(
    records: Iterable[tuple[str, Any] | Addition], *, within: Duration | None = None
) -> Batch[list[Acceptance]]:
    """Accept many records as `add_many` does, with the answers of `accept`."""
    return Batch(_calls(records, within), _all_accepted)


def add_many(records: Iterable[tuple[str, Any] | Addition], *, within: Duration | None = None) -> Batch[list[bool]]:
    """Accept many records, `(timeline, record)` each; all are checked before any is sent.

    They are sent in requests of 500: if one fails, those before it have been accepted.
    """
    return Batch(_calls(records, within), lambda outcomes: [each.ready for each in _all_accepted(outcomes)])


def _calls(records: Iterable[tuple[str, Any] | Addition], within: Duration | None) -> list[Call[list[Outcome]]]:
    checked: list[NewRecord] = []
    for place, item in enumerate(records):
        found = _checked(item, within)
        if isinstance(found, InvalidRecord):
            raise InvalidRecord(f"record {place}: {found}") from found
        checked.append(found)
    return list(_chunks(checked))


def _all_accepted(outcomes: list[Outcome]) -> list[Acceptance]:
    for place, each in enumerate(outcomes):
        if isinstance(each, InvalidRecord):
            raise InvalidRecord(f"record {place}: {each}; those that are valid have been accepted") from each
    return [each for each in outcomes if isinstance(each, Acceptance)]


def _chunks(records: Sequence[NewRecord]) -> Iterator[Call[list[Outcome]]]:
    """Requests with so many records, and so many bytes, as one may have."""
    lines: list[bytes] = []
    size = 0
    for record in records:
        line = _encode(record)
        if lines and (len(lines) == CHUNK_RECORDS or size + len(line) > CHUNK_BYTES):
            yield _many(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield _many(lines)


def _many(lines: Sequence[bytes]) -> Call[list[Outcome]]:
    return _adding("/v1/records", b"[%b]" % b",".join(lines), results_of, reads=(422,))


def _checked(item: object, within: Duration | None = None) -> NewRecord | InvalidRecord:
    try:
        return _record(_addition(item), within, is_named=True)
    except InvalidRecord as error:
        return error


def _addition(item: object) -> Addition:
    if isinstance(item, Addition):
        return item
    if isinstance(item, tuple | list) and len(item) == 2:
        return Addition(item[0], item[1])
    raise InvalidRecord(f"{shortened(item)} is not a pair of timeline and record")


def _record(given: Addition, within: Duration | None = None, *, is_named: bool = False) -> NewRecord:
    """The record as it is sent. It has a key in any case, so that none is added twice."""
    timeline, value, key, timestamp, own = given
    if isinstance(value, Record):
        if key is not None or timestamp is not None:
            raise InvalidRecord("key and timestamp: give them in the Record or as arguments, not both")
        key, value, timestamp = value
    name, deadline = check_timeline(timeline), within if own is None else own
    return NewRecord(
        value=msgspec.Raw(_seal(value).partition(b" ")[2]),
        key=fresh_key() if key is None else check_record_key(key),
        timeline=name if is_named else "",
        timestamp=None if timestamp is None else check_timestamp(timestamp),
        within=None if deadline is None else check_within(deadline),
    )
