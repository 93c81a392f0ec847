"""Suspects and large digests, in the ways of PostgreSQL. What all stores show is in the conformance suite."""

from collections.abc import Iterator

import psycopg
import pytest

from digestif import Digests
from digestif.core.policy import Terms
from digestif.stores.base import Arrival, SetAside, Store, Take
from digestif.stores.dsn import open_store
from digestif.stores.postgres import floors
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    claim_all,
    claim_suspects,
    open_digest,
    open_lease,
    take_all,
)
from digestif.testing.servers import becomes_true

LAPSED = NOW + LEASE


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = open_store(url)
    yield store
    store.disconnect()


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
    store.set_aside(open_digest(store), [SetAside("a", "letter", "odd")], now=NOW)
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


def test_suspects_below_the_floor_are_found_by_the_next_search_from_the_start(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floors, "SLOW_SECONDS", 0.0)  # every search is slow
    monkeypatch.setattr(floors, "LONGEST_SECONDS", 0.3)
    with Digests(url) as digests:
        store = digests.store
        digests.add("early", 1, now=1000.0)
        store.open("early", token="w", lease=1000, now=1_000_000)
        digests.pause("early")
        assert store.claim(0, 10, token="x", lease=1000, now=None).suspect is None
        digests.resume("early")

        assert becomes_true(lambda: store.claim(0, 10, token="x", lease=1000, now=None).suspect == 1_001_000)


def test_many_that_lapsed_long_ago_keep_no_floor_above_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow search learns from the first suspect, and the next still tells of it."""
    monkeypatch.setattr(floors, "SLOW_SECONDS", 0.0)
    with Digests(url) as digests:
        store = digests.store
        digests.add("early", 1, now=1000.0)
        store.open("early", token="w", lease=1000, now=1_000_000)
        digests.add_many([(f"t{n}", 1) for n in range(5)])

        claims = [store.claim(0, 2, token="x", lease=30_000, now=None) for _ in range(4)]

    assert [len(each.leases) for each in claims] == [2, 2, 1, 0]
    assert [each.suspect for each in claims] == [1_001_000] * 4


STATEMENTS = {
    "suspects": "timeline_until",
}


def test_a_take_of_several_digests_reads_each_page_once(store: Store) -> None:
    arrive_everywhere(store, [f"t{n}" for n in range(20)])
    leases = claim_all(store)

    answers = store.take([Take(lease, None, True) for lease in leases], now=NOW)

    assert [taken and (len(taken.records), taken.complete) for taken in answers] == [(1, True)] * 20
