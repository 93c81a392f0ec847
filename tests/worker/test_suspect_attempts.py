"""Suspects: digests whose lease lapsed are tried apart from the others, because one of them may end its worker."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from digestif import Digest, Digests, Policy, StoreUnavailable, Unavailable, Window, Worker
from digestif.attempts.leases import running
from digestif.attempts.room import Room
from digestif.core.times import to_millis
from digestif.core.verdicts import DELIVERED
from digestif.ids import fresh_id
from digestif.stores.base import PAGE_RECORDS, PAGE_TIMELINES, Admission, Admitted, ClaimPage, Lease, SuspectGroup
from digestif.stores.memory import MemoryStore
from digestif.testing import FakeClock
from digestif.testing.partitioned import Partitioned
from digestif.worker.limits import Limits, Tuning
from digestif.worker.loop import Loop
from digestif.worker.suspects import Suspects
from tests.pipelines import claim, claim_suspects, end
from tests.worker.workers import PATIENCE, becomes

pytestmark = pytest.mark.long

LIMITS = Limits(concurrency=4, threads=4, memory=1 << 20)
LEASE = 30.0


class Watched(MemoryStore):
    """Counts claims, and gives suspects only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: Counter[str] = Counter()
        self.alone: list[bool] = []
        self.sizes: list[int] = []  # of groups that were asked for
        self.gives = inf  # pages, until the store does not answer
        self.refuses_to_admit = False
        self.renewed: list[str] = []
        self.may_give = threading.Event()
        self.may_give.set()

    def claim(self, *arguments: Any, **options: Any) -> ClaimPage:
        self.claims["ordinary"] += 1
        return super().claim(*arguments, **options)

    def claim_suspects(self, partition: int, group: SuspectGroup, **options: Any) -> ClaimPage:
        self.claims["suspects"] += 1
        self.alone.append(group.alone)
        self.sizes.append(group.size)
        assert self.may_give.wait(PATIENCE)
        if self.claims["suspects"] > self.gives:
            raise StoreUnavailable("told to fail")
        return super().claim_suspects(partition, group, **options)

    def admit(self, admissions: Sequence[Admission], **options: Any) -> Admitted:
        if self.refuses_to_admit:
            raise StoreUnavailable("told to fail")
        return super().admit(admissions, **options)

    def extend(self, leases: Sequence[Lease], **options: Any) -> list[bool]:
        self.renewed += [lease.timeline for lease in leases]
        return super().extend(leases, **options)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def digests(store: Watched, clock: FakeClock) -> Digests:
    return Digests(store, policy=Policy(minimum_delay=60), lease=LEASE, clock=clock)


def let_lapse(digests: Digests, clock: FakeClock, *timelines: str) -> None:
    """A worker has had them, and died."""
    for timeline in timelines:
        digests.add(timeline, 1)
        digests.store.open(timeline, token=fresh_id(), lease=to_millis(LEASE), now=to_millis(clock()))
    clock.advance(LEASE)


def test_the_others_go_first(digests: Digests, store: Watched, clock: FakeClock) -> None:
    """As long as there is something else, it is delivered; then the suspects, by themselves."""
    rounds: list[list[str]] = [[]]
    digests.handler("*")(lambda digest: rounds[-1].append(digest.timeline))
    let_lapse(digests, clock, "suspect 1", "suspect 2")
    digests.add_many([("healthy 1", 1), ("healthy 2", 1)])

    async def work() -> None:
        loop = Loop(digests.engine.pipeline(), LIMITS)
        for _ in range(4):
            await loop.run_once()
            await loop.idle()
            rounds.append([])
        await loop.wind_down(0)

    asyncio.run(work())

    assert [sorted(names) for names in rounds[:3]] == [["healthy 1", "healthy 2"], ["suspect 1"], ["suspect 2"]]
    assert store.alone == [True, True]


