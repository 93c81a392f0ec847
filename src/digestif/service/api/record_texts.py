"""Records of a body of any length, read one by one in short steps.

No call keeps the interpreter for long, whatever the body is, and no more than one value is held decoded: of a long body
the texts of the values are kept, and the engine decodes each while it encodes it for the store.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from digestif.core.records import VALUE_DEPTH, Addition, is_deep
from digestif.service.api.bodies import SMALL, decode_with, may_repeat, refuse_costly_text, refuse_lost_names
from digestif.service.api.fields import Key, Timestamp, Within
from digestif.service.api.problems import Problem
from digestif.service.settings import Limits
from digestif.stores.codec import Decoded, JsonText, Sealer
from digestif.stores.json_text import BETWEEN_LINES, BETWEEN_OBJECTS, Costly, pieces

Steps = Generator[None, None, list[Addition]]


class RecordText(Struct, frozen=True, forbid_unknown_fields=True):
    """A record whose value is not decoded."""

    value: Raw
    key: Key | None = None
    timestamp: Timestamp | None = None
    within: Within | None = None


class RecordOfText(RecordText, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same with its timeline."""

    timeline: Key


class Form(NamedTuple):
    """How the records stand in a body: how it is cut, and how the records and the names of a piece are decoded."""

    cut: Callable[[bytes], Iterator[bytes]]
    decode: Callable[[bytes], Sequence[RecordText]]
    names: Callable[[bytes], Any]
    is_one: bool = False


def _whole(body: bytes) -> Iterator[bytes]:
    return pieces(body)


def _lines(body: bytes) -> Iterator[bytes]:
    return pieces(body, between=BETWEEN_LINES)


def _arrays(body: bytes) -> Iterator[bytes]:
    """Cut an array into several, each with some of its elements."""
    begun: bytes | None = None
    for piece in pieces(body, between=BETWEEN_OBJECTS, level=1):
        if begun is None:
            begun = piece
            continue
        yield begun + b"]"
        begun = b"[" + piece
        if piece.strip() in (b"", b"]"):
            raise Problem(400, "the body is not JSON in UTF-8: an element is missing behind a comma")
    yield begun or b""


_one = msgspec.json.Decoder(RecordText)
_of = msgspec.json.Decoder(RecordOfText)
_many = msgspec.json.Decoder(list[RecordOfText])
_names = msgspec.json.Decoder(dict[str, Raw])
_many_names = msgspec.json.Decoder(list[dict[str, Raw]])
_value = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

ONE = Form(_whole, lambda text: [_one.decode(text)], _names.decode, is_one=True)
MANY = Form(_arrays, _many.decode, _many_names.decode)
LINES = Form(_lines, _of.decode_lines, _names.decode_lines)


def additions(body: bytes, form: Form, timeline: str, limits: Limits, sealer: Sealer) -> Steps:
    """Read the records of a body. 413 if there are too many, 422 for a value that is open or costly to decode.

    One that is far too large is left as it is: the sealer, which refuses it alone, does not decode it either.
    """
    found: list[Addition] = []
    is_small = len(body) <= SMALL
    for piece in _pieces(body, form):
        records = decode_with(form.decode, piece, first=len(found))
        if len(found) + len(records) > limits.items and not form.is_one:
            raise too_many(limits)
        if piece.count(b":") != _encode(form.names(piece)).count(b":"):
            raise Problem(422, "a field of a record comes twice")
        yield
        for record in records:
            place = "$.value" if form.is_one else f"$[{len(found)}].value"
            text = bytes(record.value)
            value = None if sealer.is_too_large(text) else _checked(text, place, limits)
            kept = Decoded(value) if is_small else JsonText(record.value)
            name = record.timeline if isinstance(record, RecordOfText) else timeline
            found.append(Addition(name, kept, record.key, record.timestamp, record.within))
            yield
    return found


def _pieces(body: bytes, form: Form) -> Iterator[bytes]:
    try:
        yield from form.cut(body)
    except Costly as costly:
        raise Problem(422, f"a value: {costly}") from None


def _checked(text: bytes, place: str, limits: Limits) -> Any:
    """The value of a text that is cheap to decode and means one thing."""
    refuse_costly_text(text, place)
    value = decode_with(_value.decode, text, at=place)
    if may_repeat(text, value):
        refuse_lost_names(text, value)
    refuse_deep(value, limits)
    return value


def too_many(limits: Limits) -> Problem:
    return Problem(413, f"more than {limits.items} records, which are allowed in a request")


def refuse_deep(value: Any, limits: Limits) -> None:
    """422 for a value that is nested deeper than the service allows; the engine's own limit holds anyway."""
    if limits.depth < VALUE_DEPTH and is_deep(value, limits.depth):
        raise Problem(422, f"value: nested deeper than {limits.depth} levels")
