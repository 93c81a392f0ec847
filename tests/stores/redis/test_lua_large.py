"""Large batches have orders of their own on a server: every verb keeps them right, and callers see no difference.

A batch is large with more than 256 records, or with one above 8 KiB.
"""

from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any

import pytest

from digestif import Digests, Policy, Record
from digestif.core.capacity import weight_of
from digestif.core.terms import Terms
from digestif.stores.base import (
    PAGE_BYTES,
    Arrival,
    Burial,
    Completion,
    Lease,
    QuarantinedRecord,
    Release,
    Requeue,
    Requeued,
    Store,
    Take,
)
from digestif.stores.codec import Sealer
from digestif.stores.reader import Part
from digestif.testing.conformance.port import (
    arrive,
    maintain,
    numbers,
    open_digest,
    open_lease,
    record_keys,
    release,
    requeue,
    stored,
)
from tests.servers import empty_server
from tests.stores.redis.hints import opened
from tests.stores.redis.large_lives import live_large
from tests.stores.redis.layout import SMALL
from tests.stores.redis.twins import Twins, twins

pytestmark = pytest.mark.long

MANY = SMALL + 50
NOW = 1_700_000_000_000
LEASE = 30_000
DAY = 86_400_000
HEAVY = b"x" * 9_000
SEALED = Sealer("json").seal("a value")
SIZES = [(MANY, MANY), (MANY, 20), (20, MANY), (SMALL - 20, SMALL - 20)]


def add(
    stores: Twins,
    keys: Iterable[str],
    *,
    now: int = NOW,
    timestamps: Callable[[int], float] = float,
    payload: bytes = b"1",
    within: int | None = None,
    **terms: Any,
) -> None:
    arrivals = [
        Arrival("t", key, payload, timestamps(number), within, Terms(**terms)) for number, key in enumerate(keys)
    ]
    stores.do(lambda store: store.add(arrivals, now=now))


def give_back(stores: Twins, lease: Lease, *, now: int, until: int | None = None, freeze: bool = False) -> None:
    assert stores.do(lambda store: store.release([Release(lease, until, freeze)], now=now)) == [True]


def fail(stores: Twins, token: str, *, now: int = NOW, **options: Any) -> None:
    """Open a digest, take it, and give it back at once."""
    lease = stores.open(token=token, now=now)
    stores.carry(lease, now=now)
    give_back(stores, lease, now=now, **options)


def is_large(stores: Twins, kind: str = "t", name: str = "t") -> bool:
    return bool(stores.client.exists(f"{{twin:0}}:{kind}a:{name}"))


# Adding


def test_a_batch_becomes_large_with_its_257th_record() -> None:
    with twins() as stores:
        add(stores, numbers(0, SMALL))
        assert not is_large(stores)
        add(stores, ["another"])

        assert is_large(stores)
        assert stores.look()["slot"]["pending"] == SMALL + 1


@pytest.mark.parametrize("place", [0, 5])
def test_a_batch_becomes_large_with_a_heavy_record(place: int) -> None:
    with twins() as stores:
        add(stores, numbers(0, place))
        add(stores, ["heavy"], payload=HEAVY)

        assert is_large(stores)
        stores.look()


def test_a_new_version_stands_where_its_own_time_is() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000)
        add(stores, numbers(100, 200), now=NOW + 1, timestamps=lambda number: 1000.0 + number, ttl=DAY)
        add(stores, numbers(200, 205), now=NOW + 2)

        assert stores.look()["pending"][0][0] == "r199"
        assert stores.expire(now=NOW + 1_000) == MANY - 105
        assert stores.look()["slot"]["pending"] == 105


def test_the_newest_are_kept_by_time_and_then_by_arrival() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), timestamps=lambda number: number % 3)
        add(stores, numbers(MANY, MANY + 20), timestamps=lambda _: 1.0, capacity=MANY)

        slot = stores.look()["slot"]

        assert (slot["pending"], slot["dropped"]) == (MANY, 20)
        stores.end("t", now=NOW)


