"""Samples: the counters of a store as they were every ten seconds, for curves over the last day."""

from dataclasses import dataclass

from msgspec import Struct

from digestif.core.backlog import Standing
from digestif.core.ledger import Ledger
from digestif.core.times import Millis, is_past, to_millis, to_seconds

INTERVAL: Millis = 10_000
MINUTE: Millis = 60_000
HOUR: Millis = 3_600_000
HOURS = 25  # of notes: the last 24 hours and the one that has begun
KEPT: Millis = 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was counted at one time, in seconds. Fates count from the beginning: a curve shows their differences."""

    at: float
    accepted: int
    delivered: int  # records
    digests: int  # messages that went out
    superseded: int
    dropped: int
    expired: int
    deleted: int
    dead: int
    declined: int
    pending: int  # records
    open: int  # records in digests that are not finished
    waiting: int  # timelines
    ready: int  # timelines
    late: float  # seconds for which the most overdue timeline has been due
    timelines: int  # stored, also those that are paused
    leases: int  # timelines that are open
    due: int  # timelines that may be delivered now


class HourNote(Struct, frozen=True):
    """The samples of one hour, as they are noted: the hour since the epoch, and rows in the order of `Sample`."""

    hour: int
    rows: tuple[tuple[float, ...], ...] = ()

    def has(self, at: Millis) -> bool:
        """True if the interval of this time has its sample, or the next one has."""
        if not self.rows:
            return False
        following = (_time_of(self.rows[-1]) // INTERVAL + 1) * INTERVAL
        return not is_past(following, now=at, longest=2 * INTERVAL)

    def with_row(self, row: tuple[float, ...]) -> "HourNote":
        """The note with a further sample, without those that are later: a clock was set back after them."""
        earlier = [each for each in self.rows if _time_of(each) < _time_of(row)]
        return HourNote(self.hour, (*earlier, row))


def _time_of(row: tuple[float, ...]) -> Millis:
    return to_millis(row[0])


def with_counts(standing: Standing, last: Sample) -> Standing:
    """A standing with the timelines that a sample has counted."""
    return standing._replace(
        timelines=last.timelines, waiting=last.waiting, ready=last.ready, open=last.leases, due=last.due
    )


def sample(ledger: Ledger, standing: Standing, digests: int, *, now: Millis) -> Sample:
    earliest = standing.earliest
    return Sample(
        at=to_seconds(now),
        accepted=ledger.accepted,
        delivered=ledger.delivered,
        digests=digests,
        superseded=ledger.superseded,
        dropped=ledger.dropped,
        expired=ledger.expired,
        deleted=ledger.deleted,
        dead=ledger.dead,
        declined=ledger.declined,
        pending=ledger.pending,
        open=ledger.open,
        waiting=standing.waiting,
        ready=standing.ready,
        late=0.0 if earliest is None else max(0.0, to_seconds(now - earliest)),
        timelines=standing.timelines,
        leases=standing.open,
        due=standing.due,
    )
