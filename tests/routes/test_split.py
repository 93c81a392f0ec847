"""Split digests: each recipient gets a part, and the failure of one does not concern the others."""

from typing import Any

import pytest

from digestif import DeliveryFailed, Digest, Digests, Message, Policy, Receipt, Record, Unavailable
from digestif.stores.base import SuspectGroup
from tests.routes.recorder import Recording, T, add, by_reader
from tests.worker.workers import once


def test_each_recipient_gets_a_part_under_a_key_of_its_own(digests: Digests, channel: Recording) -> None:
    digests.route("room:*", channel=channel, split=by_reader)
    add(digests, "room:7", "ada", "x")

    once(digests, now=T)

    [entry] = digests.history()
    assert channel.keys == [f"{entry.id}.1.{name}" for name in ("ada", "bob", "eve")]
    assert [channel.records(place) for place in range(3)] == [["x"], ["x", "ada"], ["x", "ada"]]
    assert digests.ledger().delivered == 2


def test_a_retry_serves_only_those_who_were_not_served(digests: Digests, channel: Recording) -> None:
    digests.route("room:*", channel=channel, split=by_reader)
    channel.failures["bob"] = [DeliveryFailed("mailbox full", after=30)]
    add(digests, "room:7", "x")

    once(digests, now=T)
    add(digests, "room:7", "later", now=T + 1)
    assert [message.recipient for message in channel.messages] == ["ada", "eve"]
    assert digests.timeline("room:7").due == T + 30
    once(digests, now=T + 30)

    assert [message.recipient for message in channel.messages] == ["ada", "eve", "bob"]
    assert channel.records() == ["x"]  # exactly what the others got
    assert len({message.key.rpartition(".")[0] for message in channel.messages}) == 1
    assert digests.ledger().delivered == 1


def test_recipients_that_were_served_get_later_records(digests: Digests, channel: Recording) -> None:
    """Although the route says that records may join: they come with the next digest."""
    digests.route("room:*", channel=channel, split=by_reader, redelivery="merge")
    channel.failures["bob"] = [DeliveryFailed("mailbox full", after=30)]
    add(digests, "room:7", "x")
    once(digests, now=T)
    add(digests, "room:7", "later", now=T + 1)
    for number in range(1, 200):
        once(digests, now=T + 10 * number)

    got = {name: set[str]() for name in ("ada", "bob", "eve")}
    for place, message in enumerate(channel.messages):
        got[message.recipient] |= set(channel.records(place))
    assert got == {name: {"x", "later"} for name in got}


def test_patience_with_one_does_not_serve_the_others_again(digests: Digests, channel: Recording) -> None:
    """Served recipients are remembered, although throttling counts as no attempt."""
    digests.route("room:*", channel=channel, split=by_reader)
    channel.failures["bob"] = [DeliveryFailed("429", after=30, throttled=True) for _ in range(3)]
    add(digests, "room:7", "x")
    for number in range(4):
        once(digests, now=T + 30 * number)

    assert [message.recipient for message in channel.messages] == ["ada", "eve", "bob"]
    assert [message.attempt for message in channel.messages] == [1, 1, 1]


def test_whatever_goes_wrong_with_one_the_others_are_served(digests: Digests, channel: Recording) -> None:
    zones = {"ada": "UTC", "eve": "UTC"}
    digests.route("room:*", channel=channel, split=by_reader, zone=lambda name: zones[name], policy=Policy(attempts=1))
    add(digests, "room:7", "x")

    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == ["ada", "eve"]
    [letter] = digests.dead_letters()
    assert "KeyError: 'bob'" in letter.reason
    assert "zones[name]" in letter.traceback


def test_a_dead_letter_that_is_replayed_goes_to_those_who_have_not_got_it(digests: Digests, channel: Recording) -> None:
    digests.route("room:*", channel=channel, split=by_reader)
    channel.failures["bob"] = [DeliveryFailed("410", retry=False)]
    add(digests, "room:7", "x")
    once(digests, now=T)
    [letter] = digests.dead_letters()
    assert letter.served == ("ada", "eve")

    digests.replay(letter.id, now=T)
    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == ["ada", "eve", "bob"]
    assert digests.ledger().delivered == 1


def test_who_can_never_be_reached_is_not_asked_again_and_not_forgotten(digests: Digests, channel: Recording) -> None:
    digests.route("room:*", channel=channel, split=by_reader)
    channel.failures["ada"] = [DeliveryFailed("410", retry=False)]
    channel.failures["bob"] = [DeliveryFailed("500", after=5)]
    add(digests, "room:7", "x")

    once(digests, now=T)
    once(digests, now=T + 5)

    assert [message.recipient for message in channel.messages] == ["eve", "bob"]
    [letter] = digests.dead_letters()
    assert "'ada'" in letter.reason


