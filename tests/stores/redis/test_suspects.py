"""Suspects, on a server as in memory: claims find them, they are tried apart, and leases note that they are alone."""

import random
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import msgspec
import pytest

from digestif.core.damage import Damage
from digestif.core.terms import Terms
from digestif.ids import derived_id
from digestif.stores.base import Arrival, Burial, ClaimPage, Completion, Lease, Release, Store, SuspectGroup
from digestif.stores.memory import MemoryStore
from digestif.stores.redis.store import RedisStore
from digestif.stores.transfer import ImportPage, TransferStore
from digestif.testing.conformance.port import LEASE, NOW, arrive, open_lease
from tests.servers import empty_server, shared_server
from tests.stores.redis.hints import opened
from tests.stores.redis.twins import Twins, twins

pytestmark = pytest.mark.long

LATER = NOW + LEASE  # when a lease given now has lapsed


def add(stores: Twins, *timelines: str, now: int = NOW) -> None:
    arrivals = [Arrival(timeline, f"{now}", b"1", 0.0, None, Terms()) for timeline in timelines]
    stores.do(lambda store: store.add(arrivals, now=now))


def lapse(stores: Twins, *timelines: str, now: int = NOW, alone: bool = False) -> None:
    """Open timelines one after the other, each a millisecond later; their leases are left to lapse."""
    for at, timeline in enumerate(timelines, now):
        token = f"{timeline}@{at}"
        stores.do(methodcaller("open", timeline, token=token, lease=LEASE, now=at, alone=alone))


def claim(stores: Twins, *, now: int, limit: int = 100) -> ClaimPage:
    return stores.do(lambda store: store.claim(0, limit, token=f"claim@{now}", lease=LEASE, now=now))


def claim_suspects(stores: Twins, *, now: int, alone: bool = False, size: int | None = None) -> ClaimPage:
    """Claim a group of suspects, by default a single one if it is noted, else eight."""
    size = (1 if alone else 8) if size is None else size

    def act(store: Store) -> ClaimPage:
        group = SuspectGroup(size, size, alone)
        return store.claim_suspects(0, group, token=f"suspects@{now}", lease=LEASE, now=now)

    return stores.do(act)


def names(claimed: ClaimPage) -> list[str]:
    return [lease.timeline for lease in claimed.leases]


# Found by claims


def test_a_claim_leaves_lapsed_leases_and_tells_when_the_first_of_them_lapsed() -> None:
    with twins() as stores:
        add(stores, "a", "b", "c")
        lapse(stores, "b", "a")

        before, at, after = (claim(stores, now=now) for now in (LATER - 1, LATER, LATER + 1))

    assert (names(before), before.suspect) == (["c"], None)
    assert (names(at), at.suspect) == ([], LATER)
    assert (names(after), after.suspect) == ([], LATER)


def test_a_claim_that_finds_nothing_tells_of_suspects_in_its_one_round_trip() -> None:
    def calls() -> int:
        return sum(int(stats["calls"]) for name, stats in client.info("commandstats").items() if "evalsha" in name)

    server = empty_server()
    with opened(server.url) as store, server.client() as client:
        arrive(store, "t", ["a"])
        open_lease(store, "t")
        store.claim(0, 5, token="warm", lease=LEASE, now=NOW)
        before = calls()

        claimed = store.claim(0, 5, token="x", lease=LEASE, now=LATER)

        assert claimed == ClaimPage([], 0, LATER)
        assert calls() == before + 1


def test_a_lapsed_lease_of_a_paused_timeline_is_no_suspect() -> None:
    with twins() as stores:
        add(stores, "t")
        lapse(stores, "t")
        stores.do(lambda store: store.pause("t", True, now=NOW))

        claimed, suspects = claim(stores, now=LATER), claim_suspects(stores, now=LATER)

    assert claimed == suspects._replace(size=0) == ClaimPage([], 0)


# Tried apart


