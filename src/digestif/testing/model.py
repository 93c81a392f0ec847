"""The life of timelines in plain code: an oracle for tests.

Dicts, lists and integer milliseconds; no index, no page, no shortcut. It is written from the texts and shares no code
with the engine or its stores, so that a mistake would have to be made twice to go unnoticed. It uses only public names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from digestif import Busy, InvalidState, Policy, Record, StaleLease

FATES = ("accepted", "pending", "open", "delivered", "superseded", "dropped", "expired", "deleted", "dead")


def ms(seconds: float) -> int:
    """Public seconds as the milliseconds that count inside."""
    return round(seconds * 1000)


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
    lapses_alone: int = 0  # while nothing else ran beside it, and that was known before
    complete: bool = False  # looked at under the present lease
    frozen: bool = False  # stays as it is
    replayed: bool = False  # does not expire: an operator asked for it again
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
    alone: bool = False  # its deliverer said so

    @property
    def empty(self) -> bool:
        return not self.pending and not (self.digest and self.digest.items)

    def forget_if_empty(self) -> None:
        """A digest without records is never unfinished: nothing can have gone out."""
        if self.digest is not None and not self.digest.items:
            self.digest = None

    def has_lapsed(self, now: int) -> bool:
        return self.state == "open" and now >= self.expiry


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
        policy: Policy,
        now: int,
        *,
        within: float | None = None,
        first_delay: float | None = None,
        increment_delay: float | None = None,
        maximum_delay: float | None = None,
    ) -> bool:
        """Accept a record; true if the caller should have it delivered now."""
        line = self.lines.setdefault(timeline, Line())
        self._join(line, record, policy, now, within)
        first = ms(policy.first_delay if first_delay is None else first_delay)
        maximum = ms(policy.maximum_delay if maximum_delay is None else maximum_delay)

        if line.state == "idle" and not line.paused and first == 0:
            line.state, line.at, line.since = "ready", now, now
            return True
        if line.state == "idle":
            line.state, line.at = "waiting", self._pulled(line, now + first, policy, now)
        elif line.state == "waiting" and line.digest is None:
            if policy.quiet is not None:
                line.at = min(max(line.at, now + ms(policy.quiet)), line.first_arrival + maximum)
            elif line.last is None:
                pass  # never delivered: there is nothing to count the cap from
            elif policy.backoff is None:
                increment = policy.increment_delay if increment_delay is None else increment_delay
                line.at = min(line.at + ms(increment), line.last + maximum)
            elif increment_delay is not None or maximum_delay is not None:
                line.at = min(line.at + ms(increment_delay or 0), line.last + maximum)
            line.at = self._pulled(line, line.at, policy, now)
        return False

    def add_many(self, items: Iterable[tuple[str, Record]], policy: Policy, now: int, **delays: Any) -> list[bool]:
        """Add one after the other."""
        return [self.add(timeline, record, policy, now, **delays) for timeline, record in items]

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
        deadlines = [item.deadline for item in line.pending.values() if item.deadline is not None]
        enough = policy.max_records is not None and len(line.pending) >= policy.max_records
        return min([at, *deadlines, *([now] if enough else [])])

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
                digest.revision += 1
                line.forget_if_empty()
        self.counts["expired"] += expired
        if expired and line.empty and (line.state == "ready" or (line.state == "waiting" and line.at <= now)):
            self._retire(key)
        return expired

    def _retire(self, key: str) -> None:
        """Back to idle: nothing stored but the pause."""
        line = self.lines.pop(key)
        if line.paused:
            self.lines[key] = Line(paused=True)

    # Opening

    def open(
        self,
        key: str,
        policy: Policy,
        now: int,
        lease: int,
        minimum_delay: float | None = None,
        *,
        alone: bool = False,
        beside: Iterable[tuple[str, int, int]] = (),
    ) -> Opened:
        """What entering digest(key) gives; `alone` if its process delivers nothing else just then.

        What it does deliver is `beside`: timeline, token and time of each. Those are not alone any more.
        """
        line = self.lines.get(key, Line())
        if line.state == "open" and not line.has_lapsed(now):
            raise Busy(key)
        if line.paused or line.state not in ("ready", "open"):
            raise InvalidState(key)
        leased = self._grant(key, line, now, lease, alone)
        for other, token, at in beside:
            self._clear_alone(other, token, at, lease)
        if leased.lapses_alone >= policy.lapses:
            self.bury(key, leased.token, policy, now, minimum_delay)
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

    def is_second_lapse(self, key: str) -> bool:
        """True of a suspect that has to be tried alone: it lapsed before, and now again."""
        digest = self.lines[key].digest
        return digest is not None and digest.lapses > 0

    def claim(self, key: str, now: int, lease: int, *, alone: bool = False) -> Leased | None:
        """Lease a claimable timeline or a suspect; None if there was nothing in it and it is idle now."""
        line = self.lines[key]
        if line.empty:
            self._retire(key)
            return None
        return self._grant(key, line, now, lease, alone)

    def _grant(self, key: str, line: Line, now: int, lease: int, alone: bool) -> Leased:
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
        line.state, line.token, line.expiry = "open", next(self.numbers), now + lease
        line.alone = alone and digest.lapses > 0
        counts = (digest.attempt, digest.lapses, digest.lapses_alone)
        return Leased(line.token, digest.id, *counts, line.iteration, line.at, lapsed)

    def _lapse(self, line: Line) -> None:
        """The digest may have gone out: from now on it stays as it is."""
        line.token = None
        if line.digest is not None:
            line.digest.lapses += 1
            line.digest.lapses_alone += line.alone
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
        if digest.again:
            self._move_pending(line, digest)
            digest.revision += 1
        kept = newest_first(digest.items)[: policy.capacity]
        self._drop(digest, len(digest.items) - len(kept))
        digest.items = kept

    def _move_pending(self, line: Line, digest: ModelDigest) -> None:
        """What is pending joins the digest; later versions win."""
        versions = merged(digest.items, line.pending.values())
        self.counts["superseded"] += len(digest.items) + len(line.pending) - len(versions)
        digest.items, line.pending = versions, {}
        digest.dropped, line.dropped = digest.dropped + line.dropped, 0

    # Finishing

    def _held(self, key: str, token: int, now: int) -> Line:
        line = self.lines.get(key, Line())
        if line.state != "open" or line.token != token or line.has_lapsed(now):
            raise StaleLease(key)
        return line

    def extend(self, key: str, token: int, now: int, lease: int) -> None:
        self._held(key, token, now).expiry = now + lease

    def _clear_alone(self, key: str, token: int, now: int, lease: int) -> None:
        line = self.lines.get(key, Line())
        if line.alone and line.token == token and not line.has_lapsed(now):
            line.alone, line.expiry = False, now + lease

    def complete(self, key: str, token: int, policy: Policy, now: int, minimum_delay: float | None = None) -> None:
        """The digest was delivered."""
        line = self._held(key, token, now)
        assert line.digest is not None
        self.counts["delivered"] += len(line.digest.items)
        self._finish(key, line, policy, now, minimum_delay)

    def bury(self, key: str, token: int, policy: Policy, now: int, minimum_delay: float | None = None) -> None:
        """The digest is given up and kept as a dead letter; the timeline goes on."""
        line = self._held(key, token, now)
        assert line.digest is not None
        if line.digest.items:
            self.dead[line.digest.id] = line.digest
        self._finish(key, line, policy, now, minimum_delay)

    def release(self, key: str, token: int, policy: Policy, now: int, until: int, *, counted: bool = True) -> None:
        """A worker reports failure and says when to try again; or that it has not tried."""
        line = self._held(key, token, now)
        self._give_back(line, policy)
        if line.digest is not None and not counted:
            line.digest.attempt -= 1
        line.state, line.at = "waiting", until

    def fail(self, key: str, token: int, policy: Policy, now: int, minimum_delay: float | None = None) -> None:
        """The block of digest(key) raised."""
        line = self._held(key, token, now)
        assert line.digest is not None
        if line.digest.items and line.digest.attempt >= policy.attempts:
            self.bury(key, token, policy, now, minimum_delay)
        else:
            self._give_back(line, policy)
            line.state = "ready"

    def _give_back(self, line: Line, policy: Policy) -> None:
        line.token = None
        line.forget_if_empty()
        if line.digest is not None:
            line.digest.again = True
        if line.digest is not None and policy.redelivery == "same":
            line.digest.frozen = True

    def _finish(self, key: str, line: Line, policy: Policy, now: int, minimum_delay: float | None) -> None:
        assert line.digest is not None
        was_empty = not line.digest.items
        line.digest, line.token = None, None
        if was_empty and not line.pending:
            self._retire(key)
            return
        line.iteration = 0 if was_empty else line.iteration + 1
        line.last = line.last if was_empty else now
        cool_down = policy.minimum_delay if policy.backoff is None else policy.backoff(line.iteration)
        cool_down = cool_down if minimum_delay is None else minimum_delay
        line.state, line.at = "waiting", self._pulled(line, now + ms(cool_down), policy, now)

    # Steering

    def delete(self, key: str) -> bool:
        line = self.lines.pop(key, None)
        dead = [parcel for parcel in self.dead.values() if parcel.timeline == key]
        for parcel in dead:
            self.discard(parcel.id)
        if line is not None:
            self.counts["deleted"] += len(line.pending) + (len(line.digest.items) if line.digest else 0)
        return line is not None or bool(dead)

    def retract(self, key: str, record_key: str) -> bool:
        found = self.lines.get(key, Line()).pending.pop(record_key, None)
        self.counts["deleted"] += found is not None
        return found is not None

    def flush(self, key: str, now: int) -> bool:
        line = self.lines.get(key, Line())
        if line.state != "waiting":
            return False
        line.state, line.at, line.since = "ready", now, now
        return True

    def pause(self, key: str) -> bool:
        line = self.lines.setdefault(key, Line())
        changed, line.paused = not line.paused, True
        return changed

    def resume(self, key: str) -> bool:
        line = self.lines.get(key, Line())
        changed, line.paused = line.paused, False
        if changed and line.state == "idle":
            del self.lines[key]
        return changed

    def replay(self, digest_id: int, now: int) -> bool:
        """Make a dead letter the unfinished digest of its timeline."""
        parcel = self.dead.get(digest_id)
        if parcel is None:
            return False
        line = self.lines.setdefault(parcel.timeline, Line())
        if line.digest is not None or line.state == "open":
            raise Busy(parcel.timeline)
        del self.dead[digest_id]
        parcel.attempt, parcel.lapses, parcel.lapses_alone = 0, 0, 0
        parcel.frozen, parcel.replayed = True, True
        line.digest = parcel
        line.state, line.at, line.since = "ready", now, now
        return True

    def discard(self, digest_id: int) -> bool:
        parcel = self.dead.pop(digest_id, None)
        self.counts["deleted"] += len(parcel.items) if parcel else 0
        return parcel is not None

    # Reading

    def timeline(self, key: str) -> Facts:
        line = self.lines.get(key, Line())
        due = line.at if line.state == "waiting" else None
        return Facts(line.state, due, len(line.pending), line.last, line.iteration, line.paused)

    def peek(self, key: str, policy: Policy, now: int) -> list[Record]:
        """The records that the next digest would carry."""
        line = self.lines.get(key, Line())
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


def newest_first(items: Iterable[Item]) -> list[Item]:
    """By the time of the event; of equals the later arrival comes first."""
    return sorted(items, key=lambda item: (item.record.timestamp, item.order), reverse=True)


def merged(older: Iterable[Item], newer: Iterable[Item]) -> list[Item]:
    """One version of each record, the newer one."""
    return list({item.record.key: item for item in [*older, *newer]}.values())
