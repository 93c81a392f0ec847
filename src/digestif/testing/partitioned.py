"""A store made of stores, for tests of failures: each is one partition or more, and can be made to fail."""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Protocol, TypeVar
from zlib import crc32

from digestif.core.backlog import Standing, add_up
from digestif.core.capacity import Cursor, Stored
from digestif.core.ledger import COUNTERS, Ledger, Verification
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter, HistoryEntry, State
from digestif.core.removals import Removals
from digestif.core.terms import Override, Terms
from digestif.core.times import Millis
from digestif.errors import StoreError, StoreUnavailable
from digestif.events import Events
from digestif.stores.base import (
    HISTORY_LIMIT,
    PAGE_RECORDS,
    Accepted,
    Admission,
    Admitted,
    Arrival,
    Burial,
    ClaimPage,
    Completion,
    Lease,
    LeaseEnd,
    Maintained,
    QuarantinedRecord,
    Release,
    Replan,
    Requeue,
    Requeued,
    SchedulePage,
    Store,
    SuspectGroup,
    Take,
    Taken,
)
from digestif.stores.documents import Bounds, Document
from digestif.stores.reader import PAUSED, Order, Part, Place, TimelinePage

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Partitioned(Store):
    """Several stores as one; the hash of a timeline's key decides in which part it is.

    Parts whose numbers are in `failing` refuse every call with StoreUnavailable. Values of record keys in `lost` are
    missing when they are read. `largest` is the size of the largest call or answer of each verb.
    """

    def __init__(self, parts: Sequence[Store]) -> None:
        self.parts = parts
        self.namespace = parts[0].namespace
        self.durability = parts[0].durability
        self.counts_at_once = all(part.counts_at_once for part in parts)
        self.failing: set[int] = set()
        self.lost: set[str] = set()
        self.largest: Counter[str] = Counter()
        self._places = [(number, inner) for number, part in enumerate(parts) for inner in range(part.partitions)]
        self.partitions = len(self._places)
        for each in (*parts[1:], self):
            each._tenants_note = parts[0]._tenants_note

    def part_of(self, timeline: str) -> int:
        """The number of the part that keeps a timeline."""
        return crc32(timeline.encode()) % len(self.parts)

    def report_to(self, events: Events) -> None:
        for part in self.parts:
            part.report_to(events)

    def time(self, partition: int) -> Millis:
        part, inner = self._place(partition)
        return part.time(inner)

    def partition_of(self, timeline: str) -> int:
        number = self.part_of(timeline)
        return self._places.index((number, self.parts[number].partition_of(timeline)))

    def note(self, partition: int, name: str) -> bytes | None:
        part, inner = self._place(partition)
        return part.note(inner, name)

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        part, inner = self._place(partition)
        return part.swap_note(inner, name, old, new)

    def keep(
        self, collection: str, document: Document, *, bounds: Bounds, replace: bool | bytes = False, now: Millis | None
    ) -> bool:
        return self._part(0).keep(collection, document, bounds=bounds, replace=replace, now=now)

    def kept(self, collection: str, key: str, *, now: Millis | None) -> Document | None:
        return self._part(0).kept(collection, key, now=now)

    def documents(
        self, collection: str, *, timeline: str | None = None, before: str | None = None, limit: int, now: Millis | None
    ) -> list[Document]:
        return self._part(0).documents(collection, timeline=timeline, before=before, limit=limit, now=now)

    def forget(self, collection: str, key: str, *, body: bytes | None = None) -> bool:
        return self._part(0).forget(collection, key, body=body)

    def forget_timeline(self, timeline: str) -> None:
        self._part(0).forget_timeline(timeline)

    # Producing

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        return self._spread("add", batch, lambda part, share: part.add(share, now=now), key=lambda item: item.timeline)

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        return self._home(timeline).retract(timeline, key, now=now)

    # Dispatching

    def schedule(
        self,
        partition: int,
        deadline: Millis,
        *,
        after: tuple[int | str, ...] | None,
        limit: int,
        now: Millis | None,
        asks: bool = False,
    ) -> SchedulePage:
        part, inner = self._place(partition)
        page = part.schedule(inner, deadline, after=after, limit=limit, now=now, asks=asks)
        self._watch("schedule", len(page.entries))
        return page

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        part, inner = self._place(partition)
        done = part.maintain(inner, deadline, limit=limit, now=now)
        self._watch("maintain", len(done.moved) + len(done.lapsed))
        return done

    # Delivering

    def claim(
        self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        part, inner = self._place(partition)
        claimed = part.claim(inner, limit, token=token, lease=lease, now=now, asks=asks)
        self._watch("claim", len(claimed.leases))
        return claimed._replace(pages={of: self._without_lost(page) for of, page in claimed.pages.items()})

    def claim_suspects(
        self, partition: int, group: SuspectGroup, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        part, inner = self._place(partition)
        claimed = part.claim_suspects(inner, group, token=token, lease=lease, now=now, asks=asks)
        self._watch("claim_suspects", len(claimed.leases))
        return claimed

    def open(
        self,
        timeline: str,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        alone: bool = False,
        asks: bool = False,
    ) -> Lease:
        return self._home(timeline).open(timeline, token=token, lease=lease, now=now, alone=alone, asks=asks)

    def admit(
        self,
        admissions: Sequence[Admission],
        *,
        token: str | None = None,
        lease: Millis = 0,
        now: Millis | None,
    ) -> Admitted:
        if not admissions:
            return Admitted([], [])
        self._watch("admit", len(admissions))
        home = self._home(admissions[0].timeline)
        return home.admit(admissions, token=token, lease=lease, now=now)

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        answers = self._under_leases("take", requests, lambda part, share: part.take(share, now=now))
        self._watch("take", sum(len(taken.records) for taken in answers if taken))
        return [taken and self._without_lost(taken) for taken in answers]

    def quarantine(self, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis | None) -> bool:
        self._watch("quarantine", len(records))
        return self._home(lease.timeline).quarantine(lease, records, now=now)

    def remove(self, lease: Lease, keys: Sequence[str], *, now: Millis | None) -> int | None:
        self._watch("remove", len(keys))
        return self._home(lease.timeline).remove(lease, keys, now=now)

    def mark_served(self, lease: Lease, recipients: Sequence[str], *, now: Millis | None) -> bool:
        self._watch("mark_served", 1)
        return self._home(lease.timeline).mark_served(lease, recipients, now=now)

    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        return self._spread(
            "extend",
            leases,
            lambda part, share: part.extend(share, lease=lease, now=now, alone=alone),
            key=lambda item: item.timeline,
        )

    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        answering = [part for number, part in enumerate(self.parts) if number not in self.failing]
        return [lease for part in answering for lease in part.leases_beyond(time, limit=limit)][:limit]

    def end_leases(self, leases: Sequence[LeaseEnd], *, now: Millis | None) -> list[bool]:
        return self._spread(
            "end_leases",
            leases,
            lambda part, share: part.end_leases(share, now=now),
            key=lambda item: item.timeline,
        )

    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        return self._under_leases("complete", completions, lambda part, share: part.complete(share, now=now))

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        return self._under_leases("release", releases, lambda part, share: part.release(share, now=now))

    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        return self._under_leases("bury", burials, lambda part, share: part.bury(share, now=now))

    # Operating

    def delete(self, timeline: str, *, token: str | None = None, now: Millis | None) -> bool:
        return self._home(timeline).delete(timeline, token=token, now=now)

    def sweep(self) -> bool:
        return sum(part.sweep() for part in self._all()) > 0  # sum, not any: every part sweeps

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        return self._home(timeline).flush(timeline, now=now)

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        return self._home(timeline).pause(timeline, paused, now=now)

    def set_override(self, timeline: str, override: Override, *, now: Millis | None) -> None:
        self._home(timeline).set_override(timeline, override, now=now)

    def clear_override(self, timeline: str, *, terms: Terms, cool_down: Millis, now: Millis | None) -> bool:
        return self._home(timeline).clear_override(timeline, terms=terms, cool_down=cool_down, now=now)

    def refresh_override(self, timeline: str, override: Override) -> bool:
        return self._home(timeline).refresh_override(timeline, override)

    def replan(self, replans: Sequence[Replan], *, now: Millis | None) -> list[bool]:
        return self._spread(
            "replan", replans, lambda part, share: part.replan(share, now=now), key=lambda item: item.timeline
        )

    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        return any(part.replay(letter_id, now=now) for part in self._all())

    def requeue(self, request: Requeue, *, limit: int = PAGE_RECORDS, now: Millis | None) -> Requeued | None:
        answers = (part.requeue(request, limit=limit, now=now) for part in self._all())
        return next((answer for answer in answers if answer is not None), None)

    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        return any(part.discard(letter_id, now=now) for part in self._all())

    # Queries

    def inspect(self, timeline: str) -> Slot:
        return self._home(timeline).inspect(timeline)

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        pages = [part.scan(prefix=prefix, after=after, limit=limit) for part in self._all()]
        return list(islice(merge(*pages, key=operator.itemgetter(0)), limit))

    def look_over(self, order: Order | None, *, prefix: str, after: Place | None, limit: int) -> TimelinePage:
        if order in (None, State.IDLE):
            found = self.scan(prefix=prefix, after=None if after is None else str(after[0]), limit=limit)
            return TimelinePage(found, (found[-1][0],) if len(found) == limit else None)
        timelines = self.scan(prefix="", after=None, limit=10_000)
        if order == PAUSED:
            chosen = [(name, slot) for name, slot in timelines if slot.paused]
        else:
            chosen = [(name, slot) for name, slot in timelines if slot.state is order and not slot.paused]
        in_order = sorted((_end(slot), name, slot) for name, slot in chosen)
        rest = [each for each in in_order if after is None or each[:2] > after]
        page = [(name, slot) for _, name, slot in rest[:limit]]
        return TimelinePage(page, rest[limit - 1][:2] if len(rest) >= limit else None)

    def records(self, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
        return list(map(self._without_value, self._home(timeline).records(timeline, part, after=after, limit=limit)))

    def find(self, timeline: str, key: str) -> dict[Part, Stored]:
        return self._home(timeline).find(timeline, key)

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        letters = [letter for part in self._all() for letter in _every_letter(part, timeline)]
        letters.sort(key=operator.attrgetter("buried"))
        begin = 1 + next((place for place, letter in enumerate(letters) if letter.id == after), -1)
        return letters[begin : begin + limit]

    def letter(self, letter_id: str) -> DeadLetter | None:
        return next((letter for part in self._all() if (letter := part.letter(letter_id))), None)

    def letter_records(self, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
        pages = (part.letter_records(letter_id, after=after, limit=limit) for part in self._all())
        return next((page for page in pages if page), [])

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        return self._home(timeline).letter_with(timeline, key)

    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        pages = [part.history(timeline, limit=limit, prefix=prefix) for part in self._all()]
        latest_first = merge(*pages, key=operator.attrgetter("ended"), reverse=True)
        return list(islice(latest_first, min(limit, HISTORY_LIMIT)))

    def removals(self, timeline: str) -> Removals:
        return self._home(timeline).removals(timeline)

    def kept_since(self, timeline: str) -> Millis | None:
        return self._home(timeline).kept_since(timeline)

    def standing(self, *, now: Millis, most: int | None = None) -> Standing:
        return add_up(part.standing(now=now, most=most) for part in self._all())

    def ledger(self) -> Ledger:
        return _sum_of([part.ledger() for part in self._all()])

    def digests_delivered(self) -> int:
        return sum(part.digests_delivered() for part in self._all())

    def verify(self) -> Verification:
        reports = [part.verify() for part in self._all()]
        return Verification(
            ledger=_sum_of([report.ledger for report in reports]),
            recounted=_added_up(report.recounted for report in reports),
            problems=tuple(problem for report in reports for problem in report.problems),
        )

    def footprint(self) -> Mapping[str, int]:
        return _added_up(part.footprint() for part in self._all())

    def close(self) -> None:
        for part in self.parts:
            part.close()

    # Parts

    def _part(self, number: int) -> Store:
        if number in self.failing:
            raise StoreUnavailable(f"part {number} was made to fail")
        return self.parts[number]

    def _place(self, partition: int) -> tuple[Store, int]:
        number, inner = self._places[partition]
        return self._part(number), inner

    def _home(self, timeline: str) -> Store:
        return self._part(self.part_of(timeline))

    def _all(self) -> list[Store]:
        return [self._part(number) for number in range(len(self.parts))]

    def _under_leases(
        self, verb: str, items: Sequence["UnderLease"], call: Callable[[Store, list[Any]], list[Answer]]
    ) -> list[Answer]:
        return self._spread(verb, items, call, key=lambda item: item.lease.timeline)

    def _spread(
        self,
        verb: str,
        items: Sequence[Item],
        call: Callable[[Store, list[Any]], list[Answer]],
        *,
        key: Callable[[Item], str],
    ) -> list[Answer]:
        """Give each part its share of a batch, and put the answers back in the order of the batch."""
        self._watch(verb, len(items))
        if len(self.parts) == 1:
            return call(self._part(0), list(items))
        shares: dict[int, list[int]] = {}
        for place, item in enumerate(items):
            shares.setdefault(self.part_of(key(item)), []).append(place)
        answers: dict[int, Any] = {}
        failure: StoreError | None = None
        for number, places in shares.items():
            try:
                given = call(self._part(number), [items[place] for place in places])
            except StoreError as error:
                failure = error
            else:
                answers.update(zip(places, given, strict=True))
        if failure is not None:
            raise failure.knowing(_known(answers.get(place)) for place in range(len(items)))
        return [answers[place] for place in range(len(items))]

    def _watch(self, verb: str, size: int) -> None:
        self.largest[verb] = max(self.largest[verb], size)

    def _without_lost(self, page: Taken) -> Taken:
        return page._replace(records=list(map(self._without_value, page.records)))

    def _without_value(self, record: Stored) -> Stored:
        return record._replace(payload=None) if record.key in self.lost else record


class UnderLease(Protocol):
    """A request under a lease."""

    @property
    def lease(self) -> Lease: ...


def _every_letter(store: Store, timeline: str | None) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    while page := store.letters(timeline, after=letters[-1].id if letters else None, limit=100):
        letters += page
    return letters


def _sum_of(ledgers: Iterable[Ledger]) -> Ledger:
    return Ledger(**_added_up({name: getattr(ledger, name) for name in COUNTERS} for ledger in ledgers))


def _added_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _known(answer: Any) -> bool | None:
    """The answer in the form that an error carries."""
    known: bool | None = answer.ready if isinstance(answer, Accepted) else answer
    return known


def _end(slot: Slot) -> Millis:
    return slot.at if slot.until is None else slot.until
