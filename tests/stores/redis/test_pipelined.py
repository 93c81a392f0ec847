"""Calls that are sent without waiting for replies: whatever gets lost between them, each is done once, and in order."""

from collections.abc import Iterator

import pytest

from digestif import ConfigError, Digests, Ledger, Overloaded, Record, StoreError, StoreUnavailable
from digestif.stores.redis import batches
from digestif.stores.redis.client.commands import Command
from digestif.stores.redis.client.pipeline import Request
from digestif.testing.servers import RedisServer
from tests.stores.redis.saboteur import HARMS, POLICY, Saboteur, Story

pytestmark = pytest.mark.long

SHARE = 5  # records in a call, so that a small batch takes eight of them


@pytest.fixture(scope="module")
def saboteur() -> Iterator[Saboteur]:
    with Saboteur() as saboteur:
        yield saboteur


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("harm", HARMS)
def test_harm_between_calls_under_way_neither_loses_nor_repeats_nor_reorders(
    saboteur: Saboteur, harm: str, partitions: int, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "ADDED_RECORDS", SHARE)
    with Digests(f"{saboteur.url}?partitions={partitions}", namespace=namespace, policy=POLICY) as digests:
        story = Story(saboteur, digests, seed=partitions)

        for _ in range(4):
            story.add_batch(harm, calls=8)

        assert saboteur.done[-4:] == [harm] * 4
        story.check()


def test_calls_behind_one_that_the_server_refuses_are_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server gets all of them. Its memory is full from the third call on."""
    monkeypatch.setattr(batches, "ADDED_RECORDS", SHARE)
    with Saboteur() as saboteur, Digests(saboteur.url, policy=POLICY) as digests:
        digests.add("other", 1)  # from now on the server knows the script
        saboteur.plan("full", at=3)

        with pytest.raises(Overloaded) as caught:
            digests.add_many([("t", Record(f"{number}", number, 0.0)) for number in range(40)])

        assert caught.value.answers == (True, *[False] * 9, *[None] * 30)
        assert [record.key for record in digests.peek("t")] == [f"{number}" for number in reversed(range(10))]
        assert digests.ledger() == Ledger(accepted=11, pending=11)


@pytest.mark.parametrize("records", [1, 40])
def test_full_memory_does_not_hide_that_a_call_without_an_answer_may_have_been_done(
    records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overloaded would mean that nothing was accepted."""
    monkeypatch.setattr(batches, "ADDED_RECORDS", SHARE)
    with Saboteur() as saboteur, Digests(saboteur.url, policy=POLICY) as digests:
        digests.add("other", 1)  # from now on the server knows the script
        saboteur.plan("lose, full", at=1, calls=-(-records // SHARE))

        with pytest.raises(StoreUnavailable, match=r"OOM .* may have been done"):
            digests.add_many([("t", Record(f"{number}", number, 0.0)) for number in range(records)])

        assert digests.ledger().accepted == 1 + records


def test_a_damaged_timeline_does_not_keep_the_calls_behind_it_from_being_done(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "ADDED_RECORDS", SHARE)
    with Digests(redis_server.url, policy=POLICY) as digests:
        redis_server.cli("SET", "{d:0}:t:bad", "no hash")
        names = ["bad" if number == 7 else "good" for number in range(20)]

        with pytest.raises(StoreError) as caught:
            digests.add_many([(name, Record(f"{number}", number, 0.0)) for number, name in enumerate(names)])

        assert caught.value.answers == tuple(None if number == 7 else number == 0 for number in range(20))
        assert digests.ledger() == Ledger(accepted=19, pending=19)


def test_a_request_behind_one_that_failed_keeps_asking_for_its_turn() -> None:
    """Only once the call before it is done may it lead: otherwise it would be done in spite of the failure."""
    first = Request(Command(0, ("first",)))
    second = Request(Command(0, ("+second",)), after=first, leading=lambda: Command(0, ("second",)))

    first.answer = ConfigError("no node")
    assert b"+second" in second.message(set())
    first.answer = b"done"
    assert b"+second" not in second.message(set())
