"""Damage that only Redis can have. Damage that all stores can have is in the conformance suite."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from digestif import Digests, Policy, Record, StoreError
from digestif.stores.base import SuspectGroup
from digestif.stores.reader import Part
from digestif.stores.redis import encoding
from digestif.stores.redis.store import RedisStore
from digestif.testing.conformance.actions import T, deliver, fail, keys, scheduled
from digestif.testing.conformance.port import NOW, arrive_everywhere, bury, claim_all, numbers, open_digest, stored
from digestif.testing.servers import RedisServer

SLOT = {"state": "ready", "at": 0, "since": 0, "iteration": 0}
DIGEST = {"id": "x", "batch": 0, "records": 1, "opened": 0, "dropped": 0, "revision": 1, "attempt": 1, "lapses": 0}
OPEN = {**SLOT, "state": "open", "token": "t", "until": 0, "digest": DIGEST}
SLOTS: dict[str, Any] = {
    "no table": 5,
    "a list": [1, 2],
    "a text": "ready",
    "no state": {**SLOT, "state": None},
    "another state": {**SLOT, "state": "sleeping"},
    "a time that is a text": {**SLOT, "at": "5"},
    "a time beyond all clocks": {**SLOT, "at": 1e300},
    "an expiry that is a text": {**SLOT, "expires": "5"},
    "a digest that is none": {**SLOT, "digest": "x"},
    "a digest without records": {**SLOT, "digest": {**DIGEST, "records": None}},
    "a digest that says less than nothing": {**SLOT, "digest": {**DIGEST, "records": -1}},
    "open without a lease": {**OPEN, "until": None},
    "open without a digest": {**OPEN, "digest": None},
    "served to nobody knows whom": {**OPEN, "digest": {**DIGEST, "served": 7}},
    "alone as a text": {**OPEN, "alone": "yes"},
    "a group as a text": {**OPEN, "group": "two"},
    "the largest group as a text": {**OPEN, "digest": {**DIGEST, "largest": "two"}},
    "lapses alone that are a text": {**OPEN, "digest": {**DIGEST, "lapses_alone": "many"}},
}


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[RedisStore]:
    with Digests(redis_server.url) as digests:
        assert isinstance(digests.store, RedisStore)
        yield digests.store


@pytest.fixture
def digests(store: RedisStore) -> Digests:
    return Digests(store, policy=Policy(attempts=1, minimum_delay=0))


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator["redis.Redis"]:
    with redis_server.client() as client:
        yield client


@pytest.mark.parametrize("what", SLOTS)
def test_whatever_a_slot_says_it_stops_only_its_own_timeline(
    digests: Digests, store: RedisStore, client: "redis.Redis", what: str
) -> None:
    arrive_everywhere(store, ["bad", "good"])
    client.hset("{d:0}:t:bad", "", b" " * 8 + encoding.encode(SLOTS[what]))

    assert [lease.timeline for lease in claim_all(store)] == ["good"]
    assert [timeline.key for timeline in digests.timelines()] == ["good"]
    with pytest.raises(StoreError, match=r"'bad'.*digestif repair"):
        digests.add("bad", 1, now=T)
    [found] = digests.repair(now=T)
    assert (found.timeline, found.part, found.records) == ("bad", "slot", 1)
    assert digests.verify()
    assert digests.ledger().dead == 1


@pytest.mark.parametrize("kind", ["string", "list", "zset"])
def test_a_timeline_whose_key_is_no_hash_stops_nobody_and_what_is_there_is_kept(
    digests: Digests, store: RedisStore, client: "redis.Redis", kind: str
) -> None:
    arrive_everywhere(store, ["bad", "good"])
    client.delete("{d:0}:t:bad")
    write = {"string": lambda key: client.set(key, "text"), "list": lambda key: client.rpush(key, "text")}
    write.get(kind, lambda key: client.zadd(key, {"text": 1}))("{d:0}:t:bad")

    assert [lease.timeline for lease in claim_all(store)] == ["good"]
    for call in (lambda: digests.add("bad", 1, now=T), lambda: digests.timeline("bad"), lambda: digests.pause("bad")):
        with pytest.raises(StoreError, match=r"'bad'.*digestif repair"):
            call()
    found = digests.repair(now=T)

    assert [damage.part for damage in found] == ["slot", "ledger"]  # its record is gone
    assert digests.verify()
    [letter] = digests.dead_letters("bad")
    [kept] = store.letter_records(letter.id, after=None, limit=9)
    assert b"text" in (kept.payload or b"")
    assert digests.add("bad", 1, now=T) is True


def test_of_a_batch_only_the_records_of_a_damaged_timeline_are_refused(
    digests: Digests, store: RedisStore, client: "redis.Redis"
) -> None:
    digests.add_many([("bad", 0), ("good", 0)], now=T)
    client.hset("{d:0}:t:bad", "", "damaged")
    batch = [(name, Record(f"{name}{n}", n, T)) for n in range(3) for name in ("good", "bad", "new")]

    with pytest.raises(StoreError, match=r"'bad'.*digestif repair") as refusal:
        digests.add_many(batch, now=T)

    assert refusal.value.answers == (False, None, True, False, None, False, False, None, False)
    assert digests.ledger().accepted == 2 + 6
    digests.repair(now=T)
    assert digests.verify()
    assert len(deliver(digests, "good", now=T)) == 4


def test_a_damaged_timeline_in_a_batch_refuses_no_records_that_need_their_orders(
    digests: Digests, redis_server: RedisServer, client: "redis.Redis"
) -> None:
    digests.add_many([("bad", 0), *[("large", n) for n in range(300)]], now=T)
    client.hset("{d:0}:t:bad", "", "damaged")
    another = Digests(redis_server.url)  # which does not know that the timeline is large

    with another, pytest.raises(StoreError, match=r"'bad'.*digestif repair") as refusal:
        another.add_many([("large", 1), ("bad", 1), ("large", 2)], now=T)

    assert refusal.value.answers == (False, None, False)
    assert digests.timeline("large").pending == 302


def test_what_joined_a_damaged_timeline_before_anybody_met_it_is_kept_with_the_rest(
    digests: Digests, store: RedisStore, client: "redis.Redis"
) -> None:
    digests.add("bad", 1, key="before", now=T)
    stored: Any = client.hget("{d:0}:t:bad", "")
    client.hset("{d:0}:t:bad", "", stored[:8] + b"damaged")  # its head says that records may join it

    assert digests.add("bad", 2, key="after", now=T) is False
    assert claim_all(store, now=NOW) == []
    with pytest.raises(StoreError, match=r"'bad'.*digestif repair"):
        digests.add("bad", 3, now=T)

    [found] = digests.repair(now=T)
    assert found.records == 2
    [letter] = digests.dead_letters("bad")
    assert keys(digests.dead_records(letter.id)) == ["after", "before"]
    assert digests.verify()


@pytest.mark.parametrize("key", ["o", "oa", "ox", "m"])
def test_a_digest_whose_keys_are_of_the_wrong_type_stops_nobody(
    digests: Digests, store: RedisStore, client: "redis.Redis", key: str
) -> None:
    arrive_everywhere(store, ["bad", "good"])
    leases = [open_digest(store, name) for name in ("bad", "good")]
    client.delete(f"{{d:0}}:{key}:bad")
    client.set(f"{{d:0}}:{key}:bad", "text")

    assert store.extend(leases, lease=1, now=NOW) == [True, True]
    claimed = store.claim_suspects(0, SuspectGroup(8, 8), token="x", lease=1, now=NOW + 10)
    assert ([lease.timeline for lease in claimed.leases], claimed.retired) == (["good"], 1)
    assert any("'bad'" in problem for problem in digests.verify().problems)
    digests.repair(now=T)

    assert digests.verify()
    assert digests.timeline("bad").state == "idle"


def test_many_records_whose_order_is_of_the_wrong_type_are_refused_or_kept(
    digests: Digests, store: RedisStore, client: "redis.Redis"
) -> None:
    digests.add_many([("bad", n) for n in range(400)], now=T)
    assert client.exists("{d:0}:ta:bad")
    client.delete("{d:0}:ta:bad")
    client.set("{d:0}:ta:bad", "text")

    with pytest.raises(StoreError, match=r"'bad'.*digestif repair"):
        digests.add("bad", 1, now=T)
    assert claim_all(store) == []
    [found] = digests.repair(now=T)

    assert found.records == 400
    assert digests.verify()
    [letter] = digests.dead_letters("bad")
    assert len(digests.dead_records(letter.id)) == 400
    assert digests.replay(letter.id, now=T)
    assert len(deliver(digests, "bad", now=T)) == 400


@pytest.mark.parametrize("harm", ["text", "short", "other", "times"])
def test_a_dead_letter_whose_order_is_damaged_is_requeued_whole(
    digests: Digests, store: RedisStore, client: "redis.Redis", harm: str
) -> None:
    """Its records are all there; only their order is lost."""
    letter_id = bury(store, numbers(0, 400))
    ages, times = f"{{d:0}}:la:{letter_id}", f"{{d:0}}:lx:{letter_id}"
    if harm == "times":
        client.set(times, "text")
    elif harm == "text":
        client.delete(ages)
        client.set(ages, "text")
    else:
        client.zremrangebyrank(ages, 0, 0 if harm == "short" else 399)
    if harm == "other":
        client.zadd(ages, {f"{n:08}nowhere{n}": n for n in range(400)})

    assert digests.requeue(letter_id, now=T) is True

    assert digests.dead_letters() == []
    assert store.ledger().pending == 400
    assert digests.verify()
    assert {record.key for record in stored(store, "t", Part.PENDING)} == set(numbers(0, 400))
    assert client.keys(f"*{letter_id}*") == []


def test_names_in_the_schedule_that_belong_to_nothing_are_dropped(
    digests: Digests, store: RedisStore, client: "redis.Redis"
) -> None:
    arrive_everywhere(store, ["good"])
    ghosts: dict[bytes, float] = {f"ghost{n}".encode(): 1.0 for n in range(250)}
    for order in ("waiting", "ready", "leases", "expiring", "since"):
        client.zadd(f"{{d:0}}:{order}", {**ghosts, b"\xff": 2.0})

    assert scheduled(digests, T) == []
    digests.maintenance(T, now=T)
    assert [lease.timeline for lease in claim_all(store, limit=10)] == ["good"]
    digests.repair(now=T)
    assert digests.verify()
    assert client.zcard("{d:0}:waiting") == client.zcard("{d:0}:ready") == client.zcard("{d:0}:expiring") == 0


def test_names_among_the_leases_that_belong_to_nothing_do_not_hide_a_suspect_for_long(
    store: RedisStore, client: "redis.Redis"
) -> None:
    arrive_everywhere(store, ["good"])
    lease = open_digest(store, "good")
    ghosts: dict[bytes, float] = {f"ghost{n}".encode(): 1.0 for n in range(8)}
    client.zadd("{d:0}:leases", {**ghosts, b"\xff": 2.0})

    first, second = (
        store.claim_suspects(0, SuspectGroup(8, 8), token=f"{number}", lease=1, now=lease.until) for number in range(2)
    )

    assert first.leases == []
    assert [lease.timeline for lease in second.leases] == ["good"]
    assert client.zrange("{d:0}:leases", 0, -1) == [b"good"]


def test_an_order_that_does_not_hold_every_record_is_made_anew(
    digests: Digests, store: RedisStore, client: "redis.Redis"
) -> None:
    digests.add_many([("t", n) for n in range(400)], now=T)
    client.zpopmin("{d:0}:ta:t", 5)
    assert not digests.verify()

    [found] = digests.repair(now=T)

    assert (found.timeline, found.part) == ("t", "count")
    assert digests.verify()
    assert len(deliver(digests, "t", now=T)) == 400


def test_a_record_whose_key_is_not_utf_8_is_quarantined_when_it_is_delivered(
    digests: Digests, client: "redis.Redis"
) -> None:
    digests.add("t", "good", key="good", now=T)
    digests.add("t", "bad", key="bad", now=T)
    client.hset("{d:0}:t:t", b"b\xff", client.hget("{d:0}:t:t", "bad") or b"")
    client.hdel("{d:0}:t:t", "bad")

    assert keys(deliver(digests, "t", now=T)) == ["good"]

    assert [letter.records for letter in digests.dead_letters()] == [1]
    assert digests.verify()


@pytest.mark.parametrize("head", [b"", b"\0", b"\xfc", b"\xff"])
def test_a_record_whose_head_is_damaged_is_quarantined_out_of_a_large_digest(
    digests: Digests, client: "redis.Redis", head: bytes
) -> None:
    """It does not say any more where it stands in the order."""
    digests.add_many([("t", Record(f"{n:03}", n, T + n)) for n in range(300)], now=T)
    record: Any = client.hget("{d:0}:t:t", "150")
    client.hset("{d:0}:t:t", "150", head + record[1:] if head else b"")

    assert len(deliver(digests, "t", now=T)) == 299

    assert [letter.records for letter in digests.dead_letters()] == [1]
    assert digests.verify()


def test_a_large_digest_that_lost_a_record_is_delivered_without_it(digests: Digests, client: "redis.Redis") -> None:
    digests.add_many([("t", Record(f"{n:03}", n, T + n)) for n in range(300)], now=T)
    client.hdel("{d:0}:t:t", "150")

    assert len(deliver(digests, "t", now=T)) == 299


def test_a_dead_letter_of_which_nothing_is_left_but_its_records_is_found_again(
    digests: Digests, client: "redis.Redis"
) -> None:
    digests.add("t", 1, key="r", now=T)
    fail(digests, "t")
    [letter] = digests.dead_letters()
    client.hset(f"{{d:0}}:l:{letter.id}", "", "x")

    [found] = digests.repair(now=T)

    assert (found.timeline, found.part, found.records) == (None, "letter", 1)
    [repaired] = digests.dead_letters()
    assert repaired.timeline == "lost+found"
    assert digests.replay(repaired.id, now=T)
    assert keys(deliver(digests, "lost+found", now=T)) == ["r"]
    assert digests.verify()


@pytest.mark.parametrize("counter", ["accepted", "pending", "open", "delivered", "number", "moved"])
def test_a_counter_that_is_no_number_stops_no_delivery_and_is_counted_anew(
    digests: Digests, store: RedisStore, client: "redis.Redis", counter: str
) -> None:
    digests.add("t", 1, key="a", now=T)
    digests.add("u", 1, key="a", now=T)
    client.hset("{d:0}:ledger", counter, "many")

    assert len(deliver(digests, "t", now=T)) == 1
    digests.repair(now=T)

    assert digests.verify()
    assert digests.add("u", 2, key="b", now=T) is False
    assert len(deliver(digests, "u", now=T)) == 2
    assert digests.verify()


def test_while_a_counter_is_no_number_adds_say_so_and_write_nothing(digests: Digests, client: "redis.Redis") -> None:
    digests.add("t", 1, key="a", now=T)
    client.hset("{d:0}:ledger", "pending", "many")

    for records in ([("t", 2)], [("t", 2), ("t", 3)]):
        with pytest.raises(StoreError, match=r"ledger.*digestif repair"):
            digests.add_many(records, now=T)

    assert client.hlen("{d:0}:t:t") == 2
    digests.repair(now=T)
    assert digests.verify()


def test_what_a_caller_was_answered_may_be_damaged(digests: Digests, store: RedisStore, client: "redis.Redis") -> None:
    digests.add("t", 1, now=T)
    names: Any = client.hkeys("{d:0}:ledger")
    for name in names:
        if name.startswith(b"c:"):
            client.hset("{d:0}:ledger", name, "x")
    client.hset("{d:0}:ledger", "c:somebody", "x")

    assert digests.add("t", 2, now=T) is False
    assert digests.pause("t") is True
    with Digests(store) as another:
        assert another.resume("t") is True
    assert digests.verify()


def test_notes_of_a_move_that_cannot_be_read_are_removed(digests: Digests, client: "redis.Redis") -> None:
    for name in ("move", "leaving:x-0", "somebody's own"):
        client.hset("{d:0}:notes", name, b"\xc1")

    assert [damage.part for damage in digests.repair(now=T)] == ["note", "note"]

    assert client.hkeys("{d:0}:notes") == [b"somebody's own"]
    assert digests.verify()


def test_a_count_below_zero_is_named_and_repaired(digests: Digests, client: "redis.Redis") -> None:
    digests.add("t", 1)
    client.hset("{d:0}:ledger", "delivered", -1)

    assert any("negative counts: delivered -1" in problem for problem in digests.verify().problems)
    digests.repair()

    assert digests.verify()
    assert digests.ledger().delivered == 0


def test_a_paused_timeline_that_its_list_lacks_is_named_and_put_back(digests: Digests, client: "redis.Redis") -> None:
    digests.pause("t")
    client.delete("{d:0}:paused")
    assert any("'t'" in problem for problem in digests.verify().problems)

    [found] = digests.repair(now=T)

    assert (found.timeline, found.part) == ("t", "place")
    assert [timeline.key for timeline in digests.timelines_page(paused=True).timelines] == ["t"]
    assert digests.verify()


def test_in_a_namespace_without_a_list_of_all_paused_timelines_none_is_missed(
    digests: Digests, client: "redis.Redis"
) -> None:
    digests.pause("t")
    client.delete("{d:0}:paused")
    client.hdel("{d:0}:ledger", "pauses")
    assert digests.verify()
    assert [timeline.key for timeline in digests.timelines_page(paused=True).timelines] == ["t"]