def test_a_lowered_capacity_holds_at_the_next_add() -> None:
    with twins() as stores:
        add(stores, numbers(0, 700))
        add(stores, ["late"], timestamps=lambda _: 1e6, capacity=300)

        assert stores.look()["slot"]["pending"] == 300


def test_many_full_timelines_drop_their_oldest_in_one_call() -> None:
    """A call makes orders for only so many batches: in the others it looks for the oldest record."""
    timelines = [f"t{number}" for number in range(40)]
    terms = Terms(capacity=100)
    with twins() as stores:
        for timeline in timelines:
            for store in (stores.memory, stores.server):
                arrive(store, timeline, numbers(0, 100)[::-1], timestamp=5.0, capacity=100)

        arrivals = [Arrival(timeline, "new", b"1", 1e6, None, terms) for timeline in timelines]
        stores.do(lambda store: store.add(arrivals, now=NOW + 1))

        for timeline in timelines[::13]:
            assert stores.look(timeline)["slot"]["dropped"] == 1
        assert stores.server.ledger().dropped == 40


def test_a_capacity_makes_a_small_batch_large_and_leaves_nothing() -> None:
    with twins() as stores:
        add(stores, numbers(0, 12), capacity=10, ttl=1_000)

        assert is_large(stores)
        assert stores.look()["slot"]["dropped"] == 2
        stores.end("t", now=NOW)


def test_records_join_a_large_batch_while_its_timeline_is_open() -> None:
    with twins() as stores:
        add(stores, ["first"])
        stores.open(token="a", now=NOW)
        add(stores, numbers(0, 3), payload=HEAVY)
        for number, key in enumerate(["r3", "r4", "r5", "r4", "r6"]):
            add(stores, [key], now=NOW + 1 + number, timestamps=lambda _: 7.0, ttl=DAY)
            stores.look()

        assert is_large(stores)
        assert [key for key, *_ in stores.look()["pending"]] == ["r6", "r4", "r5", "r3", "r2", "r1", "r0"]


def test_records_join_an_open_timeline_until_the_batch_is_large() -> None:
    with twins() as stores:
        add(stores, ["first"])
        stores.open(token="a", now=NOW)
        for start in range(0, 300, 50):
            add(stores, numbers(start, start + 50), now=NOW + 1 + start, ttl=DAY)
            stores.look()

        assert is_large(stores)


BURSTS: dict[str, tuple[int, list[bytes], Terms]] = {  # records before it, its payloads, and its policy
    "small": (1, [b"1"] * 20, Terms(ttl=DAY)),
    "without an expiry": (1, [b"1"] * 20, Terms(ttl=None)),
    "up to a capacity": (2, [b"1"] * 3, Terms(capacity=5)),
    "beyond a capacity": (2, [b"1"] * 20, Terms(capacity=5)),
    "until it is large": (SMALL - 3, [b"1"] * 20, Terms(ttl=DAY)),
    "heavy in between": (1, [b"1"] * 5 + [HEAVY] + [b"1"] * 5, Terms(ttl=DAY)),
    "in a call of its own": (SMALL - 2, [b"1"] * 2, Terms(ttl=DAY)),
}


@pytest.mark.parametrize(("before", "payloads", "terms"), BURSTS.values(), ids=BURSTS)
def test_a_burst_is_put_in_as_if_its_records_came_one_by_one(before: int, payloads: list[bytes], terms: Terms) -> None:
    burst = [
        Arrival("t", f"b{number % 15}", payload, float(number), None, terms) for number, payload in enumerate(payloads)
    ]
    with twins() as stores:
        add(stores, ["first"])
        stores.open(token="a", now=NOW)
        add(stores, numbers(0, before), ttl=terms.ttl)

        stores.do(lambda store: store.add([*burst, Arrival("u", "k", b"1", 0.0, None, terms)], now=NOW + 1))

        stores.look()
        stores.do(lambda store: store.ledger())
        assert stores.look("u")["slot"]["pending"] == 1


