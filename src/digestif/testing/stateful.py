"""A Hypothesis state machine that lives the life of timelines twice: in a store and in the model.

    TestMyStore = store_machine(lambda: MyStore(…)).TestCase  # fresh and empty each time

Engines with different policies share the store. After each step everything that can be seen must be the same on both
sides. Only the clock of the test passes, so a failure repeats itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle, islice
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from digestif import ConfigError, Digest, Digests, Exponential, InvalidState, Policy, Record, StaleLease, Window
from digestif.core.capacity import Stored
from digestif.core.machine import seen
from digestif.core.terms import Openings
from digestif.stores.base import (
    Admission,
    Burial,
    Candidate,
    ClaimPage,
    Completion,
    Lease,
    Release,
    Requeue,
    Store,
    SuspectGroup,
    Take,
    Taken,
)
from digestif.stores.codec import Sealer
from digestif.testing.model import FATES, Calendar, Known, Leased, Line, Model, Opened, Rules, ms

T = TypeVar("T")
U = TypeVar("U")

START = 1_700_000_000_000  # milliseconds: 22:13:20 in UTC
MINUTE, DAY = 60_000, 86_400_000
LEASE = 5.0  # seconds
HELD = 6  # leases that are remembered, living or stale
TIMELINES = ("a", "a:d", "{a}\n")
KEYS = ("x", "y", "x:\x00 \U0001f427")
TIMESTAMPS = (0.0, 1.0, 1.0, 1.0000000000000002, -62135596800.5, 0.1 + 0.2, 4102444800.0)
SECONDS = (0.0, 0.001, 1.0, 2.0, 3.0, 4.999, 5.0, 7.5, 20.0)  # around LEASE and the delays below
PASSING = (*SECONDS, 30.0, 59.999, 60.0, 300.0, 2400.0)  # and the windows, and how far stored openings reach


def hour(text: str) -> int:
    """A time of the day, in milliseconds."""
    hours, minutes = text.split(":")
    return (int(hours) * 60 + int(minutes)) * MINUTE


def spans(*texts: str) -> tuple[tuple[int, int], ...]:
    """Hours; those that end on the next day are the last."""
    pairs = [tuple(map(hour, text.split("-"))) for text in texts]
    return tuple((begin, end if end > begin else end + DAY) for begin, end in pairs)


OPEN = ("22:12-22:14", "22:15-22:18", "22:20-22:30", "22:40-23:50")
RULES = {
    "plain": Rules(Policy(minimum_delay=5, increment_delay=2, maximum_delay=9, ttl=None)),
    "small": Rules(Policy(minimum_delay=0, increment_delay=1, maximum_delay=4, ttl=None, capacity=1, attempts=2)),
    "eager": Rules(Policy(minimum_delay=2, maximum_delay=4, ttl=8, capacity=3, max_records=2, first_delay=3, lapses=2)),
    "quiet": Rules(Policy(minimum_delay=1, maximum_delay=6, ttl=None, quiet=2, first_delay=2)),
    "steps": Rules(Policy(backoff=Exponential(2, limit=2), maximum_delay=8, ttl=None, redelivery="same", attempts=1)),
    "brief": Rules(
        Policy(minimum_delay=1, increment_delay=1, maximum_delay=2, ttl=5, capacity=2, attempts=1, lapses=1)
    ),
    "fixed": Rules(
        Policy(minimum_delay=2, increment_delay=1, maximum_delay=4, ttl=8, redelivery="same", max_records=3)
    ),
    "times": Rules(
        Policy(minimum_delay=0, increment_delay=2, maximum_delay=9, ttl=140, window=Window.cron("* * * * *", tz="UTC")),
        Calendar(MINUTE, times=(0,)),
    ),
    "slow": Rules(
        Policy(minimum_delay=120, maximum_delay=150, ttl=None, window=Window.cron("* * * * *", tz="UTC")),
        Calendar(MINUTE, times=(0,)),
    ),
    "sharp": Rules(
        Policy(
            minimum_delay=5,
            maximum_delay=9,
            ttl=None,
            max_records=2,
            attempts=2,
            window=Window.cron("*/2 * * * *", tz="UTC", urgent=True),
        ),
        Calendar(2 * MINUTE, times=(0,), urgent=True),
    ),
    "hours": Rules(
        Policy(minimum_delay=5, increment_delay=2, maximum_delay=9, ttl=None, window=Window.hours(*OPEN, tz="UTC")),
        Calendar(DAY, hours=spans(*OPEN)),
    ),
    "night": Rules(
        Policy(
            minimum_delay=1,
            maximum_delay=6,
            quiet=2,
            ttl=None,
            capacity=2,
            window=Window.quiet("22:14-22:16", "22:19-22:24", "22:30-23:00", tz="UTC", urgent=True),
        ),
        Calendar(DAY, hours=spans("22:16-22:19", "22:24-22:30", "23:00-22:14"), urgent=True),
    ),
    "both": Rules(
        Policy(
            minimum_delay=0,
            maximum_delay=4,
            ttl=None,
            first_delay=2,
            lapses=2,
            window=Window.cron("* * * * *", tz="UTC") & Window.hours(*OPEN, tz="UTC"),
        ),
        Calendar(DAY, times=tuple(range(0, DAY, MINUTE)), hours=spans(*OPEN)),
    ),
}
POLICIES = {name: rules.policy for name, rules in RULES.items()}
STORED = sorted(set(POLICIES) - {"steps"})  # a function can't be stored

unseal = Sealer("json").unseal
timelines = st.sampled_from(TIMELINES)
keys = st.sampled_from(KEYS)
policies = st.sampled_from(sorted(POLICIES))
windowed = st.sampled_from(sorted(name for name, rules in RULES.items() if rules.calendar is not None))
timestamps = st.sampled_from(TIMESTAMPS)
seconds = st.sampled_from(SECONDS)
steps = st.sampled_from(PASSING)
maybe_seconds = st.none() | seconds
indexes = st.integers(0, HELD - 1)
changes = st.none() | st.sampled_from(("add", "delete", "flush", "pause", "retract", "schedule", "set_policy"))
groups = st.builds(lambda size, alone: SuspectGroup(size, size, alone), st.sampled_from([1, 1, 2, 4]), st.booleans())
picks = st.integers(0, 4 * len(TIMELINES) - 1)  # the lower quarter: any timeline, otherwise one that fits
delays = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("within", "first_delay", "increment_delay", "maximum_delay"), seconds)
)


class BlockFailed(Exception):
    """What the block of a digest raises here."""


@dataclass
class Held:
    """A right to finish a digest, as each side knows it."""

    timeline: str
    policy: str
    token: int
    lease: Lease | None = None  # of the port …
    block: AbstractContextManager[Digest] | None = None  # … or of `digest()`, entered
    minimum_delay: float | None = None
    now: int | None = None  # given to `digest()`


class StoreMachine(RuleBasedStateMachine):
    """Runs the same operations at the same times on a store, which `make_store` makes, and on the model."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.store = self.make_store()
        self.model = Model()
        self.engines = {name: self.make_engine(policy) for name, policy in POLICIES.items()}
        self.any_engine = self.engines["plain"]
        self.held: list[Held] = []
        self.ids: dict[int, str] = {}  # of digests: the model's number, the store's id
        self.sent: dict[str, list[Record]] = {}  # what went out under each idempotency key
        self.numbers = count()
        self.readers = cycle(POLICIES)  # who peeks after a step

    def make_store(self) -> Store:
        """A fresh and empty store."""
        raise NotImplementedError

    def make_engine(self, policy: Policy) -> Digests:
        """An engine over the store that reads the clock of the test."""
        return Digests(self.store, policy=policy, lease=LEASE, clock=lambda: self.now / 1000)

    # Adding

    @rule(timeline=timelines, key=keys, timestamp=timestamps, policy=policies, delays=delays)
    def add(self, timeline: str, key: str, timestamp: float, policy: str, delays: dict[str, Any]) -> None:
        record = Record(key, self.value(), timestamp)
        self.same(
            lambda: self.engines[policy].add(timeline, record, **delays),
            lambda: self.model.add(timeline, record, RULES[policy], self.now, **delays),
        )

    @rule(passing=steps, timeline=timelines, key=keys, policy=policies)
    def add_plainly(self, passing: float, timeline: str, key: str, policy: str) -> None:
        self.now += ms(passing)
        record = Record(key, self.value(), self.now / 1000)
        self.same(
            lambda: self.engines[policy].add(timeline, record.value, key=key),
            lambda: self.model.add(timeline, record, RULES[policy], self.now),
        )

    @rule(timeline=timelines, key=keys, policy=windowed, late=seconds)
    def add_when_due(self, timeline: str, key: str, policy: str, late: float) -> None:
        """A window opened, and no worker came yet."""
        self.now = max(self.now, (self.model.timeline(timeline).due or 0) + ms(late))
        self.add(timeline, key, 1.0, policy, {})

    @rule(timeline=timelines, key=keys, policy=windowed, within=seconds)
    def add_urgently(self, timeline: str, key: str, policy: str, within: float) -> None:
        self.add(timeline, key, 1.0, policy, {"within": within})

    @rule(items=st.lists(st.tuples(timelines, keys, timestamps), max_size=5), policy=policies, delays=delays)
    def add_many(self, items: list[tuple[str, str, float]], policy: str, delays: dict[str, Any]) -> None:
        batch = [(timeline, Record(key, self.value(), timestamp)) for timeline, key, timestamp in items]
        self.same(
            lambda: self.engines[policy].add_many(batch, **delays),
            lambda: self.model.add_many(batch, RULES[policy], self.now, **delays),
        )

    @rule(timeline=timelines, key=keys)
    def retract(self, timeline: str, key: str) -> None:
        self.same(lambda: self.any_engine.retract(timeline, key), lambda: self.model.retract(timeline, key))

    # Scheduling

    @rule(passing=steps)
    def time_passes(self, passing: float) -> None:
        self.now += ms(passing)

    @rule(ahead=maybe_seconds, page=st.integers(1, 5), policy=policies)
    def schedule(self, ahead: float | None, page: int, policy: str) -> None:
        deadline = self.now + ms(ahead or 0)
        due = self.model.due(deadline)
        kept = self.refused([key for key, _ in due], policy, deadline)
        given = [(key, at) for key, at in due if key not in kept]

        entries = list(self.engines[policy].schedule(self.ahead(ahead), page=page))

        assert sorted(entries) == sorted((key, at / 1000) for key, at in given)
        if self.store.partitions == 1:
            assert [at for _, at in entries] == [at / 1000 for _, at in given]
        self.model.schedule([key for key, _ in given], self.now)
        self.keep(kept)

    @rule(ahead=maybe_seconds, page=st.integers(1, 3), wanted=st.integers(0, 2), policy=policies)
    def schedule_and_stop_early(self, ahead: float | None, page: int, wanted: int, policy: str) -> None:
        deadline = self.now + ms(ahead or 0)
        due = dict(self.model.due(deadline))
        refused = self.refused(due, policy, deadline)

        given = list(islice(self.engines[policy].schedule(self.ahead(ahead), page=page), wanted))

        # A page is ready before its first entry is given, so a few more than those may be.
        now = {key: self.any_engine.timeline(key) for key in due}
        moved = {key for key in due if now[key].state == "ready"}
        kept = {key: until for key, until in refused.items() if maybe_ms(now[key].due) == until}
        assert len(given) == min(wanted, len(due) - len(refused))
        assert all(ms(at) == due[key] for key, at in given)
        assert {key for key, _ in given} <= moved
        assert not moved & set(refused)
        assert len(moved) - len(given) < page
        self.model.schedule(sorted(moved), self.now)
        self.keep(kept)

    def refused(self, keys: Iterable[str], policy: str, moment: int) -> dict[str, int]:
        """Those that may not be delivered at this moment, and when they may."""
        found = {key: self.model.judge(key, RULES[policy], moment) for key in keys}
        return {key: until for key, until in found.items() if until is not None}

    def keep(self, kept: Mapping[str, int]) -> None:
        for key, until in kept.items():
            self.model.keep(key, until)

    @rule(passing=steps, ago=maybe_seconds)
    def maintenance(self, passing: float, ago: float | None) -> None:
        self.now += ms(passing)
        deadline = self.now - ms(300 if ago is None else ago)
        answer = self.any_engine.maintenance(None if ago is None else deadline / 1000)
        done = self.model.maintenance(deadline, self.now)
        assert answer == len(done.moved) + len(done.lapsed)

    @rule(passing=steps, ago=maybe_seconds)
    def maintain(self, passing: float, ago: float | None) -> None:
        self.now += ms(passing)
        deadline = None if ago is None else self.now - ms(ago)
        pages = [self.store.maintain(p, deadline, limit=100, now=self.now) for p in range(self.store.partitions)]

        wanted = self.model.maintenance(deadline, self.now)

        assert not any(page.more for page in pages)
        assert dict(due for page in pages for due in page.moved) == wanted.moved
        assert {key for page in pages for key in page.lapsed} == wanted.lapsed
        assert dict(each for page in pages for each in page.expired) == wanted.expired

    # Digesting in a block

    @rule(pick=picks, policy=policies, minimum_delay=maybe_seconds, given=st.booleans())
    def enter(self, pick: int, policy: str, minimum_delay: float | None, given: bool) -> None:
        self.entered(self.openable(pick), policy, minimum_delay, given)

    @rule(timeline=timelines, policy=policies)
    def enter_when_due(self, timeline: str, policy: str) -> None:
        self.now = max(self.now, self.model.timeline(timeline).due or 0)
        self.schedule(ahead=None, page=1, policy=policy)
        self.entered(timeline, policy, None, given=False)

    @rule(pick=picks, policy=policies, minimum_delay=maybe_seconds, fails=st.booleans())
    def digest_at_once(self, pick: int, policy: str, minimum_delay: float | None, fails: bool) -> None:
        held = self.entered(self.openable(pick), policy, minimum_delay, given=False)
        if held is not None:
            self.left(held, BlockFailed() if fails else None)

    @precondition(lambda self: any(held.block for held in self.held))
    @rule(index=indexes, fails=st.booleans())
    def leave(self, index: int, fails: bool) -> None:
        blocks = [held for held in self.held if held.block]
        self.left(blocks[index % len(blocks)], BlockFailed() if fails else None)

    def entered(self, timeline: str, policy: str, minimum_delay: float | None, given: bool) -> Held | None:
        now = self.now if given else None
        blocks = [held for held in self.held if held.block]
        beside = [(held.timeline, held.token, self.now if held.now is None else held.now) for held in blocks]
        block = self.engines[policy].digest(timeline, minimum_delay, now=None if now is None else now / 1000)
        both = self.both(
            lambda: block.__enter__(),
            lambda: self.model.open(
                timeline, RULES[policy], self.now, ms(LEASE), minimum_delay, alone=not blocks, beside=beside
            ),
        )
        if both is None:
            return None
        digest, opened = both
        self.check_digest(opened, digest.id, digest.revision, digest.attempt, digest.dropped, digest)
        assert digest.timeline == timeline
        held = Held(timeline, policy, opened.token, block=block, minimum_delay=minimum_delay, now=now)
        return self.remember(held)

    def left(self, held: Held, error: BlockFailed | None) -> None:
        self.learn()
        self.held.remove(held)
        now = self.now if held.now is None else held.now
        finish = self.model.complete if error is None else self.model.fail
        wanted = outcome(lambda: finish(held.timeline, held.token, RULES[held.policy], now, held.minimum_delay))
        assert held.block is not None
        answer = outcome(partial(held.block.__exit__, type(error) if error else None, error, None))
        # The block's own exception wins, even over a stale lease: `__exit__` lets it pass.
        assert not answer if error else (answer or None) == wanted

    # Digesting as a worker does

    @rule(limit=st.integers(1, 5), policy=policies, takes=st.booleans(), meanwhile=changes)
    def claim(self, limit: int, policy: str, takes: bool, meanwhile: str | None) -> None:
        claimable = self.model.claimable(self.now)
        suspects = self.model.suspects(self.now)

        claims = [
            self.store.claim(
                partition, limit, token=self.token(), lease=ms(LEASE), now=self.now, asks=self.asks(policy)
            )
            for partition in range(self.store.partitions)
        ]

        assert all(len(claimed.leases) + len(claimed.candidates) <= limit for claimed in claims)
        lapsed = {claimed.suspect for claimed in claims if claimed.suspect is not None}
        assert lapsed <= set(suspects.values())
        assert min(lapsed, default=None) == min(suspects.values(), default=None)
        touched = self.claimed(claims, claimable, policy, alone=False, takes=takes, meanwhile=meanwhile)
        if self.store.partitions == 1:
            left = set(claimable) - touched
            assert len(touched) == min(limit, len(claimable))
            assert all(claimable[one] <= claimable[other] for one in touched for other in left)

    @rule(group=groups, policy=policies, passing=steps, takes=st.booleans(), meanwhile=changes)
    def claim_suspects(
        self, group: SuspectGroup, policy: str, passing: float, takes: bool, meanwhile: str | None
    ) -> None:
        self.now += ms(passing)
        suspects = self.model.suspects(self.now)
        largest = {key: self.model.largest_group(key) for key in suspects}

        claims = [
            self.store.claim_suspects(
                partition, group, token=self.token(), lease=ms(LEASE), now=self.now, asks=self.asks(policy)
            )
            for partition in range(self.store.partitions)
        ]

        touched = self.claimed(claims, suspects, policy, alone=group.alone, takes=takes, meanwhile=meanwhile)
        if self.store.partitions == 1 and suspects:
            size = claims[0].size
            first = {key for key in touched if suspects[key] == min(suspects.values())}
            assert size in {min(group.size, largest[key]) for key in first}
            assert all(largest[key] >= size for key in touched)
            assert len(touched) <= size

    def asks(self, policy: str) -> bool:
        return RULES[policy].calendar is not None

    def claimed(
        self,
        claims: Sequence[ClaimPage],
        claimable: Mapping[str, int],
        policy: str,
        *,
        alone: bool,
        takes: bool,
        meanwhile: str | None,
    ) -> set[str]:
        """What claims gave is leased in the model, too; the answer is all timelines that they touched."""
        empty = {key for key in claimable if self.model.lines[key].empty}
        gone = {key for key in empty if self.any_engine.timeline(key).state == "idle"}
        given = {lease.timeline for claimed in claims for lease in claimed.leases}
        asked = {candidate.timeline for claimed in claims for candidate in claimed.candidates}
        assert given | asked <= set(claimable)
        assert asked == {key for key in given | asked if self.asks(policy) or self.has_window_of_its_own(key)}
        assert sum(claimed.retired for claimed in claims) == len(gone)
        assert all(self.model.claim(key, self.now, ms(LEASE)) is None for key in gone)
        for claimed in claims:
            group = claimed.size if alone else 0
            self.leased(claimed.leases, policy, group=group, takes=takes)
            self.admit(claimed.candidates, policy, group=group, takes=takes, meanwhile=meanwhile)
        return gone | given | asked

    def has_window_of_its_own(self, key: str) -> bool:
        own = self.model.lines[key].own
        return own is not None and own.rules is not None and own.rules.calendar is not None

    def leased(self, leases: Sequence[Lease], policy: str, *, group: int, takes: bool) -> None:
        for lease in leases:
            leased = self.model.claim(lease.timeline, self.now, ms(LEASE), group=group)
            assert leased is not None
            self.check_lease(lease, leased)
            held = self.remember(Held(lease.timeline, policy, leased.token, lease=lease))
            if takes:
                self.taken(held)

    def admit(
        self, candidates: Sequence[Candidate], policy: str, *, group: int, takes: bool, meanwhile: str | None
    ) -> None:
        """Say which candidates may be delivered, by the model's own judgement; one may change before that."""
        if not candidates:
            return
        keys = [candidate.timeline for candidate in candidates]
        decided = {key: self.model.judge(key, RULES[policy], self.now) for key in keys}
        before = {key: self.model.seen(key) for key in keys}
        if meanwhile is not None:
            self.change(keys[0], meanwhile)
        acceptable = {
            key for key in keys if self.model.seen(key) == before[key] and self.model.may_be_admitted(key, self.now)
        }

        admissions = [Admission(one.timeline, seen(one.slot), decided[one.timeline], group) for one in candidates]
        admitted = self.store.admit(admissions, token=self.token(), lease=ms(LEASE), now=self.now)

        kept = {key: until for key, until in decided.items() if until is not None and key in acceptable}
        assert {lease.timeline for lease in admitted.leases} == acceptable - set(kept)
        assert admitted.kept == len(kept)
        self.keep(kept)
        self.leased(admitted.leases, policy, group=group, takes=takes)

    def change(self, key: str, verb: str) -> None:
        """What another process does between a claim and its admission."""
        if verb == "add":
            self.add(key, KEYS[0], 1.0, "plain", {})
        elif verb == "set_policy":
            self.set_policy(key, "hours", "plain")
        elif verb == "flush":
            self.flush(key)
        elif verb == "schedule":
            self.schedule(None, 5, "plain")
        elif verb == "retract":
            for record_key in KEYS:
                self.retract(key, record_key)
        else:
            self.steer(key, verb)

    @precondition(lambda self: any(held.lease for held in self.held))
    @rule(index=indexes)
    def take(self, index: int) -> None:
        self.taken(self.lease(index))

    @precondition(lambda self: any(held.lease for held in self.held))
    @rule(index=indexes, lasting=seconds)
    def extend(self, index: int, lasting: float) -> None:
        held = self.lease(index)
        self.same(
            lambda: proven(self.store.extend([leased(held)], lease=ms(lasting), now=self.now)),
            lambda: self.model.extend(held.timeline, held.token, self.now, ms(lasting)),
        )

    @precondition(lambda self: any(held.lease for held in self.held))
    @rule(index=indexes, cool_down=seconds, given=st.booleans())
    def complete(self, index: int, cool_down: float, given: bool) -> None:
        held = self.lease(index)
        rules, plan = RULES[held.policy], self.plan(cool_down, given)
        completion = Completion(
            leased(held),
            ms(cool_down),
            rules.policy.max_records,
            openings=self.openings(held.policy),
            given=given,
            ttl=maybe_ms(rules.policy.ttl),
        )
        self.same(
            lambda: proven(self.store.complete([completion], now=self.now)),
            lambda: self.model.complete(held.timeline, held.token, rules, self.now, **plan),
        )

    @precondition(lambda self: any(held.lease for held in self.held))
    @rule(index=indexes, delay=seconds, counted=st.booleans())
    def release(self, index: int, delay: float, counted: bool) -> None:
        held = self.lease(index)
        policy, until = POLICIES[held.policy], self.now + ms(delay)
        read = self.model.is_read(held.timeline)
        release = Release(leased(held), until, freeze=policy.redelivery == "same", counted=counted, read=read)
        self.same(
            lambda: proven(self.store.release([release], now=self.now)),
            lambda: self.model.release(held.timeline, held.token, policy, self.now, until, counted=counted),
        )

    @precondition(lambda self: any(held.lease for held in self.held))
    @rule(index=indexes, cool_down=seconds, given=st.booleans())
    def bury(self, index: int, cool_down: float, given: bool) -> None:
        held = self.lease(index)
        rules, plan = RULES[held.policy], self.plan(cool_down, given)
        openings = self.openings(held.policy)
        burial = Burial(
            leased(held),
            "given up",
            ms(cool_down),
            rules.policy.max_records,
            openings=openings,
            given=given,
            ttl=maybe_ms(rules.policy.ttl),
        )
        self.same(
            lambda: proven(self.store.bury([burial], now=self.now)),
            lambda: self.model.bury(held.timeline, held.token, rules, self.now, **plan),
        )

    @precondition(lambda self: any(held.lease for held in self.held))
    @rule(index=indexes)
    def delete_held(self, index: int) -> None:
        held = self.lease(index)
        self.same(
            lambda: proven([self.store.delete(held.timeline, token=leased(held).token, now=self.now)]),
            lambda: self.model.delete_held(held.timeline, held.token, self.now),
        )

    def plan(self, cool_down: float, given: bool) -> dict[str, Any]:
        """How a timeline goes on: a cool-down given to the call, or one that an own policy replaces."""
        return {"minimum_delay": cool_down if given else None, "planned": cool_down, "asked": self.now}

    def openings(self, policy: str) -> Openings | None:
        """The openings that an engine would send, by the model's calendar."""
        calendar = RULES[policy].calendar
        if calendar is None:
            return None
        known = calendar.known_at(self.now)
        if calendar.times:
            return Openings(tuple(islice(calendar.times_from(known.since), 5)), urgent=calendar.urgent)
        pairs = islice(calendar.spans_from(known.since), 5)
        return Openings(tuple(number for pair in pairs for number in pair), hours=True, urgent=calendar.urgent)

    def lease(self, index: int) -> Held:
        """One of the leases; at even numbers one that may live, if there is."""
        leases = [held for held in self.held if held.lease]
        current = [held for held in leases if self.model.lines.get(held.timeline, Line()).token == held.token]
        chosen = current if current and index % 2 == 0 else leases
        return chosen[index // 2 % len(chosen)]

    def openable(self, pick: int) -> str:
        """A timeline that is ready or open, if there is; now and then any."""
        fitting = [key for key in TIMELINES if self.model.timeline(key).state in ("ready", "open")]
        return fitting[pick % len(fitting)] if fitting and pick >= len(TIMELINES) else TIMELINES[pick % len(TIMELINES)]

    def taken(self, held: Held) -> None:
        policy, lease = POLICIES[held.policy], leased(held)
        both = self.both(
            lambda: self.pages(Take(lease, policy.capacity, merge=True)),
            lambda: self.model.take(held.timeline, held.token, policy, self.now),
        )
        if both is not None:
            (header, stored), opened = both
            records = [Record(one.key, unseal(one.payload), one.timestamp) for one in stored]
            self.check_digest(opened, lease.digest_id, header.revision, lease.attempt, header.dropped, records)

    def pages(self, request: Take) -> tuple[Taken, list[Stored]]:
        """All records of an open digest, under the header of its last page."""
        records: list[Stored] = []
        while True:
            [page] = self.store.take([request], now=self.now)
            if page is None:
                raise StaleLease
            records += page.records
            if page.complete:
                return page, records
            request = request._replace(after=page.after)

    # Steering

    @rule(timeline=timelines, verb=st.sampled_from(("delete", "pause", "resume", "resume")))
    def steer(self, timeline: str, verb: str) -> None:
        self.same(lambda: getattr(self.any_engine, verb)(timeline), lambda: getattr(self.model, verb)(timeline))

    @rule(timeline=timelines)
    def flush(self, timeline: str) -> None:
        self.same(lambda: self.any_engine.flush(timeline), lambda: self.model.flush(timeline, self.now))

    # Policies of single timelines

    @rule(timeline=timelines, own=st.sampled_from(STORED), policy=policies)
    def set_policy(self, timeline: str, own: str, policy: str) -> None:
        self.engines[policy].set_policy(timeline, POLICIES[own])
        self.model.set_policy(timeline, RULES[own], self.now, self.known(timeline, RULES[own].calendar))

    @rule(timeline=timelines, policy=policies)
    def clear_policy(self, timeline: str, policy: str) -> None:
        self.same(
            lambda: self.engines[policy].clear_policy(timeline),
            lambda: self.model.clear_policy(timeline, RULES[policy], self.now),
        )

    @rule(timeline=timelines, policy=policies)
    def switch_off(self, timeline: str, policy: str) -> None:
        self.engines[policy].prefer(timeline, "off")
        self.model.switch_off(timeline, self.now)

    @rule(policy=policies)
    def replan(self, policy: str) -> None:
        moved = self.engines[policy].replan()
        self.learn()  # openings of stored policies were renewed
        assert moved == self.model.replan(RULES[policy], self.now)

    def learn(self) -> None:
        """Read how far the stored openings of each timeline reach: the engine renews them when it likes."""
        for key, line in self.model.lines.items():
            if line.own is not None and line.own.rules is not None:
                line.own.known = self.known(key, line.own.rules.calendar)

    def known(self, timeline: str, calendar: Calendar | None) -> Known:
        """How far the openings reach that are stored with the timeline's own policy. They must be the calendar's."""
        override = self.store.inspect(timeline).override
        assert override is not None
        openings = override.terms.openings
        assert (openings is None) == (calendar is None)
        if openings is None or calendar is None:
            return Known(0)
        since, *_, until = openings.numbers
        pairs = calendar.spans_from(since)
        wanted = calendar.times_from(since) if calendar.times else (number for pair in pairs for number in pair)
        assert openings.numbers == tuple(islice(wanted, len(openings.numbers)))
        return Known(since, until)

    # Dead letters

    @rule(timeline=timelines, some=st.lists(keys, min_size=1, max_size=3), timestamp=timestamps)
    def give_up(self, timeline: str, some: list[str], timestamp: float) -> None:
        """Records that can't be delivered: this policy allows one attempt."""
        for key in some:
            self.add(timeline, key, timestamp, "steps", {})
        self.flush(timeline)
        held = self.entered(timeline, "steps", None, given=False)
        if held is not None:
            self.left(held, BlockFailed())

    @precondition(lambda self: self.model.dead)
    @rule(index=st.integers(0, 20))
    def replay(self, index: int) -> None:
        number, digest_id = self.any_digest(index)
        self.same(lambda: self.any_engine.replay(digest_id), lambda: self.model.replay(number, self.now))

    @precondition(lambda self: self.ids)
    @rule(index=st.integers(0, 20), policy=policies, force=st.booleans())
    def requeue(self, index: int, policy: str, force: bool) -> None:
        number, _ = self.any_digest(index)
        self.requeued(number, policy, force=force)

    def requeued(self, number: int, policy: str, *, force: bool) -> None:
        self.same(
            lambda: self.engines[policy].requeue(self.ids[number], force=force),
            lambda: self.model.requeue(number, RULES[policy], self.now, force=force) is not None,
        )

    @precondition(lambda self: self.model.dead)
    @rule(index=st.integers(0, 20), policy=policies, passing=steps, idle=st.booleans())
    def requeue_all_of_a_timeline(self, index: int, policy: str, passing: float, idle: bool) -> None:
        """They leave together; those that may have gone out are refused."""
        number, _ = self.any_digest(index)
        timeline = self.model.dead[number].timeline
        for _ in range(2 if idle else 0):  # deliver what is there, then nothing: the timeline is idle
            self.now = max(self.now, self.model.timeline(timeline).due or 0)
            self.schedule(ahead=None, page=5, policy=policy)
            self.digest_at_once_of(timeline, policy)
        for number in [number for number, parcel in self.model.dead.items() if parcel.timeline == timeline]:
            self.requeued(number, policy, force=False)
        self.maintenance(passing, None)

    def digest_at_once_of(self, timeline: str, policy: str) -> None:
        held = self.entered(timeline, policy, None, given=False)
        if held is not None:
            self.left(held, None)

    @precondition(lambda self: self.model.dead)
    @rule(index=st.integers(0, 20), policy=policies, limit=st.integers(1, 2), force=st.booleans())
    def requeue_a_page(self, index: int, policy: str, limit: int, force: bool) -> None:
        """The rest stays a dead letter."""
        number, digest_id = self.any_digest(index)
        terms = replace(POLICIES[policy].terms(), openings=self.openings(policy))
        request = Requeue(digest_id, terms, POLICIES[policy].cool_down(0), force)
        self.same(
            lambda: tuple(self.store.requeue(request, limit=limit, now=self.now) or ())[:3],  # nothing is lost
            lambda: tuple(self.model.requeue(number, RULES[policy], self.now, force=force, limit=limit) or ()),
        )

    @precondition(lambda self: self.ids)
    @rule(index=st.integers(0, 20))
    def discard(self, index: int) -> None:
        number, digest_id = self.any_digest(index)
        self.same(lambda: self.any_engine.discard(digest_id), lambda: self.model.discard(number))

    def any_digest(self, index: int) -> tuple[int, str]:
        """A dead one if there is, otherwise any: it is refused."""
        numbers = list(self.model.dead) or list(self.ids)
        number = numbers[index % len(numbers)]
        return number, self.ids[number]

    # Reading

    @invariant()
    def timelines_are_the_same(self) -> None:
        for key in TIMELINES:
            seen = self.any_engine.timeline(key)
            due, last = maybe_ms(seen.due), maybe_ms(seen.last)
            assert seen.key == key
            assert (seen.state, due, seen.pending, last, seen.iteration, seen.paused) == self.model.timeline(key)

    @invariant()
    def records_are_the_same(self) -> None:
        name = next(self.readers)
        for key in TIMELINES:
            assert list(self.engines[name].peek(key)) == self.model.peek(key, RULES[name], self.now)

    @invariant()
    def the_ledger_balances(self) -> None:
        ledger = self.any_engine.ledger()
        counts = {fate: getattr(ledger, fate) for fate in FATES}
        assert counts == self.model.ledger()
        assert ledger.declined == self.model.counts["declined"]
        assert counts["accepted"] == sum(counts[fate] for fate in FATES[1:])

    @invariant()
    def dead_letters_are_the_same(self) -> None:
        found = {
            letter.id: (letter.timeline, letter.revision, letter.records, letter.dropped, letter.unknown)
            for letter in self.any_engine.dead_letters()
        }
        assert found == {
            self.ids[number]: (parcel.timeline, parcel.revision, len(parcel.items), parcel.dropped, parcel.unknown)
            for number, parcel in self.model.dead.items()
        }

    @rule()
    def verify(self) -> None:
        assert self.any_engine.verify()

    def teardown(self) -> None:
        try:
            for held in [held for held in self.held if held.block]:
                self.left(held, None)
            assert self.any_engine.verify()
        finally:
            for engine in self.engines.values():
                engine.close()
            self.store.close()

    # Comparing

    def both(self, real: Callable[[], T], expected: Callable[[], U]) -> tuple[T, U] | None:
        """The answers of both sides; None if both refuse, which they must do in the same way."""
        self.learn()
        answer, wanted = outcome(real), outcome(expected)
        if isinstance(answer, Refusal) or isinstance(wanted, Refusal):
            assert answer == wanted
            return None
        return answer, wanted

    def same(self, real: Callable[[], T], expected: Callable[[], T]) -> None:
        both = self.both(real, expected)
        if both is not None:
            answer, wanted = both
            assert answer == wanted
            assert type(answer) is type(wanted)

    def check_digest(
        self, opened: Opened, id: str, revision: int, attempt: int, dropped: int, records: Sequence[Record]
    ) -> None:
        self.check_id(opened.id, id)
        assert (revision, attempt, dropped) == (opened.revision, opened.attempt, opened.dropped)
        assert list(records) == opened.records
        assert self.sent.setdefault(f"{id}.{revision}", opened.records) == opened.records

    def check_lease(self, lease: Lease, wanted: Leased) -> None:
        self.check_id(wanted.id, lease.digest_id)
        counts = (lease.attempt, lease.lapses, lease.lapses_alone, lease.lapsed)
        assert counts == (wanted.attempt, wanted.lapses, wanted.lapses_alone, wanted.lapsed)
        assert (lease.iteration, lease.at, lease.until) == (wanted.iteration, wanted.at, self.now + ms(LEASE))
        assert (lease.override is None) == (self.model.lines[lease.timeline].own is None)

    def check_id(self, number: int, id: str) -> None:
        """The same digest on one side is the same on the other."""
        assert self.ids.setdefault(number, id) == id
        assert len(set(self.ids.values())) == len(self.ids)

    # Helpers

    def remember(self, held: Held) -> Held:
        """Keep it for later steps, and forget the oldest lease of too many. Blocks stay: they have to be left."""
        self.held.append(held)
        leases = [one for one in self.held if one.lease]
        if len(leases) > HELD:
            self.held.remove(leases[0])
        return held

    def token(self) -> str:
        return f"token-{next(self.numbers)}"

    def value(self) -> Any:
        """Something new to say."""
        number = next(self.numbers)
        return (None, number, {"n": [number]}, f"\u00e9 {number}")[number % 4]

    def ahead(self, delay: float | None) -> float | None:
        return None if delay is None else (self.now + ms(delay)) / 1000


def store_machine(make_store: Callable[[], Store]) -> type[StoreMachine]:
    """The machine for one kind of store, which `make_store` gives fresh and empty."""

    class Machine(StoreMachine):
        def make_store(self) -> Store:
            return make_store()

    return Machine


@dataclass(frozen=True)
class Refusal:
    """Nothing was done, for this reason."""

    kind: type[Exception]


def outcome(call: Callable[[], T]) -> T | Refusal:
    """What a call answers or how it refuses."""
    try:
        return call()
    except (ConfigError, InvalidState, StaleLease) as error:
        return Refusal(type(error))


def proven(answers: list[bool]) -> None:
    """The port answers for each lease; here there is one."""
    if answers != [True]:
        raise StaleLease


def leased(held: Held) -> Lease:
    assert held.lease is not None
    return held.lease


def maybe_ms(time: float | None) -> int | None:
    return None if time is None else ms(time)
