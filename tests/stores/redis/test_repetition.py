"""Calls that are repeated because their reply got lost, and calls that arrive long after their client gave up."""

from collections.abc import Iterator
from functools import cache

import pytest

from digestif import Digests, InvalidState, Ledger, StoreUnavailable
from digestif.stores.redis.client.scripts import load
from digestif.testing.servers import RedisServer
from tests.servers import shared_server
from tests.stores.redis.lives import LIFE, POLICY, REPAIRS, Account, lived, record
from tests.stores.redis.proxy import SCRIPTS, WRITING, Proxy

pytestmark = pytest.mark.long

# Those left out are no calls, and safe to repeat.
VERBS = [name for name in WRITING if name not in ("confirm", "enter", "settings")]


@cache
def undisturbed() -> Account:
    with Digests(shared_server().url, namespace="undisturbed", policy=POLICY) as digests:
        return lived(digests)


# Replies that get lost


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


def test_the_life_has_every_script_that_writes_and_an_effect_of_each() -> None:
    account = undisturbed()
    told = [answer for step, answer in zip(LIFE, account.answers, strict=True) if step.script != "add"]

    assert {step.script for step in LIFE} == set(VERBS)
    assert not [answer for answer in told if answer in (False, 0, [], [False], [None])]
    assert account.ledger.balanced
    assert account.ledger == Ledger(
        accepted=11, pending=3, delivered=5, dead=2, lost=1
    )  # what ended before has left, with `past`


@pytest.mark.parametrize("script", VERBS)
def test_a_call_whose_reply_got_lost_answers_as_it_did_first_and_counts_once(proxy: Proxy, script: str) -> None:
    proxy.lose(script)
    with Digests(proxy.url, policy=POLICY) as digests:
        account = lived(digests)

        assert proxy.lost[script] == sum(step.script == script for step in LIFE)
        assert account == undisturbed()
        assert digests.verify()


def test_every_reply_gets_lost_twice(proxy: Proxy) -> None:
    proxy.lose(*SCRIPTS, times=2)
    with Digests(proxy.url, policy=POLICY) as digests:
        account = lived(digests)

        assert proxy.lost.total() >= 2 * len(LIFE)
        assert account == undisturbed()
        assert digests.verify()


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_batch_that_is_repeated_counts_once_in_each_of_its_partitions(proxy: Proxy, partitions: int) -> None:
    proxy.lose("add", times=2)
    with Digests(f"{proxy.url}?partitions={partitions}", policy=POLICY) as digests:
        batch = [(f"t{number % 20}", record(str(number))) for number in range(1000)]

        answers = digests.add_many(batch, now=0)

        assert proxy.lost["add"] >= 2 * partitions
        assert answers == [True] * 20 + [False] * 980
        assert [each.key for each in digests.peek("t7")] == [str(number) for number in range(987, 0, -20)]
        assert digests.ledger() == Ledger(accepted=1000, pending=1000)
        assert digests.verify()


def test_a_delivery_of_which_every_reply_gets_lost_carries_its_records_once(proxy: Proxy) -> None:
    proxy.lose(*SCRIPTS, times=2)
    with Digests(proxy.url, policy=POLICY) as digests:
        assert digests.add("t", record("a"))
        with pytest.raises(RuntimeError), digests.digest("t"):
            raise RuntimeError("the channel failed")
        digests.add("t", record("b"))
        with digests.digest("t", 0) as digest:
            carried = [each.key for each in digest]

        assert (carried, digest.attempt, digest.revision) == (["b", "a"], 2, 2)
        assert [entry.key for entry in digests.schedule()] == ["t"]
        assert digests.ledger() == Ledger(accepted=2, delivered=2)
        assert digests.verify()


# Stragglers


@pytest.fixture
def impatient(proxy: Proxy) -> Iterator[Digests]:
    """An engine that gives up soon after a call failed."""
    with Digests(f"{proxy.url}?patience=0.6", policy=POLICY) as digests:
        yield digests


def everything(server: RedisServer) -> dict[bytes, bytes | None]:
    """The dump of every key of the server."""
    with server.client() as client:
        return {key: client.dump(key) for key in client.keys("*")}


@pytest.mark.parametrize("script", VERBS)
def test_a_call_that_arrives_after_a_later_one_of_its_caller_changes_nothing(
    redis_server: RedisServer, proxy: Proxy, impatient: Digests, script: str
) -> None:
    last = max(place for place, step in enumerate(LIFE) if step.script == script)
    redis_server.client().script_load(load(script).text)  # or the straggler would only be told that it is unknown
    for step in LIFE[:last]:
        step.act(impatient)
    proxy.hold(script)
    with pytest.raises(StoreUnavailable):
        LIFE[last].act(impatient)
    proxy.hold()
    assert impatient.store.pause("bystander", True, now=300_000)
    before = everything(redis_server)

    replies = proxy.run_held()

    assert {str(reply).split()[0] for reply in replies} == {"DIGESTIF_OVERTAKEN"}
    assert everything(redis_server) == before
    assert impatient.verify() or script in REPAIRS  # then the damage is still there


def test_a_call_that_arrives_late_but_not_too_late_counts_once(proxy: Proxy, impatient: Digests) -> None:
    """Its caller got an error that leaves it open; nothing that it did afterwards relies on the answer."""
    proxy.hold("add")
    with pytest.raises(StoreUnavailable):
        impatient.add("t", record("a"))

    replies = proxy.run_held()

    assert len(replies) > 1
    assert set(replies) == {b"1"}
    assert impatient.ledger() == Ledger(accepted=1, pending=1)


def test_also_a_later_call_that_was_refused_keeps_stragglers_out(
    redis_server: RedisServer, proxy: Proxy, impatient: Digests
) -> None:
    impatient.add("t", record("a"))
    proxy.hold("open")
    with pytest.raises(StoreUnavailable):
        impatient.store.open("t", token="forgotten", lease=30_000, now=None)
    proxy.hold()
    with pytest.raises(InvalidState):
        impatient.store.open("idle", token="refused", lease=30_000, now=None)
    before = everything(redis_server)

    replies = proxy.run_held()

    assert {str(reply).split()[0] for reply in replies} == {"DIGESTIF_OVERTAKEN"}
    assert everything(redis_server) == before