def test_suspects_are_tried_in_groups_as_large_as_the_worker_asks() -> None:
    timelines = [f"t{number}" for number in range(10)]
    with twins() as stores:
        add(stores, *timelines)
        lapse(stores, *timelines)

        first, second, third = (claim_suspects(stores, now=LATER + 100) for _ in range(3))
        stores.look("t0")

    assert names(first) == timelines[:8]
    assert names(second) == timelines[8:]
    assert third == ClaimPage([], 0, size=8)
    assert {(lease.lapses, lease.lapses_alone, lease.lapsed) for lease in first.leases} == {(1, 0, True)}


def test_a_group_that_lapsed_is_tried_in_halves() -> None:
    with twins() as stores:
        add(stores, *"abcd")
        lapse(stores, *"abcd")
        claim_suspects(stores, now=LATER + 3, alone=True, size=4)

        groups = [claim_suspects(stores, now=LATER + LEASE + 3, alone=True, size=8) for _ in range(3)]
        slot = stores.look("a")["slot"]

    assert [(names(group), group.size) for group in groups] == [(["a", "b"], 2), (["c", "d"], 2), ([], 8)]
    assert (slot["group"], slot["digest largest"]) == (2, 2)


def test_one_that_lapsed_by_itself_is_tried_by_itself() -> None:
    with twins() as stores:
        add(stores, *"abc")
        lapse(stores, "b")
        claim_suspects(stores, now=LATER, alone=True)
        lapse(stores, "a", "c", now=LATER + 1)

        first, second = (claim_suspects(stores, now=LATER + LEASE + 100, alone=True, size=4) for _ in range(2))

    assert [(names(each), each.size, each.passed_over) for each in (first, second)] == [
        (["b"], 1, 2),
        (["a", "c"], 4, 0),
    ]


def test_one_that_may_not_join_a_group_is_passed_over() -> None:
    with twins() as stores:
        add(stores, *"abc")
        lapse(stores, "b")
        claim_suspects(stores, now=LATER, alone=True)
        lapse(stores, "a", now=LATER - 1)
        lapse(stores, "c", now=LATER + 1)

        first, second = (claim_suspects(stores, now=LATER + LEASE + 100, alone=True, size=4) for _ in range(2))

    assert (names(first), first.passed_over, names(second)) == (["a", "c"], 1, ["b"])


def test_a_group_goes_on_behind_those_that_were_passed_over() -> None:
    with twins() as stores:
        add(stores, *"abc")
        lapse(stores, *"abc")
        group = SuspectGroup(2, 1, is_decided=True, skip=1)

        page = stores.do(lambda store: store.claim_suspects(0, group, token="x", lease=LEASE, now=LATER + 9))

    assert (names(page), page.size, page.more) == (["b"], 2, True)


def test_a_suspect_without_any_record_becomes_idle() -> None:
    with twins() as stores:
        add(stores, "a", "b")
        stores.do(lambda store: store.retract("a", f"{NOW}", now=NOW))
        lapse(stores, "a", "b")

        claimed = claim_suspects(stores, now=LATER + 1)

        assert (names(claimed), claimed.retired) == (["b"], 1)
        assert stores.look("a")["slot"]["state"] == "idle"


def test_what_came_meanwhile_is_the_digest_of_a_suspect_that_was_empty() -> None:
    with twins() as stores:
        add(stores, "t")
        stores.do(lambda store: store.retract("t", f"{NOW}", now=NOW))
        lapse(stores, "t")
        add(stores, "t", now=NOW + 1)

        [lease] = claim_suspects(stores, now=LATER, alone=True).leases

        assert (lease.digest_id, lease.lapses) == (derived_id(f"suspects@{LATER}", "t"), 0)
        assert stores.look("t")["slot"]["group"] == 0


