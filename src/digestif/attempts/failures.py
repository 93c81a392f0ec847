"""Why attempts failed: the latest failure of each timeline, kept in the store for people to see until it is over."""

from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from digestif.attempts.attempt import Attempt
from digestif.attempts.submission import Judged
from digestif.core.failures import FailedAttempt
from digestif.core.machine import Slot
from digestif.core.times import Millis, to_seconds
from digestif.core.verdicts import Ending, Unavailable, Verdict
from digestif.stores.base import Store
from digestif.stores.documents import DOCUMENTS_PAGE, Bounds, Document

COLLECTION = "failures"  # of documents, by timeline
BOUNDS = Bounds(entries=1000, age=7 * 86_400_000)
LAST = (Ending.DELIVERED, Ending.BURIED, Ending.DISCARDED)
LOOKED_AT = 50  # of the latest failures, where those are wanted that are not over


class _Body(msgspec.Struct):
    digest_id: str
    attempt: int
    attempts: int
    counted: bool
    reason: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Body).decode


def keep_failures(store: Store, ended: Sequence[Judged], *, now: Millis | None) -> None:
    """Keep why attempts failed that have ended so, one call for each. Nothing depends on it, and nothing is raised.

    An empty digest does not come again, so that its failure would never be over.
    """
    with suppress(Exception):  # the rest is left out too: a store that does not answer must not hold up deliveries
        for attempt, verdict in ended:
            if _is_failure(verdict) and attempt.records and not attempt.is_completed:
                store.keep(COLLECTION, _document(store, attempt, verdict), bounds=BOUNDS, replace=True, now=now)


def forget_failures_of(store: Store, judged: Sequence[Judged]) -> None:
    """Forget why digests failed that end now, one call for each; before they do, so that nothing is left of them."""
    with suppress(Exception):  # as above
        for attempt, verdict in judged:
            if _has_failed(attempt) and verdict.ending in LAST:
                store.forget(COLLECTION, attempt.timeline)


def _has_failed(attempt: Attempt) -> bool:
    """True if an earlier attempt of the digest may have failed. Blocks that raise count attempts, and note no time."""
    return attempt.lease.tried is not None or attempt.lease.attempt > 1


def forget_expired_failures(store: Store, expired: Collection[str], *, now: Millis | None) -> None:
    """Forget why digests failed that have expired, as far as they are among the latest failures."""
    with suppress(Exception):  # as above
        for document in store.documents(COLLECTION, limit=DOCUMENTS_PAGE, now=now) if expired else ():
            if document.key in expired and store.inspect(document.key).digest is None:
                store.forget(COLLECTION, document.key)


def _is_failure(verdict: Verdict) -> bool:
    """True if an attempt was made, and failed for the digest's own sake. Outages have a note of their own."""
    return verdict.ending is Ending.FAILED or (
        verdict.ending is Ending.PUT_OFF and verdict.unknown and not isinstance(verdict.error, Unavailable)
    )


def _document(store: Store, attempt: Attempt, verdict: Verdict) -> Document:
    lease, counted = attempt.lease, verdict.ending is Ending.FAILED
    body = _Body(lease.digest_id, lease.attempt, attempt.policy.attempts, counted, verdict.reason)
    return Document(lease.timeline, _encode(body), lease.timeline, ring=store.tenants().of(lease.timeline))


def forget_failures(store: Store) -> None:
    """Forget all of them: no digest is left in the store."""
    while page := store.documents(COLLECTION, limit=DOCUMENTS_PAGE, now=0):  # also those that are too old
        for document in page:
            store.forget(COLLECTION, document.key)


def failure_of(store: Store, timeline: str, slot: Slot, *, now: Millis) -> FailedAttempt | None:
    """Why the latest attempt of the timeline's unfinished digest failed; None if none did."""
    document = None if slot.digest is None else store.kept(COLLECTION, timeline, now=now)
    found = None if document is None else _read(document, now=now)
    return found if found is not None and found.is_about(slot.digest) else None


def latest_failures(store: Store, *, limit: int, now: Millis) -> list[FailedAttempt]:
    """The latest failures of digests that are still to be delivered, the latest first. It reads a bounded number."""
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
    except (msgspec.MsgspecError, UnicodeError):
        return None
    ago = to_seconds(max(0, now - document.at))
    return FailedAttempt(timeline=document.key, at=to_seconds(document.at), ago=ago, **msgspec.structs.asdict(body))
