"""Tenants: prefixes of timelines that a service has named. What a store bounds has a ring for each of them."""

from collections.abc import Callable, Iterable, Mapping

from digestif.core.times import Millis

MOST_TENANTS = 256  # prefixes that a namespace names; timelines of further ones are in the ring of the rest
LEARNED_WITHIN: Millis = 30_000  # after a prefix was named, every process files by it
REST = ""  # the ring of timelines that begin with no named prefix


class Tenants:
    """Named prefixes, and when each was named; 0 if the namespace was empty then."""

    __slots__ = ("_lengths", "named")

    def __init__(self, prefixes: Mapping[str, Millis] | Iterable[str] = ()) -> None:
        named = prefixes if isinstance(prefixes, Mapping) else dict.fromkeys(prefixes, 0)
        self.named: dict[str, Millis] = {prefix: since for prefix, since in named.items() if prefix}
        self._lengths = sorted({len(prefix) for prefix in self.named}, reverse=True)

    def __repr__(self) -> str:
        return f"Tenants({self.named!r})"

    def of(self, timeline: str) -> str:
        """Return the ring of a timeline: the longest named prefix that it begins with, or REST."""
        for length in self._lengths:
            if timeline[:length] in self.named:
                return timeline[:length]
        return REST

    @property
    def rings(self) -> tuple[str, ...]:
        """All rings, REST first."""
        return (REST, *self.named)

    def kept_since(self, ring: str, oldest: Callable[[str], Millis | None]) -> Millis | None:
        """Return since when nothing of a ring was forgotten; None if nothing ever was.

        `oldest` gives the time of a ring's oldest entry, None while the ring has room. What a prefix had before it was
        named is in the ring around it, and was forgotten with that.
        """
        times = [oldest(ring)]
        if ring != REST and self.named.get(ring):
            around = self.kept_since(self.of(ring[:-1]), oldest)
            times.append(None if around is None else min(around, self.named[ring] + LEARNED_WITHIN))
        return max((time for time in times if time is not None), default=None)
