"""A server whose memory is full refuses records before it accepts them, and is drained meanwhile."""

from collections.abc import Iterator

import pytest

from digestif import Digests, Ledger, Overloaded, Policy, Record
from digestif.events import Events
from digestif.stores.base import Burial, Completion, QuarantinedRecord, Release, Take
from digestif.testing.servers import RedisServer
from tests.stores.claims import claim
from tests.stores.redis.proxy import Proxy

POLICY = Policy(minimum_delay=10, increment_delay=0)
TIMELINES = [f"t{number}" for number in range(50)]
VALUE = "v" * 40_000


@pytest.fixture(params=["noeviction", "volatile-lru", "volatile-ttl"])
def full(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server with a store in it, that has just run out of memory. It never evicts records, which have no TTL."""
    with RedisServer(maxmemory_policy=request.param) as server:
        with Digests(server.url, policy=POLICY) as digests:
            digests.add_many([(timeline, Record("early", VALUE, 0.0)) for timeline in TIMELINES], now=0)
        server.cli("CONFIG", "SET", "maxmemory", server.cli("INFO", "memory")["used_memory"] - 200_000)
        yield server


@pytest.fixture
def digests(full: RedisServer) -> Iterator[Digests]:
    """A process that starts now can work all the same."""
    with Digests(full.url, policy=POLICY) as digests:
        yield digests


def test_records_are_refused_before_they_are_accepted(full: RedisServer, digests: Digests) -> None:
    before = digests.ledger()

    with pytest.raises(Overloaded, match=rf"127\.0\.0\.1:{full.port}: OOM .* its memory is full \(maxmemory\)"):
        digests.add("t1", VALUE, now=1)
    with pytest.raises(Overloaded):
        digests.add_many([("t1", 1), ("new", 2)], now=1)

    assert digests.ledger() == before == Ledger(accepted=50, pending=50)
    assert digests.timeline("new").state == "idle"
    assert digests.verify()


def test_another_application_loses_its_keys_with_a_ttl_and_no_record_goes_with_them() -> None:
    with RedisServer(maxmemory_policy="volatile-lru") as server, Digests(server.url, policy=POLICY) as digests:
        for number in range(20):
            server.cli("SET", f"cache:{number}", VALUE, "EX", 3600)
        server.cli("CONFIG", "SET", "maxmemory", server.cli("INFO", "memory")["used_memory"] + 200_000)
        accepted = 0
        with pytest.raises(Overloaded):
            for timeline in TIMELINES:
                accepted += digests.add(timeline, VALUE, now=0)

        assert server.cli("KEYS", "cache:*") == []
        assert digests.ledger() == Ledger(accepted=accepted, pending=accepted)
        assert digests.verify()


def test_everything_else_goes_on_and_makes_room(full: RedisServer, digests: Digests) -> None:
    store = digests.store
    leases = claim(store, 1000, lease=30_000, now=lambda: 1_000, events=Events()).leases
    first, second, third, fourth, *rest = leases
    taken = store.take([Take(lease, None, True) for lease in (first, second)], now=1_000)
    assert [page and len(page.records) for page in taken] == [1, 1]
    assert store.extend([first], lease=60_000, now=2_000) == [True]
    assert store.release([Release(first, 3_000)], now=2_000) == [True]
    assert store.bury([Burial(second, "it is refused", 10_000)], now=2_000) == [True]
    assert store.quarantine(third, [QuarantinedRecord("early", "letter", "it is broken")], now=2_000)
    assert store.complete([Completion(lease, 10_000) for lease in (third, *rest)], now=2_000) == [True] * 47
    assert digests.delete(fourth.timeline, now=2)
    assert [entry.key for entry in digests.schedule(now=3)] == [first.timeline]
    with digests.digest(first.timeline, now=4) as digest:
        assert len(digest) == 1
    assert digests.replay(second.digest_id, now=5)
    assert digests.maintenance(6, now=6) == 1
    assert digests.flush(second.timeline, now=6)
    assert digests.pause(second.timeline, now=6)
    assert digests.resume(second.timeline, now=6)
    assert digests.discard("letter", now=6)
    with digests.digest(second.timeline, now=7):
        pass

    assert digests.ledger() == Ledger(accepted=50, delivered=48, deleted=2)
    assert digests.verify()
    assert digests.add("t1", 1, now=8) is False
    assert digests.ledger().accepted == 51


@pytest.mark.parametrize("replicas", [0, 1])
def test_also_calls_that_are_repeated_go_on(full: RedisServer, replicas: int) -> None:
    with RedisServer(replicaof=f"127.0.0.1 {full.port}") as replica, Proxy(full) as proxy:
        replica.wait_until_synced()
        proxy.lose("open", "complete")
        with Digests(f"{proxy.url}?replicas={replicas}", policy=POLICY) as digests:
            full.cli("CONFIG", "SET", "maxmemory", 1)
            with digests.digest("t1", now=1):
                pass

            assert proxy.lost == {"open": 1, "complete": 1}
            assert digests.ledger() == Ledger(accepted=50, pending=49, delivered=1)
