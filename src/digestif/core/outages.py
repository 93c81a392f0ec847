"""Outages: when a channel is closed, which digest probes it, and how its digests come back. No clock and no I/O.

An `Outage` is a note about one channel, shared by all workers. It is suspected at first if a message may have gone out:
that may be the fault of one digest. It is closed until a probe is answered. Then its digests return, twice as many each
second, until there is no limit and the note is removed.
"""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from digestif.core.times import Millis, to_seconds

FIRST_INTERVAL: Millis = 5_000  # until the first probe; twice that until the next…
LONGEST_INTERVAL: Millis = 120_000  # …up to this
JITTER = 0.2  # of an interval, more or less
PROBE: Millis = 60_000  # that a probe may take before another one begins
DOUBT: Millis = 600_000  # for which a suspicion lasts
PART = 0.25  # of an interval: timelines that are kept come back within this after the next probe
CROWD_PER_SECOND = 500  # of many kept timelines, that one worker lets come back
RETURN_SECONDS = 10  # in which 1, 2, 4 … 512 digests may leave; then there is no limit
SHORTEST_WAIT, LONGEST_WAIT = 1_000, 10_000  # milliseconds: of those that are over the limit
MOST_CHANNELS = 200  # that are noted at once
MOST_PATTERNS = 50
FORGOTTEN: Millis = 86_400_000  # after a probe was due and nothing came to probe: its handlers are gone, or renamed


class Phase(StrEnum):
    """How far an outage is."""

    SUSPECTED = "suspected"
    CLOSED = "closed"
    RETURNING = "returning"


class Outage(Struct, frozen=True, omit_defaults=True):
    """What is known about a channel that does not work. Times in milliseconds."""

    phase: Phase
    since: Millis
    reason: str
    suspect: str = ""  # the timeline whose message may have gone out
    interval: Millis = FIRST_INTERVAL
    probe_at: Millis = 0
    prober: str = ""  # the timeline whose digest probes the channel, or did so last…
    prober_id: str = ""  # …of this engine…
    probe_until: Millis = 0  # …which it may do until then
    returned: Millis = 0  # when it answered again
    second: int = -1  # of the return…
    granted: int = 0  # …and how many digests may leave in it
    patterns: tuple[str, ...] = ()  # of the handlers that met it

    @property
    def is_closed(self) -> bool:
        return self.phase is Phase.CLOSED

    def is_over(self, now: Millis) -> bool:
        """True if nothing holds digests back any more."""
        if self.phase is Phase.RETURNING:
            return not 0 <= now - self.returned < RETURN_SECONDS * 1000
        if self.phase is Phase.SUSPECTED:
            return not 0 <= now - self.since < DOUBT
        return self.is_forgotten(now)

    def is_forgotten(self, now: Millis) -> bool:
        """True if it is closed and nothing has come to probe it for a day."""
        return self.is_closed and now - max(self.probe_at, self.probe_until) > FORGOTTEN

    def explains(self, tried: Millis) -> bool:
        """True if a digest that has failed since then has met nothing but this outage."""
        return self.since <= tried + DOUBT

    def is_probed_by(self, timeline: str, now: Millis) -> bool:
        return self.is_closed and self.prober == timeline and now < self.probe_until


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOutage:
    """A channel that is closed, or has just come back. Times in seconds."""

    channel: str
    reason: str
    since: float
    next_probe: float | None  # when a digest tries whether it is back; None: it is
    patterns: tuple[str, ...]  # of the timelines that wait for it


def shown(channel: str, outage: Outage) -> ChannelOutage:
    """An outage as people see it."""
    return ChannelOutage(
        channel=channel,
        reason=outage.reason,
        since=to_seconds(outage.since),
        next_probe=to_seconds(outage.probe_at) if outage.is_closed else None,
        patterns=outage.patterns,
    )


# What attempts find


def after_unavailable(
    outage: Outage | None, timeline: str, reason: str, *, now: Millis, after: Millis | None, chance: float
) -> Outage:
    """The channel can't be used. Only what its probe finds lengthens the interval."""
    if outage is None or not outage.is_closed:
        return _closed(outage, reason, now=now, after=after, chance=chance)
    if not outage.is_probed_by(timeline, now):
        return outage
    interval = min(2 * outage.interval, LONGEST_INTERVAL)
    probe_at = now + _wait(interval, after, chance)
    return replace(outage, reason=reason, interval=interval, probe_at=probe_at, probe_until=0)


