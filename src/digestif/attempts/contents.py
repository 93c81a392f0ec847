"""The contents of a digest: its records, read page by page and decoded. Those that can't be decoded are quarantined."""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from types import MappingProxyType

from digestif.attempts.room import Room
from digestif.attempts.stages import Carried, Claimed
from digestif.attempts.steps import Call, Steps
from digestif.core.capacity import Cursor, Stored, within_bytes
from digestif.core.policy import Policy
from digestif.core.records import Digest, Record
from digestif.errors import StoreError
from digestif.events.attempts import Quarantined
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, QuarantinedRecord, Store, Take, Taken
from digestif.stores.codec import Sealer, read_timestamp

NO_PAGES: Mapping[str, Taken] = MappingProxyType({})


class Progress(Enum):
    """How far a digest was read."""

    PARTLY = "partly"
    WHOLE = "whole"
    LOST = "lost"  # its lease was


class Reading:
    """The stored records of a claimed digest, as far as they were read."""

    __slots__ = ("after", "claimed", "dropped", "progress", "revision", "stored", "weight")

    def __init__(self, claimed: Claimed) -> None:
        self.claimed = claimed
        self.clear()

    def clear(self) -> None:
        self.stored: list[Stored] = []
        self.weight = 0  # bytes, about as many as the decoded records take in memory
        self.after: Cursor | None = None  # where the next page begins
        self.progress = Progress.PARTLY
        self.revision, self.dropped = 1, 0

    def add(self, page: Taken | None, sealer: Sealer) -> None:
        """Keep a page that the store gave; None says that the lease is lost."""
        if page is None:
            self.progress = Progress.LOST
            return
        if self.stored:
            self.stored += page.records
        else:
            self.stored = page.records  # most digests are one page: no copy
        self.weight += sum([sealer.decoded_size(record.payload) for record in page.records if record.payload])
        self.after, self.revision, self.dropped = page.after, page.revision, page.dropped
        self.progress = Progress.WHOLE if page.complete else Progress.PARTLY

    def carried(self) -> Carried:
        """Return the counts of a digest whose records were not decoded."""
        return Carried(len(self.stored), self.dropped, () if self.progress is Progress.WHOLE else None)


def read(
    store: Store, readings: Sequence[Reading], *, room: Room, sealer: Sealer, pages: Mapping[str, Taken] = NO_PAGES
) -> Steps[None]:
    """Read digests in order. Once the room is full, begin no further one.

    If memory is full, only the first digest is read to its end. `pages` has the digests, by id, that the claim has
    read along.
    """
    records = weight = 0
    for reading in readings if pages else ():
        page = pages.get(reading.claimed.held.lease.digest_id)
        if page is None or not _needs_no_trimming(reading.claimed.policy, page):
            continue
        if room.is_full(records=records, weight=weight):
            break
        reading.add(page, sealer)
        records, weight = records + len(reading.stored), weight + reading.weight
    while wanted := _still_to_read(readings, room):
        requests = [_request(reading) for reading in wanted]
        answers = yield Call("take", partial(store.take, requests, now=wanted[0].claimed.held.now()))
        for reading, answer in zip(wanted, answers, strict=True):
            reading.add(answer, sealer)


def read_each(
    store: Store, readings: Sequence[Reading], *, room: Room, sealer: Sealer, pages: Mapping[str, Taken]
) -> Steps[dict[Reading, Exception]]:
    """Read digests, and return the errors of those that failed: one that is too large for memory fails alone.

    Raises StoreError if the store does not answer.
    """
    failed: dict[Reading, Exception] = {}
    try:
        yield from read(store, readings, room=room, sealer=sealer, pages=pages)
    except StoreError:
        raise
    except Exception:  # noqa: BLE001  # one of them is to blame: read them one by one
        for reading in readings:
            reading.clear()
        for reading in readings:
            if _fills(readings, room):
                break
            try:
                yield from read(store, [reading], room=room, sealer=sealer)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001  # judged as if its handler had failed
                reading.clear()
                failed[reading] = error
    return failed


def _request(reading: Reading) -> Take:
    policy = reading.claimed.policy
    return Take(
        reading.claimed.held.lease, policy.capacity, merge=True, after=reading.after, max_bytes=policy.max_bytes
    )


def _still_to_read(readings: Sequence[Reading], room: Room) -> list[Reading]:
    wanted = [reading for reading in readings if reading.progress is Progress.PARTLY]
    if not wanted or not _fills(readings, room):
        return wanted
    is_heavy = room.is_heavy(sum(each.weight for each in readings))
    return [each for each in wanted if each.stored and (each is readings[0] or not is_heavy)]


def _fills(readings: Sequence[Reading], room: Room) -> bool:
    records = weight = 0
    for each in readings:
        records, weight = records + len(each.stored), weight + each.weight
    return room.is_full(records=records, weight=weight)


def _needs_no_trimming(policy: Policy, page: Taken) -> bool:
    many = len(page.records)
    within_capacity = policy.capacity is None or many <= policy.capacity
    return within_capacity and within_bytes(page.records, policy.max_bytes) == many


def finish_merge(claimed: Claimed) -> Steps[int]:
    """Let the store finish a merge that an earlier attempt began, and return the number of records in the digest.

    The records are dropped: no handler sees them.
    """
    held, records, is_complete = claimed.held, 0, False
    after: Cursor | None = None
    while not is_complete:
        request = Take(held.lease, claimed.policy.capacity, merge=True, after=after)
        [page] = yield Call("take", partial(held.store.take, [request], now=held.now()))
        if page is None:  # the lease is lost: the call that ends the attempt says so
            break
        records, after, is_complete = records + len(page.records), page.after, page.complete
    return records


def unpack(reading: Reading, sealer: Sealer) -> Steps[tuple[Digest, list[Quarantined]]]:
    """Decode the records of a digest. Quarantine those that can't be decoded as dead letters, with an event for each.

    Raises StaleLease if the lease is lost before that is done.
    """
    quarantined: list[Quarantined] = []
    records, broken = decode(reading.stored, sealer)
    while broken:
        quarantined += yield from _quarantine(reading.claimed, broken)
        reading.clear()  # the digest may have another revision now
        yield from read(reading.claimed.held.store, [reading], room=Room(), sealer=sealer)
        if reading.progress is Progress.LOST:
            raise reading.claimed.held.stale()
        records, broken = decode(reading.stored, sealer)
    lease = reading.claimed.held.lease
    digest = Digest(lease.timeline, lease.digest_id, reading.revision, lease.attempt, reading.dropped, tuple(records))
    reading.stored.clear()  # in place: the page shares the list, and lives until all its digests are decoded
    return digest, quarantined


def _quarantine(claimed: Claimed, broken: Sequence[tuple[str, str]]) -> Steps[list[Quarantined]]:
    letters = [QuarantinedRecord(key, fresh_id(), reason) for key, reason in broken]
    held = claimed.held
    for start in range(0, len(letters), PAGE_RECORDS):
        page = letters[start : start + PAGE_RECORDS]
        if not (yield Call("quarantine", partial(held.store.quarantine, held.lease, page, now=held.now()))):
            raise held.stale()
    return [Quarantined(timeline=held.timeline, key=key, letter_id=of, reason=why) for key, of, why in letters]


def decode(stored: Sequence[Stored], sealer: Sealer) -> tuple[list[Record], list[tuple[str, str]]]:
    """Return the records whose values can be read, and key and reason of those whose values can't."""
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