def test_the_patience_that_one_asks_for_does_not_hold_up_another(digests: Digests, channel: Recording) -> None:
    digests.route("room:*", channel=channel, split=by_reader)
    channel.failures["ada"] = [DeliveryFailed("429", after=86_400, throttled=True)]
    channel.failures["bob"] = [DeliveryFailed("500", after=5)]
    add(digests, "room:7", "x")

    once(digests, now=T)

    assert digests.timeline("room:7").due == T + 5


def test_a_worker_that_lost_the_lease_serves_no_further_recipient(digests: Digests, channel: Recording) -> None:
    """Another worker has it, and serves the other recipients."""
    deliver = channel.deliver

    async def deliver_slowly(message: Message) -> Receipt:
        lease_over = int((T + 31) * 1000)
        digests.store.claim_suspects(0, SuspectGroup(8, 8, alone=False), token="other", lease=30_000, now=lease_over)
        return await deliver(message)

    channel.deliver = deliver_slowly  # type: ignore[method-assign]
    digests.route("room:*", channel=channel, split=by_reader)
    add(digests, "room:7", "x")

    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == ["ada"]


def test_one_who_can_not_be_reached_does_not_keep_the_others_waiting(digests: Digests, channel: Recording) -> None:
    digests.route("room:*", channel=channel, split=by_reader)
    channel.failures["ada"] = [DeliveryFailed("no such mailbox", retry=False)]
    add(digests, "room:7", "x")

    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == ["bob", "eve"]
    [letter] = digests.dead_letters()
    assert "1 of 3 recipients" in letter.reason
    assert "no such mailbox" in letter.reason


@pytest.mark.parametrize(
    ("split", "fate"),
    [
        (lambda _: {}, "deleted"),
        (lambda _: {"ada": iter(())}, "deleted"),
        (lambda _: ["ada"], "dead"),
        (lambda digest: {"\ud800": digest.records}, "dead"),
        (lambda digest: {"ada": digest.records, "x" * 513: digest.records}, "dead"),
    ],
)
def test_a_digest_without_recipients_is_not_sent(digests: Digests, channel: Recording, split: Any, fate: str) -> None:
    digests.route("t", channel=channel, split=split, policy=Policy(attempts=1))
    add(digests, "t", "a")

    once(digests, now=T)

    assert channel.messages == []
    assert getattr(digests.ledger(), fate) == 1


def test_a_channel_that_is_unavailable_stops_the_round(digests: Digests, channel: Recording) -> None:
    """Later recipients would fail in the same way. Earlier ones have their part, and get it once."""
    digests.route("room:*", channel=channel, split=by_reader)
    channel.failures["bob"] = [Unavailable("refused")]
    channel.failures["eve"] = [AssertionError("asked although the channel is down")]
    add(digests, "room:7", "x")

    once(digests, now=T)
    assert [message.recipient for message in channel.messages] == ["ada"]
    assert digests.outages(now=T) == []  # it answered ada, so that a part of it may be away
    channel.failures.clear()
    for second in range(1, 30):
        once(digests, now=T + second)

    assert [message.recipient for message in channel.messages] == ["ada", "bob", "eve"]
    assert digests.ledger().delivered == 1


def test_unknown_for_one_is_unknown_for_the_digest(digests: Digests, channel: Recording) -> None:
    digests.route("room:*", channel=channel, split=by_reader, redelivery="merge")
    channel.failures["ada"] = [DeliveryFailed("no answer", unknown=True)]
    channel.failures["bob"] = [Unavailable("refused")]
    add(digests, "room:7", "x")

    once(digests, now=T)

    digest = digests.store.inspect("room:7").digest
    assert digest is not None
    assert (digest.frozen, digest.unknown, digest.attempt) == (True, True, 0)


@pytest.mark.parametrize("wrong", ["foreign", "twice"])
def test_records_that_are_not_of_the_digest_are_refused(digests: Digests, channel: Recording, wrong: str) -> None:
    """The first recipient gets nothing either, and the records stay: the next attempt may do better."""
    other = {"foreign": Record("another's", {"title": "secret"}, T), "twice": Record("x", {"title": "about x"}, T)}
    answers: list[dict[str, list[Record]]] = [{"ada": [], "eve": [other[wrong]]}, {}]

    def split(digest: Digest) -> dict[str, list[Record]]:
        more = answers.pop(0)
        return {name: [*digest, *more.get(name, [])] for name in ("ada", "eve")}

    digests.route("room:*", channel=channel, split=split)
    add(digests, "room:7", "x")

    once(digests, now=T)

    assert channel.messages == []
    assert (digests.ledger().open, digests.ledger().dead) == (1, 0)
    [failed] = digests.failures(now=T)
    assert "split: gave" in failed.reason
    assert "for 'eve', whose key is not in the digest, or there twice" in failed.reason
    once(digests, now=T + 3600)
    assert [message.recipient for message in channel.messages] == ["ada", "eve"]
    assert digests.ledger().delivered == 1
