"""Outages: when a channel is closed, which digest probes it, and how its digests come back. No clock and no I/O.

An `Outage` is a note about one channel, shared by all workers. A channel that answered within the last two minutes is
suspected at first: perhaps only a part of it is away. So is any channel after a single message that may have gone out,
as that may be the fault of one digest. Then it is closed until a probe is answered, and its digests return, twice as
many each second, until there is no limit and the note is removed.
"""

from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from digestif.core.times import Millis, to_seconds

FIRST_INTERVAL: Millis = 5_000  # until the first probe; twice that until the next…
LONGEST_INTERVAL: Millis = 120_000  # …up to this
JITTER = 0.2  # of an interval, more or less
FURTHEST_AHEAD: Millis = round(LONGEST_INTERVAL * (1 + JITTER))  # that a noted time can lie; else clocks were set back
WITNESSES = 3  # timelines that must have met a channel that answered within the longest interval…
SILENCE: Millis = 5_000  # …and for how long it must not have answered since the first of them, before it is closed
UNKNOWN_WITNESSES = 2  # timelines that close any channel if the message of the last one may have gone out
SHORTEST_PUT_OFF: Millis = 2_000  # of a digest that met a channel that stays open; twice that the next time…
LONGEST_PUT_OFF: Millis = 60_000  # …up to this
LONGEST_KEPT: Millis = FURTHEST_AHEAD + LONGEST_INTERVAL  # that a timeline waits for a closed channel at a time
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
    interval: Millis = FIRST_INTERVAL
    probe_at: Millis = 0
    prober: str = ""  # the timeline whose digest probes the channel, or did so last…
    prober_id: str = ""  # …of this engine…
    probe_until: Millis = 0  # …which it may do until then
    returned: Millis = 0  # when it answered again
    second: int = -1  # of the return…
    granted: int = 0  # …and how many digests may leave in it
    patterns: tuple[str, ...] = ()  # of the handlers that met it
    met: tuple[str, ...] = ()  # timelines that met it while it was open, without an answer in between…
    met_since: Millis = 0  # …the first of them at this time
    answered: Millis = 0  # the last answer that is known, while it is suspected or returns
    pace: int = 0  # doublings that its return leaves out, because an earlier return got that far

    @property
    def is_closed(self) -> bool:
        return self.phase is Phase.CLOSED

    def is_over(self, now: Millis) -> bool:
        """True if nothing holds digests back any more, and nothing has to be remembered."""
        if self.is_closed:
            return self.is_forgotten(now)
        if self.is_ahead(now) or now - max(self.since, self.returned) >= DOUBT:
            return True
        if self.phase is Phase.RETURNING:
            return _doublings(self, now) >= RETURN_SECONDS
        return not self.met and now - self.since >= LONGEST_INTERVAL

    def is_ahead(self, now: Millis) -> bool:
        """True if a time lies further ahead than it can: the clock was set back since it was noted."""
        latest = max(self.since, self.probe_at, self.probe_until, self.returned, self.met_since, self.answered)
        return latest > now + FURTHEST_AHEAD

    def is_forgotten(self, now: Millis) -> bool:
        """True if it is closed and nothing has come to probe it for a day."""
        return self.is_closed and now - max(self.probe_at, self.probe_until) > FORGOTTEN

    def explains(self, tried: Millis) -> bool:
        """True if a digest that has failed since then has met nothing but this outage."""
        return self.since <= tried + DOUBT

    def is_probed_by(self, timeline: str, now: Millis) -> bool:
        return self.is_closed and self.prober == timeline and now < self.probe_until <= now + FURTHEST_AHEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOutage:
    """A channel that is closed, or has just come back. Times in seconds."""

    channel: str
    reason: str
    since: float
    next_probe: float | None  # when a digest tries whether it is back; None: it is
    patterns: tuple[str, ...]  # of the timelines that wait for it


def shown(channel: str, outage: Outage, *, now: Millis) -> ChannelOutage:
    """An outage as people see it."""
    outage = after_set_back(outage, now=now)
    return ChannelOutage(
        channel=channel,
        reason=outage.reason,
        since=to_seconds(outage.since),
        next_probe=to_seconds(outage.probe_at) if outage.is_closed else None,
        patterns=outage.patterns,
    )


def after_set_back(outage: Outage, *, now: Millis) -> Outage:
    """Correct times that lie further ahead than they can: they count as past, so that the channel is probed soon."""
    if not outage.is_ahead(now):
        return outage
    return replace(outage, since=min(outage.since, now), probe_at=min(outage.probe_at, now), probe_until=0)


