"""What a delivery costs: round trips, commands of the server, and what a claim reads along."""

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest

from digestif import Digests, Policy, Record
from digestif.attempts.delivery import Delivery
from digestif.attempts.maintenance import maintain
from digestif.attempts.room import Room
from digestif.core.terms import Terms
from digestif.core.verdicts import DELIVERED, Ending
from digestif.stores.base import Arrival, ClaimPage, Completion
from digestif.stores.redis.client.link import Link
from digestif.testing.conformance.port import LEASE, NOW, arrive, open_lease
from tests.pipelines import claim, end
from tests.servers import empty_server
from tests.stores.redis.hints import opened
from tests.stores.redis.proxy import Proxy
from tests.worker.workers import LONG, Times, becomes, working

PARTITIONS = 64


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The scripts of each round trip that is over.

    Plain commands are left out: notes are read once a second, at any moment.
    """
    made: list[list[str]] = []
    run = Link.run

    def watched(self: Link, commands: Any, **how: Any) -> list[Any]:
        answers = run(self, commands, **how)
        if names := [command.script.name for command in commands if command.script]:
            made.append(names)
        return answers

    monkeypatch.setattr(Link, "run", watched)
    return made


@pytest.fixture(params=[1, PARTITIONS])
def digests(request: pytest.FixtureRequest) -> Iterator[Digests]:
    with Digests(f"{empty_server().url}?partitions={request.param}") as digests:
        digests.handler("*")(lambda digest: None)
        yield digests


def keys_of(attempt: Delivery) -> list[str]:
    return [record.key for record in attempt.digest]


# Round trips


def test_a_delivery_takes_three_round_trips_however_many_partitions_there_are(
    digests: Digests, rounds: list[list[str]]
) -> None:
    """All partitions are asked at once; the claim reads the digest along."""
    digests.add("t", Record("a", 1, 0.0))
    pipeline = digests.engine.pipeline()
    rounds.clear()

    [attempt] = claim(pipeline).deliveries
    assert end(pipeline, attempt.judged(DELIVERED)) == [Ending.DELIVERED]

    assert keys_of(attempt) == ["a"]
    assert rounds == [["claimable"] * digests.store.partitions, ["claim"], ["complete"]]


def test_so_does_one_of_timelines_in_many_partitions(digests: Digests, rounds: list[list[str]]) -> None:
    digests.add_many([(f"t{number}", number) for number in range(20)])
    homes = {crc32(b"t%d" % number) % digests.store.partitions for number in range(20)}
    pipeline = digests.engine.pipeline()
    rounds.clear()

    found = claim(pipeline, 100 * PARTITIONS).deliveries
    end(pipeline, *[each.judged(DELIVERED) for each in found])

    assert len(found) == 20
    assert rounds == [
        ["claimable"] * digests.store.partitions,
        *[["claim"] * len(homes), ["complete"] * len(homes)],
    ]


def test_while_there_is_plenty_a_claim_asks_one_partition(rounds: list[list[str]]) -> None:
    with Digests(f"{empty_server().url}?partitions=4") as digests:
        digests.handler("*")(lambda digest: None)
        digests.add_many([(f"t{number}", number) for number in range(400)])
        pipeline = digests.engine.pipeline()
        claim(pipeline, 8)
        rounds.clear()

        found = claim(pipeline, 8).deliveries

        assert len(found) == 8
        assert rounds == [["claimable"], ["claim"]]


def test_maintenance_asks_all_partitions_at_once(digests: Digests, rounds: list[list[str]]) -> None:
    digests.add("t", 1)
    rounds.clear()

    assert not maintain(digests.engine.pipeline())

    everywhere = digests.store.partitions
    assert rounds == [["overdue"] * everywhere, ["leases_beyond"] * everywhere]  # the second once in a lease


def test_a_worker_that_was_woken_asks_the_partition_that_woke_it(rounds: list[list[str]]) -> None:
    with Digests(f"{empty_server().url}?partitions={PARTITIONS}") as digests:
        times = Times(digests)
        with working(digests, poll=LONG):
            # Each of its two claims looks everywhere once, when it begins. A delivery after that was woken.
            assert becomes(lambda: rounds.count(["claimable"] * PARTITIONS) >= 2)
            digests.add("a", 1)
            times.after(0)
            rounds.clear()

            digests.add("b", 1)
            times.after(0)

        looks = [names for names in rounds if "claimable" in names]
        assert looks
        assert all(names == ["claimable"] for names in looks)


# What a claim reads along


def test_a_claim_that_is_repeated_reads_nothing_along_and_its_records_are_taken() -> None:
    server = empty_server()
    with Proxy(server) as proxy, Digests(proxy.url) as digests:
        digests.handler("*")(lambda digest: None)
        digests.add_many([("t", Record("a", 1, 0.0)), ("t", Record("b", 2, 1.0))])
        proxy.lose("claim")

        [attempt] = claim(digests.engine.pipeline()).deliveries

        assert proxy.lost["claim"] == 1
        assert keys_of(attempt) == ["b", "a"]


def test_after_a_claim_that_took_long_every_lease_is_looked_at_again(
    rounds: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have lapsed meanwhile, and another worker may have the digest."""
    with Digests(empty_server().url, lease=4) as digests:
        digests.handler("*")(lambda digest: None)
        digests.add_many([("t", 1), ("u", 1)])
        pipeline = digests.engine.pipeline()
        slow = pipeline._claims.claim

        def slow_claim(*arguments: Any) -> Any:
            found = slow(*arguments)
            times.append(times[-1] + 2.0)
            digests.store.delete("u", now=None)
            return found

        times = [0.0]
        monkeypatch.setattr("digestif.attempts.pipeline.monotonic", lambda: times[-1])
        monkeypatch.setattr(pipeline._claims, "claim", slow_claim)

        assert claim(pipeline).timelines == ["t"]
        assert ["take"] in rounds