@pytest.mark.parametrize("gone", ["replaced", "retracted", "dropped", "expired"])
def test_a_deadline_goes_with_its_record(gone: str) -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), timestamps=lambda number: number + 10, first_delay=DAY)
        add(stores, ["soon"], timestamps=lambda _: 1.0, within=1_000, first_delay=DAY, ttl=500)
        add(stores, ["later"], timestamps=lambda _: 2.0, within=2_000, first_delay=DAY)

        if gone == "replaced":
            add(stores, ["soon"], first_delay=DAY)
        elif gone == "retracted":
            stores.retract("soon", now=NOW)
        elif gone == "dropped":
            add(stores, ["new"], timestamps=lambda _: 1e6, capacity=MANY + 2, first_delay=DAY)
        else:
            stores.expire(now=NOW + 500)

        assert stores.look()["slot"]["deadline"] == NOW + 2_000


# Taking back and expiring


def test_retracted_records_are_gone_from_every_order() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000)
        for key in numbers(0, MANY)[::3]:
            assert stores.retract(key, now=NOW) is True
        assert stores.retract("r0", now=NOW) is False

        stores.look()


def test_a_timeline_of_which_all_was_retracted_begins_anew() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000, within=500)
        for key in numbers(0, MANY):
            stores.retract(key, now=NOW)
        add(stores, ["a"], now=NOW + 5)

        assert not is_large(stores)
        assert stores.look()["slot"]["first"] == NOW + 5


def test_pending_records_expire_each_at_its_moment() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000)
        add(stores, numbers(MANY, MANY + 40), now=NOW + 10, ttl=1_000)
        add(stores, ["stays"], now=NOW + 10)

        for now, expired in ((999, 0), (1_000, MANY), (1_009, 0), (1_010, 40), (DAY, 0)):
            assert stores.expire(now=NOW + now) == expired
            stores.look()


def test_a_failed_digest_expires_each_record_at_its_moment() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000)
        add(stores, numbers(MANY, MANY + 40), now=NOW + 10, ttl=1_000)
        fail(stores, "a", now=NOW + 20, until=NOW + DAY)

        for now, expired, revision in ((999, 0, 1), (1_000, MANY, 2), (1_009, 0, 2), (1_010, 40, None)):
            assert stores.expire(now=NOW + now) == expired
            assert stores.look()["slot"]["digest revision"] == revision


@pytest.mark.parametrize("last", [None, 2_000])
def test_a_frozen_digest_expires_whole_with_its_last_record(last: int | None) -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000)
        add(stores, ["last"], ttl=last)
        fail(stores, "a", until=NOW + DAY, freeze=True)

        for now, expired in ((1_000, 0), (1_999, 0), (2_000, 0 if last is None else MANY + 1)):
            assert stores.expire(now=NOW + now) == expired
            stores.look()


@pytest.mark.parametrize(("old", "new"), SIZES)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_merged_digest_expires_too(old: int, new: int, frozen: bool) -> None:
    with twins() as stores:
        add(stores, numbers(0, old), ttl=2_000)
        fail(stores, "a")
        add(stores, numbers(old - 10, old + new), ttl=1_000)
        fail(stores, "b", until=NOW + DAY, freeze=frozen)

        for now in (999, 1_000, 1_999, 2_000):
            stores.expire(now=NOW + now)
            stores.look()
        assert stores.server.ledger().expired == old + new


# Delivering


@pytest.mark.parametrize(("old", "new"), SIZES)
@pytest.mark.parametrize("capacity", [None, 280, 15])
def test_a_merge_takes_the_later_versions_and_the_newest_of_all(old: int, new: int, capacity: int | None) -> None:
    with twins() as stores:
        add(stores, numbers(0, old), timestamps=lambda number: number % 50)
        fail(stores, "a")
        add(stores, numbers(old - 10, old - 10 + new), now=NOW + 1, timestamps=lambda number: number % 70)

        lease = stores.open(token="b", now=NOW + 2)
        carried = stores.carry(lease, now=NOW + 2, capacity=capacity)

        assert (carried.revision, len(carried.records)) == (2, min(old + new - 10, capacity or 10**6))
        stores.look()
        assert stores.do(lambda store: store.complete([Completion(lease, 1_000)], now=NOW + 3)) == [True]
        stores.look()
        stores.end("t", now=NOW + 3)


