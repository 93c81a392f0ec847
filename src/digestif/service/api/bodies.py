"""Bodies of requests: read within limits, decoded, and checked for what JSON leaves open."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive

from digestif.core.texts import did_you_mean, shortened_text
from digestif.service.api.problems import Fault, Problem
from digestif.stores.json_text import Costly, exact_counts, may_be_heavy, may_be_precise, refuse_costly

T = TypeVar("T")
SMALL = 16 * 1024  # bytes of a body: whatever it is, it is decoded and checked within a few milliseconds
QUICK = 128 * 1024  # bytes of a body that is, unless it has very many arrays and objects, or numbers that take long
LONG = 1 << 20  # bytes of a body whose parts take long to join, in fresh memory; from here on Python lets threads run


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
        body = b"".join(parts) if size < LONG else await asyncio.to_thread(b"".join, parts)
    if message["type"] == "http.disconnect":
        raise Problem(400, "the connection ended before the body did", closes=True)
    if len(body) > most:
        raise _too_long(most)
    return body


def _too_long(most: int) -> Problem:
    return Problem(413, f"the body is longer than {most} bytes, which are allowed", closes=True)


def decoded(body: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """The value of a short body. 400 if it is no JSON, 422 if it is of another shape or its meaning is open."""
    refuse_costly_text(body, "the body")
    value = decode_with(decoder.decode, body)
    if may_repeat(body, value):
        refuse_repeated(body)
    return value


def decoded_quickly(body: bytes, decode: Callable[[bytes], T]) -> T | None:
    """The value of a body that is certain to be decoded within a few milliseconds, and to mean one thing; else None."""
    if len(body) > QUICK or may_be_heavy(body) or may_be_precise(body):
        return None
    if len(body) > SMALL and body.count(b"[") + body.count(b"{") > SMALL // 2:
        return None
    value = decode_with(decode, body)
    return None if may_repeat(body, value) else value


def decode_with(decode: Callable[[bytes], T], text: bytes, *, at: str = "$", first: int = 0) -> T:
    """Decode a body, or a part of it: the value at a path, or elements from a number on."""
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise wrong_shape(error, "the body is not as it should be", at=at, first=first) from None
    except RecursionError:
        raise Problem(422, "the body is nested too deep") from None
    except ValueError as error:  # also UnicodeDecodeError
        if half := next((found[1] for found in _ESCAPE.finditer(text[:SMALL]) if found[1]), None):
            raise Problem(400, f"{half.decode()} is half of a character: send both halves of the pair") from None
        where = f" at {at}" if at != "$" else f" behind {first} records" if first else ""
        raise Problem(400, f"the body is not JSON in UTF-8{where}: {error}") from None


_encode = msgspec.json.Encoder().encode
_ESCAPE = re.compile(  # the group is a surrogate without its other half
    rb"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})|\\."
)


def refuse_costly_text(text: bytes, what: str) -> None:
    """422 for JSON that takes long to decode, or has a number of more digits than most readers keep."""
    try:
        refuse_costly(text)
    except Costly as costly:
        raise Problem(422, f"{what}: {costly}") from None


def may_repeat(text: bytes, value: Any) -> bool:
    """False if each name of the text is in its value: then there are as many colons. Costs next to nothing."""
    try:
        again = _encode(value)
    except (msgspec.MsgspecError, OverflowError, TypeError):  # numbers beyond 64 bits
        return True
    return b"\\u003" in text or text.count(b":") != again.count(b":")


def refuse_repeated(text: bytes) -> None:
    """422 if a name comes twice in an object of a text that is not long."""
    try:
        json.loads(text, object_pairs_hook=_unrepeated)
    except RecursionError:
        raise Problem(422, "the body is nested too deep") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Problem(422, f"the name {name[:80]!r} comes twice in an object")
        seen.add(name)


def refuse_lost_names(text: bytes, value: Any) -> None:
    """422 if a text, which may be long, has more names than its value."""
    if exact_counts(text).colons == _names_in(value):
        return
    if len(text) <= SMALL:
        refuse_repeated(text)  # which says what name it is
    raise Problem(422, "a name comes twice in an object")


def _names_in(value: Any) -> int:
    """How many names the objects of a value have. Takes no long call, whatever the value is."""
    found, inner = 0, [value]
    while inner:
        part = inner.pop()
        if type(part) is dict:
            found += len(part)
            inner.extend(part.values())
        elif type(part) is list:
            inner.extend(part)
    return found


LONGEST_FAULT = 200  # characters of what is wrong: a name in a body may have millions
_UNKNOWN = re.compile(r"unknown field `(.*)`")
_INDEX = re.compile(r"^\[(\d+)\]")


def wrong_shape(
    error: msgspec.ValidationError, detail: str, known: Sequence[str] = (), *, at: str = "$", first: int = 0
) -> Problem:
    """422 with the path that msgspec found in the value at a path, or in elements from a number on."""
    what, _, where = str(error).partition(" - at `")
    what, where = shortened_text(what, LONGEST_FAULT), shortened_text(where, LONGEST_FAULT)
    path = _INDEX.sub(lambda found: f"[{int(found[1]) + first}]", where.rstrip("`").removeprefix("$"))
    unknown = _UNKNOWN.search(what)
    hint = did_you_mean(unknown[1], list(known)) if unknown and known else ""
    return Problem(422, detail, errors=[Fault(at + path, what + hint)])
