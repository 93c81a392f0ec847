"""The answers of a life in which every verb runs, to compare one with losses and one without."""

import re

from digestif import Digests
from tests.stores.redis.lives import EVERYDAY, lived

NUMBERS = re.compile(r"(batch|arrival|placed)=\d+")  # a repeated call draws new ones


def answers_of(digests: Digests) -> tuple[str, ...]:
    """Run every verb; return the answers, and what is left in the store."""
    return tuple(NUMBERS.sub(r"\1", repr(part)) for part in lived(digests, EVERYDAY))