def test_a_digest_is_trimmed_to_a_lower_capacity() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), timestamps=lambda number: number % 7)

        carried = stores.carry(stores.open(token="a", now=NOW), now=NOW, capacity=100)

        assert (carried.dropped, len(carried.records)) == (MANY - 100, 100)
        stores.look()


@pytest.mark.parametrize("end", ["close", "delete", "open again", "lapse and expire"])
@pytest.mark.parametrize(("old", "new"), [(MANY, 600), (20, 600)])
def test_an_interrupted_merge_ends_as_if_it_had_not_been(end: str, old: int, new: int) -> None:
    with twins() as stores:
        add(stores, numbers(0, old), ttl=2_000)
        fail(stores, "a")
        add(stores, numbers(old - 10, old - 10 + new), now=NOW + 1, ttl=1_000)
        lease = stores.open(token="b", now=NOW + 2)
        stores.take_once(Take(lease, None, merge=True), now=NOW + 2)

        if end == "close":
            for store in (stores.memory, stores.server):
                assert store.complete([Completion(lease, 0)], now=NOW + 3) == [True]
        elif end == "open again":
            for store in (stores.memory, stores.server):
                assert release(store, lease, now=NOW + 3)
            stores.carry(stores.open(token="c", now=NOW + 3), now=NOW + 3)
            stores.look()
        elif end == "lapse and expire":
            for store in (stores.memory, stores.server):
                maintain(store, NOW, now=NOW + DAY)
            assert stores.server.ledger().expired >= old + new - 10
        stores.server.verify()
        for store in (stores.memory, stores.server):
            while store.delete("t", now=NOW + 4):
                pass
        assert {kind: count for kind, count in stores.server.footprint().items() if count} == {}


def test_quarantined_records_leave_every_order_of_the_digest() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=DAY)
        fail(stores, "a")
        lease = stores.open(token="b", now=NOW)
        stores.carry(lease, now=NOW)
        quarantined = [
            QuarantinedRecord(f"r{number}", f"letter-{number:03}", "it is broken") for number in range(0, 20, 3)
        ]

        assert stores.do(lambda store: store.quarantine(lease, quarantined, now=NOW + 1)) is True

        assert len(stores.carry(lease, now=NOW + 1).records) == MANY - 7
        stores.look()


@pytest.mark.parametrize("first", [0, 400])
def test_more_than_a_call_can_quarantine_is_one_change_of_the_digest(first: int) -> None:
    """Also if the first records are gone already."""
    with twins() as stores:
        add(stores, numbers(first, 700))
        fail(stores, "a")
        lease = stores.open(token="b", now=NOW)
        stores.carry(lease, now=NOW)
        quarantined = [QuarantinedRecord(f"r{number}", f"letter-{number:03}", "it is broken") for number in range(600)]

        assert stores.do(lambda store: store.quarantine(lease, quarantined, now=NOW + 1)) is True

        assert stores.carry(lease, now=NOW + 1).revision == 2
        assert len(stores.look(page=1000)["letters"]) == 600 - first


@pytest.mark.parametrize("payload", [b"1", HEAVY], ids=["light", "heavy"])
@pytest.mark.parametrize(("many", "newer"), SIZES)
def test_the_records_of_a_dead_letter_are_pending_again(many: int, newer: int, payload: bytes) -> None:
    """Large or small, into a large or a small batch, urgent records among them."""
    with twins() as stores:
        add(stores, numbers(0, many), payload=payload, ttl=1_000, within=500)
        lease = stores.open(token="a", now=NOW)
        stores.carry(lease, now=NOW)
        assert stores.do(lambda store: store.bury([Burial(lease, "given up", 1_000)], now=NOW + 1)) == [True]
        add(stores, numbers(many - 10, many - 10 + newer), now=NOW + 2, within=100)

        stores.do(lambda store: total(requeue(store, lease.digest_id, limit=100, ttl=5_000, now=NOW + 3)))

        stores.look()
        assert stores.expire(now=NOW + 5_002) == 0
        assert stores.expire(now=NOW + 5_003) == many - 10
        stores.look()
        stores.end("t", now=NOW + DAY)


