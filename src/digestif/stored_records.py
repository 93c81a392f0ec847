"""Reads the stored records of timelines and dead letters, page by page, within a bound of bytes, and decodes them."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

from digestif.attempts.contents import decode
from digestif.core.capacity import Cursor, Stored, age_order, merged, weight_of, within_bytes
from digestif.core.machine import is_live
from digestif.core.policy import Policy
from digestif.core.records import Record, State, check_timeline
from digestif.core.times import to_millis
from digestif.engine import Engine
from digestif.intake.arrivals import check_limit, check_text
from digestif.stores.base import PAGE_RECORDS
from digestif.stores.reader import Part

FIRST_PAGE = 32  # records of the first page if bytes are bounded; each further page is twice as large


class StoredPage(NamedTuple):
    """Records as they are stored."""

    records: list[Stored]  # newest first
    total: int  # about how many there are; exact if `records` has them all


def peek_stored(
    engine: Engine, key: str, limit: int | None, *, max_bytes: int | None = None, now: float | None = None
) -> StoredPage:
    """Read the records that the next digest would carry, without decoding them.

    Return at least one record, and further ones up to `max_bytes`. Not much more is read.
    """
    slot = engine.store.inspect(check_timeline(key))
    digest, policy = slot.digest, engine.policies.in_force(key, slot.override).policy
    if digest is None or is_live(slot, now=to_millis(engine.intake.seconds(now))):
        parts, count = [Part.PENDING], slot.pending
    elif digest.frozen or slot.state is State.OPEN:
        parts, count = [Part.DIGEST], digest.records
    else:
        parts, count = [Part.DIGEST, Part.PENDING], digest.records + slot.pending
    read = [_read(partial(engine.store.records, key, part), _checked_limit(limit), max_bytes) for part in parts]
    carried = read[0].records
    if parts != [Part.DIGEST]:
        *older, newer = (page.records for page in read)
        carried = _within_max_bytes(merged(chain(*older), newer, capacity=policy.capacity), policy)
    if all(page.is_whole for page in read):
        count = len(carried)
    elif policy.capacity is not None:
        count = min(count, policy.capacity)
    shown = carried[:limit]
    return StoredPage(shown[: within_bytes(shown, max_bytes)], total=max(count, len(shown)))


def dead_stored(engine: Engine, digest_id: str, limit: int | None, *, max_bytes: int | None = None) -> list[Stored]:
    """Read the records of a dead letter, without decoding them.

    Return at least one record, and further ones up to `max_bytes`.
    """
    letter_id = check_text("digest_id", digest_id)
    found = _read(partial(engine.store.letter_records, letter_id), _checked_limit(limit), max_bytes).records
    return found[: within_bytes(found, max_bytes)]


def decoded(engine: Engine, records: Sequence[Stored]) -> list[Record]:
    """Decode records, and leave out records whose values can't be decoded."""
    return decode(records, engine.sealer)[0]


def _checked_limit(limit: int | None) -> int | None:
    """Return the limit if it is valid; None means no limit. Raises ConfigError otherwise."""
    if limit is not None:
        check_limit("limit", limit)
    return limit


def _within_max_bytes(newest_first: list[Stored], policy: Policy) -> list[Stored]:
    """Return the newest records, up to the policy's `max_bytes`."""
    return newest_first[: within_bytes(newest_first, policy.max_bytes)]


class _Read(NamedTuple):
    records: list[Stored]  # newest first
    is_whole: bool  # there are no further records


class _ReadPage(Protocol):
    def __call__(self, *, after: Cursor | None, limit: int) -> list[Stored]: ...


def _read(read: _ReadPage, limit: int | None, max_bytes: int | None) -> _Read:
    """Read pages until there are no more records, or one of the limits is reached.

    With `max_bytes`, the first pages are small, so that large values exceed it by little.
    """
    found: list[Stored] = []
    weight, size = 0, PAGE_RECORDS if max_bytes is None else FIRST_PAGE
    while (limit is None or len(found) < limit) and (max_bytes is None or weight < max_bytes):
        left = PAGE_RECORDS if limit is None else limit - len(found)
        page = read(after=age_order(found[-1]) if found else None, limit=min(size, left, PAGE_RECORDS))
        if not page:
            return _Read(found, is_whole=True)
        found += page
        weight, size = weight + weight_of(page), 2 * size
    return _Read(found, is_whole=False)