# What attempts find


def after_unavailable(
    outage: Outage | None,
    timeline: str,
    reason: str,
    *,
    now: Millis,
    after: Millis | None,
    chance: float,
    answered: Millis = 0,
    unknown: bool = False,
    at_most_once: bool = False,
) -> Outage:
    """The channel can't be used. `answered` is when it last answered this process.

    A channel that did so within the longest interval is suspected, and closed once enough timelines met it and nothing
    answered for a while. Any other is closed, and so is one through which digests go `at_most_once`: each further
    attempt would lose one. If the message may have gone out (`unknown`), it is closed as by `after_unknown`. Only what
    its probe finds lengthens the interval.
    """
    if outage is None or not outage.is_closed:
        met = _met(outage, timeline, reason, now=now, answered=answered)
        is_closed = at_most_once or (unknown and _is_unanswered(met)) or _is_proven(met, now=now)
        return _closed(met, reason, now=now, after=after, chance=chance) if is_closed else met
    if not outage.is_probed_by(timeline, now):
        return outage
    interval = min(2 * outage.interval, LONGEST_INTERVAL)
    probe_at = now + _wait(interval, after, chance)
    return replace(outage, reason=reason, interval=interval, probe_at=probe_at, probe_until=0)


def after_unknown(
    outage: Outage | None, timeline: str, reason: str, *, now: Millis, chance: float, answered: Millis = 0
) -> Outage:
    """A message may have gone out: the fault of its digest, or of the channel if another timeline met it, too.

    Then the channel is closed, however recently it answered: each further message might reach its reader twice.
    """
    if outage is not None and outage.is_closed:
        return after_unavailable(outage, timeline, reason, now=now, after=None, chance=chance)
    met = _met(outage, timeline, reason, now=now, answered=answered)
    if _is_unanswered(met):
        return _closed(met, reason, now=now, after=None, chance=chance)
    return met


def after_answer(outage: Outage, *, began: Millis, now: Millis) -> Outage | None:
    """The channel answered an attempt that began at this time.

    If it was closed since, the answer proves nothing, unless a clock that was set back makes it seem so. A suspicion is
    remembered for a while: it tells other processes that the channel answers.
    """
    if outage.is_closed:
        if began < outage.since <= now:
            return outage
        return replace(outage, phase=Phase.RETURNING, returned=now, answered=now, probe_until=0)
    if outage.met:
        return replace(outage, met=(), met_since=0, answered=now)
    return None if outage.phase is Phase.SUSPECTED and outage.is_over(now) else outage


def _met(outage: Outage | None, timeline: str, reason: str, *, now: Millis, answered: Millis) -> Outage:
    """Note that a timeline met an open channel as unavailable. After an answer it is the first one again."""
    known = (answered,) if outage is None else (answered, outage.answered, outage.returned)
    answered = max(at if at <= now + FURTHEST_AHEAD else 0 for at in known)
    if outage is None or outage.is_over(now):
        patterns = () if outage is None else outage.patterns
        outage = Outage(Phase.SUSPECTED, now, reason, patterns=patterns)
    if not outage.met or answered > outage.met_since:
        since = now if outage.phase is Phase.SUSPECTED else outage.since
        return replace(outage, since=since, reason=reason, met=(timeline,), met_since=now, answered=answered)
    is_new = timeline not in outage.met and len(outage.met) < WITNESSES
    return replace(outage, met=(*outage.met, timeline) if is_new else outage.met, answered=answered)


def _is_unanswered(outage: Outage) -> bool:
    """True if enough timelines met it that a message which may have gone out is the channel's fault."""
    return len(outage.met) >= UNKNOWN_WITNESSES


def _is_proven(outage: Outage, *, now: Millis) -> bool:
    """True if the whole channel is away: for lack of any answer one timeline is enough, else it takes more."""
    if not outage.answered or now - outage.answered > LONGEST_INTERVAL:
        return True
    return len(outage.met) >= WITNESSES and now - outage.met_since >= SILENCE


def after_no_answer(outage: Outage, timeline: str, *, now: Millis) -> Outage:
    """The probe ended before it got to the channel: another timeline may try soon."""
    if not outage.is_probed_by(timeline, now):
        return outage
    return replace(outage, probe_at=now + SHORTEST_WAIT, probe_until=0)