def test_a_large_letter_is_requeued_within_a_capacity() -> None:
    with twins() as stores:
        add(stores, numbers(0, 700))
        lease = stores.open(token="a", now=NOW)
        stores.carry(lease, now=NOW)
        stores.do(lambda store: store.bury([Burial(lease, "given up", 0)], now=NOW))
        add(stores, numbers(900, 950), within=500)

        stores.do(lambda store: total(requeue(store, lease.digest_id, capacity=60, now=NOW)))

        assert stores.look()["slot"]["pending"] == 60
        stores.end("t", now=NOW + DAY)


def test_heavy_records_are_requeued_a_few_at_a_time() -> None:
    with twins() as stores:
        add(stores, numbers(0, 40), payload=b"x" * 100_000)
        lease = stores.open(token="a", now=NOW)
        stores.carry(lease, now=NOW)
        stores.do(lambda store: store.bury([Burial(lease, "given up", 0)], now=NOW))

        page = stores.server.requeue(Requeue(lease.digest_id, Terms(), 0), now=NOW)

        assert page == Requeued(11, 0, more=True)  # which make a MiB
        assert record_keys(stored(stores.server, "t", Part.PENDING)) == numbers(0, 11)[::-1]
        assert stores.server.verify()


def total(pages: Iterable[Requeued]) -> tuple[int, int]:
    """How many records left a letter, and how many were dropped: how large a page is, is each store's own affair."""
    found = list(pages)
    return sum(page.records for page in found), sum(page.dropped for page in found)


@pytest.mark.parametrize("payload", [b"1", HEAVY], ids=["light", "heavy"])
def test_a_dead_letter_comes_back_as_it_was(payload: bytes) -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY if payload == b"1" else 20), payload=payload, ttl=1_000)
        lease = stores.open(token="a", now=NOW)
        before = stores.carry(lease, now=NOW)
        burial = Burial(lease, "given up", 1_000)

        assert stores.do(lambda store: store.bury([burial], now=NOW + 1)) == [True]
        stores.look()
        add(stores, numbers(0, MANY), now=NOW + 2)
        assert stores.do(lambda store: store.replay(lease.digest_id, now=NOW + 3)) is True
        stores.look()
        stores.expire(now=NOW + DAY)
        again = stores.open(token="b", now=NOW + DAY)
        assert stores.carry(again, now=NOW + DAY) == before
        assert stores.do(lambda store: store.complete([Completion(again, 0)], now=NOW + DAY)) == [True]

        stores.look()
        stores.end("t", now=NOW + DAY)


def test_a_discarded_letter_leaves_nothing() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000, timestamps=lambda number: -number)
        lease = stores.open(token="a", now=NOW)
        stores.do(lambda store: store.bury([Burial(lease, "given up", 0)], now=NOW))

        assert stores.do(lambda store: store.discard(lease.digest_id, now=NOW + 1)) is True

        assert stores.look()["history"][-1].keys == tuple(numbers(0, 100))
        stores.end("t", now=NOW + 1)


def test_a_deleted_timeline_leaves_nothing_whatever_is_large() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), ttl=1_000)
        buried = stores.open(token="a", now=NOW)
        stores.do(lambda store: store.bury([Burial(buried, "given up", 0)], now=NOW))
        add(stores, numbers(0, MANY), ttl=1_000, within=5)
        stores.do(lambda store: store.flush("t", now=NOW))
        stores.open(token="b", now=NOW)
        add(stores, numbers(0, MANY), ttl=1_000, within=5)

        stores.look()
        stores.end("t", now=NOW)


# Reading


def test_two_thousand_records_of_one_moment_are_read_in_the_order_of_arrival() -> None:
    with twins() as stores:
        for start in (0, 1000):
            add(stores, numbers(start, start + 1000), timestamps=lambda _: 1.5)

        assert [key for key, *_ in stores.look(page=333)["pending"]] == numbers(0, 2000)[::-1]
        carried = stores.carry(stores.open(token="a", now=NOW), now=NOW)
        assert [key for key, *_ in carried.records] == numbers(0, 2000)[::-1]


