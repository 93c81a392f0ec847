"""Fresh identities and chances: the one place that draws random numbers."""

import random
import secrets


def fresh_id() -> str:
    """A name that nobody has used before: 80 random bits in hexadecimal."""
    return secrets.token_hex(10)


def chance() -> float:
    """A random number from 0 up to, not including, 1."""
    return random.random()


def shuffled(count: int) -> list[int]:
    """The numbers from 0 to count - 1 in random order."""
    return random.sample(range(count), count)
