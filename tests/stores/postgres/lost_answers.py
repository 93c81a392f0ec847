"""What a life in which every verb runs answers, whatever is lost on the way."""

import re

from digestif import Digests
from tests.stores.redis.lives import EVERYDAY, lived

NUMBERS = re.compile(r"(batch|arrival|placed)=\d+")  # which a repetition draws anew


def answers_of(digests: Digests) -> tuple[str, ...]:
    """What a life in which every verb runs tells, and what it leaves behind."""
    return tuple(NUMBERS.sub(r"\1", repr(part)) for part in lived(digests, EVERYDAY))