@pytest.mark.parametrize("timestamp", [0.0, -0.0, 0.1 + 0.2, -62135596800.5, 1e300])
def test_pages_go_on_at_any_time(timestamp: float) -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY), timestamps=lambda number: timestamp if number % 2 else number)

        stores.look(page=7)


def test_a_record_is_found_in_each_large_batch() -> None:
    with twins() as stores:
        add(stores, numbers(0, MANY))
        stores.open(token="a", now=NOW)
        add(stores, numbers(100, 100 + MANY), payload=b"2")

        def found(store: Store) -> list[dict[Part, bytes | None]]:
            versions = [store.find("t", key) for key in ("r0", "r200", "r400")]
            return [{part: record.payload for part, record in each.items()} for each in versions]

        assert stores.do(found) == [{Part.DIGEST: b"1"}, {Part.PENDING: b"2", Part.DIGEST: b"1"}, {Part.PENDING: b"2"}]


@pytest.mark.parametrize(("old", "new"), SIZES)
def test_a_peek_shows_what_the_next_digest_carries(old: int, new: int) -> None:
    policy = Policy(capacity=290, minimum_delay=0)
    with twins() as stores:
        add(stores, numbers(0, old), payload=SEALED, timestamps=lambda number: number % 9)
        fail(stores, "a")
        add(stores, numbers(old - 10, old + new), payload=SEALED, timestamps=lambda number: number % 9)

        def peek(store: Store) -> list[Record]:
            return Digests(store, policy=policy).peek("t", now=NOW / 1000)

        shown = stores.do(peek)
        carried = stores.carry(stores.open(token="b", now=NOW), now=NOW, capacity=290)
        assert [record.key for record in shown] == [key for key, *_ in carried.records]


def test_pages_of_heavy_records_are_short_and_none_is_left_out() -> None:
    payload = b"x" * 200_000
    with twins() as stores:
        add(stores, numbers(0, 40), payload=payload)

        page = stores.server.records("t", Part.PENDING, after=None, limit=1000)
        lease = stores.open(token="a", now=NOW)
        [taken] = stores.server.take([Take(lease, None, merge=True)], now=NOW)

        assert len(page) == 6  # which make a MiB
        assert taken is not None
        assert record_keys(taken.records) == record_keys(page)
        assert len(stores.carry(lease, now=NOW).records) == 40


def test_a_small_batch_of_many_bytes_is_read_in_pages_too() -> None:
    with twins() as stores:
        add(stores, numbers(0, 250), payload=b"x" * 8_000)
        assert not is_large(stores)

        page = stores.server.records("t", Part.PENDING, after=None, limit=1000)
        lease = stores.open(token="a", now=NOW)
        [taken] = stores.server.take([Take(lease, None, merge=True)], now=NOW)

        assert len(page) == 131  # which make a MiB
        assert taken is not None
        assert not taken.complete
        assert record_keys(taken.records) == record_keys(page)
        assert [key for key, *_ in stores.carry(lease, now=NOW).records] == numbers(0, 250)[::-1]


def test_heavy_records_that_a_busy_call_left_in_a_small_batch_are_read_in_pages_too() -> None:
    """A call that has enlarged several batches leaves the others small, also where heavy records join them."""
    others = [f"o{number}" for number in range(10)]
    with twins() as stores:
        for other in others:
            stores.server._batches.remember_large(other)  # type: ignore[attr-defined]  # so that one call has them all
            for store in (stores.memory, stores.server):
                arrive(store, other, numbers(0, SMALL))
        for number in range(2):
            busy = [Arrival(other, "more", b"1", 0.0, None, Terms()) for other in others[number * 5 : number * 5 + 5]]
            heavy = [Arrival("t", f"r{number}{n}", b"x" * 250_000, n, None, Terms()) for n in range(5)]
            stores.do(methodcaller("add", [*busy, *heavy], now=NOW))
        assert not is_large(stores)

        lease = stores.open(token="a", now=NOW)
        [taken] = stores.server.take([Take(lease, None, merge=True)], now=NOW)

        assert taken is not None
        assert (len(taken.records), taken.complete) == (5, False)
        assert [key for key, *_ in stores.carry(lease, now=NOW).records][:3] == ["r14", "r04", "r13"]


