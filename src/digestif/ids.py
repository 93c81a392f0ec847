"""Fresh identities and random orders: the one place that draws random numbers."""

import os
import secrets
from random import Random

from digestif.clock import wall_clock

# Not the generator that all share: applications and test runners seed that one, and compare what it gives. Nor the
# system's: an order of 64 partitions would take a hundred system calls, and each lets other threads go first.
random = Random()
os.register_at_fork(after_in_child=random.seed)


def fresh_id() -> str:
    """A name that nobody has used before: 80 random bits in hexadecimal."""
    return secrets.token_hex(10)


def fresh_key() -> str:
    """A key for a record without one: rising with time, so that neighbours in time are neighbours in an index."""
    return f"{int(wall_clock() * 1000):012x}{secrets.token_hex(6)}"


def shuffled(count: int) -> list[int]:
    """The numbers from 0 to count - 1 in random order."""
    return random.sample(range(count), count)


def chance() -> float:
    """A random number from 0 up to 1, without 1."""
    return random.random()
