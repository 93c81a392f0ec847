"""Leases from all partitions of a store, visited in random order, for timelines that may be delivered now."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from digestif.attempts.admission import Admissions
from digestif.attempts.attempt import Now
from digestif.core.times import Millis, instant_text, to_seconds
from digestif.errors import Busy, InvalidState, StoreError
from digestif.events.base import Events
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_TIMELINES, Admitted, Candidate, Lease, Store, Unadmitted
from digestif.stores.partitions import visit

KEPT_PAGES = 10  # of timelines that may not be delivered yet; then a claim ends, so that what it has is delivered


class Claimed(NamedTuple):
    """What a claim gave."""

    leases: list[Lease]
    suspect: Millis | None = None  # when the first suspect lapsed
    kept: int = 0  # timelines that may not be delivered yet, and wait again


class Claims:
    """Claims timelines, and asks before records are taken whether they may be delivered."""

    def __init__(self, store: Store, admissions: Admissions, *, lease: Millis, now: Now, events: Events) -> None:
        self._store = store
        self._admissions = admissions
        self._lease = lease
        self._now = now
        self._events = events

    @property
    def _asks(self) -> bool:
        return self._admissions.must_ask(self._now())

    def claim(self, limit: int) -> Claimed:
        """Leases for at most `limit` timelines that are due. Raises StoreError if no partition answers."""
        asks = self._asks
        leases: list[Lease] = []
        suspects: list[Millis] = []
        kept = 0

        def pages(partition: int) -> Iterator[Admitted]:
            asked = 0
            while len(leases) < limit and asked < KEPT_PAGES:
                wanted = min(limit - len(leases), PAGE_TIMELINES)
                page = self._store.claim(
                    partition, wanted, token=fresh_id(), lease=self._lease, now=self._now(), asks=asks
                )
                leases.extend(page.leases)
                suspects.extend([] if page.suspect is None else [page.suspect])
                admitted = self._admit(page.candidates)
                leases.extend(admitted.leases)
                asked += len(admitted.leases) < len(page.candidates)
                yield admitted
                if len(page.leases) + page.retired + len(page.candidates) < wanted:
                    return

        try:
            kept = sum(admitted.kept for admitted in visit(self._store, "claim", pages, self._events))
        except StoreError:
            if not leases:  # what the pages before it gave must not be forgotten
                raise
        return Claimed(leases, min(suspects, default=None), kept)

    def claim_suspects(self, *, alone: bool) -> list[Lease]:
        """Leases for digests that lapsed, of the first partition that has some."""
        asks = self._asks
        leases: list[Lease] = []

        def pages(partition: int) -> Iterator[None]:
            if not leases:
                page = self._store.claim_suspects(
                    partition, alone=alone, token=fresh_id(), lease=self._lease, now=self._now(), asks=asks
                )
                chosen = len(page.leases) + len(page.candidates)
                leases.extend(page.leases)
                leases.extend(self._admit(page.candidates, alone=alone and chosen == 1).leases)
                yield

        for _ in visit(self._store, "claim", pages, self._events):
            pass
        return leases

    def open(self, timeline: str, *, alone: bool) -> Lease:
        """Open one timeline. Raises InvalidState or Busy, also if a window or its channel holds it back: it waits."""
        now, asks = self._now(), self._asks
        try:
            return self._store.open(timeline, token=fresh_id(), lease=self._lease, now=now, alone=alone, asks=asks)
        except Unadmitted as error:
            candidate = error.candidate
        [decided] = self._admissions.decide([candidate], limited=False)
        admitted = self._store.admit([decided], token=fresh_id(), lease=self._lease, now=now, alone=alone)
        if decided.until is not None:
            when = instant_text(to_seconds(decided.until))
            why = self._admissions.reason(candidate)
            raise InvalidState(f"{timeline!r} may not be delivered before {when}, {why}")
        if not admitted.leases:
            self._admissions.not_opened(timeline, now=candidate.now)
            raise Busy(f"{timeline!r} was changed by another process in this moment")
        return admitted.leases[0]

    def _admit(self, candidates: Sequence[Candidate], *, alone: bool = False) -> Admitted:
        if not candidates:
            return Admitted([], [])
        decided = self._admissions.decide(candidates)
        admitted = self._store.admit(decided, token=fresh_id(), lease=self._lease, now=self._now(), alone=alone)
        opened = {lease.timeline for lease in admitted.leases}
        for candidate, (timeline, _, until) in zip(candidates, decided, strict=True):
            if until is None and timeline not in opened:
                self._admissions.not_opened(timeline, now=candidate.now)
        return admitted
