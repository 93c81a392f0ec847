"""Reports: the events of an attempt's beginning, of each way to end, and of what maintenance did."""

from typing import Any

from digestif.attempts.attempt import Attempt
from digestif.attempts.failures import forget_expired_failures
from digestif.core.times import Millis, to_seconds
from digestif.core.verdicts import Ending, Verdict
from digestif.errors import StoreError
from digestif.events.attempts import (
    Buried,
    Claimed,
    Delivered,
    Discarded,
    Empty,
    Ended,
    Failed,
    LeaseLost,
    PutOff,
    Returned,
    Unsettled,
)
from digestif.events.base import Events
from digestif.events.engine import DispatchLost, Expired, Lapsed
from digestif.stores.base import Maintained, Store


def begun(attempt: Attempt) -> Claimed:
    return Claimed(**_who(attempt), late=attempt.late)


def ended(attempt: Attempt, verdict: Verdict) -> Ended:
    """The event of an attempt that has ended as the verdict says."""
    who, records, reason = _who(attempt), attempt.records, verdict.reason
    match verdict.ending:
        case Ending.DELIVERED if not records:
            return Empty(**who)
        case Ending.DELIVERED:
            return Delivered(
                **who, records=records, dropped=attempt.digest.dropped, late=attempt.late, took=attempt.took
            )
        case Ending.FAILED:
            return Failed(**who, **_failure(attempt, verdict), retry_in=to_seconds(verdict.delay or 0))
        case Ending.BURIED:
            return Buried(**who, **_failure(attempt, verdict))
        case Ending.PUT_OFF:
            return PutOff(**who, records=records, reason=reason, retry_in=to_seconds(verdict.delay or 0))
        case Ending.RETURNED:
            return Returned(**who, begun=verdict.unknown)
        case Ending.DISCARDED if attempt.is_dead:
            return Buried(**who, **_failure(attempt, verdict))
        case Ending.DISCARDED:
            return Discarded(**who, records=records, reason=reason)


def ended_after_completion(attempt: Attempt, verdict: Verdict) -> Ended:
    """The event of an attempt that was completed in the store before it ended: if it failed, it never comes again."""
    if verdict.ending in (Ending.DELIVERED, Ending.DISCARDED):
        return ended(attempt, verdict)
    failure = _failure(attempt, verdict)
    if verdict.ending is Ending.RETURNED:
        when = "while" if verdict.unknown else "before"
        failure["reason"] = f"the worker stopped {when} it was delivered"
    return Failed(**_who(attempt), **failure, retry_in=None)


def lost(attempt: Attempt) -> LeaseLost:
    return LeaseLost(**_who(attempt))


def unsettled(attempt: Attempt, verdict: Verdict, error: StoreError) -> Unsettled:
    return Unsettled(**_who(attempt), ending=verdict.ending.value, error=error)


def report_maintenance(done: Maintained, store: Store, events: Events, *, now: Millis | None) -> None:
    """Emit the events of a page, and forget why digests failed that have expired.

    `now` is needed if timelines were moved that had been ready for too long.
    """
    forget_expired_failures(store, {timeline for timeline, _ in done.expired}, now=now)
    for timeline, at in done.moved:
        events.emit(DispatchLost(timeline=timeline, late=to_seconds(max(0, (now or at) - at))))
    for timeline in done.lapsed:
        events.emit(Lapsed(timeline=timeline))
    for timeline, records in done.expired:
        events.emit(Expired(timeline=timeline, records=records))


def _who(attempt: Attempt) -> dict[str, Any]:
    lease = attempt.lease
    return {"timeline": lease.timeline, "digest_id": lease.digest_id, "attempt": lease.attempt}


def _failure(attempt: Attempt, verdict: Verdict) -> dict[str, Any]:
    return {
        "records": attempt.records,
        "reason": verdict.reason,
        "late": attempt.late,
        "took": attempt.took,
        "error": verdict.error,
    }
