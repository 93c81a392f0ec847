"""Reports: the events of an attempt's beginning and of its end."""

from collections import Counter
from typing import Any

from digestif.attempts.leases import HeldLease, Renewals, running
from digestif.attempts.stages import Claimed, Judged, JudgedCompleted
from digestif.attempts.submission import Answer, Unanswerable
from digestif.core.times import to_seconds
from digestif.core.verdicts import Ending
from digestif.errors import StoreError
from digestif.events.attempts import (
    Buried,
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
from digestif.events.attempts import Claimed as ClaimedEvent
from digestif.events.base import Events
from digestif.events.engine import Lapsed, WorkerStopped


class Reports:
    """Emits the events of attempts: one when an attempt begins, exactly one when it ends. Counts how attempts ended.

    An attempt that was reported as ended is no longer under way: its lease is not renewed.
    """

    def __init__(self, events: Events, leases: Renewals) -> None:
        self._events = events
        self._leases = leases
        self._counts: Counter[type[Ended]] = Counter()

    def begun(self, claimed: Claimed) -> None:
        held = claimed.held
        if held.lease.lapsed:
            self._events.emit(Lapsed(timeline=held.timeline))
        if self._events.wanted(ClaimedEvent):
            self._events.emit(ClaimedEvent(**_who(held), late=claimed.late))

    def ended(self, judged: Judged, answer: Answer) -> None:
        """Report an attempt by the store's answer to its verdict. Without an answer, the attempt has not ended."""
        if isinstance(judged, JudgedCompleted):
            self._end(judged.held, _ended_completed(judged))
        elif isinstance(answer, Ending):
            self._end(judged.held, _ended(judged, answer))
        elif answer is None:
            self.lost(judged.held)
        elif isinstance(answer, Unanswerable):
            self.abandoned(judged, answer)

    def lost(self, held: HeldLease) -> None:
        """Report an attempt whose lease lapsed or was taken away."""
        self._end(held, LeaseLost(**_who(held)))

    def abandoned(self, judged: Judged, error: StoreError) -> None:
        """Report an attempt that the store could not end: its lease lapses.

        An attempt that was completed before its delivery, or never stored, is reported with its outcome.
        """
        if isinstance(judged, JudgedCompleted):
            self._end(judged.held, _ended_completed(judged))
        else:
            self._end(judged.held, Unsettled(**_who(judged.held), ending=judged.verdict.ending.value, error=error))

    def _end(self, held: HeldLease, event: Ended) -> None:
        """Stop renewing the lease, and emit the one event of the end, unless that was done before."""
        self._leases.drop(held)
        if running().end(held):
            self._counts[type(event)] += 1
            self._events.emit(event)

    def stopped(self, worker: str) -> WorkerStopped:
        """Return the event of a worker's end, with the counts of its attempts."""
        return WorkerStopped(worker=worker, delivered=self._counts[Delivered], returned=self._counts[Returned])


def _ended(judged: Judged, ending: Ending) -> Ended:
    """Return the event of an attempt that has ended like this in the store."""
    who, records, verdict = _who(judged.held), judged.carried.records, judged.verdict
    match ending:
        case Ending.DELIVERED if not records:
            return Empty(**who)
        case Ending.DELIVERED:
            late, took = judged.claimed.late, judged.held.took()
            return Delivered(**who, records=records, dropped=judged.carried.dropped, late=late, took=took)
        case Ending.FAILED:
            return Failed(**who, **_failure(judged), retry_in=to_seconds(verdict.delay or 0))
        case Ending.BURIED:
            return Buried(**who, **_failure(judged))
        case Ending.PUT_OFF:
            return PutOff(**who, records=records, reason=verdict.reason, retry_in=to_seconds(verdict.delay or 0))
        case Ending.RETURNED:
            return Returned(**who, begun=verdict.unknown)
        case Ending.DISCARDED:
            return Discarded(**who, records=records, reason=verdict.reason)


def _ended_completed(judged: JudgedCompleted) -> Ended:
    """Return the event of an attempt whose digest the store has no more: if it failed, it never comes again."""
    verdict = judged.verdict
    if verdict.ending in (Ending.DELIVERED, Ending.DISCARDED):
        return _ended(judged, verdict.ending)
    failure = _failure(judged)
    if verdict.ending is Ending.RETURNED:
        when = "while" if verdict.unknown else "before"
        failure["reason"] = f"interrupted {when} it was delivered"
    return Failed(**_who(judged.held), **failure, retry_in=None)


def _who(held: HeldLease) -> dict[str, Any]:
    lease = held.lease
    return {"timeline": lease.timeline, "digest_id": lease.digest_id, "attempt": lease.attempt}


def _failure(judged: Judged) -> dict[str, Any]:
    return {
        "records": judged.carried.records,
        "reason": judged.verdict.reason,
        "late": judged.claimed.late,
        "took": judged.held.took(),
        "error": judged.verdict.error,
    }
