"""Samples in the store: a note for each hour. In each interval the first process adds a sample."""

from dataclasses import astuple

import msgspec

from digestif.core.backlog import Standing
from digestif.core.samples import HOUR, HOURS, INTERVAL, KEPT, MINUTE, HourNote, Sample, sample, with_counts
from digestif.core.times import Millis, to_millis
from digestif.stores.base import Store
from digestif.stores.note import Note

COUNTED = 10_000  # timelines that are counted for each sample by stores that must read their rows for it

_FIELDS = len(Sample.__dataclass_fields__)
_decode = msgspec.json.Decoder(HourNote).decode


class Sampler:
    """Notes a sample every ten seconds, unless another process has done so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: int | None = None  # the last interval that has a sample

    def tick(self, now: Millis | None = None) -> bool:
        """Note a sample if the interval has none. Return True if this call noted one. Raises StoreError."""
        store = self._store
        at = store.time(0) if now is None else now
        if not store.enabled or self._last == at // INTERVAL:
            return False
        self._last = at // INTERVAL  # first: a store that refuses the note is not surveyed again at each tick

        def with_sample(hour: HourNote) -> HourNote:
            if hour.has(at):
                return hour
            standing = _standing(store, hour, now=at)
            return hour.with_row(astuple(sample(store.ledger(), standing, store.digests_delivered(), now=at)))

        before, after = _hour_note(store, at // HOUR).update(with_sample)
        return before != after


def _standing(store: Store, hour: HourNote, *, now: Millis) -> Standing:
    """Count the timelines. If there are many, count once a minute, and use the last sample's counts in between."""
    found = store.standing(now=now, most=COUNTED)
    if store.counts_at_once or max(found.timelines, found.due) < COUNTED:
        return found
    if hour.rows and to_millis(hour.rows[-1][0]) // MINUTE == now // MINUTE:
        return with_counts(found, _sample(hour.rows[-1]))
    return store.standing(now=now)


def samples(store: Store, *, since: Millis | None, now: Millis) -> list[Sample]:
    """Return the samples of the last day, from `since` on if it is given, oldest first."""
    first = max(now - KEPT, now - KEPT if since is None else since)
    hours = range(first // HOUR, now // HOUR + 1) if store.enabled else range(0)
    rows = [row for hour in hours for row in _hour_note(store, hour).read().rows]
    return [_sample(row) for row in rows if first <= to_millis(row[0]) <= now]


def _sample(row: tuple[float, ...]) -> Sample:
    return Sample(**dict(zip(Sample.__dataclass_fields__, row, strict=True)))  # type: ignore[arg-type]


def _hour_note(store: Store, hour: int) -> Note[HourNote]:
    """Return the note of an hour. A note of another day, or with other fields, counts as empty."""
    empty = HourNote(hour)

    def decode(stored: bytes) -> HourNote:
        found = _decode(stored)
        return found if found.hour == hour and all(len(row) == _FIELDS for row in found.rows) else empty

    return Note(store, f"samples:{hour % HOURS}", decode=decode, empty=empty)
