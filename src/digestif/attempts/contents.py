"""What an attempt carries: read page by page, decoded, with the records that can't be decoded quarantined."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from digestif.attempts.attempt import Attempt, with_records
from digestif.attempts.room import Room
from digestif.core.capacity import Stored, within_bytes
from digestif.core.policy import Policy
from digestif.core.records import Record
from digestif.events.attempts import Quarantined
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, QuarantinedRecord, Store, Take, Taken
from digestif.stores.codec import Sealer, read_timestamp

NO_PAGES: Mapping[str, Taken] = MappingProxyType({})


def read(
    store: Store, attempts: Sequence[Attempt], *, room: Room, sealer: Sealer, pages: Mapping[str, Taken] = NO_PAGES
) -> None:
    """Read digests, the first ones first. Once the room is full, those of which nothing was read are left unread.

    If memory is what is full, only the first digest is read to its end.

    `pages` are digests, by their id, that the claim has read along.
    """
    records = weight = 0
    for attempt in attempts:
        page = pages.get(attempt.lease.digest_id)
        if page is None or not _needs_no_trimming(attempt.policy, page):
            continue
        if room.is_full(records=records, weight=weight):
            break
        _note(attempt, page, sealer)
        records, weight = records + len(attempt.stored), weight + attempt.weight
    while reading := _still_to_read(attempts, room):
        answers = store.take([_request(attempt) for attempt in reading], now=reading[0].now())
        for attempt, answer in zip(reading, answers, strict=True):
            if answer is None:
                attempt.is_lost = True
            else:
                _note(attempt, answer, sealer)


def _still_to_read(attempts: Sequence[Attempt], room: Room) -> list[Attempt]:
    reading = [attempt for attempt in attempts if not attempt.is_read and not attempt.is_lost]
    if not reading:
        return reading
    records, weight = sum(len(attempt.stored) for attempt in attempts), sum(attempt.weight for attempt in attempts)
    if not room.is_full(records=records, weight=weight):
        return reading
    return [attempt for attempt in reading if attempt.stored and (attempt is attempts[0] or not room.is_heavy(weight))]


def _needs_no_trimming(policy: Policy, page: Taken) -> bool:
    many = len(page.records)
    within_capacity = policy.capacity is None or many <= policy.capacity
    return within_capacity and within_bytes(page.records, policy.max_bytes) == many


def _note(attempt: Attempt, page: Taken, sealer: Sealer) -> None:
    attempt.stored += page.records
    attempt.weight += sum([sealer.decoded_size(record.payload) for record in page.records if record.payload])
    attempt.after, attempt.is_read = page.after, page.complete
    _note_header(attempt, page)


def finish_merge(attempt: Attempt) -> None:
    """Let the store finish a merge that an earlier attempt began. The records are counted, and none is kept."""
    after, is_over = None, False
    while not is_over:
        request = Take(attempt.lease, attempt.policy.capacity, merge=True, after=after)
        [page] = attempt.store.take([request], now=attempt.now())
        is_over = page is None or page.complete
        if page is not None:
            attempt.counted += len(page.records)
            after = page.after


def _request(attempt: Attempt) -> Take:
    policy = attempt.policy
    return Take(attempt.lease, policy.capacity, merge=True, after=attempt.after, max_bytes=policy.max_bytes)


def _note_header(attempt: Attempt, page: Taken) -> None:
    digest = attempt.digest
    if digest.revision != page.revision or digest.dropped != page.dropped:
        attempt.digest = replace(digest, revision=page.revision, dropped=page.dropped)


def unpack(attempt: Attempt, sealer: Sealer) -> list[Quarantined]:
    """Decode what was read. Records that can't be decoded become dead letters of their own; the answer is their events.

    Raises StaleLease if the lease is lost meanwhile.
    """
    quarantined: list[Quarantined] = []
    records, broken = decode(attempt.stored, sealer)
    while broken:
        quarantined += _quarantine(attempt, broken)
        _read_anew(attempt, sealer)  # it may have another revision now
        records, broken = decode(attempt.stored, sealer)
    attempt.stored = []
    attempt.digest = with_records(attempt.digest, tuple(records))
    return quarantined


def _read_anew(attempt: Attempt, sealer: Sealer) -> None:
    attempt.clear_pages()
    read(attempt.store, [attempt], room=Room(), sealer=sealer)
    if attempt.is_lost:
        raise attempt.stale()


def _quarantine(attempt: Attempt, broken: Sequence[tuple[str, str]]) -> list[Quarantined]:
    letters = [QuarantinedRecord(key, fresh_id(), reason) for key, reason in broken]
    for start in range(0, len(letters), PAGE_RECORDS):
        page = letters[start : start + PAGE_RECORDS]
        if not attempt.store.quarantine(attempt.lease, page, now=attempt.now()):
            raise attempt.stale()
    return [Quarantined(timeline=attempt.timeline, key=key, letter_id=of, reason=why) for key, of, why in letters]


def decode(stored: Sequence[Stored], sealer: Sealer) -> tuple[list[Record], list[tuple[str, str]]]:
    """The records whose values can be read, and key and reason of those whose values can't."""
    records: list[Record] = []
    broken: list[tuple[str, str]] = []
    for item in stored:
        try:
            value = sealer.unseal(item.payload)
        except ValueError as error:
            broken.append((item.key, str(error)))
        else:
            records.append(Record(item.key, value, read_timestamp(item)))
    return records, broken
