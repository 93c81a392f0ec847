"""The life of timelines in plain code: an oracle for tests.

Dicts, lists and integer milliseconds; no index, no page, no shortcut. It is written from the texts and shares no code
with the engine or its stores, so that a mistake would have to be made twice to go unnoticed. It uses only public names.

A window is described to it a second time, as a `Calendar`: numbers that recur. The policy of a call decides where the
timeline waits then, so engines with different policies move it back and forth: an add with a window waits for an
opening, and one without a window makes the timeline due by the delays again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise, takewhile
from math import inf
from typing import Any, NamedTuple

from digestif import Busy, ConfigError, InvalidState, Policy, Record, StaleLease

FOREVER = 10**18  # milliseconds
FATES = ("accepted", "pending", "open", "delivered", "superseded", "dropped", "expired", "deleted", "dead")


def ms(seconds: float) -> int:
    """Public seconds as the milliseconds that count inside."""
    return round(seconds * 1000)


class Known(NamedTuple):
    """The part of a calendar that a call knows, or that is stored with a policy: openings from … until …"""

    since: int
    until: int = FOREVER


@dataclass(frozen=True)
class Calendar:
    """A window in plain numbers: what recurs in each period. All in milliseconds, since 1970.

    With both, the times that lie inside the hours count.
    """

    period: int
    times: tuple[int, ...] = ()  # rising
    hours: tuple[tuple[int, int], ...] = ()  # begin and end, rising; the last one may end in the next period
    urgent: bool = False  # a record's own deadline does not wait for an opening

    def opening(self, at: int, last: int | None, known: Known) -> int | None:
        """The first opening from `at` on; of single times one after the last delivery. None if it is not known."""
        if not self.times:
            return self._moment(at, known)
        for time in self.times_from(max(at, known.since)):
            if time > known.until:
                return None
            if last is None or time > last:
                return time
        return None

    def _moment(self, at: int, known: Known) -> int | None:
        for begin, end in self.spans_from(known.since):
            if begin >= known.until:
                return None
            if at < end:
                return max(at, begin)
        return None

    def last_opening(self, now: int, before: int, known: Known) -> int | None:
        """The last one from now on, but before another time."""
        found: list[int] = []
        if self.times:
            for time in self.times_from(max(now, known.since)):
                if time >= before or time > known.until:
                    break
                found.append(time)
        else:
            for begin, _ in self.spans_from(max(now, known.since)):
                if max(begin, now) >= before or begin >= known.until:
                    break
                found.append(max(begin, now))
        return found[-1] if found else None

    def longest_wait(self) -> int:
        """How long the next opening may be away."""
        if self.times:
            times = takewhile(lambda time: time <= 2 * self.period, self.times_from(0))
            return max(later - earlier for earlier, later in pairwise(times))
        spans = takewhile(lambda span: span[0] <= 2 * self.period, self.spans_from(0))
        return max(begin - end for (_, end), (begin, _) in pairwise(spans))

    def inside(self, at: int) -> int:
        """The first moment from `at` on inside the hours, if there are any."""
        return next((max(at, begin) for begin, _ in self.spans_from(at)), at)

    def times_from(self, at: int) -> Iterator[int]:
        for start in self._periods(at):
            yield from (start + time for time in self.times if start + time >= at and self._is_inside(start + time))

    def spans_from(self, at: int) -> Iterator[tuple[int, int]]:
        """Hours that have not ended at this time."""
        if self.hours:
            for start in self._periods(at):
                yield from ((start + begin, start + end) for begin, end in self.hours if start + end > at)

    def _is_inside(self, time: int) -> bool:
        return not self.hours or self.inside(time) == time

    def _periods(self, at: int) -> Iterator[int]:
        return count((at // self.period - 1) * self.period, self.period)

    def known_at(self, now: int) -> Known:
        """What a call knows: the last time that has come, or the hours that have not ended, and all that follow."""
        if not self.times:
            return Known(now)
        before = [time for time in self._times_around(now) if time <= now]
        return Known(before[-1] if before else now)

    def _times_around(self, now: int) -> Iterator[int]:
        """All from the period before to the present one."""
        for time in self.times_from(now - self.period):
            if time > now:
                return
            yield time


class Rules(NamedTuple):
    """A policy, and its window in plain numbers."""

    policy: Policy
    calendar: Calendar | None = None


Code = Rules | Policy  # what the code of a caller says; a policy alone has no window


def rules_of(code: Code) -> Rules:
    return Rules(code) if isinstance(code, Policy) else code


@dataclass
class OwnRules:
    """What is stored for one timeline instead of the policies in the code."""

    rules: Rules | None  # None: off
    since: int  # when it was set
    known: Known  # the openings that are stored with it


class Facts(NamedTuple):
    """What can be seen of a timeline from outside. Times in milliseconds."""

    state: str
    due: int | None
    pending: int
    last: int | None
    iteration: int
    paused: bool


class Opened(NamedTuple):
    """A digest as its deliverer sees it, with the token that finishes it."""

    timeline: str
    token: int
    id: int
    revision: int
    attempt: int
    dropped: int
    records: list[Record]


class Leased(NamedTuple):
    """The right to finish a digest, and what is known of it before it is looked at."""

    token: int
    id: int
    attempt: int
    lapses: int
    lapses_alone: int
    iteration: int
    at: int
    lapsed: bool


class Upkeep(NamedTuple):
    """What maintenance did, by the names of timelines."""

    moved: dict[str, int]  # and when they are due
    lapsed: set[str]
    expired: dict[str, int]  # and how many records


class Page(NamedTuple):
    """What one step of a requeue did."""

    records: int  # that left the dead letter
    dropped: int
    more: bool  # some are left in it


@dataclass(frozen=True)
class Item:
    """A record that was accepted, with what its arrival decided."""

    record: Record
    order: int  # of arrival
    deadline: int | None  # arrival + within
    expires: int | None  # arrival + ttl


@dataclass
class ModelDigest:
    """A digest that is unfinished, or dead."""

    id: int
    timeline: str
    revision: int = 1
    attempt: int = 0
    again: bool = False  # it was given back before
    lapses: int = 0
    lapses_alone: int = 0  # in a group of one
    largest: int | None = None  # group in which it may be tried; None: any
    complete: bool = False  # looked at under the present lease
    frozen: bool = False  # stays as it is
    read: bool = False  # an attempt that was given back had looked at all of it, as it is now
    replayed: bool = False  # does not expire: an operator asked for it again
    unknown: bool = False  # a dead letter that may have gone out, once and for all
    failing_since: int | None = None  # its first failed attempt
    dropped: int = 0
    items: list[Item] = field(default_factory=list)


@dataclass
class Line:
    """Everything that is stored of one timeline."""

    state: str = "idle"
    at: int = 0
    since: int = 0
    paused: bool = False
    last: int | None = None
    iteration: int = 0
    first_arrival: int = 0  # of the first pending record; means nothing when none is pending
    dropped: int = 0  # by capacity, since the last digest was filled
    pending: dict[str, Item] = field(default_factory=dict)
    digest: ModelDigest | None = None
    token: int | None = None
    expiry: int = 0
    group: int = 0  # of suspects that are tried with it, and nothing else; 0: that is not known
    wanted: int = 0  # the time by the delays
    aligned: bool = False  # `at` is what a window made of it
    passes: bool = False  # no window holds it back until its next digest has ended
    own: OwnRules | None = None
    opened: int = 0  # when it was opened last
    delivered_by: Rules | None = None  # the rules in force then

    @property
    def empty(self) -> bool:
        return not self.pending and not (self.digest and self.digest.items)

    def forget_if_empty(self) -> None:
        """A digest without records is never unfinished: nothing can have gone out."""
        if self.digest is not None and not self.digest.items:
            self.digest = None

    def has_lapsed(self, now: int) -> bool:
        return self.state == "open" and now >= self.expiry

    def is_off(self) -> bool:
        return self.own is not None and self.own.rules is None

    def in_force(self, code: Code) -> Rules:
        """What is stored for the timeline, else what the code says. A timeline that is off has the code's delays."""
        return rules_of(code) if self.own is None or self.own.rules is None else self.own.rules

    def known(self, code: Code, now: int) -> Known:
        """The openings by which a call places the timeline: those stored, else those that the call brings along."""
        if self.own is not None and self.own.rules is not None:
            return self.own.known
        calendar = rules_of(code).calendar
        return Known(now) if calendar is None else calendar.known_at(now)

    def move(self, at: int, *, aligned: bool = False) -> None:
        """Due at a time that no delay changes any more; it is also the time by the delays."""
        self.at = self.wanted = at
        self.aligned = aligned


