"""The inbox: nothing that is stored in it can stop a namespace."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from digestif import AsyncDigests, ConfigError, Damaged, Digests, Dropped, Event, Policy, StoreError
from digestif.testing.conformance.actions import deliver, keys, scheduled
from tests.stores.postgres.servers import empty_database

pytestmark = pytest.mark.long

GARBLED: dict[str, dict[str, Any]] = {
    "terms": {"terms": b"{\\"},
    "terms of another kind": {"terms": b"[1]"},
    "terms that can't be": {"terms": b'{"ttl":-5}'},
    "a delay beyond all clocks": {"terms": b'{"first_delay":9223372036854775807}'},
    "a timeline that is not UTF-8": {"timeline": b"t\xff"},
    "no timeline": {"timeline": b""},
    "a timeline that is too long": {"timeline": b"t" * 513},
    "a key that is not UTF-8": {"key": b"k\xff"},
    "no key": {"key": b""},
    "a time that is none": {"timestamp": float("nan")},
    "a time without an end": {"timestamp": float("inf")},
    "a deadline beyond all clocks": {"within": 2**63 - 1},
    "a deadline in the past": {"within": -5},
}
INSERT = """INSERT INTO digestif.inbox (namespace, timeline, key, timestamp, payload, within, terms)
    SELECT id, %(timeline)s, %(key)s, %(timestamp)s, %(payload)s, %(within)s, %(terms)s FROM digestif.namespace"""
SOUND = {"timeline": b"bad", "key": b"k", "timestamp": 1.0, "payload": b"json/1 1", "within": None, "terms": b"{}"}


@pytest.fixture
def dsn() -> Iterator[str]:
    with empty_database() as url:
        yield url


@pytest.fixture
def digests(dsn: str) -> Iterator[Digests]:
    with Digests(dsn) as digests:
        digests.add("good", 1, key="first")
        yield digests


def put(dsn: str, **columns: Any) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(INSERT, {**SOUND, **columns})


@pytest.mark.parametrize("what", GARBLED)
def test_a_row_that_cannot_be_read_becomes_a_dead_letter(digests: Digests, dsn: str, what: str) -> None:
    heard: list[Event] = []
    digests.subscribe(heard.append)
    put(dsn, **GARBLED[what])
    with psycopg.connect(dsn) as connection:
        digests.add("good", 2, key="second", connection=connection)

    assert digests.ledger().accepted == 3
    assert digests.add("good", 3, key="third") is False
    assert scheduled(digests) == []
    assert keys(digests.peek("good")) == ["third", "second", "first"]

    ledger = digests.ledger()
    assert (ledger.pending, ledger.dead) == (3, 1)
    assert digests.verify()
    [letter] = digests.dead_letters()
    assert "can't be read" in letter.reason
    assert [(event.part, event.timeline) for event in heard if isinstance(event, Damaged)] == [
        ("inbox", letter.timeline)
    ]
    assert [stored.payload for stored in digests.store.letter_records(letter.id, after=None, limit=9)] == [b"json/1 1"]


def test_a_record_for_a_damaged_timeline_becomes_a_dead_letter(digests: Digests, dsn: str) -> None:
    digests.add("bad", 1)
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE digestif.timeline SET slot = 'x' WHERE key = 'bad'")
        digests.add("bad", 2, key="late", connection=connection)
        digests.add("good", 2, key="second", connection=connection)

    assert keys(deliver(digests, "good", now=digests.store.time(0) / 1000)) == ["second", "first"]

    [letter] = digests.dead_letters()
    assert letter.timeline == "bad"
    assert keys(digests.dead_records(letter.id)) == ["late"]
    digests.repair()
    assert digests.verify()


def test_a_row_whose_clock_was_wrong_is_added_all_the_same(digests: Digests, dsn: str) -> None:
    put(dsn, timeline=b"t", terms=b'{"ttl":1000,"maximum":5}')
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE digestif.inbox SET added = -9223372036854775808")

    assert keys(digests.peek("t")) == ["k"]
    assert digests.verify()


def test_a_slot_whose_batch_is_no_number_is_named_by_a_single_add(digests: Digests, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute('UPDATE digestif.timeline SET slot = \'{"batch":99999999999999999999,"x":1}\'')

    with pytest.raises(StoreError, match=r"'good'.*digestif repair"):
        digests.add("good", 2)


TOO_LONG = 4 * 86_400


def test_a_delay_that_would_outlive_the_ttl_is_refused_inside_a_transaction(digests: Digests, dsn: str) -> None:
    """Fact 76. The override is read by the store's own connection: what the caller's transaction did stays as it is."""
    digests.set_policy("own", Policy(ttl=10 * TOO_LONG))

    with psycopg.connect(dsn) as connection:
        digests.add("t", "kept", connection=connection)
        with pytest.raises(ConfigError, match=r"first_delay: .* ttl"):
            digests.add("t", "refused", first_delay=TOO_LONG, connection=connection)
        with pytest.raises(ConfigError, match=r"first_delay: .* ttl"):
            digests.add_many([("own", 1), ("t", "refused")], first_delay=TOO_LONG, connection=connection)
        digests.add("own", "kept", first_delay=TOO_LONG, connection=connection)

    assert [record.value for record in digests.peek("t")] == ["kept"]
    assert [record.value for record in digests.peek("own")] == ["kept"]


def test_a_caller_who_awaits_is_refused_as_well(digests: Digests, dsn: str) -> None:
    """Fact 76."""

    async def run() -> None:
        async with AsyncDigests(dsn) as own, await psycopg.AsyncConnection.connect(dsn) as connection:
            with pytest.raises(ConfigError, match=r"first_delay: .* ttl"):
                await own.add("t", "refused", first_delay=TOO_LONG, connection=connection)
            with pytest.raises(ConfigError, match=r"first_delay: .* ttl"):
                await own.add_many([("t", "refused")], first_delay=TOO_LONG, connection=connection)

    asyncio.run(run())

    assert digests.peek("t") == []


def test_a_policy_that_is_set_before_the_commit_wins_over_a_delay(digests: Digests, dsn: str) -> None:
    """Fact 76. The record leaves by the policy that holds when it is accepted."""
    with psycopg.connect(dsn) as connection:
        digests.add("t", 1, first_delay=TOO_LONG / 2, connection=connection)
        digests.set_policy("t", Policy(first_delay=60, minimum_delay=60, maximum_delay=60, ttl=600))
        connection.commit()

    due = digests.timeline("t").due
    assert due is not None
    assert due <= digests.store.time(0) / 1000 + 60


@pytest.mark.parametrize("way", ["read", "claimed", "scheduled"])
def test_what_is_dropped_while_the_inbox_is_folded_is_told(dsn: str, way: str) -> None:
    """Whichever call folds it: one event for each full timeline, as of an ordinary add, and nothing twice."""
    with Digests(dsn, policy=Policy(capacity=2)) as digests:
        heard: list[Event] = []
        digests.subscribe(heard.append)
        with psycopg.connect(dsn) as connection:
            digests.add_many([("full", number) for number in range(5)], connection=connection)
            digests.add("small", 1, connection=connection)
            digests.add_many([("other", number) for number in range(3)], connection=connection)
        assert [event for event in heard if isinstance(event, Dropped)] == []

        if way == "read":
            digests.timeline("full")
        elif way == "claimed":
            digests.store.claim(0, 10, token="token", lease=1000, now=None)
        else:
            list(digests.schedule())
        digests.timelines()

        told = {event.timeline: event.records for event in heard if isinstance(event, Dropped)}
        assert told == {"full": 3, "other": 1}
        assert len([event for event in heard if isinstance(event, Dropped)]) == 2
        assert digests.ledger().dropped == 4
        assert not [event for event in heard if isinstance(event, Damaged)]
