"""What the store asks of a server, and how a script says no."""

from typing import NamedTuple

from digestif.errors import StoreError
from digestif.stores.redis.client.resp import Packed, Part
from digestif.stores.redis.client.scripts import Script

OURS = "DIGESTIF_"  # the first word of every refusal by a script


class Command(NamedTuple):
    """A call of a script or a plain command, on the keys of one partition. Safe to repeat."""

    partition: int  # decides the node of a cluster
    parts: tuple[Part, ...] | Packed  # what follows EVALSHA and the digest; without a script the whole command
    script: Script | None = None


class WrongType(StoreError):
    """A key is not of the type that it should be: somebody else has written it."""


class Refused(Exception):
    """A script refused: the first word of its error reply, which begins with DIGESTIF_, and what followed."""

    def __init__(self, word: str, rest: str = "") -> None:
        super().__init__(word, rest)
        self.word = word
        self.rest = rest
