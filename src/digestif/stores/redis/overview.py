"""Pages of timelines for people, by state or by key: a bounded number of keys is read, whatever the partitions are."""

from collections.abc import Sequence
from heapq import merge
from itertools import takewhile
from typing import Any

from digestif.core.machine import Slot
from digestif.core.records import State
from digestif.stores.base import Store
from digestif.stores.damage import Unreadable
from digestif.stores.reader import DUE, PAUSED, Order, Place, TimelinePage, place_of
from digestif.stores.redis import encoding
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.link import all_required
from digestif.stores.redis.client.scripts import load
from digestif.stores.redis.keys import as_bytes, as_text
from digestif.stores.redis.verbs import RedisVerbs, read_slots

ORDERS: dict[Order | None, tuple[str, ...]] = {
    State.WAITING: ("waiting",),
    State.READY: ("ready",),
    State.OPEN: ("leases",),
    PAUSED: ("paused",),
    DUE: ("waiting", "ready"),
}
PLACES_READ = 200  # names in an order, and at most as many timelines; the rest is for finding the place of a tie


class RedisOverview(RedisVerbs, Store):
    """The verb of the store that lists timelines."""

    def look_over(self, order: Order | None, *, prefix: str, after: Place | None, limit: int) -> TimelinePage:
        kinds = ORDERS.get(order, ())
        share = max(1, min(limit, PLACES_READ // (self.partitions * max(1, len(kinds)))))
        if kinds and (order != PAUSED or self._lists_pauses()):
            shares = [places for kind in kinds for places in self._places_by_time(kind, after, share)]
        else:
            shares = self._places_by_name(prefix, after, share)
        places = _settled(shares, share)[: min(limit, PLACES_READ)]
        complete = len(places) == sum(map(len, shares)) and all(len(each) < share for each in shares)
        found = self._slots_of([str(place[-1]) for place in places])
        return TimelinePage(found, None if complete else places[-1])

    def _lists_pauses(self) -> bool:
        """False in a namespace of a release that kept only open ones in this order: those are looked for by name."""
        return all(self._scripts.get(self._everywhere("ledger", "HGET", b"pauses")))

    def _places_by_time(self, kind: str, after: Place | None, limit: int) -> list[list[Place]]:
        start = b"" if after is None else encoding.encode(_raw(place_of(after, int, str)))
        keys, script = self._scripts.keys, load("order")
        commands = [Command(each, (1, keys.key(each, kind), limit, start), script) for each in range(keys.partitions)]
        return [
            [(int(float(at)), as_text(name)) for name, at in zip(flat[::2], flat[1::2], strict=True)]
            for flat in all_required(self._scripts.ask(commands))
        ]

    def _places_by_name(self, prefix: str, after: Place | None, limit: int) -> list[list[Place]]:
        first = prefix.encode()
        last = None if after is None else as_bytes(place_of(after, str)[0])
        start = b"[" + first if last is None or last < first else b"(" + last
        pages = self._scripts.get(self._everywhere("names", "ZRANGEBYLEX", start, b"+", b"LIMIT", 0, limit))
        return [[(as_text(name),) for name in takewhile(lambda name: name.startswith(first), page)] for page in pages]

    def _slots_of(self, names: Sequence[str]) -> list[tuple[str, Slot]]:
        found = []
        for name, slot in zip(names, read_slots(self._scripts, names), strict=True):
            if isinstance(slot, Unreadable):
                self.damages.report(slot.damage)
            elif slot is not None:  # otherwise it ended just now
                found.append((name, slot))
        return found


def _raw(place: Any) -> list[Any]:
    at, name = place
    return [at, encoding.text(as_bytes(name))]


def _settled(shares: Sequence[Sequence[Place]], share: int) -> list[Place]:
    """Places in order, up to the first behind which a partition may have others that come earlier."""
    horizon = min((_by_bytes(each[-1]) for each in shares if len(each) == share), default=None)
    in_order = merge(*shares, key=_by_bytes)
    return list(in_order) if horizon is None else [place for place in in_order if _by_bytes(place) <= horizon]


def _by_bytes(place: Place) -> tuple[int, bytes]:
    """The order of the server: by time, then by the bytes of the name."""
    at = place[0] if len(place) == 2 else 0
    assert isinstance(at, int)
    return at, as_bytes(str(place[-1]))