def test_nothing_else_is_claimed_while_suspects_are(digests: Digests, store: Watched, clock: FakeClock) -> None:
    """The second claim of a worker waits: what it takes would run beside a digest that is said to be alone."""
    digests.handler("*")(lambda _: None)
    let_lapse(digests, clock, "suspect")
    store.may_give.clear()

    async def work() -> None:
        loop = Loop(digests.engine.pipeline(), LIMITS)
        first = asyncio.create_task(loop.run_once())
        assert await asyncio.to_thread(becomes, lambda: store.claims["suspects"] == 1)
        second = asyncio.create_task(loop.run_once())
        await asyncio.wait([second], timeout=0.1)
        assert store.claims["ordinary"] == 1
        store.may_give.set()
        await asyncio.gather(first, second)
        await loop.idle()
        await loop.wind_down(0)

    asyncio.run(work())

    assert digests.ledger().delivered == 1


def test_nothing_else_is_claimed_while_a_suspect_is_tried(digests: Digests, store: Watched, clock: FakeClock) -> None:
    begun, released = threading.Event(), threading.Event()

    @digests.handler("*")
    def handler(_: Digest) -> None:
        begun.set()
        assert released.wait(PATIENCE)

    let_lapse(digests, clock, "suspect")

    async def work() -> None:
        loop = Loop(digests.engine.pipeline(), LIMITS)
        await loop.run_once()
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        digests.add("healthy", 1)
        next_round = asyncio.create_task(loop.run_once())
        await asyncio.wait([next_round], timeout=0.1)
        assert store.claims == {"ordinary": 1, "suspects": 1}
        released.set()
        await next_round
        await loop.idle()
        await loop.run_once()
        await loop.idle()
        await loop.wind_down(0)

    asyncio.run(work())

    assert store.claims["ordinary"] == 2
    assert digests.ledger().delivered == 2


