"""Claims: leases for timelines that may be delivered now, from the partitions of a store in random order."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from digestif.attempts.admission import Admissions
from digestif.attempts.leases import Now
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

LOST_PAGES = 8  # pages of suspects in a row that other workers opened first, until a group begins with fewer suspects
KEPT_PAGES = 10  # pages with timelines that were held back, until a claim ends, so that its leases are used soon


class ClaimedLeases(NamedTuple):
    """The result of one claim."""

    leases: list[Lease]
    suspect_since: Millis | None = None  # when the first suspect lapsed
    kept: int = 0  # timelines that were held back, and wait again
    pages: Mapping[str, Taken] = MappingProxyType({})  # digests that the claim also read, whole, by digest id


@dataclass(slots=True)
class _Claim:
    """A claim under way, and what it has collected."""

    limit: int
    asks: bool
    leases: list[Lease] = field(default_factory=list)
    pages: dict[str, Taken] = field(default_factory=dict)
    suspects: list[Millis] = field(default_factory=list)
    kept: int = 0

    @property
    def wanted(self) -> int:
        """How many more leases the claim may collect."""
        return self.limit - len(self.leases)


class Claims:
    """Claims and opens timelines, and asks whether they may be delivered before their records are taken."""

    def __init__(self, store: Store, admissions: Admissions, *, lease: Millis, now: Now, events: Events) -> None:
        self._store = store
        self._admissions = admissions
        self._lease = lease
        self._now = now
        self._events = events
        self._was_filled = False  # the last claim
        self._lapses: dict[int, Millis] = {}  # when each partition's first suspect lapsed, as the last claim saw it

    def claim(self, limit: int, partitions: Collection[int] | None = None) -> ClaimedLeases:
        """Return leases for at most `limit` timelines that are due, in these partitions or in all.

        Raises StoreError if no partition answers.
        """
        claim = _Claim(limit, asks=self._admissions.must_ask(self._now()))
        chosen = range(self._store.partitions) if partitions is None else partitions
        visited = self._claim_round(chosen, claim)
        try:
            for _ in visit(self._store, "claim", partial(self._pages, claim=claim), self._events, partitions=visited):
                pass
        except StoreError:
            if not claim.leases:  # leases from earlier pages must not be lost
                raise
        self._was_filled = claim.wanted < 1
        return ClaimedLeases(claim.leases, min(claim.suspects, default=None), claim.kept, claim.pages)

    def _claim_round(self, partitions: Collection[int], claim: "_Claim") -> Iterator[int]:
        """Yield the partitions to visit.

        If the last claim was filled, first a single random one. Then claim from all others in one round, and yield
        those that have more or failed.
        """
        order = shuffled(partitions)
        first = 1 if self._was_filled or len(order) == 1 else 0
        yield from order[:first]
        rest = order[first:]
        if not rest or claim.wanted < 1:
            return
        pages = self._store.claim_each(
            rest, claim.wanted, token=fresh_id(), lease=self._lease, now=self._now(), asks=claim.asks
        )
        answers = sorted(zip(rest, pages, strict=True), key=lambda answer: _earliest(answer[1]))
        yield from [each for each, page in answers if self._keep(each, page, claim)]

    def _keep(self, partition: int, page: ClaimPage | StoreError, claim: "_Claim") -> bool:
        """Keep a page's leases. Return True if its partition has more, or failed."""
        try:
            if isinstance(page, StoreError):
                return True
            self._collect(partition, page, claim)
        except StoreError:  # when candidates were admitted: the visit finds them again, and reports the error
            return True
        return page.more

    def _pages(self, partition: int, claim: "_Claim") -> Iterator[None]:
        """Claim from one partition page by page, until the claim is filled, or the partition has no more."""
        with_kept = 0  # pages
        while claim.wanted > 0 and with_kept < KEPT_PAGES:
            wanted = min(claim.wanted, PAGE_TIMELINES)
            page = self._store.claim(
                partition, wanted, token=fresh_id(), lease=self._lease, now=self._now(), asks=claim.asks
            )
            with_kept += self._collect(partition, page, claim) < len(page.candidates)
            yield
            if len(page.leases) + page.retired + len(page.candidates) < wanted:
                return

    def _collect(self, partition: int, page: ClaimPage, claim: "_Claim") -> int:
        """Keep a page's leases, admit its candidates, and return how many of them were opened."""
        claim.leases += page.leases
        claim.pages.update(page.pages)
        if page.suspect is not None:
            claim.suspects.append(page.suspect)
            self._lapses[partition] = page.suspect
        elif self._lapses:
            self._lapses.pop(partition, None)
        if not page.candidates:
            return 0
        admitted = self._admit(page.candidates)
        claim.leases += admitted.leases
        claim.kept += admitted.kept
        return len(admitted.leases)

    def claim_suspects(self, size: int, *, alone: bool) -> list[Lease]:
        """Return leases for a group of at most `size` lapsed digests.

        Partitions are visited in the order in which their first suspects lapsed, as far as claims have seen any. Raises
        StoreError if no partition answers.
        """
        asks = self._admissions.must_ask(self._now())
        group, leases = SuspectGroup(size, size, alone), list[Lease]()

        def pages(partition: int) -> Iterator[None]:
            nonlocal group
            group, more, lost = group._replace(skip=0), True, 0
            while more and group.limit > 0 and lost < LOST_PAGES:
                page = self._store.claim_suspects(
                    partition, group, token=fresh_id(), lease=self._lease, now=self._now(), asks=asks
                )
                admitted = Admitted([], [])
                try:
                    admitted = self._admit(page.candidates, group=page.size if alone else 0)
                finally:  # what was opened belongs to the group, whatever becomes of the candidates
                    opened = page.leases + admitted.leases
                    leases.extend(opened)
                    group = _after_page(group, page, opened=len(opened), kept=admitted.kept)
                more = page.more
                lost = 0 if opened else lost + 1
                yield

        partitions = sorted(shuffled(range(self._store.partitions)), key=lambda each: self._lapses.get(each, inf))
        try:
            for _ in visit(self._store, "claim", pages, self._events, partitions=partitions):
                pass
        except StoreError:
            if not leases:  # else they are kept: unrenewed, they would lapse as evidence against the group
                raise
        return leases

    def open(self, timeline: str, *, alone: bool) -> Lease:
        """Open one timeline.

        Raises Busy, or InvalidState, also if a window or a closed channel holds the timeline back.
        """
        now = self._now()
        asks = self._admissions.must_ask(now)
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
        """Decide about candidates, and open those that may be delivered."""
        if not candidates:
            return Admitted([], [])
        decided = self._admissions.decide(candidates, group=group)
        admitted = self._store.admit(decided, token=fresh_id(), lease=self._lease, now=self._now())
        opened = {lease.timeline for lease in admitted.leases}
        for candidate, (timeline, _, until, _) in zip(candidates, decided, strict=True):
            if until is None and timeline not in opened:
                self._admissions.not_opened(timeline, now=candidate.now)
        return admitted


def _after_page(group: SuspectGroup, page: ClaimPage, *, opened: int, kept: int) -> SuspectGroup:
    """Return the group after a page of suspects. The next page skips those that were neither opened nor held back."""
    if not (page.leases or page.candidates or page.passed_over):
        return group
    skipped = page.passed_over + len(page.leases) + len(page.candidates) - opened - kept
    limit = (group.limit if group.is_decided else page.size) - opened
    return group._replace(size=page.size, limit=limit, is_decided=True, skip=group.skip + skipped)


def _earliest(page: ClaimPage | StoreError) -> float:
    """Return when the first candidate was due, so that pages are admitted in the order of their candidates."""
    candidates = () if isinstance(page, StoreError) else page.candidates
    return min((candidate.slot.at for candidate in candidates), default=inf)