def test_partitions_of_one_call_share_the_bytes_of_its_reply() -> None:
    timelines = [f"t{number}" for number in range(64)]
    with opened(f"{empty_server().url}?partitions=32") as store:
        for timeline in timelines:
            store.add([Arrival(timeline, key, b"x" * 200_000, 0.0, None, Terms()) for key in numbers(0, 3)], now=NOW)
        leases = [open_lease(store, timeline) for timeline in timelines]

        answers = store.take([Take(lease, None, merge=True) for lease in leases], now=NOW)

        taken = sum(weight_of(answer.records) for answer in answers if answer is not None)
        assert PAGE_BYTES / 2 < taken < PAGE_BYTES * 2  # a record more of each partition


def test_digests_of_one_call_share_the_bytes_of_its_reply() -> None:
    timelines = [f"t{number}" for number in range(8)]
    with twins() as stores:
        store = stores.server
        for timeline in timelines:
            arrivals = [Arrival(timeline, key, b"x" * 200_000, 0.0, None, Terms()) for key in numbers(0, 5)]
            store.add(arrivals, now=NOW)
        leases = [open_digest(store, timeline, now=NOW) for timeline in timelines]

        answers = store.take([Take(lease, None, merge=True) for lease in leases], now=NOW)

        assert sum(len(answer.records) for answer in answers if answer is not None) == 6  # which make a MiB
        assert [answer.complete for answer in answers if answer is not None] == [True] + [False] * 7


def test_digests_of_one_call_share_what_it_merges() -> None:
    """A call moves 250 records at most: here one digest is merged whole, one in part, and two are not begun."""
    timelines = [f"t{number}" for number in range(4)]
    with twins() as stores:
        store = stores.server
        for timeline in timelines:
            arrive(store, timeline, ["old"])
            release(store, open_digest(store, timeline))
            arrive(store, timeline, numbers(0, 200))
        leases = [open_lease(store, timeline) for timeline in timelines]

        store.take([Take(lease, None, merge=True) for lease in leases], now=NOW)

        digests = [store.inspect(timeline).digest for timeline in timelines]
        assert [digest.records for digest in digests if digest is not None] == [201, 201, 1, 1]
        assert [digest.settled for digest in digests if digest is not None] == [True, False, True, True]


def test_heavy_records_are_merged_a_few_at_a_time() -> None:
    with twins() as stores:
        add(stores, ["old"])
        fail(stores, "a")
        add(stores, numbers(0, 40), payload=b"x" * 100_000)
        lease = stores.open(token="b", now=NOW)

        stores.server.take([Take(lease, None, merge=True)], now=NOW)

        assert stores.client.hlen("{twin:0}:m:t") == 40 - 11  # which make a MiB
        assert len(stores.carry(lease, now=NOW).records) == 41
        stores.look()


def test_heavy_records_expire_a_few_at_a_time() -> None:
    with twins() as stores:
        add(stores, numbers(0, 40), payload=b"x" * 100_000, ttl=1_000)

        done = stores.server.maintain(0, None, limit=100, now=NOW + 1_000)

        assert (done.expired, done.more) == ([("t", 11)], True)
        assert sum(many for _, many in maintain(stores.server, now=NOW + 1_000).expired) == 40 - 11


def test_no_record_of_a_half_merged_digest_is_passed_over_beside_heavy_ones() -> None:
    with twins() as stores:
        add(stores, numbers(0, 100), timestamps=lambda number: 1000.0 + number, payload=b"x" * 40_000)
        fail(stores, "a")
        add(stores, numbers(100, 700))
        lease = stores.open(token="b", now=NOW)
        stores.server.take([Take(lease, None, merge=True)], now=NOW)

        keys = record_keys(stored(stores.server, "t", Part.DIGEST))

        assert keys == [*numbers(0, 100)[::-1], *numbers(100, 700)[::-1]]


# Whole lives


def test_large_timelines_live_the_same_life_on_a_server_as_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    live_large(0, monkeypatch, steps=60)