def test_a_damaged_suspect_is_reported_and_leaves_the_schedule() -> None:
    server = empty_server()
    with opened(server.url) as store, server.client() as client:
        for timeline in ("bad", "good"):
            arrive(store, timeline, ["a"])
            open_lease(store, timeline)
        client.hset("{d:0}:t:bad", "", b"damaged")
        reported: list[Damage] = []
        store.damages.subscribe(reported.append)

        claimed = store.claim_suspects(0, SuspectGroup(2, 2), token="x", lease=LEASE, now=LATER)

        assert (names(claimed), claimed.retired) == (["good"], 1)
        assert client.zrange("{d:0}:leases", 0, -1) == [b"good"]
        assert [damage.timeline for damage in reported] == ["bad"]


@pytest.mark.parametrize("meanwhile", ["claimed", "paused", "deleted"])
def test_a_suspect_that_changed_since_it_was_found_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    url = empty_server().url
    find = RedisStore._without_strays
    with opened(url) as store, opened(url) as other:
        arrive(store, "t", ["a"])
        open_lease(store, "t")
        acts: dict[str, Callable[[], object]] = {
            "claimed": lambda: other.claim_suspects(
                0, SuspectGroup(8, 8, alone=False), token="other", lease=LEASE, now=LATER
            ),
            "paused": lambda: other.pause("t", True, now=LATER),
            "deleted": lambda: other.delete("t", now=LATER),
        }

        def be_late(self: RedisStore, *args: Any) -> list[str]:
            found = find(self, *args)
            if self is store:
                acts[meanwhile]()
            return found

        monkeypatch.setattr(RedisStore, "_without_strays", be_late)
        claimed = store.claim_suspects(0, SuspectGroup(8, 8, alone=False), token="late", lease=LEASE, now=LATER)
        token = store.inspect("t").token

    assert claimed == ClaimPage([], 0, more=True, size=8)  # others were faster: another look is worth it
    assert token != "late"


# Known to have been alone


def test_a_second_lapse_of_a_digest_that_was_alone_is_known() -> None:
    with twins() as stores:
        add(stores, "t")
        lapse(stores, "t")

        [second] = claim_suspects(stores, now=LATER, alone=True).leases
        assert stores.look("t")["slot"]["group"] == 1
        [third] = claim_suspects(stores, now=LATER + LEASE, alone=False).leases
        assert stores.look("t")["slot"]["group"] == 0
        [fourth] = claim_suspects(stores, now=LATER + 2 * LEASE, alone=True).leases

    lapses = [(lease.lapses, lease.lapses_alone) for lease in (second, third, fourth)]
    assert lapses == [(1, 0), (2, 1), (3, 1)]


def test_of_several_the_size_that_was_asked_for_is_noted() -> None:
    with twins() as stores:
        add(stores, "a", "b")
        lapse(stores, "a", "b")

        assert len(claim_suspects(stores, now=LATER + 1, alone=True, size=3).leases) == 2
        assert stores.look("a")["slot"]["group"] == 3


def test_opening_notes_that_it_is_alone_once_its_digest_has_lapsed() -> None:
    with twins() as stores:
        add(stores, "t")
        lapse(stores, "t", alone=True)
        assert stores.look("t")["slot"]["group"] == 0
        lapse(stores, "t", now=LATER, alone=True)
        assert stores.look("t")["slot"]["group"] == 1
        lapse(stores, "t", now=LATER + LEASE)

        slot = stores.look("t")["slot"]

    assert (slot["digest lapses"], slot["digest lapses_alone"], slot["group"]) == (2, 1, 0)


ENDS: dict[str, Callable[[Store, Lease, int], object]] = {
    "completed": lambda store, lease, now: store.complete([Completion(lease, 0)], now=now),
    "failed": lambda store, lease, now: store.release([Release(lease, None)], now=now),
    "put off": lambda store, lease, now: store.release([Release(lease, now + 5)], now=now),
    "buried": lambda store, lease, now: store.bury([Burial(lease, "given up", 0)], now=now),
    "lapsed": lambda store, lease, now: store.maintain(0, now, limit=9, now=now + LEASE).lapsed,
}


