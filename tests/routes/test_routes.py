"""Routes: timelines are delivered through a channel, without a handler."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from digestif import (
    AsyncDigests,
    Budget,
    ConfigError,
    DeliveryFailed,
    Digest,
    Digests,
    Message,
    Policy,
    PutOff,
    Receipt,
    Record,
)
from digestif.attempts import Attempt
from digestif.core.ledger import Ledger
from digestif.core.times import to_millis
from digestif.routes.budget import BOOKS, Account
from digestif.stores.base import Lease
from digestif.testing import FakeClock
from tests.routes.recording import Recording
from tests.worker.test_kills import Kind, emptied
from tests.worker.workers import Ear, becomes, once, working

T = 1_700_000_000.0
POLICY = Policy(minimum_delay=60, increment_delay=0, maximum_delay=600)


class Plain(Recording):
    def deliver(self, message: Message) -> Receipt:  # type: ignore[override]  # as somebody may write it
        return Receipt(channel="plain")


@pytest.fixture
def channel() -> Recording:
    return Recording()


@pytest.fixture
def digests() -> Iterator[Digests]:
    with Digests("memory://", policy=POLICY) as digests:
        yield digests


def add(digests: Digests, timeline: str, *keys: str, now: float = T) -> None:
    digests.add_many([(timeline, Record(key, {"title": f"about {key}"}, now)) for key in keys], now=now)


def test_a_digest_goes_to_whom_the_star_stands_for(digests: Digests, channel: Recording) -> None:
    digests.route("mail:*", channel=channel)
    add(digests, "mail:ada@example.org", "a", "b")

    once(digests, now=T + 1)

    [message] = channel.messages
    assert (message.recipient, message.timeline) == ("ada@example.org", "mail:ada@example.org")
    assert channel.records() == ["b", "a"]
    assert "about a" in message.text
    assert message.timestamp == T + 1
    [entry] = digests.history()
    assert message.key == f"{entry.id}.1"
    assert channel.closed == 1


@pytest.mark.parametrize(
    ("to", "recipient"),
    [("ops@example.org", "ops@example.org"), ("#{timeline}", "#mail:ada"), (lambda name: name.upper(), "MAIL:ADA")],
)
def test_recipients_may_be_named(digests: Digests, channel: Recording, to: Any, recipient: str) -> None:
    digests.route("mail:*", channel=channel, to=to)
    add(digests, "mail:ada", "a")

    once(digests, now=T)

    assert channel.messages[0].recipient == recipient


def test_the_policy_of_the_route_holds_for_its_timelines(digests: Digests, channel: Recording) -> None:
    """Call before route before engine; of several patterns the one with the longest literal part."""
    digests.route("mail:*", channel=channel, policy=Policy(minimum_delay=5, maximum_delay=10, capacity=2))
    digests.route("mail:vip:*", channel=channel, policy=Policy(minimum_delay=1, maximum_delay=10))
    digests.route("sms:*", channel=channel)
    for timeline in ("mail:ada", "mail:vip:eve", "sms:bob"):
        add(digests, timeline, "a", "b", "c")
        once(digests, now=T)

    assert digests.timeline("mail:ada").due == T + 5
    assert digests.timeline("mail:vip:eve").due == T + 1
    assert digests.timeline("sms:bob").due == T + 60
    assert [len(message.data["records"]) for message in channel.messages] == [2, 3, 3]
    add(digests, "mail:ada", "d", now=T + 1)
    assert digests.timeline("mail:ada").due == T + 10  # by the increment of the route, up to its cap
    digests.add("mail:ada", 1, maximum_delay=7, now=T + 1)
    assert digests.timeline("mail:ada").due == T + 7


def test_records_are_grouped_as_the_route_says(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, group_by=["rule", "issue"], distinct={"users": "user.id"})
    for number in range(6):
        value = {"rule": "errors", "issue": number % 2, "user": {"id": number % 3}, "title": f"issue {number % 2}"}
        digests.add("t", value, key=str(number), timestamp=T + number, now=T)

    once(digests, now=T)

    [group] = channel.messages[0].data["summary"]["groups"]
    assert (group["label"], group["count"], len(group["subjects"])) == ("errors", 6, 2)
    assert [subject["distinct"] for subject in group["subjects"]] == [{"users": 3}, {"users": 3}]


# Records that nobody wants any more


def test_records_that_are_not_kept_are_not_sent_and_count_as_deleted(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, keep=lambda records: [record for record in records if record.key != "read"])
    add(digests, "t", "a", "read", "b")

    once(digests, now=T)

    assert channel.records() == ["b", "a"]
    assert digests.ledger() == Ledger(accepted=3, delivered=2, deleted=1)
    assert digests.verify()


def test_a_digest_of_which_nothing_is_kept_is_not_sent(digests: Digests, channel: Recording) -> None:
    async def nothing(records: list[Record]) -> list[Record]:
        return []

    digests.route("t", channel=channel, keep=nothing)
    add(digests, "t", "a", "b")

    once(digests, now=T)

    assert channel.messages == []
    assert digests.ledger() == Ledger(accepted=2, deleted=2)


def test_what_is_not_kept_in_a_later_attempt_changes_the_key(digests: Digests, channel: Recording) -> None:
    """The first attempt may have carried it: one key never stands for two contents."""
    unwanted: set[str] = set()
    policy = Policy(minimum_delay=60, redelivery="same")
    keep = lambda records: [record for record in records if record.key not in unwanted]  # noqa: E731
    digests.route("t", channel=channel, keep=keep, policy=policy)
    channel.failures["t"] = [DeliveryFailed("no", after=1)]
    add(digests, "t", "a", "b")

    once(digests, now=T)
    unwanted.add("a")
    once(digests, now=T + 2)

    assert channel.records() == ["b"]
    assert channel.keys[0].endswith(".2")


@pytest.mark.parametrize("answer", [None, 7, ["a"], [Record("unknown", 1, T)], [Record("a", "changed", T)]])
def test_a_hook_that_gives_something_else_fails_the_attempt(digests: Digests, channel: Recording, answer: Any) -> None:
    digests.route("t", channel=channel, keep=lambda _: answer, policy=Policy(attempts=1))
    add(digests, "t", "a")

    once(digests, now=T)

    [letter] = digests.dead_letters()
    assert "keep: gave" in letter.reason


def test_a_hook_that_runs_out_fails_the_attempt(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, keep=lambda _: next(iter([])), policy=Policy(attempts=1))
    add(digests, "t", "a")

    once(digests, now=T)

    [letter] = digests.dead_letters()
    assert "StopIteration" in letter.reason


# Personal digests


def by_reader(digest: Digest) -> dict[str, list[Record]]:
    """Everybody gets all but what they wrote themselves."""
    return {name: [record for record in digest if record.key != name] for name in ("ada", "bob", "eve")}


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


def test_nobody_who_was_served_misses_what_comes_later(digests: Digests, channel: Recording) -> None:
    """Although the route says that newer records may join: then they come with the next one."""
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
    """What counts as no attempt is still known."""
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


def test_who_has_lost_the_lease_serves_nobody_else(digests: Digests, channel: Recording) -> None:
    """Somebody else has it, and would serve them again."""
    deliver = channel.deliver

    async def deliver_slowly(message: Message) -> Receipt:
        lease_over = int((T + 31) * 1000)
        digests.store.claim_suspects(0, alone=False, token="other", lease=30_000, now=lease_over)
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
def test_a_digest_for_nobody_is_not_sent(digests: Digests, channel: Recording, split: Any, fate: str) -> None:
    digests.route("t", channel=channel, split=split, policy=Policy(attempts=1))
    add(digests, "t", "a")

    once(digests, now=T)

    assert channel.messages == []
    assert getattr(digests.ledger(), fate) == 1


# Failures and patience


def test_a_failure_comes_again_when_the_channel_says(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel)
    channel.failures["t"] = [DeliveryFailed("503", after=17)]
    add(digests, "t", "a")

    once(digests, now=T)

    assert digests.timeline("t").due == T + 17


def test_a_failure_for_good_is_buried_at_once(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel)
    channel.failures["t"] = [DeliveryFailed("410: gone", retry=False)]
    add(digests, "t", "a")

    once(digests, now=T)

    [letter] = digests.dead_letters()
    assert "410: gone" in letter.reason


def test_when_the_receiver_asks_for_patience_the_window_grows(digests: Digests, channel: Recording) -> None:
    """Not a queue of messages: one, with all that came meanwhile. However long it takes, that is no failed attempt."""
    digests.route("t", channel=channel, policy=Policy(minimum_delay=60, attempts=2))
    channel.failures["t"] = [DeliveryFailed("429", after=10, throttled=True) for _ in range(5)]
    for number in range(6):
        add(digests, "t", str(number), now=T + 10 * number)
        once(digests, now=T + 10 * number)

    assert len(channel.messages) == 1
    assert sorted(channel.records()) == list("012345")
    assert digests.dead_letters() == []


def test_the_window_grows_also_where_all_else_comes_again_as_it_was(digests: Digests, channel: Recording) -> None:
    """Who asks for patience has not taken it, so newer ones may join; after any other failure they may not."""
    digests.route("t", channel=channel, policy=Policy(minimum_delay=60), redelivery="same")
    patience = DeliveryFailed("429", after=10, throttled=True)
    channel.failures["t"] = [patience, patience, DeliveryFailed("500", after=10), patience]
    for number in range(6):
        add(digests, "t", str(number), now=T + 10 * number)
        once(digests, now=T + 10 * number)

    assert [sorted(channel.records(place)) for place in range(len(channel.messages))] == [["0", "1", "2"]]
    assert [record.key for record in digests.peek("t")] == ["5", "4", "3"]


def test_when_the_budget_is_spent_the_window_grows(digests: Digests, channel: Recording) -> None:
    quick = Policy.immediate()
    digests.route("t:*", channel=channel, policy=quick, budget=Budget(2, per=3600))
    for number in range(5):
        for name in ("t:ada", "t:bob"):
            add(digests, name, f"{name}{number}", now=T + number)
            once(digests, now=T + number)

    assert [message.recipient for message in channel.messages] == ["ada", "bob", "ada", "bob"]
    assert digests.ledger().open + digests.ledger().pending == 6
    assert digests.timeline("t:ada").due == pytest.approx(T + 2 + 3600, abs=5)
    assert sorted(record.key for record in digests.peek("t:ada")) == ["t:ada2", "t:ada3", "t:ada4"]


def test_a_receiver_that_does_not_say_how_long_is_left_alone_for_a_minute(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel)
    ear = Ear(digests)
    channel.failures["t"] = [DeliveryFailed("slow down", throttled=True)]
    add(digests, "t", "a")

    once(digests, now=T)

    [put_off] = ear.of(PutOff)
    assert "slow down" in put_off.reason
    assert put_off.retry_in >= 60
    assert (digests.timeline("t").due or 0) >= T + 60


def test_a_message_that_was_not_sent_is_not_paid_for(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, budget=Budget(1, per=3600))
    channel.failures["t"] = [DeliveryFailed("500", after=5)]
    add(digests, "t", "a")

    once(digests, now=T)
    once(digests, now=T + 5)

    assert len(channel.messages) == 1


def attempt(digests: Digests, digest_id: str, *, now: float = T) -> Attempt:
    """An attempt to deliver a digest that only an account asks about."""
    lease = Lease("t", "token", 0, digest_id, 1, 0, 0, 0)
    return Attempt(lease, digests.policy, store=digests.store, now=lambda: to_millis(now))


def test_a_budget_holds_for_any_stretch_of_time() -> None:
    clock = FakeClock()
    account = Account(Budget(3, per=60), "*")
    sent = []
    with Digests("memory://") as digests:
        for number in range(600):
            if account.spend(attempt(digests, str(number), now=clock()), "ada") == 0:
                sent.append(clock())
            clock.advance(1)

    assert all(sum(1 for other in sent if at <= other < at + 60) <= 3 for at in sent)
    assert len(sent) == 30


def test_a_digest_that_comes_again_is_paid_for_once(digests: Digests) -> None:
    """Whoever paid was killed: nobody knows whether it was sent, and it does not wait for that."""
    account = Account(Budget(1, per=3600), "*")

    assert account.spend(attempt(digests, "one"), "ada") == 0
    assert account.spend(attempt(digests, "one"), "ada") == 0
    assert account.spend(attempt(digests, "other"), "ada") == 3600


def test_only_what_was_paid_for_it_is_given_back(digests: Digests) -> None:
    account = Account(Budget(1, per=10), "*")
    account.spend(attempt(digests, "slow"), "ada")
    account.spend(attempt(digests, "sent", now=T + 11), "ada")

    account.give_back(attempt(digests, "slow", now=T + 15), "ada")

    assert account.spend(attempt(digests, "another", now=T + 15), "ada") == 6


def test_a_clock_that_was_ahead_silences_nobody_for_longer_than_the_budget_says(digests: Digests) -> None:
    account = Account(Budget(1, per=60), "*")
    account.spend(attempt(digests, "one", now=T + 86400), "ada")

    assert account.spend(attempt(digests, "other"), "ada") == 60
    assert account.spend(attempt(digests, "other", now=T + 60), "ada") == 0


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_all_who_deliver_go_by_one_budget(store: Kind, tmp_path: Path, channel: Recording) -> None:
    """As many as the budget says, however many engines there are, and although they take turns."""
    with contextmanager(emptied)(store, tmp_path) as dsn:
        go_by_one_budget(dsn, channel)


def go_by_one_budget(dsn: str, channel: Recording) -> None:
    budget = Budget(2, per=3600)
    with Digests(dsn, policy=Policy.immediate()) as one, Digests(dsn, policy=Policy.immediate()) as other:
        for engine in (one, other):
            engine.route("t:*", channel=channel, to="ada", budget=budget)
        add(one, "t:1", "a")
        add(one, "t:2", "b")
        add(one, "t:3", "c")
        for engine in (one, other, one):
            once(engine, now=T)

        assert len(channel.messages) == 2
        assert one.backlog(now=T).due == 0
        once(other, now=T + 3600)
        assert sorted(key for place in range(3) for key in channel.records(place)) == ["a", "b", "c"]


def test_spending_at_the_same_time_no_message_is_forgotten(digests: Digests) -> None:
    account = Account(Budget(50, per=3600), "*")

    with ThreadPoolExecutor(8) as threads:
        waits = list(threads.map(lambda number: account.spend(attempt(digests, str(number)), "ada"), range(60)))

    assert waits.count(0) == 50
    assert set(waits) == {0, 3600}


@pytest.mark.parametrize(("messages", "per"), [(0, 60), (1001, 60), (True, 60), (1, 0), (1, -1), (1, float("inf"))])
def test_a_budget_that_is_none_is_refused(messages: int, per: float) -> None:
    with pytest.raises(ConfigError, match="budget"):
        Budget(messages, per=per)


def test_books_hold_nothing_of_those_whose_messages_have_stopped_to_count(digests: Digests) -> None:
    account = Account(Budget(1, per=60), "*")
    for number in range(20 * BOOKS):
        account.spend(attempt(digests, "id", now=T + number), f"recipient {number}")

    noted = [digests.store.note(0, f"budget-{number}") or b"" for number in range(BOOKS)]
    assert sum(book.count(b"recipient") for book in noted) < 60 + 2 * BOOKS


def test_a_slow_hook_holds_up_no_other_route(digests: Digests, channel: Recording) -> None:
    stuck, go_on = threading.Semaphore(0), threading.Event()

    def slow(records: list[Record]) -> list[Record]:
        stuck.release()
        go_on.wait(20)
        return records

    digests.route("slow:*", channel=channel, keep=slow)
    digests.route("quick:*", channel=channel, keep=lambda records: records)
    for number in range(40):
        digests.add(f"slow:{number}", 1)
    with working(digests):
        for _ in range(16):
            assert stuck.acquire(timeout=10)
        digests.add("quick:ada", 1)
        assert becomes(lambda: any(message.recipient == "ada" for message in channel.messages))
        go_on.set()


def test_a_handler_is_not_under_the_policy_of_a_route_for_more_timelines(digests: Digests, channel: Recording) -> None:
    digests.route("mail:*", channel=channel, policy=Policy(minimum_delay=7))
    digests.handler("mail:vip:*")(lambda _: None)
    for timeline in ("mail:ada", "mail:vip:eve"):
        add(digests, timeline, "a")
        once(digests, now=T)

    assert digests.timeline("mail:ada").due == T + 7
    assert digests.timeline("mail:vip:eve").due == T + 60


def test_the_age_of_a_backlog_is_not_told_too_high(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, policy=Policy(ttl=7200))
    add(digests, "t", "a")

    assert digests.backlog(now=T + 5).oldest == 5


# How it is called


def test_a_route_that_does_not_digest_sends_each_record_at_once(digests: Digests, channel: Recording) -> None:
    digests.route("now:*", channel=channel, digest=False)

    assert digests.notify("now:ada", {"title": "one"}, key="1")
    assert digests.notify("now:ada", {"title": "two"}, key="2")

    assert [channel.records(place) for place in range(2)] == [["1"], ["2"]]
    assert digests.ledger().accepted == 0


def test_a_record_that_is_not_kept_is_not_sent_at_once_either(digests: Digests, channel: Recording) -> None:
    digests.route("now:*", channel=channel, digest=False, keep=lambda _: [])
    dispatched: list[str] = []

    assert not digests.notify("now:ada", 1)
    assert not asyncio.run(_notified_async(channel, dispatched))

    assert (channel.messages, dispatched) == ([], [])


async def _notified_async(channel: Recording, dispatched: list[str]) -> bool:
    async with AsyncDigests("memory://") as digests:
        digests.route("now:*", channel=channel, digest=False, keep=lambda _: [])
        return await digests.notify("now:ada", 1, dispatch=dispatched.append)


def test_notify_and_deliver_go_through_the_route(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel)

    assert digests.notify("t", 1, now=T)
    assert not digests.notify("t", 2, now=T + 1)
    assert [entry.key for entry in digests.schedule(now=T + 60)] == ["t"]
    assert digests.deliver("t", now=T + 60)

    assert len(channel.messages) == 2
    assert digests.ledger().delivered == 2
    assert channel.closed == 0  # connections are kept
    digests.close()
    assert channel.closed == 1


def test_threads_that_notify_at_once_share_one_loop(digests: Digests, channel: Recording) -> None:
    """A channel belongs to one event loop."""
    loops = set()
    deliver = channel.deliver

    async def deliver_here(message: Message) -> Receipt:
        loops.add(asyncio.get_running_loop())
        return await deliver(message)

    channel.deliver = deliver_here  # type: ignore[method-assign]
    digests.route("t:*", channel=channel)
    with ThreadPoolExecutor(8) as threads:
        told = [threads.submit(digests.notify, f"t:{number}", number) for number in range(24)]
        assert all(each.result() for each in told)

    assert len(loops) == 1
    assert len(channel.messages) == 24


def test_the_awaited_face_has_routes_too(channel: Recording) -> None:
    async def notify() -> Ledger:
        async with AsyncDigests("memory://", policy=POLICY) as digests:
            digests.route("t", channel=channel)
            assert await digests.notify("t", 1, now=T)
            ledger: Ledger = await digests.ledger()
            return ledger

    assert asyncio.run(notify()).delivered == 1
    assert len(channel.messages) == 1
    assert channel.closed


def test_switched_off_digests_are_sent_at_once(channel: Recording) -> None:
    with Digests("off://") as digests:
        digests.route("t", channel=channel)

        assert digests.notify("t", 1)

    assert len(channel.messages) == 1


def test_receivers_that_deduplicate_get_the_same_again() -> None:
    with Digests("memory://") as digests:
        hook = "webhook+https://receiver.example/?secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        digests.route("hook:*", channel=hook)
        digests.route("other:*", channel=Recording())
        digests.route("mine:*", channel=Recording(), policy=Policy(redelivery="merge"), split=by_reader)
        digests.route("hourly:*", channel=hook, policy=Policy.hourly())
        digests.route("joined:*", channel=hook, redelivery="merge")

        assert digests._policies.of("hourly:a").redelivery == "same"
        assert digests._policies.of("joined:a").redelivery == "merge"
        assert digests._policies.of("hook:a").redelivery == "same"
        assert digests._policies.of("other:a").redelivery == "merge"
        assert digests._policies.of("mine:a").redelivery == "same"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"channel": "smpt://host"}, "did you mean smtp"),
        ({"channel": "nothing"}, "not a DSN"),
        ({"channel": Recording(), "chanel": 1}, "did you mean channel"),
        ({"channel": Recording(), "policy": 7}, "policy"),
        ({"channel": Recording(), "keep": 7}, "keep"),
        ({"channel": Recording(), "budget": 7}, "budget"),
        ({"channel": Plain()}, "deliver of Plain is not a coroutine"),
        ({"channel": Recording(), "group_by": "rule"}, "group_by"),
        ({"channel": Recording(), "group_by": ["a", "b", "c"]}, "group_by"),
        ({"channel": Recording(), "zone": "Mars/Base"}, "zone"),
        ({"channel": Recording(), "group_by": [5]}, "group_by"),
        ({"channel": Recording(), "group_by": 5}, "group_by"),
        ({"channel": Recording(), "distinct": ["a"]}, "distinct"),
        ({"channel": Recording(), "top": 0}, "top"),
        ({"channel": Recording(), "title": 5}, "title"),
        ({"channel": Recording(), "links": {"open": "javascript:alert(1)"}}, "links"),
        ({"channel": Recording(), "links": {"open": "https://x/{recipent}"}}, "links"),
        ({"channel": Recording(), "to": "{recipient}"}, "to"),
        ({"channel": Recording(), "digest": "no"}, "digest"),
        ({"channel": Recording(), "digest": False, "budget": Budget(1, per=1)}, "budget"),
        ({"channel": Recording(), "templates": "/nonexistent"}, "templates"),
        ({"channel": object()}, "channel"),
        ({"channel": Recording(), "template": "unknown"}, "template"),
    ],
)
def test_what_is_wrong_with_a_route_is_told_when_it_is_made(digests: Digests, options: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        digests.route("t", **options)
    digests.route("t", channel=Recording())  # nothing was left behind


def test_a_pattern_has_one_handler_or_route(digests: Digests) -> None:
    digests.route("t", channel=Recording())

    with pytest.raises(ConfigError, match="already"):
        digests.handler("t")(print)


def test_links_and_times_are_the_readers_own(digests: Digests, channel: Recording) -> None:
    links = {"unsubscribe": "https://example.org/off?who={recipient}&from={timeline}"}
    digests.route("mail:*", channel=channel, links=links, zone=lambda name: {"ada": "Asia/Tokyo"}.get(name, "UTC"))
    add(digests, "mail:ada", "a", "b")

    once(digests, now=T)

    message = channel.messages[0]
    assert message.links == {"unsubscribe": "https://example.org/off?who=ada&from=mail%3Aada"}
    assert "07:13" in message.text  # 22:13 UTC
