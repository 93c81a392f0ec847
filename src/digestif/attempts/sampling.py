"""Samples in the store: one note for each hour, written by whichever process comes first in an interval.

A note that can't be read counts as none, and is written anew.
"""

from dataclasses import astuple

import msgspec

from digestif.core.backlog import Standing
from digestif.core.samples import HOUR, HOURS, INTERVAL, KEPT, MINUTE, HourNote, Sample, sample, with_counts
from digestif.core.times import Millis, to_millis
from digestif.stores.base import Store

COUNTED = 10_000  # timelines that are counted for each sample, where that means to read rows

_FIELDS = len(Sample.__dataclass_fields__)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HourNote).decode


class Sampler:
    """Notes a sample every ten seconds, unless another process has done so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: int | None = None  # the interval that needs nothing more

    def tick(self, now: Millis | None = None) -> bool:
        """Note a sample if the interval has none. True if this call noted it. Raises StoreError."""
        store = self._store
        at = store.time(0) if now is None else now
        if not store.enabled or self._last == at // INTERVAL:
            return False
        hour = at // HOUR
        noted = store.note(0, _name(hour))
        found = _found(noted, hour)
        self._last = at // INTERVAL
        if found.has(at):
            return False
        row = astuple(sample(store.ledger(), _standing(store, found, now=at), store.digests_delivered(), now=at))
        return store.swap_note(0, _name(hour), noted, _encode(found.with_row(row)))


def _standing(store: Store, hour: HourNote, *, now: Millis) -> Standing:
    """How many timelines there are. Many are counted once a minute; until then the counts of the last sample hold."""
    found = store.standing(now=now, most=COUNTED)
    if store.counts_at_once or max(found.timelines, found.due) < COUNTED:
        return found
    if hour.rows and to_millis(hour.rows[-1][0]) // MINUTE == now // MINUTE:
        return with_counts(found, _sample(hour.rows[-1]))
    return store.standing(now=now)


def samples(store: Store, *, since: Millis | None, now: Millis) -> list[Sample]:
    """The samples of the last day, the oldest first; those from `since` on if it is given."""
    first = max(now - KEPT, now - KEPT if since is None else since)
    hours = range(first // HOUR, now // HOUR + 1) if store.enabled else range(0)
    rows = [row for hour in hours for row in _found(store.note(0, _name(hour)), hour).rows]
    return [_sample(row) for row in rows if first <= to_millis(row[0]) <= now]


def _sample(row: tuple[float, ...]) -> Sample:
    return Sample(**dict(zip(Sample.__dataclass_fields__, row, strict=True)))  # type: ignore[arg-type]


def _name(hour: int) -> str:
    return f"samples:{hour % HOURS}"


def _found(noted: bytes | None, hour: int) -> HourNote:
    """The note of this hour; an empty one if there is none, or one of another day."""
    try:
        found = HourNote(hour) if noted is None else _decode(noted)
    except (msgspec.MsgspecError, UnicodeError):
        return HourNote(hour)
    return found if found.hour == hour and all(len(row) == _FIELDS for row in found.rows) else HourNote(hour)
