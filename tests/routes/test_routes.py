"""Routes: timelines are delivered through a channel, without a handler."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from digestif import (
    AsyncDigests,
    Budget,
    ConfigError,
    DeliveryFailed,
    Digests,
    Fate,
    Message,
    Policy,
    PutOff,
    Receipt,
    Record,
)
from digestif.core.ledger import Ledger
from tests.pipelines import claim
from tests.routes.recorder import POLICY, Recording, T, add, by_reader
from tests.worker.workers import Ear, becomes, once, working


class Plain(Recording):
    def deliver(self, message: Message) -> Receipt:  # type: ignore[override]  # a mistake that users may make
        return Receipt(channel="plain")


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
    """A policy in the call wins over the route's, and that over the engine's. The longest literal pattern wins."""
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


# Records that are no longer wanted


def test_records_that_are_not_kept_are_not_sent_and_count_as_deleted(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, keep=lambda records: [record for record in records if record.key != "read"])
    add(digests, "t", "a", "read", "b")

    once(digests, now=T)

    assert channel.records() == ["b", "a"]
    assert digests.ledger() == Ledger(accepted=3, delivered=2, deleted=1)
    assert digests.verify()
    assert [sighting.fate for sighting in digests.trace("t", "read")] == [Fate.LEFT_OUT]


def test_a_digest_of_which_nothing_is_kept_is_not_sent(digests: Digests, channel: Recording) -> None:
    async def nothing(records: list[Record]) -> list[Record]:
        return []

    digests.route("t", channel=channel, keep=nothing)
    add(digests, "t", "a", "b")

    once(digests, now=T)

    assert channel.messages == []
    assert digests.ledger() == Ledger(accepted=2, deleted=2)
    assert [(sighting.fate, sighting.ended) for sighting in digests.trace("t", "a")] == [(Fate.LEFT_OUT, T)]


@pytest.mark.parametrize(
    ("redelivery", "failure", "sent", "revision"),
    [
        ("merge", DeliveryFailed("no", after=1), ["b"], 2),  # a record left it
        ("same", DeliveryFailed("no", after=1), ["b", "a"], 1),
        ("merge", DeliveryFailed("no answer", after=1, unknown=True), ["b", "a"], 1),
    ],
    ids=["merged", "same", "unknown"],
)
def test_keep_is_not_asked_about_a_frozen_digest(
    digests: Digests,
    channel: Recording,
    redelivery: Literal["merge", "same"],
    failure: DeliveryFailed,
    sent: list[str],
    revision: int,
) -> None:
    """The first attempt may have arrived: without some of its records it would come under another key."""
    unwanted: set[str] = set()
    policy = Policy(minimum_delay=60, redelivery=redelivery)
    keep = lambda records: [record for record in records if record.key not in unwanted]  # noqa: E731
    digests.route("t", channel=channel, keep=keep, policy=policy)
    channel.failures["t"] = [failure]
    add(digests, "t", "a", "b")

    once(digests, now=T)
    unwanted.add("a")
    once(digests, now=T + 2)

    assert channel.records() == sent
    assert channel.keys[0].endswith(f".{revision}")


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


# Failures and throttling


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
    """One message carries all records that came meanwhile. Waiting counts as no attempt."""
    digests.route("t", channel=channel, policy=Policy(minimum_delay=60, attempts=2))
    channel.failures["t"] = [DeliveryFailed("429", after=10, throttled=True) for _ in range(5)]
    for number in range(6):
        add(digests, "t", str(number), now=T + 10 * number)
        once(digests, now=T + 10 * number)

    assert len(channel.messages) == 1
    assert sorted(channel.records()) == list("012345")
    assert digests.dead_letters() == []


def test_the_window_grows_also_where_all_else_comes_again_as_it_was(digests: Digests, channel: Recording) -> None:
    """A receiver that asks to wait has not taken the digest, so records may join; after other failures they may not."""
    digests.route("t", channel=channel, policy=Policy(minimum_delay=60), redelivery="same")
    patience = DeliveryFailed("429", after=10, throttled=True)
    channel.failures["t"] = [patience, patience, DeliveryFailed("500", after=10), patience]
    for number in range(6):
        add(digests, "t", str(number), now=T + 10 * number)
        once(digests, now=T + 10 * number)

    assert [sorted(channel.records(place)) for place in range(len(channel.messages))] == [["0", "1", "2"]]
    assert [record.key for record in digests.peek("t")] == ["5", "4", "3"]


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


# Calls


def test_a_route_that_does_not_digest_sends_each_record_at_once(digests: Digests, channel: Recording) -> None:
    digests.route("now:*", channel=channel, digest=False)

    assert digests.notify("now:ada", {"title": "one"}, key="1")
    assert digests.notify("now:ada", {"title": "two"}, key="2")

    assert [channel.records(place) for place in range(2)] == [["1"], ["2"]]
    assert digests.ledger().accepted == 0


def test_a_record_that_is_sent_at_once_shows_times_in_the_zone_that_its_reader_chose(
    digests: Digests, channel: Recording
) -> None:
    digests.route("now:*", channel=channel, digest=False)
    digests.prefer("now:ada", "instant", zone="Asia/Tokyo")  # which has no window

    assert digests.notify("now:ada", {"title": "one"}, timestamp=1_700_000_000.0)
    assert asyncio.run(_notified_in_tokyo(channel))

    assert ["07:13 (Asia/Tokyo)" in message.text for message in channel.messages] == [True, True]


def test_a_record_that_is_not_kept_is_not_sent_at_once_either(digests: Digests, channel: Recording) -> None:
    digests.route("now:*", channel=channel, digest=False, keep=lambda _: [])
    dispatched: list[str] = []

    assert not digests.notify("now:ada", 1)
    assert not asyncio.run(_notified_async(channel, dispatched))

    assert (channel.messages, dispatched) == ([], [])


async def _notified_in_tokyo(channel: Recording) -> bool:
    async with AsyncDigests("memory://") as digests:
        digests.route("now:*", channel=channel, digest=False)
        await digests.prefer("now:ada", "instant", zone="Asia/Tokyo")
        return await digests.notify("now:ada", {"title": "one"}, timestamp=1_700_000_000.0)


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
        notified = [threads.submit(digests.notify, f"t:{number}", number) for number in range(24)]
        assert all(each.result() for each in notified)

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


def test_a_coroutine_that_would_wait_for_its_own_event_loop_is_refused(channel: Recording) -> None:
    """A hook that notifies through the same engine, where both are delivered at once."""
    with Digests("off://") as digests:

        async def to(timeline: str) -> str:
            digests.notify("other", 1)
            return "ada"

        options: dict[str, Any] = {"to": to}
        digests.route("t", channel=channel, **options)
        digests.route("other", channel=channel)

        with pytest.raises(ConfigError, match="use AsyncDigests in it"):
            digests.notify("t", 1)


def test_receivers_that_deduplicate_get_the_same_again() -> None:
    with Digests("memory://") as digests:
        hook = "webhook+https://receiver.example/?secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        digests.route("hook:*", channel=hook)
        digests.route("other:*", channel=Recording())
        digests.route("mine:*", channel=Recording(), policy=Policy(redelivery="merge"), split=by_reader)
        digests.route("hourly:*", channel=hook, policy=Policy.hourly())
        digests.route("joined:*", channel=hook, redelivery="merge")

        assert digests.engine.policies.of("hourly:a").redelivery == "same"
        assert digests.engine.policies.of("joined:a").redelivery == "merge"
        assert digests.engine.policies.of("hook:a").redelivery == "same"
        assert digests.engine.policies.of("other:a").redelivery == "merge"
        assert digests.engine.policies.of("mine:a").redelivery == "same"


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


def test_times_are_in_the_zone_that_the_reader_chose(digests: Digests, channel: Recording) -> None:
    office = Policy.quiet_hours("03:00-04:00", tz="America/New_York")
    digests.route("plain:*", channel=channel)
    digests.route("window:*", channel=channel, policy=office)
    digests.route("own:*", channel=channel, zone="America/New_York")
    for name in ("plain", "window", "own"):
        digests.prefer(f"{name}:ada", "instant", zone="Asia/Tokyo", now=T)
        add(digests, f"{name}:ada", "a")

    once(digests, now=T)

    shown = {message.timeline: message.text for message in channel.messages}
    assert "07:13 (Asia/Tokyo)" in shown["plain:ada"]
    assert "07:13 (Asia/Tokyo)" in shown["window:ada"]
    assert "17:13 (America/New_York)" in shown["own:ada"]


def test_times_are_in_the_zone_of_the_window_unless_the_route_names_one(digests: Digests, channel: Recording) -> None:
    office = Policy.quiet_hours("03:00-04:00", tz="Asia/Tokyo")
    digests.route("plain:*", channel=channel)
    digests.route("window:*", channel=channel, policy=office)
    digests.route("function:*", channel=channel, policy=Policy.quiet_hours("03:00-04:00", tz=lambda _: "Asia/Tokyo"))
    digests.route("own:*", channel=channel, policy=office, zone="America/New_York")
    digests.route("chosen:*", channel=channel)
    digests.set_policy("chosen:ada", office, now=T)
    for name in ("plain", "window", "function", "own", "chosen"):
        add(digests, f"{name}:ada", "a")

    once(digests, now=T)

    shown = {message.timeline: message.text for message in channel.messages}
    assert "22:13 (UTC)" in shown["plain:ada"]
    assert "07:13 (Asia/Tokyo)" in shown["window:ada"]
    assert "07:13 (Asia/Tokyo)" in shown["function:ada"]
    assert "17:13 (America/New_York)" in shown["own:ada"]
    assert "07:13 (Asia/Tokyo)" in shown["chosen:ada"]


@pytest.mark.parametrize(
    ("policy", "hours"),
    [
        (Policy.daily("09:00", tz="UTC"), 24),
        (Policy.weekly("mon 09:00", tz="UTC"), 7 * 24),
        (Policy.quiet_hours("09:01-17:00", tz="UTC"), 8),
        (Policy(minimum_delay=3600, maximum_delay=3600), 1),
        (Policy(max_records=5), None),
    ],
    ids=str,
)
def test_a_message_knows_when_the_next_one_comes_at_the_earliest(
    digests: Digests, channel: Recording, policy: Policy, hours: float | None
) -> None:
    """By the cool-down and by the calendar: at nine on a Monday the next daily digest is tomorrow's."""
    nine = 1_699_866_000.0  # Monday, 13 November 2023
    digests.route("t", channel=channel, policy=policy)
    digests.add("t", "x", now=nine - 60)

    [delivery] = claim(digests.engine.pipeline(nine)).deliveries

    assert delivery.next_delivery() == (None if hours is None else nine + hours * 3600)


