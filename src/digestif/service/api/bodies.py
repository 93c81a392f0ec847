"""Bodies of requests: read within limits, decoded once, and checked for what JSON leaves open."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive

from digestif.core.texts import did_you_mean
from digestif.service.api.problems import Fault, Problem

T = TypeVar("T")
MOST_DIGITS = 40  # of a number: 128 bits; hardly a reader knows longer ones


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, *, most: int) -> bytes:
    """The whole body. 413 as soon as it is too long, 415 if it is packed. The server gives up one that takes long."""
    if int(headers.get(b"content-length", 0)) > most:
        raise _too_long(most)
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise Problem(415, "content-encoding: send the body unpacked", headers={"accept-encoding": "identity"})
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts, size = [body], len(body)
        while message.get("more_body") and size <= most:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        body = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise Problem(400, "the connection ended before the body did", closes=True)
    if len(body) > most:
        raise _too_long(most)
    return body


def _too_long(most: int) -> Problem:
    return Problem(413, f"the body is longer than {most} bytes, which are allowed", closes=True)


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """The value of a body. 400 if it is no JSON, 422 if it is of another shape or its meaning is open."""
    value = _decoded(decoder.decode, body)
    refuse_open(body, value)
    return value


def decoded_lines(body: bytes, decoder: "msgspec.json.Decoder[T]") -> list[T]:
    """The values of a body with one document a line."""
    values = _decoded(decoder.decode_lines, body)
    refuse_open(body, values, lines=True)
    return values


def _decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise wrong_shape(error, "the body is not as it should be") from None
    except RecursionError:
        raise Problem(422, "the body is nested too deep") from None
    except ValueError as error:  # also UnicodeDecodeError
        if half := next((found[1] for found in _ESCAPE.finditer(body) if found[1]), None):
            raise Problem(400, f"{half.decode()} is half of a character: send both halves of the pair") from None
        raise Problem(400, f"the body is not JSON in UTF-8: {error}") from None


_encode = msgspec.json.Encoder().encode
_ESCAPE = re.compile(  # the group is a surrogate without its other half
    rb"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})|\\."
)
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = re.compile(rb"\d{%d}" % (MOST_DIGITS + 1))
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_ZEROS = b"0" * (MOST_DIGITS + 1)


def refuse_open(body: bytes, value: Any, *, lines: bool = False) -> None:
    """422 for JSON that readers understand differently: names that come twice, and numbers of many digits."""
    if _ZEROS in body.translate(_DIGITS) and _LONG_NUMBER.search(_STRING.sub(b"", body)):
        raise Problem(422, f"a number has more than {MOST_DIGITS} digits; send it as a string")
    if _may_repeat(body, value):
        _refuse_repeated([line for line in body.split(b"\n") if line.strip()] if lines else [body])


def _may_repeat(body: bytes, value: Any) -> bool:
    """False if each name of the body is in its value: then there are as many colons. Costs next to nothing."""
    try:
        again = _encode(value)
    except (msgspec.MsgspecError, OverflowError, TypeError):  # numbers beyond 64 bits
        return True
    return b"\\u003" in body or body.count(b":") != again.count(b":")


def _refuse_repeated(documents: Sequence[bytes]) -> None:
    try:
        for document in documents:
            json.loads(document, object_pairs_hook=_unrepeated)
    except RecursionError:
        raise Problem(422, "the body is nested too deep") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Problem(422, f"the name {name[:80]!r} comes twice in an object")
        seen.add(name)


_UNKNOWN = re.compile(r"unknown field `(.*)`")


def wrong_shape(error: msgspec.ValidationError, detail: str, known: Sequence[str] = ()) -> Problem:
    """422 with the place that msgspec found."""
    what, _, where = str(error).partition(" - at `")
    unknown = _UNKNOWN.search(what)
    hint = did_you_mean(unknown[1], list(known)) if unknown and known else ""
    return Problem(422, detail, errors=[Fault(where.rstrip("`") or "$", what + hint)])