def after_unknown(outage: Outage | None, timeline: str, reason: str, *, now: Millis, chance: float) -> Outage:
    """A message may have gone out: the fault of its digest, or of the channel if another timeline meets it, too."""
    if outage is not None and outage.is_closed:
        return after_unavailable(outage, timeline, reason, now=now, after=None, chance=chance)
    if outage is not None and outage.suspect not in ("", timeline) and not outage.is_over(now):
        return _closed(outage, reason, now=now, after=None, chance=chance)
    if outage is not None and outage.phase is Phase.RETURNING:
        return replace(outage, suspect=timeline)
    return Outage(Phase.SUSPECTED, now, reason, suspect=timeline)


def after_answer(outage: Outage, *, began: Millis, now: Millis) -> Outage | None:
    """The channel answered an attempt that began at this time; an answer to an earlier one proves nothing."""
    if outage.is_closed and began >= outage.since:
        return replace(outage, phase=Phase.RETURNING, returned=now, probe_until=0, suspect="")
    return None if outage.phase is Phase.SUSPECTED else outage


def after_no_answer(outage: Outage, timeline: str, *, now: Millis) -> Outage:
    """The probe ended before it got to the channel: another timeline may try soon."""
    if not outage.is_probed_by(timeline, now):
        return outage
    return replace(outage, probe_at=now + SHORTEST_WAIT, probe_until=0)


def _closed(outage: Outage | None, reason: str, *, now: Millis, after: Millis | None, chance: float) -> Outage:
    patterns = () if outage is None else outage.patterns
    return Outage(Phase.CLOSED, now, reason, probe_at=now + _wait(FIRST_INTERVAL, after, chance), patterns=patterns)


def _wait(interval: Millis, after: Millis | None, chance: float) -> Millis:
    """Until the next probe: the interval, more or less, or what the receiver asked for, within reason."""
    if after is not None:
        return min(max(after, FIRST_INTERVAL), LONGEST_INTERVAL)
    return round(interval * (1 - JITTER + 2 * JITTER * chance))


# Who may be delivered


def may_probe(outage: Outage, *, now: Millis) -> bool:
    """True if a digest may try whether the channel is back; one at a time."""
    return outage.is_closed and now >= outage.probe_at and now >= outage.probe_until


def after_probe_begun(outage: Outage, timeline: str, prober_id: str, *, now: Millis) -> Outage:
    return replace(outage, prober=timeline, prober_id=prober_id, probe_until=now + PROBE)


def after_probe_extended(outage: Outage, timeline: str, *, now: Millis) -> Outage:
    """The probe is still under way. It is noted now and then, not at each renewal of its lease."""
    if not outage.is_probed_by(timeline, now) or outage.probe_until - now > PROBE // 2:
        return outage
    return replace(outage, probe_until=now + PROBE)


def kept_until(outage: Outage, timeline: str, *, now: Millis, crowd: int, chance: float) -> Millis:
    """When a timeline is looked at again whose channel is closed: a random time after the next probe.

    The last prober comes after all others, so that each probe is of another timeline. Of a large `crowd` (how many
    timelines were kept lately) only some come back each second, so that they hold up no other channel.
    """
    part = round(outage.interval * PART)
    next_probe = max(outage.probe_at, now + SHORTEST_WAIT)
    if timeline == outage.prober:
        return next_probe + part + SHORTEST_WAIT
    return next_probe + round(chance * max(part, min(crowd * 1000 // CROWD_PER_SECOND, LONGEST_INTERVAL)))


def second_of_return(outage: Outage, now: Millis) -> int:
    return max(0, now - outage.returned) // 1000


def after_grant(outage: Outage, *, now: Millis) -> tuple[Outage, int]:
    """Let some more digests leave in this second of the return: an eighth of its limit, so that workers share them."""
    second = second_of_return(outage, now)
    before = outage.granted if second == outage.second else 0
    limit = 2**second
    more = max(0, min(max(1, limit // 8), limit - before))
    return replace(outage, second=second, granted=before + more), more


def returns_at(now: Millis, chance: float) -> Millis:
    """When a digest is looked at again that was over the limit of a return."""
    return now + SHORTEST_WAIT + round(chance * (LONGEST_WAIT - SHORTEST_WAIT))


def with_pattern(outage: Outage, pattern: str) -> Outage:
    """The same, noting that timelines of this pattern are behind it."""
    if not pattern or pattern in outage.patterns or len(outage.patterns) >= MOST_PATTERNS:
        return outage
    return replace(outage, patterns=(*outage.patterns, pattern))
