"""JSON text, judged before it is decoded: what is outside of strings, and what its value would cost."""

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


def counts(text: bytes) -> Counts:
    """Count the signs of a JSON text, also those inside of strings."""
    return Counts(text.count(b"["), text.count(b"{"), text.count(b","), text.count(b":"))


def exact_counts(text: bytes) -> Counts:
    """Count the signs of a JSON text outside of strings."""
    found = Counts()
    for part in outside_strings(text):
        found = Counts(*map(sum, zip(found, counts(part), strict=True)))
    return found


def outside_strings(text: bytes) -> Iterator[bytes]:
    """Yield a JSON text slice by slice, without its strings: each is left as a space.

    Memory and the time of each step are bounded by SLICE, whatever the text is.
    """
    start, is_inside = 0, False
    while start < len(text):
        part = text[start : start + SLICE]
        if (len(part) - len(part.rstrip(b"\\"))) % 2 and len(part) > 1:
            part = part[:-1]  # the first half of an escape
        start += len(part)
        if b"\\" in part:
            part = part.replace(rb"\\", b"").replace(rb"\"", b"")
        pieces = part.split(b'"')
        yield b" ".join(pieces[is_inside::2])
        is_inside ^= len(pieces) % 2 == 0


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
