"""Large answers under way: together they are bounded, because a client may read its answer slowly, or not at all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

MOST_BYTES = 64 << 20  # of large answers under way
SHARE_BYTES = MOST_BYTES // 2  # of one token


class LargeAnswers:
    """Counts the bytes of large answers that are being sent. A token that has none under way may have one of any size.

    Small answers are not counted.
    """

    def __init__(self) -> None:
        self._sizes: Counter[str] = Counter()  # by the names of tokens

    @contextmanager
    def place(self, token: str, size: int) -> Iterator[bool]:
        """Hold a place for an answer; False if too much is under way."""
        own, others = self._sizes[token], self._sizes.total() - self._sizes[token]
        fits = (not own or own + size <= SHARE_BYTES) and (not own + others or own + others + size <= MOST_BYTES)
        self._sizes[token] += size if fits else 0
        try:
            yield fits
        finally:
            self._sizes[token] -= size if fits else 0
            if not self._sizes[token]:
                del self._sizes[token]