def test_no_more_is_kept_of_what_was_read_along_than_there_is_room_for() -> None:
    with Digests(f"{empty_server().url}?partitions={PARTITIONS}") as digests:
        digests.handler("*")(lambda digest: None)
        digests.add_many([(f"t{number}", "x" * 2000) for number in range(40)])

        page = claim(digests.engine.pipeline(), 40, room=Room(memory=80_000))

        assert 5 <= len(page.deliveries) <= 12
        assert len(page.deliveries) + len(page.judged) == 40


def test_a_claim_from_many_partitions_reads_less_along_from_each() -> None:
    with opened(f"{empty_server().url}?partitions=16") as store:
        for number in range(150):
            store.add([Arrival(f"t{number}", key, b"x" * 6000, 0.0, None, Terms()) for key in "abcde"], now=NOW)

        pages = store.claim_each(range(16), 150, token="x", lease=LEASE, now=NOW)

        read = [len(page.pages) for page in pages if isinstance(page, ClaimPage)]
        assert len(read) == 16
        assert max(read) == 3  # of 30 kB each: the third begins before 64 KiB are full


def test_the_answer_that_is_kept_for_a_repeated_call_has_no_records() -> None:
    server = empty_server()
    with opened(server.url) as store, server.client() as client:
        store.claim(0, 5, token="warm", lease=LEASE, now=NOW)
        arrive(store, "t", ["x" * 200])

        assert store.claim(0, 5, token="x", lease=LEASE, now=NOW).pages

        kept = [value for field, value in client.hgetall("{d:0}:ledger").items() if field.startswith(b"c:")]
        assert not [value for value in kept if b"x" * 200 in value]


@pytest.mark.parametrize("policy", [Policy(capacity=2), Policy(max_bytes=600)], ids=["capacity", "max_bytes"])
def test_a_digest_that_is_too_large_by_the_policy_in_force_is_trimmed_all_the_same(policy: Policy) -> None:
    url = empty_server().url
    with Digests(url, policy=Policy(capacity=None, max_bytes=None)) as before:
        before.add_many([("t", Record(str(number), "x" * 200, float(number))) for number in range(5)])
    with Digests(url, policy=policy) as digests:
        digests.handler("*")(lambda digest: None)

        [attempt] = claim(digests.engine.pipeline()).deliveries

        assert keys_of(attempt) == ["4", "3"]
        assert attempt.digest.dropped == 3
        assert digests.ledger().dropped == 3


def test_a_digest_of_many_records_is_not_read_along() -> None:
    with opened(empty_server().url) as store:
        arrive(store, "t", [str(number) for number in range(128)])

        page = store.claim(0, 5, token="x", lease=LEASE, now=NOW)

        assert [lease.timeline for lease in page.leases] == ["t"]
        assert not page.pages


def test_a_claim_reads_no_more_than_a_page_of_records_along() -> None:
    with opened(empty_server().url) as store:
        for number in range(12):
            arrive(store, f"t{number}", [str(key) for key in range(100)])

        page = store.claim(0, 12, token="x", lease=LEASE, now=NOW)

        assert len(page.leases) == 12
        assert [len(each.records) for each in page.pages.values()] == [100] * 10


# What an ending costs


def test_a_digest_whose_keys_are_given_is_not_read_when_it_is_completed() -> None:
    server = empty_server()
    with opened(server.url) as store, server.client() as client:
        arrive(store, "t", ["a", "b"])
        lease = open_lease(store, "t")
        client.config_resetstat()

        assert store.complete([Completion(lease, 1000, keys=["b", "a"])], now=NOW) == [True]

        assert "cmdstat_hgetall" not in client.info("commandstats")
        [ended] = store.history(None, limit=1)
        assert ended.keys == ("b", "a")
