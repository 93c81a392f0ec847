"""JSON text, judged before it is decoded: what is outside of strings, and what its value would cost."""

import re
from collections.abc import Iterator
from typing import NamedTuple

SLICE = 64 * 1024  # bytes: a call on a slice holds the interpreter for a millisecond or two
COARSE = 64 * 1024  # bytes of an estimate, up to which it may count the commas and brackets inside of strings

# What msgspec and CPython need, in bytes, for the decoded form of a character of the text. All are rounded up.
ARRAY, OBJECT, ITEM, NAME, QUOTE, VALUE = 88, 184, 40, 24, 26, 64
WIDE, WIDEST = 3, 5  # for each byte of a text with characters beyond ASCII, and beyond the basic plane


class Counts(NamedTuple):
    """How many signs a JSON text has outside of strings."""

    arrays: int = 0
    objects: int = 0
    commas: int = 0
    colons: int = 0

    @property
    def containers(self) -> int:
        return self.arrays + self.objects

    @property
    def items(self) -> int:
        """The most elements that all arrays and objects can have."""
        return self.commas + self.containers

    def __add__(self, other: "Counts") -> "Counts":  # type: ignore[override]  # not as a tuple
        return Counts(*(one + another for one, another in zip(self, other, strict=True)))


def counts(text: bytes) -> Counts:
    """Count the signs of a JSON text, also those inside of strings."""
    return Counts(text.count(b"["), text.count(b"{"), text.count(b","), text.count(b":"))


def exact_counts(text: bytes) -> Counts:
    """Count the signs of a JSON text outside of strings."""
    found = Counts()
    for part in outside_strings(text):
        found += counts(part)
    return found


def outside_strings(text: bytes) -> Iterator[bytes]:
    """Yield a JSON text slice by slice, without its strings: each leaves a space."""
    for pieces, is_inside in _divided(text):
        yield b" ".join(pieces[is_inside::2])


def _divided(text: bytes) -> Iterator[tuple[list[bytes], bool]]:
    """Yield the slices of a JSON text, each divided at its quotes, and whether it begins inside of a string.

    Memory and the time of each step are bounded by SLICE, whatever the text is. Escapes that could hide a quote or be
    taken for one are blank.
    """
    start, is_inside = 0, False
    while start < len(text):
        part = text[start : start + SLICE]
        if (len(part) - len(part.rstrip(b"\\"))) % 2 and len(part) > 1:
            part = part[:-1]  # the first half of an escape
        start += len(part)
        if b"\\" in part:
            part = part.replace(rb"\\", b"  ").replace(rb"\"", b"  ")
        pieces = part.split(b'"')
        yield pieces, is_inside
        is_inside ^= len(pieces) % 2 == 0


def least_size(text: bytes) -> int:
    """Count the bytes that the value of a JSON text has at least once it is encoded again: those of its strings.

    An escape of six bytes may stand for one, and one of two for a slash. What is outside of strings may shrink too.
    """
    found = 0
    for pieces, is_inside in _divided(text):
        strings = b" ".join(pieces[not is_inside :: 2])
        found += len(strings) - 5 * strings.count(b"\\u") - strings.count(b"\\/") - len(pieces)
    return found


def decoded_size(text: bytes) -> int:
    """Estimate the bytes that the value of a JSON text takes in memory while it is decoded.

    Never much too low; up to a few times too high, since names that come again are shared and small numbers are free.
    """
    signs = counts(text)
    texts = VALUE + QUOTE * text.count(b'"') + len(text) * _width(text)
    size = texts + _size(signs)
    return size if size <= COARSE or size <= 2 * texts else texts + _size(exact_counts(text))


def _size(signs: Counts) -> int:
    return ARRAY * signs.arrays + OBJECT * signs.objects + ITEM * signs.commas + NAME * signs.colons


def _width(text: bytes) -> int:
    """The bytes that a string needs for each byte of its text: its widest character decides."""
    if b"\\u" in text:
        return WIDEST
    if text.isascii():
        return 1
    return WIDEST if text.translate(None, _NARROW) else WIDE


_NARROW = bytes(range(0xF0))  # in UTF-8, bytes of characters of the basic plane


# What takes long to decode, or more memory than its text lets expect


MOST_CONTAINERS = 32_768  # arrays and objects of a value: msgspec takes some 10 ms for them
MOST_ITEMS = 100_000  # elements of all of them
MOST_DIGITS = 40  # of a number: 128 bits; hardly a reader knows longer ones
MOST_HEAVY = 100  # numbers that msgspec can't read in the fast way: each takes it some 10 µs
MOST_PRECISE = 10_000  # numbers that may be halfway between two floats, or are beyond 64 bits: each takes up to 1 µs
MOST_BACKSLASHES = 1 << 20  # of an element: msgspec takes some 5 ms for strings with that many escapes
_PRECISE = 20  # digits, from which a number with an exponent may be heavy

_HEAVY = re.compile(rb"[eE](?:(?<=[\d.]{%d}.)|[+-]?0*+(?:2[7-9]\d|[3-9]\d\d|[1-9]\d{3}))" % _PRECISE)
_HALFWAY = re.compile(rb"[eE](?:(?<=[\d.]{16}.)|\+?0*+[1-9]\d)|\.(?<=\d{15}.)")  # also 1e23, which has few digits
_UNFINISHED = re.compile(rb"[\d.eE+-]*+\Z")  # a number that may go on in the next slice
_DIGITS = bytes.maketrans(b"E123456789", b"e000000000")
_MANY_ZEROS, _TOO_MANY_ZEROS = b"0" * _PRECISE, b"0" * (MOST_DIGITS + 1)
_LONG_WHOLE = b"0" * 15 + b"."


