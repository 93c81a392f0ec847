"""What a worker can take on: places for digests by the kind of their handlers, and memory for their records."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from digestif.attempts.handlers import Handler, Kind
from digestif.attempts.room import Room
from digestif.clock import monotonic
from digestif.stores.base import PAGE_TIMELINES
from digestif.worker.limits import DEFAULT, Limits, Tuning

Places = dict[Kind, int]  # for digests, by the kind of their handlers

MOST_ATTEMPTS = 10 * PAGE_TIMELINES  # that a worker holds of each kind


class Load(Protocol):
    """What the handlers that are running take up."""

    weight: int  # bytes of the records that they hold

    def count(self, kind: Kind) -> int: ...


class Allotment(NamedTuple):
    """What one claim may take."""

    most: int  # timelines
    room: Room
    places: Places  # that the claim may fill; none are kept free for suspects, which are tried alone


class Capacity:
    """Decides without I/O what the next claim may take, from what is running, claims under way and what claims saw."""

    def __init__(
        self,
        handlers: Iterable[Handler],
        limits: Limits,
        running: Load,
        *,
        tuning: Tuning = DEFAULT,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._handlers = handlers
        self._limits = limits
        self._running = running
        self._tuning = tuning
        self._clock = clock
        self.claims: dict[Any, Places] = {}  # under way, and the places that they may fill
        self._short: frozenset[Kind] = frozenset()  # kinds of handlers that had too few places in the last claims
        self._is_unbounded = False  # a claim is under way that may take a digest of any size
        self._large_until = 0.0  # until when nothing is claimed beside attempts that hold much: a digest was too large

    # Decisions

    @property
    def waits_for_memory(self) -> bool:
        """True while a large digest waits until attempts that hold much have ended: nothing is claimed beside them."""
        return self._clock() < self._large_until and not self._holds_little()

    @property
    def waits_for_claim(self) -> bool:
        """True while a claim is under way and a kind has too few places: the next claim comes after it."""
        return bool(self._short and self.claims)

    def has_places(self) -> bool:
        """Return True once every kind of handler that ran out of places has a free one again."""
        return all(self._free_places(kind) for kind in self._short)

    def allot(self, most: int) -> Allotment | None:
        """Return what the next claim may take, at most `most` timelines; None if nothing is free.

        A kind that ran out of places limits the claim to its free places. If the last claim met a digest too large for
        the memory left, and little is held now, the size of a digest is not limited.
        """
        places, memory = {kind: self._free_places(kind) for kind in Kind}, self._free_memory()
        limit = min((places[kind] for kind in self._short), default=None)
        most = min(limit or sum(places.values()), most)
        if most < 1 or memory < 1:
            return None
        self._is_unbounded = self._clock() < self._large_until and self._holds_little()
        room = Room(
            places,
            slow=frozenset(kind for kind in self._short if places[kind] == 0),
            memory=min(memory, self._limits.memory // 2 or 1),
            most=None if self._is_unbounded else memory,
            records=self._tuning.records,
        )
        return Allotment(most, room, places)

    def end_claim(self, allotment: Allotment, claimed: int | None) -> None:
        """Note what a claim saw in its room, and how many timelines it took; None if it failed."""
        self._is_unbounded = False
        if claimed is None:
            return
        room = allotment.room
        self._large_until = self._clock() + self._tuning.suspects if room.was_too_small else 0.0
        if room.short or claimed < allotment.most:
            self._short = frozenset(room.short)

    def allot_suspects(self) -> Allotment:
        """Return what a group of suspects may take: as many as can run together, and all of the memory.

        Of a kind with fewer places, the rest of a group waits for them.
        """
        most = [self._limits.of(handler.kind) * (handler.batch or 1) for handler in self._handlers]
        room = Room(memory=self._limits.memory, records=self._tuning.records)
        return Allotment(min(max(most, default=1), MOST_ATTEMPTS), room, {})

    # What is free

    def _free_places(self, kind: Kind) -> int:
        """Return how many more digests the handlers of a kind can take.

        At most half of their places, because two claims take turns. A handler of batches takes as many as its batch at
        once.
        """
        batches = [handler.batch or 1 for handler in self._handlers if handler.kind is kind]
        limit = min(self._limits.of(kind) * max(batches, default=0), MOST_ATTEMPTS)
        claimed = sum(places.get(kind, 0) for places in self.claims.values())
        return max(0, min(limit - self._running.count(kind) - claimed, (limit + 1) // 2))

    @property
    def held(self) -> int:
        """Bytes of the records that handlers hold, and of those that claims under way may bring."""
        return self._limits.memory - self._free_memory()

    def _free_memory(self) -> int:
        """Return how many bytes of records may still be held. Each claim under way reserves half of the limit."""
        if self._is_unbounded:
            return 0
        reserved = len(self.claims) * (self._limits.memory // 2)
        return self._limits.memory - self._running.weight - reserved

    def _holds_little(self) -> bool:
        """True if what is running holds less than half of the memory, and no claim may bring more."""
        return not self.claims and self._running.weight < max(1, self._limits.memory // 2)
