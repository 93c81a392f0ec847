"""Fields and members that were deleted on a real server. What all stores show is in the conformance suite."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from digestif import Digests, Event, Policy, Quarantined, Record, RecordsLost
from digestif.testing.conformance.actions import T, deliver, fail, keys
from digestif.testing.conformance.losses import fates, heard_by
from tests.servers import empty_server, shared_connection

MANY = 300  # records: too many for a batch without orders
HASH, AGES, IN_DIGEST = "{d:0}:t:t", "{d:0}:ta:t", "{d:0}:o:t"


@pytest.fixture
def digests() -> Iterator[Digests]:
    with Digests(empty_server().url, policy=Policy(attempts=2, minimum_delay=0, maximum_delay=50, ttl=100)) as digests:
        yield digests


@pytest.fixture
def client(digests: Digests) -> "redis.Redis":
    return shared_connection()


def add_many(digests: Digests, many: int = MANY) -> None:
    digests.add_many([("t", Record(f"{number:03}", number, T + number)) for number in range(many)], now=T)


def test_a_value_that_vanished_from_a_large_digest_is_a_dead_letter_with_its_key(
    digests: Digests, client: "redis.Redis"
) -> None:
    """Fact 77. The order by age still has its key."""
    add_many(digests)
    client.hdel(HASH, "150")
    heard = heard_by(digests)
    assert not digests.verify()

    assert len(deliver(digests, "t")) == MANY - 1

    [letter] = digests.dead_letters()
    assert [(event.key, event.letter_id) for event in heard if isinstance(event, Quarantined)] == [("150", letter.id)]
    assert fates(digests) == {"accepted": MANY, "delivered": MANY - 1, "dead": 1}


def test_a_repair_keeps_the_key_of_a_value_that_vanished(digests: Digests, client: "redis.Redis") -> None:
    """Fact 77. It becomes a dead letter without a value, and the others stay pending."""
    add_many(digests)
    client.hdel(HASH, "150")

    digests.repair(now=T)

    [letter] = digests.dead_letters()
    assert (letter.records, letter.reason) == (1, "the stored value is missing")
    assert digests.trace("t", "150")[0].fate == "dead"
    assert fates(digests) == {"accepted": MANY, "pending": MANY - 1, "dead": 1}


def test_a_record_that_vanished_from_both_is_lost(digests: Digests, client: "redis.Redis") -> None:
    """Fact 77. Neither the hash nor the order by age has it."""
    add_many(digests)
    fail(digests, "t")
    remove_from_order(client, "{d:0}:oa:t", b"150")
    client.hdel(IN_DIGEST, "150")
    heard = heard_by(digests)

    assert len(deliver(digests, "t")) == MANY - 1

    assert heard == [RecordsLost(timeline="t", records=1)]
    assert fates(digests) == {"accepted": MANY, "delivered": MANY - 1, "lost": 1}


def test_a_record_that_only_its_order_lacks_is_delivered(digests: Digests, client: "redis.Redis") -> None:
    """Fact 77. The order is not trusted any more."""
    add_many(digests)
    remove_from_order(client, AGES, b"150")

    assert len(deliver(digests, "t")) == MANY

    assert fates(digests) == {"accepted": MANY, "delivered": MANY}


def test_values_that_all_vanished_are_dead_letters_and_the_digest_is_empty(
    digests: Digests, client: "redis.Redis"
) -> None:
    """Fact 77. The timeline is idle afterwards."""
    add_many(digests)
    fields: Any = client.hkeys(HASH)
    client.hdel(HASH, *[field for field in fields if field])

    assert len(deliver(digests, "t")) == 0

    assert len(digests.dead_letters(limit=1000)) == MANY
    assert digests.timeline("t").state == "idle"
    assert fates(digests) == {"accepted": MANY, "dead": MANY}


def test_a_value_that_vanished_is_merged_like_the_others(digests: Digests, client: "redis.Redis") -> None:
    """Fact 77. Newer records join a digest that failed, one of them without its value."""
    digests.add("t", 1, key="first", now=T)
    fail(digests, "t")
    add_many(digests)
    client.hdel(HASH, "150")

    assert len(deliver(digests, "t")) == MANY

    assert fates(digests) == {"accepted": MANY + 1, "delivered": MANY, "dead": 1}


@pytest.mark.parametrize("failed", [False, True])
def test_a_value_that_vanished_expires_like_the_others(digests: Digests, client: "redis.Redis", failed: bool) -> None:
    """Fact 77. Pending or in a digest, the orders still say when."""
    add_many(digests)
    if failed:
        fail(digests, "t")
    client.hdel(IN_DIGEST if failed else HASH, "150")

    while digests.maintenance(T + 200, now=T + 200):
        pass

    assert fates(digests) == {"accepted": MANY, "expired": MANY}


def test_a_digest_that_its_slot_has_forgotten_is_not_overwritten(digests: Digests, client: "redis.Redis") -> None:
    """Fact 77. The slot is gone, and a record comes: what it held is a dead letter after a repair."""
    digests.add("t", 1, key="old", now=T)
    fail(digests, "t")
    client.hdel(HASH, "")
    digests.add("t", 2, key="new", now=T)
    heard: list[Event] = []
    digests.subscribe(heard.append)

    digests.repair(now=T)

    held = {key for letter in digests.dead_letters() for key in keys(digests.dead_records(letter.id))}
    assert held == {"old", "new"}
    assert fates(digests) == {"accepted": 2, "dead": 2}


def remove_from_order(client: "redis.Redis", order: str, key: bytes) -> None:
    members: Any = client.zrange(order, 0, -1)
    [member] = [member for member in members if member.endswith(key)]
    client.zrem(order, member)


def test_a_value_that_vanished_from_a_dead_letter_is_dead_again_after_a_requeue(
    digests: Digests, client: "redis.Redis"
) -> None:
    """Fact 77. As after a replay: the order by age still has its key."""
    add_many(digests)
    letter_id = [fail(digests, "t"), fail(digests, "t")][-1].id
    client.hdel(f"{{d:0}}:l:{letter_id}", "150")

    digests.requeue(letter_id, now=T)
    digests.flush("t", now=T)

    assert len(deliver(digests, "t")) == MANY - 1
    assert fates(digests) == {"accepted": MANY, "delivered": MANY - 1, "dead": 1}
    assert digests.verify()
