"""A store with timelines in every state, and what can be seen of it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from digestif import Digests, Policy, Record, Store
from digestif.core.capacity import Cursor, Stored, age_order
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter
from digestif.stores.base import Release
from digestif.stores.reader import Part

T = 1_900_000_000.0
POLICY = Policy(minimum_delay=300, increment_delay=30, maximum_delay=1800, capacity=None)
NOW = int((T + 1000) * 1000)


def populate(store: Store, *, each: int, records: int, large: int = 0) -> None:
    """`each` timelines of every kind with about so many records, the first of a kind with `large` if that is more."""
    digests = Digests(store, policy=POLICY)
    for kind, fill in _KINDS.items():
        for number in range(each):
            fill(digests, f"{kind}:{number:05}", max(records, large) if number == 0 else records)
    # Leases of 30 s that began at T + 500 have lapsed at NOW.


def _add(digests: Digests, timeline: str, count: int, *, now: float, within: float | None = None) -> None:
    # Three at a time have the same timestamp: ties have to keep their order.
    values = [{"n": n, "text": "é" * (n % 50)} for n in range(count)]
    rows = [(timeline, Record(f"{now:.0f}-{n:05}", value, T + n - n % 3)) for n, value in enumerate(values)]
    for start in range(0, count, 1000):
        digests.add_many(rows[start : start + 1000], now=now)
    if within is not None:
        digests.add(timeline, {"urgent": True}, key="urgent", timestamp=T, within=within, now=now)


def _ready(digests: Digests, timeline: str, count: int) -> None:
    _add(digests, timeline, count, now=T)


def _cooling(digests: Digests, timeline: str, count: int) -> None:
    _add(digests, timeline, 1, now=T)
    with digests.digest(timeline, now=T + 1):
        pass


def _waiting(digests: Digests, timeline: str, count: int) -> None:
    _cooling(digests, timeline, count)
    _add(digests, timeline, count, now=T + 100)
    _add(digests, timeline, 1, now=T + 100)  # supersedes


def _urgent(digests: Digests, timeline: str, count: int) -> None:
    _cooling(digests, timeline, count)
    _add(digests, timeline, count, now=T + 100, within=50)


def _failed(digests: Digests, timeline: str, count: int) -> None:
    """An unfinished digest in a ready timeline, and newer records beside it."""
    _add(digests, timeline, count, now=T)
    try:
        with digests.digest(timeline, now=T + 1):
            raise RuntimeError("no")
    except RuntimeError:
        pass
    _add(digests, timeline, 2, now=T + 2)


def _lapsed(digests: Digests, timeline: str, count: int) -> None:
    """Open, and its lease ran out."""
    _add(digests, timeline, count, now=T)
    digests.store.open(timeline, token=f"gone-{timeline}", lease=30_000, now=int((T + 500) * 1000))
    _add(digests, timeline, 2, now=T + 501)


def _suspect(digests: Digests, timeline: str, count: int) -> None:
    """Its lease lapsed twice, the second time while it was tried alone; then it failed."""
    _add(digests, timeline, count, now=T)
    for n, alone in enumerate((False, True, False)):
        at = int((T + n) * 1000)
        lease = digests.store.open(timeline, token=f"{n}-{timeline}", lease=1000, now=at, alone=alone)
    assert (lease.lapses, lease.lapses_alone) == (2, 1)
    digests.store.release([Release(lease, int((T + 400) * 1000))], now=at)


def _paused(digests: Digests, timeline: str, count: int) -> None:
    _add(digests, timeline, count, now=T)
    digests.pause(timeline, now=T)


def _flagged(digests: Digests, timeline: str, count: int) -> None:
    digests.pause(timeline, now=T)


def _dead(digests: Digests, timeline: str, count: int) -> None:
    """A dead letter, and a timeline that goes on."""
    strict = Digests(digests.store, policy=Policy(minimum_delay=300, capacity=None, attempts=1))
    _add(strict, timeline, count, now=T)
    try:
        with strict.digest(timeline, now=T + 1):
            raise RuntimeError("for the last time")
    except RuntimeError:
        pass
    _add(digests, timeline, 1, now=T + 2)


def _trimmed(digests: Digests, timeline: str, count: int) -> None:
    small = Digests(digests.store, policy=Policy(minimum_delay=300, capacity=3))
    _add(small, timeline, max(5, count // 2), now=T)


def _preferred(digests: Digests, timeline: str, count: int) -> None:
    """Nothing but what a person chose."""
    digests.prefer(timeline, "weekly", zone="Europe/Berlin", now=T)


def _aligned(digests: Digests, timeline: str, count: int) -> None:
    """With a policy of its own, whose window moved its due time."""
    digests.set_policy(timeline, Policy.daily("09:00", tz="Europe/Berlin", capacity=None), now=T)
    _add(digests, timeline, count, now=T + 1)


def _flushed(digests: Digests, timeline: str, count: int) -> None:
    """It passes its window."""
    _aligned(digests, timeline, count)
    digests.flush(timeline, now=T + 2)


def _off(digests: Digests, timeline: str, count: int) -> None:
    digests.prefer(timeline, "off", now=T)
    _add(digests, timeline, 2, now=T + 1)


def _deleted(digests: Digests, timeline: str, count: int) -> None:
    _add(digests, timeline, 2, now=T)
    digests.delete(timeline, now=T)


_KINDS = {
    fill.__name__[1:]: fill
    for fill in (
        *(_ready, _cooling, _waiting, _urgent, _failed, _lapsed, _suspect),
        *(_paused, _flagged, _dead, _trimmed, _deleted),
        *(_preferred, _aligned, _flushed, _off),
    )
}


class Seen(NamedTuple):
    """All of a timeline that does not depend on the store."""

    slot: Slot
    pending: list[tuple[Any, ...]]
    digest: list[tuple[Any, ...]]


def seen(store: Store) -> dict[str, Seen]:
    """Every timeline."""
    return {
        name: Seen(
            _bare(slot),
            [_told(record) for record in _all(store, name, Part.PENDING)],
            [_told(record) for record in _all(store, name, Part.DIGEST)],
        )
        for name, slot in _scan(store)
    }


def seen_letters(store: Store) -> list[tuple[DeadLetter, list[tuple[Any, ...]]]]:
    """Every dead letter with its records."""
    letters = store.letters(None, after=None, limit=100_000)
    return [(letter, [_told(record) for record in _of_letter(store, letter.id)]) for letter in letters]


def _scan(store: Store) -> Iterator[tuple[str, Slot]]:
    after = None
    while page := store.scan(prefix="", after=after, limit=200):
        after = page[-1][0]
        yield from page


def _all(store: Store, timeline: str, part: Part) -> Iterator[Stored]:
    after: Cursor | None = None
    while page := store.records(timeline, part, after=after, limit=1000):
        after = age_order(page[-1])
        yield from page


def _of_letter(store: Store, letter_id: str) -> Iterator[Stored]:
    after: Cursor | None = None
    while page := store.letter_records(letter_id, after=after, limit=1000):
        after = age_order(page[-1])
        yield from page


def _told(record: Stored) -> tuple[Any, ...]:
    return record.key, record.payload, record.timestamp


def _bare(slot: Slot) -> Slot:
    digest = slot.digest
    if digest is not None:
        digest = replace(digest, batch=0, merging=None)
    return replace(slot, batch=None, placed=0, digest=digest, expires=None, rule=slot.rule)
