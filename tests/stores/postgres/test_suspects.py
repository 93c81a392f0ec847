"""Suspects and large digests, in the ways of PostgreSQL. What all stores show is in the conformance suite."""

from collections.abc import Iterator

import psycopg
import pytest

from digestif.core.terms import Terms
from digestif.stores.base import Arrival, QuarantinedRecord, Store, SuspectGroup, Take
from digestif.stores.postgres.transaction import SQL
from digestif.stores.registry import open_store
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    claim_suspects,
    open_digest,
    open_lease,
    take_all,
)
from digestif.testing.servers import becomes_true
from tests.stores.postgres.searches import slow_searches

LAPSED = NOW + LEASE


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = open_store(url)
    yield store
    store.close()


def test_a_claim_of_suspects_goes_past_what_others_are_about_to_change(store: Store, url: str) -> None:
    arrive_everywhere(store, "abcd")
    for timeline in "abcd":
        open_digest(store, timeline)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM digestif.timeline WHERE key IN ('a', 'c') FOR UPDATE")

        assert [lease.timeline for lease in claim_suspects(store)] == ["b", "d"]

    assert [lease.timeline for lease in claim_suspects(store)] == ["a", "c"]
    assert store.verify()


def test_two_workers_share_no_suspect(store: Store, url: str) -> None:
    """The second comes while the first has not committed yet."""
    arrive(store, "t", ["a"])
    open_digest(store)
    with psycopg.connect(url) as first:
        first.execute("UPDATE digestif.timeline SET until = until + 1000, version = version + 1")

        assert claim_suspects(store) == []

        first.rollback()
    assert len(claim_suspects(store)) == 1


def test_what_a_caller_added_inside_a_transaction_is_in_an_empty_suspect(store: Store, url: str) -> None:
    """It is no retired timeline: the record was committed before."""
    arrive(store, "t", ["a"])
    store.quarantine(open_digest(store), [QuarantinedRecord("a", "letter", "odd")], now=NOW)
    with psycopg.connect(url) as caller:
        store.add_inside(caller, [Arrival("t", "b", b"b", 1.0, None, Terms())])

    [lease] = claim_suspects(store)

    assert [record.key for record in take_all(store, lease, now=LAPSED).records] == ["b"]


def test_a_large_digest_with_a_key_that_is_not_utf_8_is_read_to_its_end(store: Store, url: str) -> None:
    """The record comes without its value, but the page ended by the bytes that it has."""
    size = 200_000
    for number in range(50):
        payload = b"x" * size
        store.add([Arrival("t", f"r{number}", payload, float(number), None, Terms())], now=NOW)
    with psycopg.connect(url) as other:
        assert other.execute(r"UPDATE digestif.record SET key = '\xff'::bytea WHERE key = 'r49'").rowcount == 1

    taken = take_all(store, open_lease(store))

    assert len(taken.records) == 50
    assert [record.payload is None for record in taken.records] == [True] + [False] * 49


def test_a_digest_that_is_read_ahead_behind_such_a_key_is_read_to_its_end(store: Store, url: str) -> None:
    """Both pages come with one statement, which ends by the bytes of both."""
    for timeline, count in (("one", 1), ("other", 50)):
        for number in range(count):
            store.add([Arrival(timeline, f"r{number}", b"x" * 200_000, 0.0, None, Terms())], now=NOW)
    leases = [open_lease(store, timeline) for timeline in ("one", "other")]
    with psycopg.connect(url) as connection:
        connection.execute(r"UPDATE digestif.record SET key = '\xff'::bytea WHERE key = 'r0' AND arrival < 3")

    _, taken = store.take([Take(lease, None, True) for lease in leases], now=NOW)

    assert taken is not None
    assert taken.complete is (len(taken.records) == 50)


def test_suspects_below_the_floor_are_found_by_the_next_search_from_the_start(url: str) -> None:
    with slow_searches(url, longest_seconds=0.3) as digests:
        store = digests.store
        digests.add("early", 1, now=1000.0)
        store.open("early", token="w", lease=1000, now=1_000_000)
        digests.pause("early")
        assert store.claim(0, 10, token="x", lease=1000, now=None).suspect is None
        digests.resume("early")

        assert becomes_true(lambda: store.claim(0, 10, token="x", lease=1000, now=None).suspect == 1_001_000)


def test_suspects_are_looked_for_where_claims_are(url: str) -> None:
    """From the floor that a slow search left; at a time of the caller's choice from the start."""
    with slow_searches(url, share=1e-9) as digests:  # the floor lasts as long as one may
        store = digests.store
        digests.add("early", 1, now=1000.0)
        store.open("early", token="w", lease=1000, now=1_000_000)
        digests.pause("early")
        store.claim(0, 10, token="x", lease=1000, now=None)
        digests.resume("early")

        assert store.claim_suspects(0, SuspectGroup(8, 8, alone=False), token="x", lease=1000, now=None).leases == []
        assert (
            len(store.claim_suspects(0, SuspectGroup(8, 8, alone=False), token="x", lease=1000, now=2_000_000).leases)
            == 1
        )


def test_many_that_lapsed_long_ago_keep_no_floor_above_them(url: str) -> None:
    """A slow search learns from the first suspect, and the next one still finds it."""
    with slow_searches(url) as digests:
        store = digests.store
        digests.add("early", 1, now=1000.0)
        store.open("early", token="w", lease=1000, now=1_000_000)
        digests.add_many([(f"t{n}", 1) for n in range(5)])

        claims = [store.claim(0, 2, token="x", lease=30_000, now=None) for _ in range(4)]

    assert [len(each.leases) for each in claims] == [2, 2, 1, 0]
    assert [each.suspect for each in claims] == [1_001_000] * 4


@pytest.mark.parametrize("analyzed", [False, True], ids=["unknown", "analyzed"])
@pytest.mark.parametrize(
    ("statement", "index"), [("suspects", "timeline_until"), ("lapsed_while_paused", "timeline_paused_until")]
)
def test_lapsed_timelines_are_found_by_their_index(
    store: Store, url: str, statement: str, index: str, analyzed: bool
) -> None:
    """However many there are: the head of an order is read, and nothing is sorted."""
    arrive(store, "t", ["a"])
    with psycopg.connect(url, autocommit=True, options="-c search_path=digestif") as other:
        other.execute(MANY_LAPSED)
        if analyzed:
            other.execute("ANALYZE timeline")
        values = (1, 0, 10**6, 8, 0) if statement == "suspects" else (1, 10**6, 8)
        plan = "\n".join(row[0] for row in other.execute(f"EXPLAIN {getattr(SQL, statement)}".encode(), values))

    assert f"Index Scan using {index} " in plan
    assert "Sort" not in plan


MANY_LAPSED = """\
INSERT INTO timeline (namespace, key, until, paused_until, slot)
SELECT 1, number::text::bytea, number, number, '{}' FROM generate_series(1, 20000) AS number"""