@pytest.mark.parametrize("end", ENDS)
def test_however_a_lease_ends_it_is_not_alone_any_more(end: str) -> None:
    with twins() as stores:
        add(stores, "t")
        lapse(stores, "t")
        [lease] = claim_suspects(stores, now=LATER, alone=True).leases

        assert stores.do(lambda store: ENDS[end](store, lease, LATER))
        slot = stores.look("t")["slot"]

    assert slot["group"] == 0
    assert slot["digest lapses_alone"] == {"completed": None, "buried": None, "lapsed": 1}.get(end, 0)


def test_a_replayed_digest_starts_without_lapses() -> None:
    with twins() as stores:
        add(stores, "t")
        lapse(stores, "t")
        claim_suspects(stores, now=LATER, alone=True)
        [lease] = claim_suspects(stores, now=LATER + LEASE).leases
        stores.do(lambda store: store.bury([Burial(lease, "given up", 0)], now=LATER + LEASE))

        stores.do(lambda store: store.replay(lease.digest_id, now=LATER + LEASE))
        slot = stores.look("t")["slot"]

    assert (slot["digest lapses"], slot["digest lapses_alone"], slot["digest largest"]) == (0, 0, 0)


@pytest.mark.parametrize("target", ["memory", "server"])
def test_lapses_alone_move_along(target: str) -> None:
    with twins() as stores, opened(shared_server().url, "elsewhere") as elsewhere:
        source, store = (stores.server, MemoryStore()) if target == "memory" else (stores.memory, elsewhere)
        assert isinstance(source, TransferStore)
        assert isinstance(store, TransferStore)
        add(stores, "t")
        lapse(stores, "t")
        claim_suspects(stores, now=LATER, alone=True)

        [goes] = source.begin_export(["t"], token="road", now=LATER + LEASE)
        assert goes is not None
        assert source.inspect("t").group == 0
        [records] = source.read_export([(goes, None)], limit=9)
        store.import_pages([ImportPage(goes, 0, records)], fence=None, now=LATER + LEASE)
        arrived = store.inspect("t")

    assert arrived.group == 0
    assert arrived.digest is not None
    assert (arrived.digest.lapses, arrived.digest.lapses_alone, arrived.digest.largest) == (2, 1, 1)


def test_a_lease_that_an_earlier_release_noted_as_alone_is_a_group_of_one() -> None:
    server = empty_server()
    with opened(server.url) as store, server.client() as client:
        arrive(store, "t", ["a"])
        open_lease(store, "t")
        key, stored = "{d:0}:t:t", client.hget("{d:0}:t:t", "") or b""
        assert b"alone" not in stored
        head = 8  # bytes: whether records join, and the earliest expiry
        fields = msgspec.msgpack.decode(stored[head:])
        client.hset(key, "", stored[:head] + msgspec.msgpack.encode({**fields, "alone": True}))

        assert store.inspect("t").alone is True
        [lease] = store.claim_suspects(0, SuspectGroup(4, 4), token="x", lease=LEASE, now=LATER).leases

        assert (lease.lapses, lease.lapses_alone) == (1, 1)
        assert (store.inspect("t").alone, store.inspect("t").group) == (False, 1)


# Maintenance


def test_maintenance_without_a_deadline_ends_only_leases_of_paused_timelines() -> None:
    with twins() as stores:
        add(stores, "a", "b")
        lapse(stores, "a", "b")
        stores.do(lambda store: store.pause("b", True, now=NOW))

        done = stores.do(lambda store: store.maintain(0, None, limit=9, now=LATER + 1))

        assert done.lapsed == ["b"]
        assert stores.look("a")["slot"]["state"] == "open"
        assert stores.look("b")["slot"]["digest lapses"] == 1