def test_suspects_are_tried_as_soon_as_the_last_attempt_has_ended_and_nothing_else_is_due(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    """A worker with short handlers is seldom idle at the moment of a claim: it holds back for them."""
    begun, released = threading.Event(), threading.Event()

    @digests.handler("*")
    def handler(_: Digest) -> None:
        begun.set()
        assert released.wait(PATIENCE)

    digests.add("short", 1)
    let_lapse(digests, clock, "suspect")

    async def work() -> None:
        loop = Loop(digests.engine.pipeline(), LIMITS, tuning=Tuning(hold_back=PATIENCE))
        await loop.run_once()
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        next_round = asyncio.create_task(loop.run_once())
        assert await asyncio.to_thread(becomes, lambda: store.claims["ordinary"] == 2)
        assert store.claims["suspects"] == 0
        released.set()
        await next_round
        await loop.idle()
        await loop.wind_down(0)

    asyncio.run(work())

    assert store.claims == {"ordinary": 2, "suspects": 1}
    assert store.alone == [True]
    assert digests.ledger().delivered == 2


def test_after_a_minute_suspects_are_next_and_then_the_others_again(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    """There is always something else to do: they get their turn nevertheless, and only that."""
    passed = FakeClock(1000.0)
    sent: list[str] = []
    digests.handler("*")(lambda digest: sent.append(digest.timeline))
    let_lapse(digests, clock, "suspect 1", "suspect 2")
    let_lapse(digests, clock, "suspect 1")

    async def work() -> None:
        loop = Loop(digests.engine.pipeline(), LIMITS, Suspects(lease_seconds=LEASE, clock=passed))
        for seconds in (0, 59, 60, 61, 62):
            passed.set(1000.0 + seconds)
            digests.add(f"at {seconds}", 1)
            await loop.run_once()
            await loop.idle()
        await loop.wind_down(0)

    asyncio.run(work())

    assert sent == ["at 0", "at 59", "suspect 2", "at 60", "at 61", "suspect 1"]
    assert store.alone == [True, True]


def test_suspects_that_have_waited_long_enough_are_tried_beside_what_does_not_end(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    """A minute and a lease; it is not noted as alone then."""
    passed = FakeClock(1000.0)
    begun, released, tried = threading.Event(), threading.Event(), threading.Event()

    @digests.handler("slow")
    def slow(_: Digest) -> None:
        begun.set()
        assert released.wait(PATIENCE)

    digests.handler("suspect")(lambda _: tried.set())
    let_lapse(digests, clock, "suspect")
    digests.add("slow", 1)

    async def work() -> None:
        loop = Loop(digests.engine.pipeline(), LIMITS, Suspects(lease_seconds=LEASE, clock=passed))
        await loop.run_once()
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        for seconds, claims in ((60, 0), (60 + LEASE - 0.1, 0), (60 + LEASE, 1)):
            passed.set(1000.0 + seconds)
            await loop.run_once()
            assert store.claims["suspects"] == claims
        assert await asyncio.to_thread(tried.wait, PATIENCE)
        released.set()
        await loop.idle()
        await loop.wind_down(0)

    asyncio.run(work())

    assert store.alone == [False]
    assert digests.ledger().delivered == 2


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_attempt_that_probes_a_closed_channel_is_no_evidence(
    digests: Digests, store: Watched, clock: FakeClock, is_closed: bool
) -> None:
    """Workers may be killed during an outage, again and again while the same digest probes."""
    digests.handler("mail:*", channel="mail")(lambda digest: raise_unavailable())
    let_lapse(digests, clock, "mail:bob")
    if is_closed:
        digests.add("mail:ada", 1)
        asyncio.run(Worker(digests).run_once(now=clock()))
        [outage] = digests.outages(now=clock())
        clock.set((outage.next_probe or clock()) + 1)

    [attempt] = claim_suspects(digests.engine.pipeline(clock()), 1, alone=True).deliveries

    assert attempt.held.lease.lapses == 1
    assert store.inspect("mail:bob").group == (0 if is_closed else 1)


def raise_unavailable() -> None:
    raise Unavailable("refused")


def test_suspects_that_do_not_fit_into_memory_stay_suspects(digests: Digests, store: Watched, clock: FakeClock) -> None:
    """Given back as others are, they would be claimed beside healthy digests, and end their worker."""
    digests.handler("*")(lambda _: None)
    digests.add_many([("one", number) for number in range(PAGE_RECORDS)])
    let_lapse(digests, clock, "one", "other")
    pipeline = digests.engine.pipeline(clock())

    page = claim_suspects(pipeline, 2, alone=True, room=Room(records=PAGE_RECORDS))

    assert [attempt.timeline for attempt in page.deliveries] == ["one"]
    assert page.judged == []
    assert (store.inspect("other").state, store.inspect("other").group) == ("open", 0)
    end(pipeline, *[each.judged(DELIVERED) for each in page.deliveries])
    page = claim_suspects(pipeline, 2, alone=True)
    assert [attempt.timeline for attempt in page.deliveries] == ["other"]
    assert not running().is_idle


def test_a_group_spans_partitions_and_pages(clock: FakeClock) -> None:
    """The first to lapse decides, wherever it is; the others are claimed page by page."""
    store = Partitioned([MemoryStore() for _ in range(4)])
    digests = Digests(store, policy=Policy(minimum_delay=60), lease=LEASE, clock=clock)
    digests.handler("*")(lambda _: None)
    let_lapse(digests, clock, *(f"t{number}" for number in range(300)))
    pipeline = digests.engine.pipeline(clock())
    assert claim(pipeline, 1).claimed == 0

    groups = [claim_suspects(pipeline, size, alone=True) for size in (256, 256)]

    assert [group.claimed for group in groups] == [256, 44]
    assert len({attempt.timeline for group in groups for attempt in group.deliveries}) == 300


def test_a_page_of_suspects_that_fails_does_not_lose_the_leases_of_the_pages_before_it(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    """Unrenewed, the leases would lapse as evidence against the group."""
    digests.handler("*")(lambda _: None)
    let_lapse(digests, clock, *(f"t{number}" for number in range(PAGE_TIMELINES + 50)))
    pipeline = digests.engine.pipeline(clock())
    store.gives = 1

    page = claim_suspects(pipeline, PAGE_TIMELINES + 50, alone=True)
    pipeline.renew()

    assert len(page.deliveries) == len(store.renewed) == PAGE_TIMELINES
    end(pipeline, *[each.judged(DELIVERED) for each in page.deliveries])


def test_suspects_that_can_not_be_admitted_do_not_lose_the_leases_of_the_others_in_their_page(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    digests.handler("*")(lambda _: None)
    let_lapse(digests, clock, "one", "asked", "other")
    digests.set_policy("asked", Policy(window=Window.hours("00:00-23:59", tz="UTC")))
    pipeline = digests.engine.pipeline(clock())
    store.refuses_to_admit = True

    page = claim_suspects(pipeline, 3, alone=True)
    pipeline.renew()

    assert page.timelines == store.renewed == ["one", "other"]
    end(pipeline, *[each.judged(DELIVERED) for each in page.deliveries])


def test_a_group_stays_as_small_as_noted_when_some_of_it_can_not_be_admitted(clock: FakeClock) -> None:
    """The partition that comes next gives only the rest of the group."""
    first = Watched()
    store = Partitioned([first, MemoryStore()])
    digests = Digests(store, policy=Policy(minimum_delay=60), lease=LEASE, clock=clock)
    digests.handler("*")(lambda _: None)
    here, there = ([name for name in map(str, range(20)) if store.partition_of(name) == each] for each in (0, 1))
    let_lapse(digests, clock, *here[:2])
    let_lapse(digests, clock, *there[:2])
    digests.set_policy(here[1], Policy(window=Window.hours("00:00-23:59", tz="UTC")))
    pipeline = digests.engine.pipeline(clock())
    assert claim(pipeline, 1).claimed == 0
    first.refuses_to_admit = True

    page = claim_suspects(pipeline, 2, alone=True)

    assert page.timelines == [here[0], there[0]]
    assert {store.inspect(name).group for name in page.timelines} == {2}
    end(pipeline, *[each.judged(DELIVERED) for each in page.deliveries])


def test_a_claim_of_suspects_that_gave_nothing_and_fails_says_so(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    let_lapse(digests, clock, "one")
    store.gives = 0

    with pytest.raises(StoreUnavailable):
        claim_suspects(digests.engine.pipeline(clock()), 1, alone=True)


def test_a_large_group_is_disturbed_by_what_begins_beside_it(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    """Each of its leases says how large it is, until another attempt begins: then none does."""
    names = [f"t{number}" for number in range(250)]
    digests.handler("*")(lambda _: None)
    let_lapse(digests, clock, *names)
    pipeline = digests.engine.pipeline(clock())
    page = claim_suspects(pipeline, 250, alone=True)
    assert {store.inspect(name).group for name in names} == {250}

    digests.add("other", 1)
    claim(pipeline, 1)

    assert len(page.deliveries) == 250
    assert {store.inspect(name).group for name in names} == {0}


def test_groups_are_as_large_as_the_kind_of_handlers_with_the_most_slots(
    digests: Digests, store: Watched, clock: FakeClock
) -> None:
    """One function among coroutines does not slow their suspects down; those of functions wait for a thread."""

    @digests.handler("coroutine:*")
    async def deliver(_: Digest) -> None:
        pass

    digests.handler("function:*")(lambda _: None)
    names = [f"{kind}:{number}" for kind in ("coroutine", "function") for number in range(8)]
    let_lapse(digests, clock, *names)
    limits = Limits(concurrency=8, threads=1, memory=1 << 20)

    async def work() -> None:
        suspects = Suspects(lease_seconds=LEASE)
        loop = Loop(digests.engine.pipeline(clock()), limits, suspects)
        while digests.ledger().delivered < len(names):
            await loop.run_once()

    asyncio.run(asyncio.wait_for(work(), PATIENCE))

    assert store.sizes[:4] == [1, 2, 4, 8]
