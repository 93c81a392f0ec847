"""The search for due timelines, and where it may begin while the server can't remove dead rows.

An old transaction keeps every version of a row and its place in each index. A search from the start of an order then
walks over all that was due before: 100,000 dead places take 50 ms. So a slow search notes the lowest live time, and the
next ones begin there. A timeline that is placed below it meanwhile (it was paused and is resumed, say) is found by the
next search from the start.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from digestif.clock import monotonic
from digestif.core.times import Millis
from digestif.stores.postgres.arrays import Bigints
from digestif.stores.postgres.slots import InboxFirst, Loaded, PostgresSlots
from digestif.stores.postgres.transaction import SQL, as_text

MARGIN: Millis = 1000  # a transaction may take this long to commit a time that it computed
START: Millis = -(2**62)
CHOICE = 4  # times as many candidates as a claim wants, if other claims have locked the first ones
LAPSED, INBOX = 2, 3  # what a row of `claimable` is about, if not a waiting or ready timeline

Row = tuple[int, Millis, int, str]  # of `claimable`: what it is about, its time, id and place


class Floors(NamedTuple):
    """The time at which a search begins, in each order."""

    waiting: Millis = START
    ready: Millis = START
    until: Millis = START


class SearchFloors:
    """What the searches of one store have learned. Threads share it.

    A search is slow from `slow_seconds` on. Searches from the start may take the `share` of the time, and are made at
    least every `longest_seconds`.
    """

    def __init__(self, *, slow_seconds: float = 0.005, share: float = 0.002, longest_seconds: float = 30.0) -> None:
        self._slow_seconds = slow_seconds
        self._share = share
        self._longest_seconds = longest_seconds
        self._floors = Floors()
        self._end = 0.0  # of the floors' time, by the monotonic clock

    def floors(self) -> Floors:
        return self._floors if monotonic() < self._end else Floors()

    def learn(
        self, floors: Floors, found: Sequence[tuple[int, Millis]], *, full: bool, now: Millis, took: float
    ) -> None:
        """Note what a search from these floors found: times with the number of their order, the lowest first."""
        if floors == Floors():
            if took < self._slow_seconds:
                self._end = 0.0
                return
            self._end = monotonic() + min(took / self._share, self._longest_seconds)
        beyond = min(found[-1][1], now) if full else now
        lowest = [min((at for order, at in found if order == each), default=beyond) for each in range(3)]
        self._floors = Floors(*(min(at, now) - MARGIN for at in lowest))


class PostgresSearch(PostgresSlots):
    """Finds due timelines and suspects, and locks those that no other transaction has locked."""

    def __init__(self, *given: Any, writes: bool) -> None:
        super().__init__(*given, writes=writes)
        self.search_floors = SearchFloors()  # which know nothing yet
        self.claims_after_inbox = False  # raise InboxFirst if there is an inbox, instead of claiming

    def suspects(self, now: Millis, *, skip: int, limit: int) -> list[str]:
        self._write_slots()
        floor = self.search_floors.floors().until

        def search(limit: int) -> list[Row]:
            return self._execute(SQL.suspects, (self._namespace, floor, now, limit, skip)).fetchall()

        names = self._lock_first(search(limit), limit, search)
        return [name for name in names if _is_suspect(self._loaded[name], now)]

    def claimable(self, now: Millis, *, limit: int) -> tuple[list[str], Millis | None]:
        self._write_slots()
        found, suspect = self._search(now, limit=limit)
        names = self._lock_first(found, limit, lambda limit: self._search(now, limit=limit)[0])
        return [name for name in names if _is_claimable(self._loaded[name], now)], suspect

    def _lock_first(self, found: Sequence[Row], limit: int, search: Callable[[int], Sequence[Row]]) -> list[str]:
        """Lock the first timelines that no other transaction has locked, and search for more if these are too few."""
        names = self._lock_some(found, limit)
        if len(names) < limit == len(found):  # other claims have locked the first ones
            further = [one for one in search(limit * CHOICE) if one not in found]
            names += self._lock_some(further, limit - len(names))
        return names

    def _lock_some(self, found: Sequence[Row], limit: int) -> list[str]:
        if not found:
            return []
        ids, places = Bigints([row_id for _, _, row_id, _ in found]), ",".join(f'"{place}"' for *_, place in found)
        rows = self._execute(SQL.lock_some, (f"{{{places}}}", ids, ids, limit)).fetchall()
        self._keep(rows)
        return [as_text(key) for _, key, _ in rows]

    def _search(self, now: Millis, *, limit: int) -> tuple[list[Row], Millis | None]:
        """Return due timelines, and when the lease of the first suspect lapsed."""
        floors = self.search_floors.floors()
        arguments = {"namespace": self._namespace, "now": now, "limit": limit, **floors._asdict()}
        began = monotonic()
        rows = self._execute(SQL.claimable, arguments).fetchall()
        found = [row for row in rows if row[0] < LAPSED]
        lapsed = [(order, at) for order, at, _, _ in rows if order == LAPSED]
        ((_, moving, end, table),) = (row for row in rows if row[0] == INBOX)
        self._is_moving = moving is not None
        times = [*lapsed, *((order, at) for order, at, _, _ in found)]
        self.search_floors.learn(floors, times, full=len(found) == limit, now=now, took=monotonic() - began)
        self.refuse_other_tables(int(table))
        if end is not None and self.claims_after_inbox:
            raise InboxFirst(end)
        return found, lapsed[0][1] if lapsed else None


def _is_claimable(loaded: Loaded, now: Millis) -> bool:
    """True if the timeline is due; also if it is damaged, so that it leaves the schedule."""
    marks = loaded.before
    if loaded.damage is not None:
        return True
    return marks.ready is not None or (marks.waiting is not None and marks.waiting <= now)


def _is_suspect(loaded: Loaded, now: Millis) -> bool:
    """True if the lease has lapsed; also if the timeline is damaged, likewise."""
    until = loaded.before.until
    return loaded.damage is not None or (until is not None and until <= now)