class Model:
    """All timelines of a store, their dead letters and the ledger."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.dead: dict[int, ModelDigest] = {}
        self.counts: Counter[str] = Counter()
        self.numbers = count(1)  # arrivals, tokens and digests

    # Adding

    def add(
        self,
        timeline: str,
        record: Record,
        code: Code,
        now: int,
        *,
        within: float | None = None,
        first_delay: float | None = None,
        increment_delay: float | None = None,
        maximum_delay: float | None = None,
    ) -> bool:
        """Accept a record; true if the caller should have it delivered now."""
        self._refuse_long(timeline, code, first_delay, increment_delay, maximum_delay)
        line = self.lines.setdefault(timeline, Line())
        if line.is_off():
            self.counts["declined"] += 1
            return False
        rules = line.in_force(code)
        policy = rules.policy
        self._join(line, record, policy, now, within)
        first = ms(policy.first_delay if first_delay is None else first_delay)
        maximum = ms(policy.maximum_delay if maximum_delay is None else maximum_delay)

        if line.state == "idle":
            self._place(line, now + first, rules, now, known=line.known(code, now))
            is_known = rules.calendar is None or line.aligned or line.passes
            line.state = "waiting"
            if line.at == now and first == 0 and not line.paused and is_known:
                line.state, line.since = "ready", now
                return True
        elif line.state == "waiting" and line.digest is None:
            if line.passes:
                line.move(min([line.at, *deadlines(line)]))
            elif not self._has_come(line, rules, now):
                at = self._postponed(line, policy, now, increment_delay, maximum, is_capped=maximum_delay is not None)
                self._place(line, at, rules, now, known=line.known(code, now))
        return False

    def _refuse_long(self, key: str, code: Code, *delays: float | None) -> None:
        """A record must not wait longer than half its time to live, for a delay of the call and then the calendar."""
        line = self.lines.get(key, Line())
        rules = line.in_force(code)
        if line.is_off() or rules.policy.ttl is None:
            return
        gap = 0 if rules.calendar is None else rules.calendar.longest_wait()
        if any(delay is not None and 2 * (ms(delay) + gap) > ms(rules.policy.ttl) for delay in delays):
            raise ConfigError(key)

    def _has_come(self, line: Line, rules: Rules, now: int) -> bool:
        """A time of the calendar has come: the timeline is delivered then, however late, and not put off."""
        return rules.calendar is not None and bool(rules.calendar.times) and line.aligned and line.at <= now

    def _postponed(
        self, line: Line, policy: Policy, now: int, increment_delay: float | None, maximum: int, *, is_capped: bool
    ) -> int:
        if policy.quiet is not None:
            return min(max(line.wanted, now + ms(policy.quiet)), line.first_arrival + maximum)
        if line.last is None:
            return line.wanted  # never delivered: there is nothing to count the cap from
        if policy.backoff is None:
            increment = policy.increment_delay if increment_delay is None else increment_delay
            return min(line.wanted + ms(increment), line.last + maximum)
        if increment_delay is not None or is_capped:
            return min(line.wanted + ms(increment_delay or 0), line.last + maximum)
        return line.wanted

    def _place(self, line: Line, at: int, rules: Rules, now: int, *, known: Known) -> None:
        """Let the timeline wait: first the delays, then urgent records and their number, the window last."""
        line.move(self._pulled(line, at, rules.policy, now))
        calendar = rules.calendar
        if calendar is None:
            return
        opening = calendar.opening(line.wanted, line.last, known)
        earliest = min(deadlines(line), default=FOREVER)
        if calendar.urgent and earliest < (FOREVER if opening is None else opening):
            line.move(earliest)
            line.passes = True
        elif opening is not None:
            line.at, line.aligned = opening, True

    def add_many(self, items: Iterable[tuple[str, Record]], code: Code, now: int, **delays: Any) -> list[bool]:
        """Add one after the other, unless a delay is too long for one of them."""
        items = list(items)
        for timeline, _ in items:
            self._refuse_long(timeline, code, *(delay for name, delay in delays.items() if name != "within"))
        return [self.add(timeline, record, code, now, **delays) for timeline, record in items]

    def _join(self, line: Line, record: Record, policy: Policy, now: int, within: float | None) -> None:
        """Put the record among the pending ones, and keep the newest of them."""
        if not line.pending:
            line.first_arrival = now
        self.counts["accepted"] += 1
        self.counts["superseded"] += line.pending.pop(record.key, None) is not None
        line.pending[record.key] = Item(
            record=record,
            order=next(self.numbers),
            deadline=None if within is None else now + ms(within),
            expires=None if policy.ttl is None else now + ms(policy.ttl),
        )
        kept = newest_first(line.pending.values())[: policy.capacity]
        self._drop(line, len(line.pending) - len(kept))
        line.pending = {item.record.key: item for item in kept}

    def _drop(self, holder: Line | ModelDigest, number: int) -> None:
        self.counts["dropped"] += number
        holder.dropped += number

    def _pulled(self, line: Line, at: int, policy: Policy, now: int) -> int:
        """`at`, or earlier if a pending record is urgent or enough of them wait."""
        enough = policy.max_records is not None and len(line.pending) >= policy.max_records
        return min([at, *deadlines(line), *([now] if enough else [])])

    # Scheduling

    def due(self, deadline: int) -> list[tuple[str, int]]:
        """What schedule(deadline) may give, earliest first."""
        waiting = ((key, line.at) for key, line in self.lines.items() if line.state == "waiting" and not line.paused)
        return sorted(((key, at) for key, at in waiting if at <= deadline), key=lambda entry: entry[1])

    def schedule(self, keys: Sequence[str], now: int) -> None:
        """Make these due timelines ready."""
        for key in keys:
            line = self.lines[key]
            line.state, line.since = "ready", now

    def judge(self, key: str, code: Code, moment: int) -> int | None:
        """None if a due timeline may be delivered at this moment, else the time until which it has to wait.

        Of single times the first one after the time by the delays must have come; they do not bind retries. Hours bind
        every attempt. There is nothing to hold back in an empty timeline.
        """
        line = self.lines[key]
        calendar = line.in_force(code).calendar
        if calendar is None or line.passes or line.empty:
            return None
        if calendar.times and line.digest is None:
            opening = calendar.opening(line.wanted, line.last, Known(line.wanted))
            assert opening is not None
            if opening > moment:
                return opening
        inside = calendar.inside(moment)
        return None if inside == moment else inside

    def keep(self, key: str, until: int) -> None:
        """It may not be delivered yet: it waits, its records are pending, and nothing is counted but a lapse."""
        line = self.lines[key]
        if line.state == "open":
            self._lapse(line)
        line.state, line.at, line.aligned = "waiting", until, True

    def seen(self, key: str) -> tuple[object, ...]:
        """What a decision about a timeline depends on."""
        line = self.lines.get(key, Line())
        expiry = line.expiry if line.state == "open" else None
        return line.state, line.at, expiry, line.own and line.own.since

    def may_be_admitted(self, key: str, now: int) -> bool:
        """False if there is nothing to open, or another one was quicker."""
        line = self.lines.get(key, Line())
        is_live = line.state == "open" and not line.has_lapsed(now)
        return not (line.state == "idle" or line.paused or line.empty or is_live)

    def maintenance(self, deadline: int | None, now: int) -> Upkeep:
        """Expire what is too old; find lost dispatches and lapsed leases again.

        Without a deadline, as workers do it, ready ones stay, and of the lapsed ones those that are not paused.
        """
        done = Upkeep({}, set(), {})
        for key, line in list(self.lines.items()):
            if line.has_lapsed(now) and (deadline is not None or line.paused):
                self._lapse(line)
                line.state = "waiting"
                done.lapsed.add(key)
            elif deadline is not None and line.state == "ready" and line.since <= deadline:
                line.state = "waiting"
                done.moved[key] = line.at
            if expired := self._expire(key, line, now):
                done.expired[key] = expired
        return done

    def _expire(self, key: str, line: Line, now: int) -> int:
        def is_old(item: Item) -> bool:
            return item.expires is not None and now >= item.expires

        held = len(line.pending)
        line.pending = {name: item for name, item in line.pending.items() if not is_old(item)}
        expired = held - len(line.pending)
        digest = line.digest
        if digest is not None and line.state != "open" and not digest.replayed:
            young = [item for item in digest.items if not is_old(item)]
            if young != digest.items and not (young and digest.frozen):
                expired += len(digest.items) - len(young)
                digest.items = young
                digest.revision += digest.read
                line.forget_if_empty()
        self.counts["expired"] += expired
        if expired and line.empty and (line.state == "ready" or (line.state == "waiting" and line.at <= now)):
            self._retire(key)
        return expired

    def _retire(self, key: str) -> None:
        """Back to idle: nothing stored but the pause and the rules of its own."""
        line = self.lines.pop(key)
        if line.paused or line.own is not None:
            self.lines[key] = Line(paused=line.paused, own=line.own)

    # Opening

    def open(
        self,
        key: str,
        code: Code,
        now: int,
        lease: int,
        minimum_delay: float | None = None,
        *,
        alone: bool = False,
        beside: Iterable[tuple[str, int, int]] = (),
    ) -> Opened:
        """What entering digest(key) gives; `alone` if its process delivers nothing else just then.

        What it does deliver is `beside`: timeline, token and time of each. Those are not alone any more. A timeline
        that may not be delivered now waits. The digest of one that was switched off is discarded.
        """
        self._refuse_long(key, code, minimum_delay)
        line = self.lines.get(key, Line())
        if line.state == "open" and not line.has_lapsed(now):
            raise Busy(key)
        if line.paused or line.state not in ("ready", "open"):
            raise InvalidState(key)
        until = self.judge(key, code, now)
        if until is not None:
            self.keep(key, until)
            raise InvalidState(key)
        leased = self._grant(key, line, now, lease, 1 if alone else 0)
        for other, token, at in beside:
            self._disturb(other, token, at, lease)
        policy = line.in_force(code).policy
        line.delivered_by = line.in_force(code)
        if line.is_off():
            self.bury(key, leased.token, code, now, minimum_delay)
            self.discard(leased.id)
            raise InvalidState(key)
        if leased.lapses_alone >= policy.lapses:
            self.bury(key, leased.token, code, now, minimum_delay)
            raise InvalidState(key)
        return self.take(key, leased.token, policy, now)

    def claimable(self, now: int) -> dict[str, int]:
        """The timelines that a worker may claim, and since when: the earliest go first. None has lapsed."""
        found = {}
        for key, line in self.lines.items():
            if not line.paused and (line.state == "ready" or (line.state == "waiting" and line.at <= now)):
                found[key] = line.at
        return found

    def suspects(self, now: int) -> dict[str, int]:
        """The timelines that lapsed and that a worker may take over, and since when."""
        return {key: line.expiry for key, line in self.lines.items() if line.has_lapsed(now) and not line.paused}

    def largest_group(self, key: str) -> float:
        """Return how many suspects may be tried together with this one, itself included."""
        largest = _largest_group(self.lines[key])
        return inf if largest is None else largest

    def claim(self, key: str, now: int, lease: int, *, group: int = 0) -> Leased | None:
        """Lease a claimable timeline or a suspect; None if there was nothing in it and it is idle now."""
        line = self.lines[key]
        if line.empty:
            self._retire(key)
            return None
        return self._grant(key, line, now, lease, group)

    def _grant(self, key: str, line: Line, now: int, lease: int, group: int) -> Leased:
        lapsed = line.state == "open"
        if lapsed:
            self._lapse(line)
        elif line.state == "waiting":
            line.since = now
        if line.digest is None:
            line.digest = ModelDigest(next(self.numbers), key)
            self._move_pending(line, line.digest)
        digest = line.digest
        digest.attempt += 1
        digest.complete = False
        line.state, line.token, line.expiry, line.opened = "open", next(self.numbers), now + lease, now
        line.group = group if digest.lapses > 0 else 0
        counts = (digest.attempt, digest.lapses, digest.lapses_alone)
        return Leased(line.token, digest.id, *counts, line.iteration, line.at, lapsed)

    def _lapse(self, line: Line) -> None:
        """The digest may have gone out: from now on it stays as it is."""
        line.token = None
        if line.digest is not None:
            line.digest.lapses += 1
            line.digest.lapses_alone += line.group == 1
            line.digest.largest = _largest_group(line)
            line.digest.frozen = True
            line.forget_if_empty()

    def take(self, key: str, token: int, policy: Policy, now: int) -> Opened:
        """The digest of a leased timeline; the first look under a lease settles what it carries."""
        line = self._held(key, token, now)
        digest = line.digest
        assert digest is not None
        if not digest.complete and not digest.frozen:
            self._settle(line, digest, policy)
        digest.complete = True
        records = [item.record for item in newest_first(digest.items)]
        return Opened(key, token, digest.id, digest.revision, digest.attempt, digest.dropped, records)

    def _settle(self, line: Line, digest: ModelDigest, policy: Policy) -> None:
        if digest.again and (line.pending or line.dropped):
            self._move_pending(line, digest)
            digest.revision += 1
            digest.read = False
        if digest.read:
            return
        kept = newest_first(digest.items)[: policy.capacity]
        self._drop(digest, len(digest.items) - len(kept))
        digest.items = kept

    def _move_pending(self, line: Line, digest: ModelDigest) -> None:
        """What is pending joins the digest; later versions win."""
        versions = merged(digest.items, line.pending.values())
        self.counts["superseded"] += len(digest.items) + len(line.pending) - len(versions)
        digest.items, line.pending = versions, {}
        digest.dropped, line.dropped = digest.dropped + line.dropped, 0

    def is_read(self, key: str) -> bool:
        """True if the digest of a leased timeline was looked at under its present lease."""
        line = self.lines.get(key)
        return line is not None and line.digest is not None and line.digest.complete

    # Finishing

    def _held(self, key: str, token: int, now: int) -> Line:
        line = self.lines.get(key, Line())
        if line.state != "open" or line.token != token or line.has_lapsed(now):
            raise StaleLease(key)
        return line

    def extend(self, key: str, token: int, now: int, lease: int) -> None:
        self._held(key, token, now).expiry = now + lease

    def _disturb(self, key: str, token: int, now: int, lease: int) -> None:
        line = self.lines.get(key, Line())
        if line.group and line.token == token and not line.has_lapsed(now):
            line.group, line.expiry = 0, now + lease

    def complete(
        self, key: str, token: int, code: Code, now: int, minimum_delay: float | None = None, **plan: Any
    ) -> None:
        """The digest was delivered."""
        line = self._held(key, token, now)
        assert line.digest is not None
        self.counts["delivered"] += len(line.digest.items)
        self._finish(key, line, code, now, minimum_delay, **plan)

    def bury(self, key: str, token: int, code: Code, now: int, minimum_delay: float | None = None, **plan: Any) -> None:
        """The digest is given up and kept as a dead letter; the timeline goes on."""
        line = self._held(key, token, now)
        assert line.digest is not None
        if line.digest.items:
            line.digest.unknown = line.digest.unknown or line.digest.lapses > 0
            self.dead[line.digest.id] = line.digest
        self._finish(key, line, code, now, minimum_delay, **plan)

    def release(self, key: str, token: int, policy: Policy, now: int, until: int, *, counted: bool = True) -> None:
        """A worker reports failure and says when to try again; or that it has not tried."""
        line = self._held(key, token, now)
        self._give_back(line, policy)
        if line.digest is not None and not counted:
            line.digest.attempt -= 1
        if line.digest is not None:
            line.digest.failing_since = None  # the worker does not say
        line.state = "waiting"
        line.move(until)

    def fail(self, key: str, token: int, code: Code, now: int, minimum_delay: float | None = None) -> None:
        """The block of digest(key) raised. The policy that was in force when it was entered decides."""
        line = self._held(key, token, now)
        assert line.digest is not None
        assert line.delivered_by is not None
        policy = line.delivered_by.policy
        since = line.digest.failing_since
        is_last = line.digest.attempt >= policy.attempts or (since is not None and now - since >= patience(policy))
        if line.digest.items and is_last:
            self.bury(key, token, code, now, minimum_delay)
        else:
            line.digest.failing_since = now if since is None else since
            self._give_back(line, policy)
            line.state = "ready"

    def _give_back(self, line: Line, policy: Policy) -> None:
        line.token = None
        line.forget_if_empty()
        if line.digest is not None:
            line.digest.again = True
            line.digest.read = line.digest.read or line.digest.complete
        if line.digest is not None and policy.redelivery == "same":
            line.digest.frozen = True

    def _finish(
        self,
        key: str,
        line: Line,
        code: Code,
        now: int,
        minimum_delay: float | None,
        *,
        planned: float | None = None,
        asked: int | None = None,
    ) -> None:
        """The timeline goes on by the rules in force now.

        A cool-down given to the call comes first if the ttl allows it, then that of the timeline's own rules, then the
        one that the code `planned`. Openings of the code are those that were known when the digest was opened, or when
        they were `asked` for.
        """
        assert line.digest is not None
        was_empty = not line.digest.items
        line.digest, line.token, line.passes = None, None, False
        if was_empty and not line.pending:
            self._retire(key)
            return
        line.iteration = 0 if was_empty else line.iteration + 1
        line.last = line.last if was_empty else now
        cool_down = self._cool_down(line, code)
        cool_down = cool_down if planned is None or line.own is not None else planned
        rules = Rules(UNPLANNED) if line.is_off() else line.in_force(code)
        if minimum_delay is not None:
            cool_down = self._allowed(minimum_delay, cool_down, line, rules.policy)
        line.state = "waiting"
        self._place(
            line, now + ms(cool_down), rules, now, known=line.known(code, line.opened if asked is None else asked)
        )

    def _allowed(self, given: float, cool_down: float, line: Line, policy: Policy) -> float:
        """The cool-down given to the call, unless a policy with a shorter ttl was set during the delivery.

        Then that policy's own cool-down holds; where the policy was cleared, half the ttl of the code's.
        """
        if line.is_off() or policy.ttl is None or 2 * ms(given) <= ms(policy.ttl):
            return given
        return cool_down if line.own is not None else policy.ttl / 2

    def _cool_down(self, line: Line, code: Code) -> float:
        """After a digest, or after as many as the timeline has had. One that is off needs none."""
        policy = line.in_force(code).policy
        if line.is_off():
            return 0
        return policy.minimum_delay if policy.backoff is None else float(policy.backoff(line.iteration))  # type: ignore[arg-type]

    # Another policy

    def set_policy(self, key: str, rules: Rules, now: int, known: Known) -> None:
        """Store rules for a timeline; what waits moves. `known` are the openings that are stored with them."""
        line = self.lines.setdefault(key, Line())
        line.own = OwnRules(rules, now, known)
        self._plan(line, rules, now, known)

    def clear_policy(self, key: str, code: Code, now: int) -> bool:
        """Remove the stored rules; what waits moves by those of the code. False if there are none."""
        line = self.lines.get(key, Line())
        if line.own is None:
            return False
        line.own = None
        if line.state == "idle" and not line.paused:
            del self.lines[key]
        self._plan(line, rules_of(code), now, line.known(code, now))
        return True

    def switch_off(self, key: str, now: int) -> None:
        """Accept nothing any more, and delete what is pending or unfinished, unless it is open.

        The timeline is idle then, unless it is open or cools down: it goes on cooling down.
        """
        line = self.lines.setdefault(key, Line())
        line.own = OwnRules(None, now, Known(now))
        self.counts["deleted"] += len(line.pending)
        line.pending, line.dropped = {}, 0
        if line.digest is not None and line.state != "open":
            self.counts["deleted"] += len(line.digest.items)
            line.digest = None
        if line.state == "ready" or (line.state == "waiting" and line.last is None):
            self._retire(key)

    def replan(self, code: Code, now: int) -> int:
        """Move everything that waits, by the rules in force; the answer is how many timelines moved."""
        before = {key: line.at for key, line in self.lines.items()}
        for line in self.lines.values():
            if not line.is_off():
                self._plan(line, line.in_force(code), now, line.known(code, now))
        return sum(line.at != before[key] for key, line in self.lines.items())

    def _plan(self, line: Line, rules: Rules, now: int, known: Known) -> None:
        """Place a waiting timeline as if the rules had held before. Retries and what passes are not moved."""
        if line.state != "waiting" or line.digest is not None or line.passes:
            return
        if line.last is not None:
            line.last = min(line.last, now)  # the clock was set back after it
            at = line.last + ms(self._cool_down(line, rules))
        elif line.pending:
            at = min(line.first_arrival, now) + ms(rules.policy.first_delay)
        else:
            at = line.wanted
        self._place(line, max(at, now), rules, now, known=known)
        line.at = max(line.at, now)
        line.wanted = line.wanted if line.aligned else line.at
        if rules.calendar is None:
            return
        expiry = min((item.expires for item in line.pending.values() if item.expires is not None), default=FOREVER)
        if line.at >= expiry:
            opening = rules.calendar.last_opening(now, expiry, known)
            line.move(now if opening is None else opening, aligned=opening is not None)
            line.passes = opening is None

    # Steering

    def delete(self, key: str) -> bool:
        line = self.lines.pop(key, None)
        dead = [parcel for parcel in self.dead.values() if parcel.timeline == key]
        for parcel in dead:
            self.discard(parcel.id)
        if line is not None:
            self.counts["deleted"] += len(line.pending) + (len(line.digest.items) if line.digest else 0)
        return line is not None or bool(dead)

    def delete_held(self, key: str, token: int, now: int) -> None:
        """The audience of an open digest is gone: nothing of the timeline is kept."""
        self._held(key, token, now)
        self.delete(key)

    def retract(self, key: str, record_key: str) -> bool:
        found = self.lines.get(key, Line()).pending.pop(record_key, None)
        self.counts["deleted"] += found is not None
        return found is not None

    def flush(self, key: str, now: int) -> bool:
        line = self.lines.get(key, Line())
        if line.state != "waiting":
            return False
        line.state, line.since, line.passes = "ready", now, True
        line.move(now)
        return True

    def pause(self, key: str) -> bool:
        line = self.lines.setdefault(key, Line())
        changed, line.paused = not line.paused, True
        return changed

    def resume(self, key: str) -> bool:
        line = self.lines.get(key, Line())
        changed, line.paused = line.paused, False
        if changed and line.state == "idle" and line.own is None:
            del self.lines[key]
        return changed

    def replay(self, digest_id: int, now: int) -> bool:
        """Make a dead letter the unfinished digest of its timeline."""
        parcel = self.dead.get(digest_id)
        if parcel is None:
            return False
        line = self.lines.setdefault(parcel.timeline, Line())
        if line.is_off():
            raise InvalidState(parcel.timeline)
        if line.digest is not None or line.state == "open":
            raise Busy(parcel.timeline)
        del self.dead[digest_id]
        parcel.attempt, parcel.lapses, parcel.lapses_alone, parcel.largest, parcel.failing_since = 0, 0, 0, None, None
        parcel.frozen, parcel.replayed = True, True
        line.digest = parcel
        line.state, line.since, line.passes = "ready", now, True
        line.move(now)
        return True

    def requeue(
        self, digest_id: int, code: Code, now: int, *, force: bool = False, limit: int | None = None
    ) -> Page | None:
        """Make the oldest records of a dead letter pending again, all or up to a limit; None if there is none."""
        parcel = self.dead.get(digest_id)
        if parcel is None:
            return None
        line = self.lines.get(parcel.timeline, Line())
        if line.is_off() or (parcel.unknown and not force):
            raise InvalidState(parcel.timeline)
        self.lines[parcel.timeline] = line
        rules = line.in_force(code)
        oldest = newest_first(parcel.items)[::-1]
        moving, parcel.items = oldest[:limit], oldest[len(oldest[:limit]) :]
        before = self.counts["dropped"]
        self._come_back(line, moving, rules.policy, now)
        line.dropped, parcel.dropped = line.dropped + parcel.dropped, 0
        parcel.revision += 1  # what is left is another content
        if not parcel.items:
            del self.dead[digest_id]
        self._gather(line, code, rules, now)
        return Page(len(moving), self.counts["dropped"] - before, bool(parcel.items))

    def _come_back(self, line: Line, items: Iterable[Item], policy: Policy, now: int) -> None:
        """Join what is pending, with a whole ttl and no deadline; the later version of a record stays."""
        if not line.pending:
            line.first_arrival = now
        expires = None if policy.ttl is None else now + ms(policy.ttl)
        for item in items:
            key = item.record.key
            known = line.pending.get(key)
            self.counts["superseded"] += known is not None
            if known is None or known.order < item.order:
                line.pending[key] = Item(item.record, item.order, deadline=None, expires=expires)
        kept = newest_first(line.pending.values())[: policy.capacity]
        self._drop(line, len(line.pending) - len(kept))
        line.pending = {item.record.key: item for item in kept}

    def _gather(self, line: Line, code: Code, rules: Rules, now: int) -> None:
        """An idle timeline waits for more; another keeps its time, unless so many records wait that it is due now."""
        known = line.known(code, now)
        if line.state == "idle":
            line.state = "waiting"
            self._place(line, now + ms(self._cool_down(line, code)), rules, now, known=known)
        elif line.state == "waiting" and line.digest is None and not line.passes:
            most = rules.policy.max_records
            enough = most is not None and len(line.pending) >= most
            if enough and line.wanted > now:
                self._place(line, now, rules, now, known=known)

    def discard(self, digest_id: int) -> bool:
        parcel = self.dead.pop(digest_id, None)
        self.counts["deleted"] += len(parcel.items) if parcel else 0
        return parcel is not None

    # Reading

    def timeline(self, key: str) -> Facts:
        line = self.lines.get(key, Line())
        due = line.at if line.state == "waiting" else None
        return Facts(line.state, due, len(line.pending), line.last, line.iteration, line.paused)

    def peek(self, key: str, code: Code, now: int) -> list[Record]:
        """The records that the next digest would carry."""
        line = self.lines.get(key, Line())
        policy = line.in_force(code).policy
        digest, pending = line.digest, line.pending.values()
        if digest is None or (line.state == "open" and not line.has_lapsed(now)):
            items = newest_first(pending)[: policy.capacity]
        elif digest.frozen or line.state == "open":
            items = newest_first(digest.items)
        else:
            items = newest_first(merged(digest.items, pending))[: policy.capacity]
        return [item.record for item in items]

    def ledger(self) -> dict[str, int]:
        """Every fate; what is still there is counted where it lies."""
        counts = {fate: self.counts[fate] for fate in FATES}
        digests = [line.digest for line in self.lines.values() if line.digest is not None]
        counts["pending"] = sum(len(line.pending) for line in self.lines.values())
        counts["open"] = sum(len(digest.items) for digest in digests)
        counts["dead"] = sum(len(parcel.items) for parcel in self.dead.values())
        return counts


UNPLANNED = Policy(minimum_delay=0, maximum_delay=0, max_records=None)  # of a timeline that is off


def patience(policy: Policy) -> int:
    """How long a digest is tried after its first failed attempt: by default half the ttl, or half a week."""
    by_default = (7 * 86_400 if policy.ttl is None else policy.ttl) / 2
    return ms(by_default if policy.give_up_after is None else policy.give_up_after)


def deadlines(line: Line) -> list[int]:
    """Those of the urgent records that are pending."""
    return [item.deadline for item in line.pending.values() if item.deadline is not None]


def newest_first(items: Iterable[Item]) -> list[Item]:
    """By the time of the event; of equals the later arrival comes first."""
    return sorted(items, key=lambda item: (item.record.timestamp, item.order), reverse=True)


def merged(older: Iterable[Item], newer: Iterable[Item]) -> list[Item]:
    """One version of each record, the one that arrived later."""
    by_arrival = sorted([*older, *newer], key=lambda item: item.order)
    return list({item.record.key: item for item in by_arrival}.values())


def _largest_group(lapsed: Line) -> int | None:
    """Return the largest group for a digest whose lease ran out, whether or not the lapse is counted yet; None: any."""
    if lapsed.group > 0:
        return max(1, lapsed.group // 2)
    return None if lapsed.digest is None else lapsed.digest.largest
