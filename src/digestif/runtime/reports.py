"""What is told about a digest that a worker is done with."""

from digestif.clock import monotonic
from digestif.core.times import Millis, to_seconds
from digestif.core.verdicts import Bury, Deliver, Drop, PutOff, TryAgain
from digestif.endings import Ending
from digestif.events import Buried, Claimed, Delivered, Discarded, Event, Failed, LeaseLost, Returned
from digestif.stores.base import Lease


def claimed(lease: Lease, duration: Millis) -> Event:
    return Claimed(
        timeline=lease.timeline, digest_id=lease.digest_id, attempt=lease.attempt, late=lateness(lease, duration)
    )


def lateness(lease: Lease, duration: Millis) -> float:
    """Seconds from due to claimed: a lease tells when it began."""
    return to_seconds(max(0, lease.until - duration - lease.at))


def lost(lease: Lease) -> Event:
    return LeaseLost(timeline=lease.timeline, digest_id=lease.digest_id)


def failed_for_good(ending: Ending, reason: str) -> Event:
    """A digest that was closed before it was delivered, at most once."""
    lease = ending.lease
    return Failed(
        timeline=lease.timeline,
        digest_id=lease.digest_id,
        attempt=lease.attempt,
        records=ending.records,
        reason=reason,
        retry_in=None,
    )


def ended(ending: Ending, duration: Millis) -> Event | None:
    """The event of an ending that the store has agreed to; None if there is nothing to tell."""
    lease, verdict, records = ending.lease, ending.verdict, ending.records
    timeline, digest_id, attempt = lease.timeline, lease.digest_id, lease.attempt
    match verdict:
        case Deliver() if records:
            return Delivered(
                timeline=timeline,
                digest_id=digest_id,
                attempt=attempt,
                records=records,
                dropped=ending.dropped,
                late=lateness(lease, duration),
                took=monotonic() - ending.began,
            )
        case PutOff(reason="", delay=None, unknown=begun):
            return Returned(timeline=timeline, digest_id=digest_id, begun=begun)
        case PutOff(reason=""):
            return None
        case TryAgain(delay=delay, reason=reason) | PutOff(delay=delay, reason=reason):
            retry_in = to_seconds(delay or 0)
            return Failed(
                timeline=timeline,
                digest_id=digest_id,
                attempt=attempt,
                records=records,
                reason=reason,
                retry_in=retry_in,
            )
        case Bury(reason=reason):
            return Buried(timeline=timeline, digest_id=digest_id, attempt=attempt, records=records, reason=reason)
        case Drop(reason=reason):
            return Discarded(timeline=timeline, digest_id=digest_id, records=records, reason=reason)
    return None
