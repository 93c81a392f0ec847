"""Leases from all partitions of a store, visited in random order, for timelines that may be delivered now."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from digestif.attempts.admission import Admissions
from digestif.attempts.attempt import Now
from digestif.core.times import Millis, instant_text, to_seconds
from digestif.errors import Busy, InvalidState, StoreError
from digestif.events.base import Events
from digestif.ids import fresh_id, shuffled
from digestif.stores.base import (
    PAGE_TIMELINES,
    Admitted,
    Candidate,
    ClaimPage,
    Lease,
    Store,
    SuspectGroup,
    Taken,
    Unadmitted,
)
from digestif.stores.partitions import visit

LOST_PAGES = 8  # of suspects in a row that other workers opened first; then a group begins without more of them
KEPT_PAGES = 10  # of timelines that may not be delivered yet; then a claim ends, so that what it has is delivered


class Claimed(NamedTuple):
    """What a claim gave."""

    leases: list[Lease]
    suspect: Millis | None = None  # when the first suspect lapsed
    kept: int = 0  # timelines that may not be delivered yet, and wait again
    pages: Mapping[str, Taken] = MappingProxyType({})  # by digest id: digests that were read along, whole


class _Claim:
    """A claim under way, and what it has got."""

    def __init__(self, limit: int, *, asks: bool) -> None:
        self.limit = limit
        self.asks = asks
        self.leases: list[Lease] = []
        self.pages: dict[str, Taken] = {}
        self.suspects: list[Millis] = []
        self.kept = 0

    @property
    def left(self) -> int:
        return self.limit - len(self.leases)


class Claims:
    """Claims timelines, and asks before records are taken whether they may be delivered."""

    def __init__(self, store: Store, admissions: Admissions, *, lease: Millis, now: Now, events: Events) -> None:
        self._store = store
        self._admissions = admissions
        self._lease = lease
        self._now = now
        self._events = events
        self._is_plenty = False  # the last claim got as much as it wanted
        self._lapses: dict[int, Millis] = {}  # by partition: when its first suspect lapsed, as claims saw it last

    @property
    def _asks(self) -> bool:
        return self._admissions.must_ask(self._now())

    def claim(self, limit: int, partitions: Collection[int] | None = None) -> Claimed:
        """Leases for at most `limit` timelines that are due, in these partitions or in all.

        Raises StoreError if no partition answers.
        """
        claim = _Claim(limit, asks=self._asks)
        chosen = range(self._store.partitions) if partitions is None else partitions
        visited = self._visited(chosen, claim)
        try:
            for _ in visit(
                self._store, "claim", lambda each: self._pages(each, claim), self._events, partitions=visited
            ):
                pass
        except StoreError:
            if not claim.leases:  # what the pages before it gave must not be forgotten
                raise
        self._is_plenty = claim.left < 1
        return Claimed(claim.leases, min(claim.suspects, default=None), claim.kept, claim.pages)

    def _visited(self, partitions: Collection[int], claim: "_Claim") -> Iterator[int]:
        """The partitions that are to be visited one by one.

        While there is plenty, that is a random one, and it may be enough. Then all others are claimed from at once, and
        those follow that have more, or failed.
        """
        order = [list(partitions)[position] for position in shuffled(len(partitions))]
        first = 1 if self._is_plenty or len(order) == 1 else 0
        yield from order[:first]
        rest = order[first:]
        if not rest or claim.left < 1:
            return
        pages = self._store.claim_each(
            rest, claim.left, token=fresh_id(), lease=self._lease, now=self._now(), asks=claim.asks
        )
        answers = sorted(zip(rest, pages, strict=True), key=lambda answer: _earliest(answer[1]))
        yield from [each for each, page in answers if self._is_left(each, page, claim)]

    def _is_left(self, partition: int, page: ClaimPage | StoreError, claim: "_Claim") -> bool:
        """Keep what a page gave. True if its partition has more, or failed."""
        try:
            if isinstance(page, StoreError):
                return True
            self._note(partition, page, claim)
        except StoreError:  # as it has candidates: the visit finds them again, and reports the error
            return True
        return page.more

    def _pages(self, partition: int, claim: "_Claim") -> Iterator[None]:
        asked = 0
        while claim.left > 0 and asked < KEPT_PAGES:
            wanted = min(claim.left, PAGE_TIMELINES)
            page = self._store.claim(
                partition, wanted, token=fresh_id(), lease=self._lease, now=self._now(), asks=claim.asks
            )
            asked += self._note(partition, page, claim) < len(page.candidates)
            yield
            if len(page.leases) + page.retired + len(page.candidates) < wanted:
                return

    def _note(self, partition: int, page: ClaimPage, claim: "_Claim") -> int:
        """Keep what a page gave, and admit its candidates: how many of them were opened."""
        claim.leases += page.leases
        claim.pages.update(page.pages)
        if page.suspect is not None:
            claim.suspects.append(page.suspect)
            self._lapses[partition] = page.suspect
        elif self._lapses:
            self._lapses.pop(partition, None)
        admitted = self._admit(page.candidates)
        claim.leases += admitted.leases
        claim.kept += admitted.kept
        return len(admitted.leases)

    def claim_suspects(self, size: int, *, alone: bool) -> list[Lease]:
        """Leases for a group of at most `size` digests that lapsed.

        The partition whose suspects lapsed first, as claims have seen it, comes first.
        """
        asks = self._asks
        group, leases = SuspectGroup(size, size, alone), list[Lease]()

        def pages(partition: int) -> Iterator[None]:
            nonlocal group
            group, more, lost = group._replace(skip=0), True, 0
            while more and group.limit > 0 and lost < LOST_PAGES:
                page = self._store.claim_suspects(
                    partition, group, token=fresh_id(), lease=self._lease, now=self._now(), asks=asks
                )
                admitted = self._admit(page.candidates, group=page.size if alone else 0)
                opened = page.leases + admitted.leases
                leases.extend(opened)
                group = _joined(group, page, opened=len(opened), kept=admitted.kept)
                more = page.more
                lost = 0 if opened else lost + 1
                yield

        partitions = sorted(shuffled(self._store.partitions), key=lambda each: self._lapses.get(each, inf))
        for _ in visit(self._store, "claim", pages, self._events, partitions=partitions):
            pass
        return leases

    def open(self, timeline: str, *, alone: bool) -> Lease:
        """Open one timeline. Raises InvalidState or Busy, also if a window or its channel holds it back: it waits."""
        now, asks = self._now(), self._asks
        try:
            return self._store.open(timeline, token=fresh_id(), lease=self._lease, now=now, alone=alone, asks=asks)
        except Unadmitted as error:
            candidate = error.candidate
        [decided] = self._admissions.decide([candidate], limited=False, group=int(alone))
        admitted = self._store.admit([decided], token=fresh_id(), lease=self._lease, now=now)
        if decided.until is not None:
            when = instant_text(to_seconds(decided.until))
            why = self._admissions.reason(candidate)
            raise InvalidState(f"{timeline!r} may not be delivered before {when}, {why}")
        if not admitted.leases:
            self._admissions.not_opened(timeline, now=candidate.now)
            raise Busy(f"{timeline!r} was changed by another process in this moment")
        return admitted.leases[0]

    def _admit(self, candidates: Sequence[Candidate], *, group: int = 0) -> Admitted:
        if not candidates:
            return Admitted([], [])
        decided = self._admissions.decide(candidates, group=group)
        admitted = self._store.admit(decided, token=fresh_id(), lease=self._lease, now=self._now())
        opened = {lease.timeline for lease in admitted.leases}
        for candidate, (timeline, _, until, _) in zip(candidates, decided, strict=True):
            if until is None and timeline not in opened:
                self._admissions.not_opened(timeline, now=candidate.now)
        return admitted


def _joined(group: SuspectGroup, page: ClaimPage, *, opened: int, kept: int) -> SuspectGroup:
    """The group after a page of suspects. Those that could not be admitted are passed over, too."""
    if not (page.leases or page.candidates or page.passed_over):
        return group
    skipped = page.passed_over + len(page.leases) + len(page.candidates) - opened - kept
    limit = (group.limit if group.is_decided else page.size) - opened
    return group._replace(size=page.size, limit=limit, is_decided=True, skip=group.skip + skipped)


def _earliest(page: ClaimPage | StoreError) -> float:
    """When the first candidate was due: that one is asked about first, as within a partition."""
    candidates = () if isinstance(page, StoreError) else page.candidates
    return min((candidate.slot.at for candidate in candidates), default=inf)
