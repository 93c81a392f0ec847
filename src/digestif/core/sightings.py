"""Sightings: what became of records, or may have where no key is kept, and how that reads in words."""

from collections.abc import Callable, Iterator, Sequence

from digestif.core.machine import Slot
from digestif.core.records import Fate, HistoryEntry, Outcome, Sighting
from digestif.core.removals import Removals
from digestif.core.times import instant_text, to_seconds

NONE_KEPT = "keep left no record"  # the reason for which a digest is discarded


def fate_in(entry: HistoryEntry) -> Fate:
    """What became of the records whose keys an entry of the history has."""
    none_kept = entry.outcome is Outcome.DISCARDED and (entry.reason or "").endswith(NONE_KEPT)
    return Fate.LEFT_OUT if none_kept else Fate(entry.outcome)


def possible_fates(
    slot: Slot, history: Sequence[HistoryEntry], removals: Removals, *, after: float | None, kept_keys: int
) -> Iterator[Sighting]:
    """What may have become of a record whose last known version ended at `after`; None: there is none.

    `kept_keys` is how many keys an entry of the history has at most. Each fate comes once: times and number of records
    cover all digests that are kept, and the digest is the latest of them.
    """
    own, digest = slot.override, slot.digest
    if own is not None and own.off:
        yield Sighting(Fate.DECLINED, certain=False, since=to_seconds(own.since))
    later = [entry for entry in history if after is None or entry.ended > after]
    dropped = slot.dropped + (0 if digest is None else digest.dropped)
    if dropped:
        yield Sighting(Fate.DROPPED, certain=False, records=dropped + sum(entry.dropped for entry in later))
    else:
        yield from _in_digests(Fate.DROPPED, [(entry, entry.dropped) for entry in later])
    if removals.last_expired is not None and (after is None or to_seconds(removals.last_expired) > after):
        yield _expired(removals)
    else:
        yield from _in_digests(Fate.EXPIRED, _without_keys(later, Outcome.EXPIRED))
    for outcome in (Outcome.DELIVERED, Outcome.DISCARDED):  # dead letters know all of their records
        yield from _in_digests(Fate(outcome), _without_keys(later, outcome))
    for entry in later:
        if len(entry.left_out) >= kept_keys:
            yield Sighting(Fate.LEFT_OUT, entry.id, entry.ended, certain=False, since=entry.opened)
            return


def _without_keys(history: Sequence[HistoryEntry], outcome: Outcome) -> list[tuple[HistoryEntry, int]]:
    """Return the digests with this outcome, and for each how many record keys the history lacks."""
    return [(entry, entry.records - len(entry.keys)) for entry in history if entry.outcome is outcome]


def _in_digests(fate: Fate, found: Sequence[tuple[HistoryEntry, int]]) -> Iterator[Sighting]:
    """Sum up digests, latest first, in one sighting: how many of their records had this fate and have no key kept."""
    counted = [(entry, records) for entry, records in found if records > 0]
    if counted:
        latest, earliest = counted[0][0], counted[-1][0]
        records = sum(count for _, count in counted)
        yield Sighting(fate, latest.id, latest.ended, False, None if fate is Fate.DROPPED else earliest.opened, records)


def _expired(removals: Removals) -> Sighting:
    assert removals.first_expired is not None
    assert removals.last_expired is not None
    since, until = to_seconds(removals.first_expired), to_seconds(removals.last_expired)
    return Sighting(Fate.EXPIRED, ended=until, certain=False, since=since, records=removals.expired)


def in_words(sighting: Sighting, *, time: Callable[[float], str] = instant_text) -> str:
    """Say a sighting in plain words, with times as `time` writes them."""
    digest = f"the digest {sighting.digest_id}"
    at = "" if sighting.ended is None else f", {time(sighting.ended)}"
    if not sighting.certain:
        return _possibility(sighting, time)
    match sighting.fate:
        case Fate.PENDING:
            return "pending: it goes out with the next digest"
        case Fate.OPEN:
            return f"in {digest}, which has not ended yet"
        case Fate.DEAD:
            return f"in the dead letter {sighting.digest_id}{at}"
        case Fate.LEFT_OUT:
            return f"left out of {digest} by a `keep` hook{at}"
        case Fate.RETRACTED:
            return f"retracted{at}"
        case fate:
            return f"{fate} with {digest}{at}"


def _possibility(sighting: Sighting, time: Callable[[float], str]) -> str:
    fate, digest_id, ended, _, since, records = sighting
    many = "1 record" if records == 1 else f"{records:,} records" if records else "records"
    start, end = (None if at is None else time(at) for at in (since, ended))
    match fate:
        case Fate.DECLINED:
            off = "the timeline was switched off, which deleted what was pending"
            return f"it may have been deleted or declined: {off}, {start}"
        case Fate.DROPPED:
            where = "since the last digest" if digest_id is None else f"up to the digest {digest_id}, {end}"
            return f"it may have been dropped: {many} did not fit, the oldest by timestamp, {where}"
        case Fate.EXPIRED if digest_id is None:
            return f"it may have expired: {many} did, from {start} to {end}"
        case Fate.LEFT_OUT:
            return f"it may have been left out by a `keep` hook: not all keys of the digest {digest_id} are kept, {end}"
        case Fate.FORGOTTEN:
            return f"it may be older than what is kept: what ended before {end} is forgotten"
        case _:
            return f"it may have been {fate}: {many} of large digests have no key, up to the digest {digest_id}, {end}"
