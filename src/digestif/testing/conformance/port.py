"""Helpers of the tests that act at the level of the port. Times in milliseconds."""

from collections.abc import Iterable, Iterator
from typing import Any

from digestif.core.capacity import Cursor, Stored, weight_of
from digestif.core.terms import Terms
from digestif.ids import fresh_id
from digestif.stores.base import (
    PAGE_BYTES,
    PAGE_RECORDS,
    Arrival,
    Burial,
    ClaimPage,
    Completion,
    Lease,
    Maintained,
    Release,
    Requeue,
    Requeued,
    Store,
    SuspectGroup,
    Take,
    Taken,
)
from digestif.stores.reader import Part

NOW = 1_700_000_000_000
LEASE = 30_000
LONG_AGO = 0  # a deadline at which nothing was ready: maintenance with it lets only lapsed ones wait
ROUNDS = 1_000  # more than any loop of these tests needs: a store that never ends fails instead of hanging


def arrive(
    store: Store,
    timeline: str,
    record_keys: Iterable[str],
    *,
    now: int = NOW,
    timestamp: float | None = None,
    within: int | None = None,
    **terms: Any,
) -> list[bool]:
    """Add records of these keys, each a second newer than the last unless they have a timestamp; in pages."""
    arrivals = [
        Arrival(timeline, key, key.encode(), float(n) if timestamp is None else timestamp, within, Terms(**terms))
        for n, key in enumerate(record_keys)
    ]
    pages = range(0, len(arrivals), PAGE_RECORDS)
    return [answer.ready for page in pages for answer in store.add(arrivals[page : page + PAGE_RECORDS], now=now)]


def arrive_everywhere(store: Store, timelines: Iterable[str], *, now: int = NOW, **terms: Any) -> None:
    """Add one record to each timeline."""
    same = Terms(**terms)
    arrivals = [Arrival(timeline, "a", b"a", 0.0, None, same) for timeline in timelines]
    for page in range(0, len(arrivals), PAGE_RECORDS):
        store.add(arrivals[page : page + PAGE_RECORDS], now=now)


def claim(store: Store, partition: int, limit: int, *, now: int = NOW) -> ClaimPage:
    """Claim once, with a fresh token."""
    claimed = store.claim(partition, limit, token=fresh_id(), lease=LEASE, now=now)
    assert len(claimed.leases) <= limit
    return claimed


def claim_all(store: Store, *, limit: int = 200, now: int = NOW) -> list[Lease]:
    """Claim everything that can be claimed, partition by partition."""
    leases: list[Lease] = []
    for partition in range(store.partitions):
        for _ in range(ROUNDS):
            claimed = claim(store, partition, limit, now=now)
            leases += claimed.leases
            if not claimed.leases and not claimed.retired:
                break
        else:
            raise AssertionError("claims do not end")
    return leases


def claim_suspects(store: Store, *, alone: bool = False, now: int = NOW + LEASE) -> list[Lease]:
    """Claim suspects in each partition, a group of one if `alone`; by default when leases of NOW have just lapsed."""
    group = SuspectGroup(1, 1) if alone else SuspectGroup(8, 8, alone=False)
    claims = [
        store.claim_suspects(partition, group, token=fresh_id(), lease=LEASE, now=now)
        for partition in range(store.partitions)
    ]
    assert all(len(claimed.leases) <= claimed.size <= group.size for claimed in claims)
    return [lease for claimed in claims for lease in claimed.leases]


def take_all(
    store: Store,
    lease: Lease,
    *,
    capacity: int | None = None,
    merge: bool = True,
    max_bytes: int | None = None,
    now: int | None = NOW,
) -> Taken:
    """Take a whole digest, page by page."""
    records: list[Stored] = []
    request = Take(lease, capacity, merge, max_bytes=max_bytes)
    for _ in range(ROUNDS):
        [page] = store.take([request], now=now)
        assert page is not None, "the token is stale"
        assert len(page.records) <= PAGE_RECORDS
        assert weight_of(page.records[:-1]) < PAGE_BYTES
        records += page.records
        if page.complete:
            return page._replace(records=records)
        request = request._replace(after=page.after)
    raise AssertionError("the digest does not end")


def open_lease(store: Store, timeline: str = "t", *, now: int = NOW, alone: bool = False) -> Lease:
    """Open a timeline, with a fresh token."""
    return store.open(timeline, token=fresh_id(), lease=LEASE, now=now, alone=alone)


def open_and_take(store: Store, timeline: str, *, now: int = NOW, **options: Any) -> Taken:
    return take_all(store, open_lease(store, timeline, now=now), now=now, **options)