def _closed(outage: Outage, reason: str, *, now: Millis, after: Millis | None, chance: float) -> Outage:
    """Close a channel. If it was returning, its next return begins with half the rate that this one reached."""
    pace = max(0, _doublings(outage, now) - 1) if outage.phase is Phase.RETURNING else 0
    probe_at = now + _wait(FIRST_INTERVAL, after, chance)
    return Outage(Phase.CLOSED, now, reason, probe_at=probe_at, patterns=outage.patterns, pace=pace)


def _wait(interval: Millis, after: Millis | None, chance: float) -> Millis:
    """Until the next probe: the interval, more or less, or what the receiver asked for, within reason."""
    if after is not None:
        return min(max(after, FIRST_INTERVAL), LONGEST_INTERVAL)
    return round(interval * (1 - JITTER + 2 * JITTER * chance))


def put_off_delay(since: Millis, *, now: Millis, after: Millis | None) -> Millis:
    """For how long a digest is put off that met an open channel: 2 s, and twice as long each time, up to a minute.

    That follows from the time `since` which it has failed, so that all processes agree. A receiver may ask for longer,
    up to the longest interval.
    """
    failing = max(0, now - since)
    return max(min(SHORTEST_PUT_OFF + failing, LONGEST_PUT_OFF), min(after or 0, LONGEST_INTERVAL))


# Who may be delivered


def may_probe(outage: Outage, timeline: str, *, now: Millis, is_ready: bool = False) -> bool:
    """True if the digest of a timeline may try whether the channel is back; one at a time.

    A timeline whose probe did not end lets others go first, for an interval: its worker may have died of it. One that
    `is_ready` was chosen by `schedule` to probe, and is only now delivered.
    """
    outage = after_set_back(outage, now=now)
    if not outage.is_closed or now < outage.probe_at:
        return False
    if outage.prober != timeline or not outage.probe_until:
        return now >= outage.probe_until
    return is_ready or now >= outage.probe_until + outage.interval


def after_probe_begun(outage: Outage, timeline: str, prober_id: str, *, now: Millis) -> Outage:
    outage = after_set_back(outage, now=now)
    return replace(outage, prober=timeline, prober_id=prober_id, probe_until=now + PROBE)


def after_probe_lapsed(outage: Outage, timeline: str, *, now: Millis) -> Outage:
    """The probe of this timeline did not end, and nothing delivers it any more: another timeline may probe."""
    return replace(outage, probe_until=now) if outage.is_probed_by(timeline, now) else outage


def after_probe_extended(outage: Outage, timeline: str, *, now: Millis) -> Outage:
    """The probe is still under way. It is noted now and then, not at each renewal of its lease."""
    if not outage.is_probed_by(timeline, now) or outage.probe_until - now > PROBE // 2:
        return outage
    return replace(outage, probe_until=now + PROBE)


def kept_until(outage: Outage, timeline: str, *, now: Millis, crowd: int, chance: float) -> Millis:
    """When a timeline is looked at again whose channel is closed: a random time after the next probe.

    The last prober comes after all others, so that each probe is of another timeline; if its probe did not end, not
    before it may probe again. Of a large `crowd` (how many
    timelines were kept lately) only some come back each second, so that they hold up no other channel.
    """
    outage = after_set_back(outage, now=now)
    part = round(outage.interval * PART)
    next_probe = max(outage.probe_at, now + SHORTEST_WAIT)
    if timeline == outage.prober:
        unended = outage.probe_until + outage.interval if outage.probe_until else 0
        return max(next_probe + part + SHORTEST_WAIT, unended)
    return next_probe + round(chance * max(part, min(crowd * 1000 // CROWD_PER_SECOND, LONGEST_INTERVAL)))


def second_of_return(outage: Outage, now: Millis) -> int:
    return max(0, now - outage.returned) // 1000


def _doublings(outage: Outage, now: Millis) -> int:
    """How often the rate of a return has doubled. It does not while timelines meet the channel without an answer."""
    until = min(now, outage.met_since) if outage.met else now
    return outage.pace + max(0, until - outage.returned) // 1000


def after_grant(outage: Outage, *, now: Millis) -> tuple[Outage, int]:
    """Let some more digests leave in this second of the return: an eighth of its limit, so that workers share them."""
    second = second_of_return(outage, now)
    before = outage.granted if second == outage.second else 0
    limit = 2 ** _doublings(outage, now)
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