def test_maintenance_with_a_deadline_names_what_it_moved_and_ended_and_expired() -> None:
    with twins() as stores:
        add(stores, "lapsed")
        lapse(stores, "lapsed")
        add(stores, "stale", now=NOW + 5)
        short = Arrival("short", "k", b"1", 0.0, None, Terms(first_delay=10**9, ttl=10))
        stores.do(lambda store: store.add([short], now=NOW))

        done = stores.do(lambda store: store.maintain(0, NOW + 5, limit=9, now=LATER))

    assert (done.moved, done.lapsed) == ([("stale", NOW + 5)], ["lapsed"])
    assert done.expired == [("short", 1)]


def test_a_timeline_that_was_resumed_meanwhile_is_left_to_those_who_try_suspects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = RedisStore._without_strays
    with opened(empty_server().url) as store:
        arrive(store, "t", ["a"])
        open_lease(store, "t")
        store.pause("t", True, now=NOW)

        def be_late(self: RedisStore, *args: Any) -> list[str]:
            self.pause("t", False, now=LATER)
            return find(self, *args)

        monkeypatch.setattr(RedisStore, "_without_strays", be_late)
        done = store.maintain(0, None, limit=9, now=LATER)

        assert (done.lapsed, store.inspect("t").state) == ([], "open")


# Whole lives


class Life:
    """Random steps of some timelines whose leases often lapse."""

    TIMELINES = tuple("abcdefghijkl")

    def __init__(self, stores: Twins, seed: int) -> None:
        self.stores = stores
        self.random = random.Random(seed)
        self.now = NOW
        self.leases: list[Lease] = []

    def live(self, steps: int) -> None:
        verbs = [self.claim] * 4 + [self.claim_suspects] * 5 + [self.end] * 4 + [self.open, self.pause, self.maintain]
        for _ in range(steps):
            self.now += self.random.choice([1, 50, 5_000])
            add(self.stores, *self.TIMELINES, now=self.now)  # so that none is ever idle, and stands elsewhere then
            self.random.choice(verbs)()
            self.stores.look(self.random.choice(self.TIMELINES))

    def claim(self) -> None:
        limit = self.random.choice([1, 3, 10])
        self.leases += claim(self.stores, now=self.now, limit=limit).leases

    def claim_suspects(self) -> None:
        alone, size = self.random.random() < 0.7, self.random.choice([1, 1, 2, 3, 8])
        self.leases += claim_suspects(self.stores, now=self.now, alone=alone, size=size).leases

    def open(self) -> None:
        timeline, alone = self.random.choice(self.TIMELINES), self.random.random() < 0.5
        token = f"open@{self.now}"
        lease = self.stores.attempt(
            lambda store: store.open(timeline, token=token, lease=LEASE, now=self.now, alone=alone)
        )
        if isinstance(lease, Lease):
            self.leases.append(lease)

    def end(self) -> None:
        """Complete some leases, and let the others lapse."""
        ending, self.leases = self.leases[:5], self.leases[5:]
        for lease in self.random.sample(ending, len(ending) // 2):
            later = self.random.choice([None, self.now + 3_000])
            verbs = [
                methodcaller("complete", [Completion(lease, 2_000)], now=self.now),
                methodcaller("release", [Release(lease, later)], now=self.now),
                methodcaller("extend", [lease], lease=LEASE, now=self.now),
            ]
            self.stores.do(self.random.choice(verbs))

    def pause(self) -> None:
        timeline, flag = self.random.choice(self.TIMELINES), self.random.random() < 0.4
        self.stores.do(lambda store: store.pause(timeline, flag, now=self.now))

    def maintain(self) -> None:
        deadline = self.random.choice([None, None, self.now - 8_000])
        self.stores.do(lambda store: store.maintain(0, deadline, limit=100, now=self.now))


def test_suspects_live_the_same_life_on_a_server_as_in_memory() -> None:
    with twins() as stores:
        life = Life(stores, seed=0)
        life.live(80)

        lapses = [digest for name in life.TIMELINES if (digest := stores.server.inspect(name).digest) is not None]
        assert any(digest.lapses_alone for digest in lapses)
        assert any(digest.largest > 1 for digest in lapses)
