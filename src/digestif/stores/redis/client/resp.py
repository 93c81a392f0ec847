"""Parts of commands in the form in which they are sent, so that what is sent often is put into that form once."""

from collections.abc import Iterable
from typing import NamedTuple

Part = bytes | str | int | float


class Packed(NamedTuple):
    """So many parts of a command, one after the other."""

    parts: int
    body: bytes


def pack_part(part: Part) -> bytes:
    data = part if isinstance(part, bytes) else str(part).encode()
    return b"$%d\r\n%b\r\n" % (len(data), data)


def pack(parts: Iterable[Part]) -> Packed:
    packed = [pack_part(part) for part in parts]
    return Packed(len(packed), b"".join(packed))


def joined(pieces: Iterable[Packed]) -> Packed:
    pieces = list(pieces)
    return Packed(sum(piece.parts for piece in pieces), b"".join([piece.body for piece in pieces]))
