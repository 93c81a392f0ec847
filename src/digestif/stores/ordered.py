"""A sorted collection for the memory store: fast to change, and to read from any item on."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Any)

_CHUNK = 512


class Ordered(Generic[K]):
    """Distinct sortable items, kept in short sorted chunks so that a change moves few of them."""

    def __init__(self) -> None:
        self._chunks: list[list[K]] = []
        self._maxima: list[K] = []

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, item: K) -> None:
        if not self._chunks:
            self._chunks, self._maxima = [[item]], [item]
            return
        place = min(bisect_left(self._maxima, item), len(self._chunks) - 1)
        chunk = self._chunks[place]
        insort(chunk, item)
        if len(chunk) > 2 * _CHUNK:
            self._chunks.insert(place + 1, chunk[_CHUNK:])
            del chunk[_CHUNK:]
            self._maxima.insert(place + 1, self._chunks[place + 1][-1])
        self._maxima[place] = chunk[-1]

    def remove(self, item: K) -> None:
        place = bisect_left(self._maxima, item)
        chunk = self._chunks[place]
        del chunk[bisect_left(chunk, item)]
        if chunk:
            self._maxima[place] = chunk[-1]
        else:
            del self._chunks[place], self._maxima[place]

    def after(self, item: K | None, *, inclusive: bool = False) -> Iterator[K]:
        """The items after the given one, all for None. The collection must not be changed meanwhile."""
        bisect = bisect_left if inclusive else bisect_right
        place = 0 if item is None else bisect(self._maxima, item)
        for chunk in self._chunks[place : place + 1]:
            yield from chunk if item is None else chunk[bisect(chunk, item) :]
        for index in range(place + 1, len(self._chunks)):
            yield from self._chunks[index]
