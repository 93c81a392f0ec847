"""Fresh identities and random orders: the one place that draws random numbers."""

import os
import secrets
from collections.abc import Iterable
from hashlib import sha1
from random import Random
from typing import TypeVar

from digestif.clock import wall_clock

T = TypeVar("T")

# Not the generator of the module `random`: applications and test runners seed it. Not the system's either: an order of
# 64 partitions would take a hundred system calls, and each of them lets other threads run first.
random = Random()
os.register_at_fork(after_in_child=random.seed)


def fresh_id() -> str:
    """A unique id: 80 random bits in hexadecimal."""
    return secrets.token_hex(10)


def derived_id(together: str, name: str) -> str:
    """An id for one of several things that have a fresh id together. It says nothing about the others."""
    return sha1(f"{together}\0{name}".encode(), usedforsecurity=False).hexdigest()[:20]


def fresh_key() -> str:
    """A key for a record without one. Keys rise with time, so that an index keeps recent ones together."""
    return f"{int(wall_clock() * 1000):012x}{random.getrandbits(48):012x}"


def time_of(key: str) -> float | None:
    """When a fresh key was made, in seconds; None if it is no such key."""
    is_fresh = len(key) == 24 and key.isascii() and all(sign in "0123456789abcdef" for sign in key)
    return int(key[:12], 16) / 1000 if is_fresh else None


def fresh_secret() -> str:
    """A secret that can't be guessed: 256 random bits, in letters, digits, - and _."""
    return secrets.token_urlsafe(32)


def fresh_bytes(count: int) -> bytes:
    """Random bytes that can't be guessed."""
    return secrets.token_bytes(count)


def shuffled(items: Iterable[T]) -> list[T]:
    """Return the items in random order."""
    listed = list(items)
    return random.sample(listed, len(listed))


def chance() -> float:
    """A random number from 0 up to 1, without 1."""
    return random.random()
