"""Commands: what is sent to a server, already in the form of the protocol where it is sent often; and refusals."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from hiredis import pack_command

from digestif.errors import StoreError
from digestif.stores.redis.client.scripts import Script

Part = bytes | str | int | float
OURS = "DIGESTIF_"  # every refusal by a script begins with this


class Packed(NamedTuple):
    """Parts of a command in the form of the protocol."""

    parts: int
    body: bytes


class Command(NamedTuple):
    """A call of a script or a plain command, on the keys of one partition. Safe to repeat."""

    partition: int  # decides the node of a cluster
    parts: tuple[Part, ...] | Packed  # what follows EVALSHA and the digest; without a script the whole command
    script: Script | None = None

    def message(self) -> bytes:
        """The bytes to send."""
        script = self.script
        return message(parts=self.parts) if script is None else message("EVALSHA", script.sha, parts=self.parts)

    def message_with_script(self) -> bytes:
        """The bytes to send to a server that does not know the script."""
        assert self.script
        return message("EVAL", self.script.text, parts=self.parts)


class WrongType(StoreError):
    """A key has another type than it should: another program has written it."""


class ScriptRefused(Exception):
    """A script refused: the first word of its error reply, which begins with DIGESTIF_, and the rest."""

    def __init__(self, word: str, rest: str = "") -> None:
        super().__init__(word, rest)
        self.word = word
        self.rest = rest


def message(*words: str, parts: tuple[Part, ...] | Packed = ()) -> bytes:
    """A whole command in the form of the protocol."""
    if isinstance(parts, Packed):
        count, body = parts
        return b"*%d\r\n%b%b" % (len(words) + count, _packed_words(words), body)
    data: bytes = pack_command((*words, *parts))  # type: ignore[arg-type]  # its stub means tuples of one
    return data


@lru_cache(256)
def _packed_words(words: tuple[str, ...]) -> bytes:
    return b"".join(map(pack_part, words))


def pack_part(part: Part) -> bytes:
    data = part if isinstance(part, bytes) else str(part).encode()
    return b"$%d\r\n%b\r\n" % (len(data), data)


def pack(parts: Iterable[Part]) -> Packed:
    packed = [pack_part(part) for part in parts]
    return Packed(len(packed), b"".join(packed))


def joined(pieces: Iterable[Packed]) -> Packed:
    pieces = list(pieces)
    return Packed(sum(piece.parts for piece in pieces), b"".join([piece.body for piece in pieces]))