def open_digest(store: Store, timeline: str = "t", *, now: int = NOW) -> Lease:
    """Open a timeline and take its records, as a worker does before it delivers."""
    lease = open_lease(store, timeline, now=now)
    take_all(store, lease, now=now)
    return lease


def complete(store: Store, lease: Lease, *, cool_down: int = 0, now: int = NOW, max_records: int | None = None) -> bool:
    [is_completed] = store.complete([Completion(lease, cool_down, max_records)], now=now)
    return is_completed


def release(store: Store, lease: Lease, *, until: int | None = None, now: int = NOW, **how: bool) -> bool:
    [released] = store.release([Release(lease, until, **how)], now=now)
    return released


def bury(
    store: Store,
    record_keys: Iterable[str],
    timeline: str = "t",
    *,
    timestamp: float | None = None,
    now: int = NOW,
    **options: Any,
) -> str:
    """Add records, deliver them in vain, and give the id of the dead letter; the timeline waits, due now."""
    arrive(store, timeline, record_keys, now=now, timestamp=timestamp)
    store.flush(timeline, now=now)
    lease = open_digest(store, timeline, now=now)
    assert store.bury([Burial(lease, "poison", 0, **options)], now=now) == [True]
    return lease.digest_id


def requeue(
    store: Store,
    letter_id: str,
    *,
    delay: int = 60_000,
    force: bool = False,
    limit: int = PAGE_RECORDS,
    now: int = NOW,
    **terms: Any,
) -> list[Requeued]:
    """Requeue a dead letter whole, page by page; each page leaves the counts in order."""
    request = Requeue(letter_id, Terms(**terms), delay, force)
    pages: list[Requeued] = []
    for _ in range(ROUNDS):
        page = store.requeue(request, limit=limit, now=now)
        if page is None:
            return pages
        assert page.records <= limit
        pages.append(page)
        if not page.more:
            return pages
    raise AssertionError("the requeue does not end")


def let_wait(store: Store, timelines: Iterable[str], *, at: int) -> None:
    """Deliver a record of each timeline, so that it waits until `at` with nothing pending."""
    timelines = list(timelines)
    arrive_everywhere(store, timelines)
    for timeline in timelines:
        complete(store, open_digest(store, timeline), cool_down=at - NOW)


def maintain(store: Store, deadline: int | None = None, *, now: int = NOW, limit: int = 200) -> Maintained:
    """Maintain all partitions until there is no more to do; the answer is the sum."""
    total = Maintained([], [], [])
    for partition in range(store.partitions):
        for _ in range(ROUNDS):
            done = store.maintain(partition, deadline, limit=limit, now=now)
            total = Maintained(
                [*total.moved, *done.moved], [*total.lapsed, *done.lapsed], [*total.expired, *done.expired]
            )
            if not done.more:
                break
        else:
            raise AssertionError("maintenance does not end")
    return total


def expire(store: Store, *, now: int) -> int:
    """Maintain as a worker does; the answer is how many records expired."""
    return sum(count for _, count in maintain(store, now=now).expired)


def sweep(store: Store) -> None:
    assert any(not store.sweep() for _ in range(ROUNDS)), "sweeping does not end"


def delete(store: Store, timeline: str, *, now: int = NOW) -> int:
    """Delete a timeline whole; gives the number of calls that had something to do."""
    return next(calls for calls in range(ROUNDS) if not store.delete(timeline, now=now))


def stored(store: Store, timeline: str, part: Part, *, limit: int = 500) -> Iterator[Stored]:
    """All records of a timeline, page by page."""
    after = None
    while page := store.records(timeline, part, after=after, limit=limit):
        assert len(page) <= limit
        yield from page
        last = Cursor(page[-1].timestamp, page[-1].arrival)
        assert after is None or last < after, "a page does not go on where the last one ended"
        after = last


def record_keys(records: Iterable[Stored]) -> list[str]:
    return [record.key for record in records]


def seconds(millis: int) -> float:
    return millis / 1000


def numbers(start: int, stop: int) -> list[str]:
    return [f"r{n}" for n in range(start, stop)]


def everything(store: Store, timeline: str = "t") -> tuple[object, ...]:
    """All that can be seen of a timeline and of the counts."""
    return (
        store.inspect(timeline),
        store.ledger(),
        list(stored(store, timeline, Part.PENDING)),
        list(stored(store, timeline, Part.DIGEST)),
        store.letters(None, after=None, limit=100),
        store.history(None, limit=100),
        dict(store.footprint()),
    )
