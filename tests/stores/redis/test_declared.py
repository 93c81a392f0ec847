"""What a call of `add` declares: the hash of each timeline, and its orders only where they are needed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from digestif import Digests, Policy, Record
from digestif.stores.base import Arrival
from digestif.stores.redis.batches import ADDED_RECORDS, Batches
from digestif.stores.redis.keys import Keys
from digestif.testing.servers import RedisServer
from tests.servers import empty_server
from tests.stores.redis.layout import SMALL, flaws

LARGE = SMALL + 44


@contextmanager
def opened() -> Iterator[tuple[Digests, RedisServer]]:
    server = empty_server()
    with Digests(server.url, policy=Policy(capacity=None)) as digests:
        yield digests, server


def records(timeline: str, keys: range) -> list[tuple[str, Record]]:
    return [(timeline, Record(f"{key:04}", key, 0.0)) for key in keys]


def pending(digests: Digests, timeline: str) -> list[str]:
    return [record.key for record in digests.peek(timeline, limit=10_000)][::-1]


def arrival(timeline: str, *, size: int = 10, within: int | None = None) -> Arrival:
    terms = Policy().terms()
    return Arrival(timeline, "k", b"json/1 " + b"1" * size, 0.0, within, terms)


def declared(batches: Batches, batch: list[Arrival]) -> list[int]:
    """How many keys the calls of a batch declare beside those of the partition."""
    shares = [share for group in batches.shares(batch, range(len(batch))) for share in group]
    return [share.call.keys.parts for share in shares]


def test_a_call_declares_one_key_for_a_timeline_and_three_for_one_that_is_large() -> None:
    batches = Batches(Keys("d", 1))
    batches.remember_large("large")

    assert declared(batches, [arrival("a"), arrival("b"), arrival("a")]) == [2]
    assert declared(batches, [arrival("a"), arrival("large")]) == [4]
    assert batches.call_alone(arrival("a")).keys.parts == 1
    assert batches.call_alone(arrival("large")).keys.parts == 3


@pytest.mark.parametrize("kind", [{"size": 9_000}, {"within": 1000}])
def test_a_heavy_or_urgent_record_declares_the_orders(kind: dict[str, int]) -> None:
    batches = Batches(Keys("d", 1))

    assert declared(batches, [arrival("a"), arrival("b", **kind), arrival("c")]) == [5]
    assert batches.call_alone(arrival("b", **kind)).keys.parts == 3


def test_a_timeline_is_in_one_call_unless_its_orders_are_declared() -> None:
    """So a record that is left out never comes behind a later one of its timeline."""
    batches = Batches(Keys("d", 1))
    mixed = [arrival(f"t{number % 40}") for number in range(400)] + [arrival("many")] * (2 * ADDED_RECORDS)

    shares = [share for group in batches.shares(mixed, range(len(mixed))) for share in group]
    homes: dict[str, set[int]] = {}
    for number, share in enumerate(shares):
        for position in share.positions:
            homes.setdefault(mixed[position].timeline, set()).add(number)

    assert sorted(position for share in shares for position in share.positions) == list(range(len(mixed)))
    assert max(len(share.positions) for share in shares) <= ADDED_RECORDS
    assert {len(numbers) for name, numbers in homes.items() if name != "many"} == {1}
    assert len(homes["many"]) > 1


def test_records_that_need_orders_follow_in_their_order() -> None:
    """Two records fit into the small batch; the others are left out, and are added by the next call."""
    with opened() as (digests, server):
        digests.add_many(records("t", range(SMALL - 2)))
        batch = records("t", range(SMALL - 2, SMALL + 8))
        others = records("u", range(10))

        answers = digests.add_many([pair for both in zip(batch, others, strict=True) for pair in both])

        assert answers == [False, True, *[False] * 18]
        assert pending(digests, "t") == [f"{key:04}" for key in range(SMALL + 8)]
        assert digests.ledger().accepted == digests.ledger().pending == SMALL + 18
        assert digests.verify()
        with server.client() as client:
            assert flaws(client, namespace="d") == []


def test_a_record_behind_one_that_was_left_out_does_not_overtake_it() -> None:
    """The policy of a timeline may change while a batch is gathered: here the second record has room by its own."""
    with opened() as (digests, _):
        digests.add_many(records("t", range(3)))
        narrow, wide = Policy(capacity=3).terms(), Policy(capacity=9).terms()
        batch = [arrival("t")._replace(key=key, terms=terms) for key, terms in {"a": narrow, "b": wide}.items()]

        digests.store.add(batch, now=None)

        assert pending(digests, "t")[-2:] == ["a", "b"]


def test_a_single_record_that_needs_orders_is_added_once() -> None:
    with opened() as (digests, _):
        digests.add_many(records("t", range(SMALL)))

        assert digests.accept("t", 1, key="one").ready is False
        assert digests.accept("t", 1, key="two").due is not None

        assert pending(digests, "t")[-2:] == ["one", "two"]
        assert digests.ledger().accepted == digests.ledger().pending == SMALL + 2


def test_an_engine_that_does_not_know_that_a_timeline_is_large_finds_out() -> None:
    with opened() as (digests, server):
        digests.add_many(records("t", range(LARGE)))
        with Digests(server.url, policy=Policy(capacity=LARGE)) as other:
            other.add("t", 1, key="single")
        with Digests(server.url, policy=Policy(capacity=LARGE)) as other:
            other.add_many([("t", Record("b", 1, 0.0)), ("u", Record("c", 1, 0.0)), ("t", Record("d", 1, 0.0))])

        assert pending(digests, "t") == [*[f"{key:04}" for key in range(3, LARGE)], "b", "d", "single"]
        assert digests.ledger().dropped == 3
        assert digests.verify()


def test_large_timelines_of_one_call_have_orders_of_their_own() -> None:
    with opened() as (digests, server):
        for name in ("a", "b", "c"):
            digests.add_many(records(name, range(LARGE)))

        digests.add_many([pair for name in ("c", "x", "a", "b") for pair in records(name, range(LARGE - 1, LARGE + 3))])

        for name in ("a", "b", "c"):
            assert pending(digests, name) == [f"{key:04}" for key in range(LARGE + 3)]
        with server.client() as client:
            assert flaws(client, namespace="d") == []
