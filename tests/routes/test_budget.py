"""Budgets of recipients: a digest beyond the budget waits, and more records join it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from digestif import Budget, ConfigError, DeliveryFailed, Digest, Digests, Policy
from digestif.attempts.delivery import Delivery
from digestif.attempts.stages import Loaded
from digestif.core.machine import Plan
from digestif.core.times import to_millis
from digestif.routes.budget import BOOKS, Account
from digestif.stores.base import Lease
from digestif.testing import FakeClock
from tests.reader import claimed
from tests.routes.recorder import Recording, T, add
from tests.transfer.stores import dsn_of
from tests.worker.workers import once


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


def test_a_message_that_was_not_sent_is_not_paid_for(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, budget=Budget(1, per=3600))
    channel.failures["t"] = [DeliveryFailed("500", after=5)]
    add(digests, "t", "a")

    once(digests, now=T)
    once(digests, now=T + 5)

    assert len(channel.messages) == 1


def delivery(digests: Digests, digest_id: str, *, now: float = T) -> Delivery:
    """The delivery of a digest, as far as an account needs it."""
    attempt = claimed(digests, Lease("t", "token", 0, digest_id, 1, 0, 0, 0), to_millis(now))
    return Delivery(Loaded(attempt, Digest("t", digest_id, 1, 1, 0, ()), 0, 0, Plan(0)))


def test_a_budget_holds_for_any_stretch_of_time() -> None:
    clock = FakeClock()
    account = Account(Budget(3, per=60), "*")
    sent = []
    with Digests("memory://") as digests:
        for number in range(600):
            if account.spend(delivery(digests, str(number), now=clock()), "ada") == 0:
                sent.append(clock())
            clock.advance(1)

    assert all(sum(1 for other in sent if at <= other < at + 60) <= 3 for at in sent)
    assert len(sent) == 30


def test_a_digest_that_comes_again_is_paid_for_once(digests: Digests) -> None:
    """The first attempt was killed and may have sent it; the second does not wait."""
    account = Account(Budget(1, per=3600), "*")

    assert account.spend(delivery(digests, "one"), "ada") == 0
    assert account.spend(delivery(digests, "one"), "ada") == 0
    assert account.spend(delivery(digests, "other"), "ada") == 3600


def test_only_what_was_paid_for_it_is_given_back(digests: Digests) -> None:
    account = Account(Budget(1, per=10), "*")
    account.spend(delivery(digests, "slow"), "ada")
    account.spend(delivery(digests, "sent", now=T + 11), "ada")

    account.give_back(delivery(digests, "slow", now=T + 15), "ada")

    assert account.spend(delivery(digests, "another", now=T + 15), "ada") == 6


def test_a_clock_that_was_ahead_delays_messages_by_the_time_of_the_budget_at_most(digests: Digests) -> None:
    account = Account(Budget(1, per=60), "*")
    account.spend(delivery(digests, "one", now=T + 86400), "ada")

    assert account.spend(delivery(digests, "other"), "ada") == 60
    assert account.spend(delivery(digests, "other", now=T + 60), "ada") == 0


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_all_who_deliver_go_by_one_budget(store: str, tmp_path: Path, channel: Recording) -> None:
    """Several engines together send no more messages than the budget allows."""
    with dsn_of(store, tmp_path) as dsn:
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
        waits = list(threads.map(lambda number: account.spend(delivery(digests, str(number)), "ada"), range(60)))

    assert waits.count(0) == 50
    assert set(waits) == {0, 3600}


@pytest.mark.parametrize(("messages", "per"), [(0, 60), (1001, 60), (True, 60), (1, 0), (1, -1), (1, float("inf"))])
def test_a_budget_that_is_none_is_refused(messages: int, per: float) -> None:
    with pytest.raises(ConfigError, match="budget"):
        Budget(messages, per=per)


def test_books_hold_nothing_of_those_whose_messages_have_stopped_to_count(digests: Digests) -> None:
    account = Account(Budget(1, per=60), "*")
    for number in range(20 * BOOKS):
        account.spend(delivery(digests, "id", now=T + number), f"recipient {number}")

    noted = [digests.store.note(0, f"budget-{number}") or b"" for number in range(BOOKS)]
    assert sum(book.count(b"recipient") for book in noted) < 60 + 2 * BOOKS


def test_a_book_that_cannot_be_read_counts_as_empty(digests: Digests) -> None:
    """Damage must not stop all messages to its recipients."""
    account = Account(Budget(1, per=60), "*")
    for number in range(BOOKS):
        digests.store.swap_note(0, f"budget-{number}", None, b"{")

    assert account.spend(delivery(digests, "one"), "ada") == 0
    assert account.spend(delivery(digests, "other"), "ada") == 60


def test_each_route_has_a_budget_of_its_own_for_a_recipient(digests: Digests, channel: Recording) -> None:
    """Two routes to one address send two messages; timelines of one route to it share a budget."""
    for pattern in ("chat:*", "mail:*"):
        digests.route(pattern, channel=channel, to="ada", budget=Budget(1, per=3600))
    for timeline in ("chat:1", "chat:2", "mail:1", "mail:2"):
        add(digests, timeline, "a")

    once(digests, now=T)

    assert sorted(message.timeline.partition(":")[0] for message in channel.messages) == ["chat", "mail"]
