"""Scripts know their callers: a repeated call is done once, a late one not at all; and listeners are woken."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from struct import pack
from typing import Any

import pytest

from digestif.core.terms import Terms
from digestif.errors import StoreUnavailable
from digestif.stores.base import Arrival
from digestif.stores.reader import Part
from digestif.stores.redis import RedisStore
from digestif.stores.redis.batches import Batches
from digestif.stores.redis.calls import Caller
from digestif.stores.redis.client.commands import ScriptRefused
from digestif.stores.redis.client.scripts import load
from digestif.testing.conformance.port import NOW, arrive, complete, open_digest, stored
from tests.servers import empty_server
from tests.stores.redis.hints import opened

AGES_AGO = 1e12  # milliseconds, in 2001
SOON = 0.3  # seconds, far more than a hint needs


@contextmanager
def opened_here() -> Iterator[RedisStore]:
    with opened(empty_server().url) as store:
        assert isinstance(store, RedisStore)
        yield store


def send(
    store: RedisStore, caller: Caller, number: int, key: str, *, asks_due: bool = False, follows: bool = False
) -> Any:
    """The answer to a call of this number, which adds a record; `follows`: if the call before it was done."""
    caller.calls = number
    text = b"+%d" % number if follows else None
    call = Batches(store._scripts.keys).call_alone(Arrival("t", key, b"1", 0.0, None, Terms(), asks_due))
    layout = store._scripts._layouts.argument(0, load("add"))
    command = store._scripts._command(load("add"), call, caller, NOW, layout, text)
    [answer] = store._link.run([command], patience=0)
    return answer


def test_a_call_that_is_repeated_is_done_once_and_answered_as_before() -> None:
    with opened_here() as store:
        caller = Caller()

        calls = [(1, "a"), (1, "a"), (2, "b"), (2, "b"), (3, "c")]
        answers = [send(store, caller, number, key) for number, key in calls]

        assert answers == [b"1", b"1", b"0", b"0", b"0"]
        assert store.ledger().accepted == store.ledger().pending == 3


def test_a_repeated_call_gives_the_due_time_that_it_gave_first() -> None:
    """Meanwhile the timeline was opened, so that a new call would not know when it is due."""
    with opened_here() as store:
        caller = Caller()
        first = send(store, caller, 1, "a", asks_due=True)
        open_digest(store)

        again = send(store, caller, 1, "a", asks_due=True)
        later = send(store, caller, 2, "b", asks_due=True)

        assert first == again == b"1" + pack(">d", NOW)
        assert later[:1] == b"0"
        assert later[1:] != pack(">d", NOW)
        assert store.ledger().accepted == 2


def test_a_call_that_comes_after_a_later_one_is_not_done() -> None:
    with opened_here() as store:
        caller = Caller()
        send(store, caller, 7, "a")

        late = send(store, caller, 6, "b")

        assert isinstance(late, ScriptRefused)
        assert late.word == "DIGESTIF_OVERTAKEN"
        assert store.ledger().accepted == 1


def test_a_call_that_follows_another_is_refused_until_that_is_done() -> None:
    with opened_here() as store:
        caller = Caller()
        send(store, caller, 1, "a")

        early = send(store, caller, 3, "c", follows=True)
        second = send(store, caller, 2, "b", follows=True)
        third = send(store, caller, 3, "c", follows=True)

        assert isinstance(early, StoreUnavailable)
        assert "DIGESTIF_GAP" in str(early)
        assert (second, third) == (b"0", b"0")
        assert [record.key for record in stored(store, "t", Part.PENDING)] == ["c", "b", "a"]


def test_a_call_that_follows_is_refused_if_the_caller_is_not_known() -> None:
    with opened_here() as store:
        refused = send(store, Caller(), 2, "b", follows=True)

        assert isinstance(refused, StoreUnavailable)
        assert store.ledger().accepted == 0


def test_each_of_eight_calls_that_follow_each_other_answers_as_it_did_first() -> None:
    with opened_here() as store:
        caller = Caller()
        first = [send(store, caller, number, f"{number}", follows=number > 1) for number in range(1, 10)]

        again = [send(store, caller, number, f"{number}", follows=number > 1) for number in range(2, 10)]
        ninth = send(store, caller, 1, "1")

        assert first == [b"1"] + 8 * [b"0"]
        assert again == first[1:]
        assert isinstance(ninth, ScriptRefused)
        assert ninth.word == "DIGESTIF_OVERTAKEN"
        assert store.ledger().accepted == 9


def test_a_call_that_does_not_follow_ends_the_answers_before_it() -> None:
    with opened_here() as store:
        caller = Caller()
        for number in (1, 2):
            send(store, caller, number, f"{number}", follows=number > 1)
        send(store, caller, 3, "3")

        late = send(store, caller, 2, "2", follows=True)

        assert isinstance(late, ScriptRefused)
        assert late.word == "DIGESTIF_OVERTAKEN"


def test_answers_to_callers_that_are_gone_are_forgotten() -> None:
    """A page of those that are ten minutes old, whenever another caller comes."""
    with empty_server().client() as client, opened_here() as store:
        for _ in range(300):
            call_as_another(store)
        answers = {name: value for name, value in client.hgetall("{d:0}:ledger").items() if name.startswith(b"c:")}
        aged = {name: value[:8] + pack(">d", AGES_AGO) + value[16:] for name, value in answers.items()}
        client.hset("{d:0}:ledger", mapping=aged)

        for _ in range(300):
            call_as_another(store)

        left = set(client.hkeys("{d:0}:ledger"))
        assert len(left & set(aged)) < 30
        assert len(left) > 300


def call_as_another(store: RedisStore) -> None:
    store._scripts.forget_callers()
    arrive(store, "t", ["a"])


@pytest.mark.parametrize("way", ["added", "flushed", "due at once"])
def test_who_waits_is_woken_when_a_timeline_can_be_taken(way: str) -> None:
    with opened(empty_server().url) as store:
        if way == "flushed":
            arrive(store, "t", ["a"], first_delay=1_000)
        elif way == "due at once":
            arrive(store, "t", ["a"])
            lease = open_digest(store)
        with closing(store.listen()) as wakeups:
            assert not wakeups.wait(0)

            if way == "added":
                arrive(store, "t", ["a"])
            elif way == "flushed":
                store.flush("t", now=NOW)
            else:
                complete(store, lease)

            assert wakeups.wait(SOON)
