"""Failures: why the latest attempt of each timeline failed, kept in the store until its digest has ended."""

from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from digestif.attempts.stages import Judged, JudgedCompleted
from digestif.core.failures import FailedAttempt
from digestif.core.machine import Slot
from digestif.core.times import Millis, to_seconds
from digestif.core.verdicts import Ending, Unavailable
from digestif.stores.base import Store
from digestif.stores.damage import UNDECODABLE
from digestif.stores.documents import DOCUMENTS_PAGE, Bounds, Document

COLLECTION = "failures"  # of documents, whose keys are timelines
BOUNDS = Bounds(entries=1000, age=7 * 86_400_000)
LAST = (Ending.DELIVERED, Ending.BURIED, Ending.DISCARDED)  # endings after which a digest does not come again
LOOKED_AT = 50  # kept failures that `latest_failures` reads to find some of unfinished digests


class _Body(msgspec.Struct):
    digest_id: str
    attempt: int
    attempts: int
    counted: bool
    reason: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Body).decode


def keep_failures(store: Store, failed: Sequence[Judged], *, now: Millis | None) -> None:
    """Keep why attempts failed, with one store call for each. Errors are ignored: nothing depends on it."""
    with suppress(Exception):  # the first error ends it: a store that does not answer must not hold up deliveries
        for judged in failed:
            store.keep(COLLECTION, _document(store, judged), bounds=BOUNDS, replace=True, now=now)


def forget_failures_of(store: Store, judged: Sequence[Judged]) -> None:
    """Forget the failures of digests that are about to end, with one store call for each.

    It comes before they end, so that no failure stays behind if the process dies in between.
    """
    with suppress(Exception):  # as above
        for each in judged:
            store.forget(COLLECTION, each.held.timeline)


def ends_failures(judged: Judged) -> bool:
    """Return True if the attempt ends its digest, and an earlier attempt of the digest may have failed.

    A block that raised counts as an attempt, but the lease has no time of it.
    """
    has_failed = judged.held.lease.tried is not None or judged.held.lease.attempt > 1
    return has_failed and judged.verdict.ending in LAST and not isinstance(judged, JudgedCompleted)


def forget_expired_failures(store: Store, expired: Collection[str], *, now: Millis | None) -> None:
    """Forget the failures of expired digests, as far as they are among the latest."""
    with suppress(Exception):  # as above
        for document in store.documents(COLLECTION, limit=DOCUMENTS_PAGE, now=now) if expired else ():
            if document.key in expired and store.inspect(document.key).digest is None:
                store.forget(COLLECTION, document.key)


def is_failure(judged: Judged) -> bool:
    """Return True if an attempt was made and failed, other than by an outage, which is noted elsewhere.

    Empty digests and digests without a lease do not count: they do not come again, so that the failure would stay.
    """
    verdict = judged.verdict
    failed = verdict.ending is Ending.FAILED or (
        verdict.ending is Ending.PUT_OFF and verdict.unknown and not isinstance(verdict.error, Unavailable)
    )
    return failed and judged.carried.records > 0 and not isinstance(judged, JudgedCompleted)


def _document(store: Store, judged: Judged) -> Document:
    lease, verdict = judged.held.lease, judged.verdict
    counted = verdict.ending is Ending.FAILED
    body = _Body(lease.digest_id, lease.attempt, judged.claimed.policy.attempts, counted, verdict.reason)
    return Document(lease.timeline, _encode(body), lease.timeline, ring=store.tenants().of(lease.timeline))


def forget_failures(store: Store) -> None:
    """Forget all failures, when no digest is left in the store."""
    while page := store.documents(COLLECTION, limit=DOCUMENTS_PAGE, now=0):  # at time 0 none is too old
        for document in page:
            store.forget(COLLECTION, document.key)


def failure_of(store: Store, timeline: str, slot: Slot, *, now: Millis) -> FailedAttempt | None:
    """Return why the latest attempt of the timeline's unfinished digest failed; None if none has failed."""
    document = None if slot.digest is None else store.kept(COLLECTION, timeline, now=now)
    found = None if document is None else _read(document, now=now)
    return found if found is not None and found.is_about(slot.digest) else None


def latest_failures(store: Store, *, limit: int, now: Millis) -> list[FailedAttempt]:
    """Return the latest failures of unfinished digests, latest first. At most LOOKED_AT kept failures are read."""
    failures: list[FailedAttempt] = []
    for document in store.documents(COLLECTION, limit=LOOKED_AT, now=now):
        found = _read(document, now=now)
        if found is not None and found.is_about(store.inspect(found.timeline).digest):
            failures.append(found)
        if len(failures) == limit:
            break
    return failures


def _read(document: Document, *, now: Millis) -> FailedAttempt | None:
    try:
        body = _decode(document.body)
    except UNDECODABLE:
        return None
    ago = to_seconds(max(0, now - document.at))
    return FailedAttempt(timeline=document.key, at=to_seconds(document.at), ago=ago, **msgspec.structs.asdict(body))