class Costly(ValueError):
    """A JSON text whose value would cost too much to decode, now or when it is read. The message says why."""


def may_be_heavy(text: bytes) -> bool:
    """True unless no number of a JSON text is long or heavy. Costs next to nothing."""
    digits = text.translate(_DIGITS, b"+-.")
    return b"e000" in digits or _MANY_ZEROS in digits


def refuse_costly(text: bytes) -> None:
    """Raise Costly for the JSON text of a value that takes long to decode, or has a number of very many digits."""
    if len(text) > 2 * MOST_CONTAINERS and is_many(counts(text)):
        refuse_many(exact_counts(text))
    if may_be_heavy(text) or may_be_precise(text):
        _refuse_heavy(text)


def may_be_precise(text: bytes) -> bool:
    """True unless few numbers of a JSON text can be halfway between two floats or beyond 64 bits. Costs little."""
    if len(text) <= len(b"1e23,") * MOST_PRECISE:
        return False
    digits = text.translate(_DIGITS, b"+-")
    found = digits.count(b"0e") + digits.count(_LONG_WHOLE)
    return found + digits.translate(None, b".").count(_MANY_ZEROS) > MOST_PRECISE


def _refuse_heavy(text: bytes) -> None:
    heavy, precise, rest = 0, 0, b""
    for part in outside_strings(text):
        numbers = rest + part
        if _TOO_MANY_ZEROS in numbers.translate(_DIGITS):
            raise Costly(f"a number has more than {MOST_DIGITS} digits; send it as a string")
        rest = _unfinished(numbers)
        finished = numbers[: len(numbers) - len(rest)]
        heavy += len(_HEAVY.findall(finished))
        precise += len(_HALFWAY.findall(finished)) + finished.translate(_DIGITS, b".").count(_MANY_ZEROS)
        if heavy + bool(_HEAVY.search(rest)) > MOST_HEAVY:
            raise Costly(
                f"more than {MOST_HEAVY} numbers are beyond 1e±270, or have more than {_PRECISE - 1} digits and an "
                "exponent; send them as strings"
            )
        if precise > MOST_PRECISE:
            raise Costly(
                "many thousands of numbers have more than 15 digits and a point or an exponent, an exponent from 10 "
                f"on, or more than {_PRECISE - 1} digits; send them as strings"
            )


def _unfinished(text: bytes) -> bytes:
    """The number at the end of a slice, which may go on in the next one."""
    found = _UNFINISHED.search(text, max(0, len(text) - 3 * MOST_DIGITS))
    return b"" if found is None else found[0]


def is_many(signs: Counts) -> bool:
    """True for the counts of a value that has too many parts."""
    return signs.containers > MOST_CONTAINERS or signs.items > MOST_ITEMS


def refuse_many(signs: Counts) -> None:
    """Raise Costly for the counts of a value that has too many parts."""
    if is_many(signs):
        raise Costly(
            f"more than {MOST_CONTAINERS} arrays and objects, or {MOST_ITEMS} items; divide it, or send it as a string"
        )


# Bodies of many values


PIECE = 2 * SLICE  # bytes
LONGEST = (4 << 20) + PIECE  # bytes of an element: a value may have 4 MiB before it is compressed

BETWEEN_OBJECTS = re.compile(rb"\}\s*+(,)\s*+\{")
BETWEEN_LINES = re.compile(rb"(\n)")


def pieces(text: bytes, *, between: re.Pattern[bytes] | None = None, level: int = 0) -> Iterator[bytes]:
    """Cut a JSON text of many elements at a level of nesting, so that most pieces have little more than PIECE.

    Objects of an array are cut at level 1, lines at level 0. Raises Costly for an element that is longer than
    LONGEST, or has too many parts or escapes.
    """
    begun, at, depth, inside, backslashes = 0, 0, 0, Counts(), 0
    for divided, is_inside in _divided(text):
        outside, size = b"".join(divided[is_inside::2]), sum(map(len, divided)) + len(divided) - 1
        is_long = at + size - begun >= PIECE
        cut = _cut(_blanked(divided, is_inside), between, level - depth) if between and is_long else None
        if cut is not None:
            yield text[begun : at + cut]
            begun, inside, backslashes = at + cut + 1, Counts(), 0
        elif at - begun >= PIECE:
            inside += counts(outside)
            refuse_many(inside)
            backslashes += text.count(b"\\", at, at + size)
            if backslashes > MOST_BACKSLASHES:
                raise Costly(f"more than {MOST_BACKSLASHES} backslashes")
            if at + size - begun > LONGEST:
                raise Costly(f"longer than {LONGEST} bytes of JSON")
        depth += _rise(outside, 0, len(outside))
        at += size
    yield text[begun:]


def _blanked(divided: list[bytes], is_inside: bool) -> bytes:
    """A slice of the same length, with blanks for what is inside of strings."""
    inner = slice(not is_inside, None, 2)
    divided[inner] = [b" " * len(piece) for piece in divided[inner]]
    return b'"'.join(divided)


def _cut(part: bytes, between: re.Pattern[bytes], level: int) -> int | None:
    """Where the first place between two elements is, at a level that is counted from that of the beginning."""
    depth = last = 0
    for found in between.finditer(part):
        depth += _rise(part, last, found.start(1))
        last = found.start(1)
        if depth == level:
            return last
    return None


def _rise(part: bytes, start: int, end: int) -> int:
    """How many more brackets are opened than closed."""
    opened = part.count(b"[", start, end) + part.count(b"{", start, end)
    return opened - part.count(b"]", start, end) - part.count(b"}", start, end)