MAIL = "smtp://localhost?from=shop@example.org"


@pytest.mark.parametrize(
    ("pattern", "to", "complaint"),
    [
        ("mail:*", "no address", "to: 'no address' is not an address such as ada@example.org"),
        ("mail:*", "{timeline} at example.org", "to: 'ada at example.org' is not an address"),
        ("mail:*", "Ada <ada@example.org>", "to: 'Ada <ada@example.org>' is more than an address"),
        ("alerts", None, "to: 'alerts' is not an address .*; the recipient is the name of the timeline, unless `to`"),
    ],
)
def test_a_mail_route_whose_recipient_can_be_no_address_is_refused(
    pattern: str, to: str | None, complaint: str
) -> None:
    with Digests("memory://") as digests, pytest.raises(ConfigError, match=f"^{complaint}"):
        digests.route(pattern, channel=MAIL, to=to)


@pytest.mark.parametrize(
    ("pattern", "to"),
    [
        ("mail:*", None),
        ("mail:*", "{timeline}@example.org"),
        ("*", "{timeline}"),
        ("ada@example.org", None),
        ("mail:*", lambda timeline: timeline),
    ],
)
def test_a_mail_route_whose_recipient_may_be_an_address_is_taken(pattern: str, to: Any) -> None:
    with Digests("memory://") as digests:
        digests.route(pattern, channel=MAIL, to=to)


def test_other_channels_take_any_recipient() -> None:
    with Digests("memory://") as digests:
        digests.route("mail:*", channel="terminal://", to="no address")


def test_a_route_whose_split_gives_the_recipients_needs_no_address_in_its_pattern() -> None:
    with Digests("memory://") as digests:
        digests.route("team", channel="smtp://localhost?from=a@b.c", split=lambda digest: {"ada@example.org": digest})
