"""History and removals: rings in one hash of each partition, one for each tenant and one for all other timelines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from digestif.core.records import HistoryEntry
from digestif.core.removals import Removals
from digestif.core.tenants import REST
from digestif.core.times import Millis
from digestif.stores.base import HISTORY_LIMIT, Store
from digestif.stores.damage import Unreadable
from digestif.stores.redis import encoding
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.encoding import StoredEntry
from digestif.stores.redis.verbs import RedisVerbs

READ_AT_ONCE = 200  # entries of the history, or letters, over all rings or partitions
PAGE = 100  # of them that one command reads
NAMES = "rings"  # the field of the history with the tenants that have a ring in it


class Ring(NamedTuple):
    """A ring of the history of a partition."""

    partition: int
    name: str
    size: int
    latest: int  # the number of its latest entry

    def fields(self, begin: int, many: int) -> list[str]:
        """The fields of entries from this number on downwards, as far as the ring goes."""
        end = max(0, begin - many, self.latest - self.size)
        return [named(number % self.size, self.name) for number in range(begin, end, -1)]


def named(name: object, ring: str) -> str:
    """The name of a field for a ring: that of a tenant has the tenant's name behind it."""
    return f"{name}:{ring}" if ring else str(name)


class RedisRings(RedisVerbs, Store):
    """The verbs of the store for history and removals, and what the verbs that write them send along."""

    @property
    def _ring(self) -> int:
        """Entries of the history that each partition keeps in a ring."""
        partitions = self._scripts.keys.partitions
        return HISTORY_LIMIT if partitions <= 4 else max(50, 4 * HISTORY_LIMIT // partitions)

    def _rings_of(self, timelines: Iterable[str]) -> dict[str, object]:
        """What a request says about rings: their size, and the tenants of those timelines that have one."""
        tenants = self.tenants()
        found = {each: ring for each in timelines if (ring := tenants.of(each))} if tenants.named else {}
        return {"ring": self._ring, "tenants": found} if found else {"ring": self._ring}

    # History

    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        if timeline is not None:
            rings = self._rings_with(timeline)
            entries = self._latest(rings, lambda entry: entry.timeline == timeline, limit=limit)
        else:
            rings = self._rings(range(self.partitions), lambda name: name.startswith(prefix) or prefix.startswith(name))
            entries = self._latest(rings, lambda entry: entry.timeline.startswith(prefix), limit=limit)
        return [encoding.history_entry(entry) for entry in entries[:HISTORY_LIMIT]]

    def _history_fields(self, timeline: str) -> list[tuple[str, int]]:
        """The entries of a timeline in the history of its partition: their fields and their numbers."""
        return [
            (named(entry.number % ring.size, ring.name), entry.number)
            for ring in self._rings_with(timeline)
            for entry in self._latest([ring], lambda entry: entry.timeline == timeline, limit=ring.size)
        ]

    def _rings_with(self, timeline: str) -> list[Ring]:
        """The rings that may have entries of a timeline: those from before its prefix was named are in another one."""
        return self._rings([self.partition_of(timeline)], timeline.startswith)

    def _rings(self, partitions: Sequence[int], is_wanted: Callable[[str], bool]) -> list[Ring]:
        """The rings of these partitions whose names are wanted, unless they never had an entry."""
        keys, tenants = self._scripts.keys, self.tenants().named
        stored = self._scripts.get([Command(each, ("HGET", keys.key(each, "history"), NAMES)) for each in partitions])
        names = [[REST, *filter(is_wanted, {**tenants, **self._names_in(noted)})] for noted in stored]
        counts = self._scripts.get(
            [
                Command(each, ("HMGET", keys.key(each, "ledger"), *[named("ended", name) for name in found]))
                for each, found in zip(partitions, names, strict=True)
            ]
        )
        return [
            Ring(partition, name, self._ring, int(count))
            for partition, found, numbers in zip(partitions, names, counts, strict=True)
            for name, count in zip(found, numbers, strict=True)
            if count and count.isdigit() and int(count)
        ]

    def _names_in(self, stored: bytes | None) -> dict[str, bool]:
        try:
            return encoding.rings(stored)
        except Unreadable as error:
            self.damages.report(error.damage)
            return {}

    def _latest(
        self, rings: Sequence[Ring], is_wanted: Callable[[StoredEntry], bool], *, limit: int
    ) -> list[StoredEntry]:
        """The latest entries that are wanted, the latest first, with few others in memory however many rings."""
        found: list[StoredEntry] = []
        for begin in range(0, len(rings), READ_AT_ONCE):
            group = rings[begin : begin + READ_AT_ONCE]
            read = max(1, min(PAGE, limit, READ_AT_ONCE // len(group)))
            pages = self._scripts.get([self._page_of(ring, ring.latest, read) for ring in group])
            wanted = [filter(is_wanted, self._entries(ring, page)) for ring, page in zip(group, pages, strict=True)]
            found = list(islice(merge(found, *wanted, key=attrgetter("ended"), reverse=True), limit))
        return found

    def _page_of(self, ring: Ring, begin: int, many: int) -> Command:
        key = self._scripts.keys.key(ring.partition, "history")
        return Command(ring.partition, ("HMGET", key, *ring.fields(begin, many)))

    def _entries(self, ring: Ring, page: Sequence[bytes | None]) -> Iterator[StoredEntry]:
        """The entries of a ring after its first page, the latest first; each further page is larger."""
        begin = ring.latest
        while True:
            for body in page:
                try:
                    entry = None if body is None else encoding.entry(body)
                except Unreadable as error:
                    self.damages.report(error.damage)
                    continue
                if entry is not None and entry.number <= ring.latest:
                    yield entry
            begin, many = begin - len(page), min(PAGE, 2 * len(page))
            if not ring.fields(begin, 1):
                return
            [page] = self._scripts.get([self._page_of(ring, begin, many)])

    # Removals

    def removals(self, timeline: str) -> Removals:
        partition = self.partition_of(timeline)
        return encoding.removals(self._remembered(partition, f"t{timeline}".encode()))

    def _remembered(self, partition: int, field: bytes) -> bytes | None:
        key = self._scripts.keys.key(partition, "history")
        stored: bytes | None = self._scripts.get([Command(partition, ("HGET", key, field))])[0]
        return stored

    def kept_since(self, timeline: str) -> Millis | None:
        tenants = self.tenants()
        return tenants.kept_since(tenants.of(timeline), partial(self._oldest, self.partition_of(timeline)))

    def _oldest(self, partition: int, name: str) -> Millis | None:
        """When the oldest entry or removal of a ring was made; None if no older one was forgotten."""
        ledger, size = self._scripts.keys.key(partition, "ledger"), self._ring
        counters = [named(series, name) for series in ("ended", "removals")]
        [counts] = self._scripts.get([Command(partition, ("HMGET", ledger, *counters))])
        ended, removals = (int(count) if count and count.isdigit() else 0 for count in counts)
        times = []
        if ended >= size:
            entries = self._latest([Ring(partition, name, size, ended)], lambda _: True, limit=size)
            times += [entry.ended for entry in entries[-1:]]
        place = named(f"r{(removals + 1) % size}", name)
        oldest = self._remembered(partition, place.encode()) if removals >= size else None
        if oldest is not None:
            times.append(encoding.removals(self._remembered(partition, b"t" + oldest)).last)
        return max(times, default=None)
