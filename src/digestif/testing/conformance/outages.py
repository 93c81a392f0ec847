"""Outages: a channel that is unavailable counts against no digest, and its digests come back one by one, then all."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import cycle, pairwise
from random import Random
from typing import Any, NamedTuple

import pytest

from digestif import (
    ChannelDown,
    ChannelUp,
    ConfigError,
    DeliveryFailed,
    Digest,
    Digests,
    Ended,
    Event,
    InvalidState,
    Retry,
    StoreError,
    Unavailable,
    Worker,
)
from digestif.attempts.delivery import Delivery
from digestif.attempts.judgement import judge
from digestif.attempts.room import Room
from digestif.attempts.steps import run
from digestif.core.verdicts import DELIVERED
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, deliver, keys, scheduled
from digestif.testing.conformance.base import DigestsWith, Suite, in_sync_mode_only

READERS = ("mail:ada", "mail:bob", "mail:eve")
DOWN = Unavailable("refused")
UNKNOWN = DeliveryFailed("no answer", unknown=True)
PATIENT = Retry(initial=2, maximum=2, jitter=0)
MINUTE = 60.0


class Message(NamedTuple):
    """What a receiver got."""

    timeline: str
    key: str
    records: tuple[str, ...]  # keys, the oldest first
    at: float


class Receiver:
    """A handler that delivers until `fail` gives it an error to raise. It notes its calls and messages."""

    def __init__(self) -> None:
        self.now = T
        self.failure: Callable[[Digest], Exception | None] = lambda digest: None
        self.messages: list[Message] = []
        self.calls: list[str] = []

    def __call__(self, digest: Digest) -> None:
        self.calls.append(digest.timeline)
        failure = self.failure(digest)
        if failure is None or getattr(failure, "unknown", False):
            records = tuple(sorted(keys(digest)))
            self.messages.append(Message(digest.timeline, digest.idempotency_key, records, self.now))
        if failure is not None:
            raise failure

    def fail(self, failure: Exception | None, *timelines: str) -> None:
        """Fail from now on, for these timelines or for all."""
        self.failure = lambda digest: failure if not timelines or digest.timeline in timelines else None

    def is_back(self) -> None:
        self.fail(None)


class Outages(Suite):
    @pytest.fixture
    def receiver(self) -> Receiver:
        return Receiver()

    @in_sync_mode_only
    def test_an_outage_counts_against_no_digest_and_ends_with_one_for_each_reader(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 62. Longer than all attempts would last: nothing is buried, each timeline gets one digest with all."""
        workers = [digests_with(attempts=2, retry=PATIENT, minimum_delay=60, increment_delay=0) for _ in range(2)]
        for digests in workers:
            digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        for step in range(120):
            add_to_all(workers[0], f"r{step:03}", now=T + 5 * step)
            work(workers[step % 2], receiver, now=T + 5 * step)

        returned = T + 600
        receiver.is_back()
        for step in range(72):
            work(workers[step % 2], receiver, now=returned + 5 * step)

        assert workers[0].ledger().dead == 0
        assert sorted(message.timeline for message in receiver.messages) == list(READERS)
        assert {len(message.records) for message in receiver.messages} == {120}
        assert workers[0].outages(now=returned + 360) == []
        assert workers[0].verify()

    def test_a_closed_channel_is_probed_by_one_digest_at_a_time_each_of_another_timeline(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. After 5 s, then after twice that, one attempt of a timeline that was not the last."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T)
        work(digests, receiver, now=T)
        receiver.calls.clear()

        at, probers = T, []
        for _ in range(6):
            [outage] = digests.outages(now=at)
            assert outage.next_probe is not None
            at = outage.next_probe
            work(digests, receiver, now=at - 0.001)
            assert receiver.calls == []
            while not receiver.calls:  # who is next comes within a part of the interval
                at += 1
                work(digests, receiver, now=at)
            probers.append(receiver.calls)
            receiver.calls = []

        assert {len(calls) for calls in probers} == {1}
        assert all(one != other for one, other in pairwise(probers))
        assert digests.ledger().pending + digests.ledger().open == len(READERS)
        assert attempts(digests) == {0}

    def test_other_channels_are_on_time_meanwhile(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. Another route is on time while a channel is closed."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.handler("chat:*", channel="chat")(receiver)
        receiver.fail(DOWN, *READERS)
        add_to_all(digests, "r", now=T)
        work(digests, receiver, now=T)

        digests.add("chat:ada", 1, key="r", now=T + 1)
        work(digests, receiver, now=T + 1)

        assert [(message.timeline, message.at) for message in receiver.messages] == [("chat:ada", T + 1)]

    def test_records_of_kept_timelines_stay_pending(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. They can be retracted, and an attempt that failed does not count."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, key="first", now=T)
        work(digests, receiver, now=T)

        digests.add("mail:bob", 1, key="kept", now=T + 1)
        digests.add("mail:bob", 1, key="retracted", now=T + 1)
        work(digests, receiver, now=T + 1)

        assert receiver.calls == ["mail:ada"]
        assert digests.timeline("mail:bob").pending == 2
        assert digests.retract("mail:bob", "retracted", now=T + 2)
        assert attempts(digests) == {0}

    def test_when_it_answers_digests_return_one_then_two_then_four_in_a_second(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. A measured return: a receiver that has just come back is not flooded."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        many = [f"mail:{number:02}" for number in range(40)]
        digests.add_many([(timeline, 1) for timeline in many], now=T)
        work(digests, receiver, now=T)
        receiver.is_back()
        at = T + 4
        while not receiver.messages:
            at += 1
            work(digests, receiver, now=at)

        for second in range(25):
            work(digests, receiver, now=at + second)

        left = Counter(round(message.at - at) for message in receiver.messages)
        assert sum(left.values()) == 40
        assert all(left[second] <= 2**second + (second == 0) for second in range(10))

    @pytest.mark.parametrize("failure", [UNKNOWN, Unavailable("reset", unknown=True)], ids=["unknown", "unavailable"])
    def test_what_may_have_gone_out_comes_again_as_it_was_and_the_rest_after_the_cool_down(
        self, digests_with: DigestsWith, receiver: Receiver, failure: Exception
    ) -> None:
        """Fact 62. A frozen digest first, under the same key; what gathered since follows as one digest."""
        digests = digests_with(minimum_delay=60, increment_delay=0, maximum_delay=60)
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(failure)
        digests.add("mail:ada", 1, key="sent", now=T)
        work(digests, receiver, now=T)
        digests.add("mail:ada", 2, key="later", now=T + 1)
        receiver.is_back()
        work_until(digests, receiver, T + 1, T + 400)

        assert [message.records for message in receiver.messages] == [("sent",), ("sent",), ("later",)]
        first, again, rest = receiver.messages
        assert first.key == again.key
        assert rest.at >= again.at + 60
        assert digests.ledger().delivered == 2

    def test_a_lost_answer_closes_the_channel_once_a_second_timeline_met_it(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. One digest may be to blame for a time-out; two of different timelines are not."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(UNKNOWN)

        digests.add("mail:ada", 1, now=T)
        work(digests, receiver, now=T)
        assert digests.outages(now=T) == []
        digests.add("mail:bob", 1, now=T + 1)
        work(digests, receiver, now=T + 1)

        [outage] = digests.outages(now=T + 1)
        assert (outage.channel, outage.reason, outage.since) == ("mail", "no answer", T + 1)

    def test_a_delivery_in_between_clears_the_suspicion(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. A channel that delivers is not closed for two digests that have their own trouble."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(UNKNOWN, "mail:ada", "mail:eve")

        for second, timeline in enumerate(READERS):  # bob's is delivered in between
            digests.add(timeline, 1, now=T + second)
            work(digests, receiver, now=T + second)

        assert digests.outages(now=T + 3) == []

    @pytest.mark.parametrize(
        "failure", [DeliveryFailed("451", throttled=True), DeliveryFailed("554"), ValueError("boom")], ids=repr
    )
    def test_what_one_digest_meets_closes_nothing(
        self, digests: Digests, receiver: Receiver, failure: Exception
    ) -> None:
        """Fact 63. A digest that is refused, put off or broken for itself holds up no other."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(failure, "mail:ada")
        add_to_all(digests, "r", now=T)

        work(digests, receiver, now=T)

        assert digests.outages(now=T) == []
        assert sorted(message.timeline for message in receiver.messages) == ["mail:bob", "mail:eve"]

    def test_a_refused_recipient_is_buried_after_the_last_attempt_or_at_once(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 63. Counted and buried after the last attempt; at once if the refusal is permanent."""
        digests = digests_with(attempts=3, retry=PATIENT)
        digests.handler("mail:*", channel="mail")(receiver)
        final = DeliveryFailed("no such mailbox", retry=False)
        receiver.failure = lambda digest: {"mail:ada": DeliveryFailed("554"), "mail:bob": final}.get(digest.timeline)
        add_to_all(digests, "r", now=T)

        work_until(digests, receiver, T, T + 10)

        assert Counter(receiver.calls) == {"mail:ada": 3, "mail:bob": 1, "mail:eve": 1}
        assert {letter.timeline: letter.attempts for letter in digests.dead_letters()} == {"mail:ada": 3, "mail:bob": 1}

    def test_patience_ends(self, digests_with: DigestsWith, receiver: Receiver) -> None:
        """Fact 63. What is put off again and again, uncounted, is given up after `give_up_after`."""
        digests = digests_with(give_up_after=600)
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DeliveryFailed("451", throttled=True, after=50))
        digests.add("mail:ada", 1, now=T)

        work_until(digests, receiver, T, T + 599, step=10)
        assert digests.ledger().dead == 0
        work_until(digests, receiver, T + 600, T + 660, step=10)

        assert [letter.attempts for letter in digests.dead_letters()] == [1]

    def test_patience_ends_although_a_part_of_the_channel_is_away(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 63. A message in between that the open channel did not take is no new beginning."""
        digests = digests_with(give_up_after=600)
        digests.handler("mail:*", channel="mail")(receiver)
        own = cycle([DeliveryFailed("451", throttled=True, after=50), DOWN])
        receiver.failure = lambda digest: next(own) if digest.timeline == "mail:ada" else None
        digests.add("mail:ada", 1, now=T)

        for second in range(0, 800, 10):
            digests.add(f"mail:{second}", 1, now=T + second)
            work(digests, receiver, now=T + second)

        assert [letter.timeline for letter in digests.dead_letters()] == ["mail:ada"]

    def test_an_outage_does_not_use_up_patience(self, digests_with: DigestsWith, receiver: Receiver) -> None:
        """Fact 62. However long the channel was away, its first answer finds a digest that may still be tried."""
        digests = digests_with(give_up_after=600)
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, now=T)
        work_until(digests, receiver, T, T + 1800, step=60)
        receiver.fail(DeliveryFailed("451", throttled=True, after=50))

        work_until(digests, receiver, T + 1800, T + 2300, step=50)

        assert receiver.calls
        assert digests.ledger().dead == 0

    def test_a_notification_does_not_pass_a_closed_channel(self, digests_with: DigestsWith, receiver: Receiver) -> None:
        """Fact 62. Due for its delays, and its channel is closed: False, no handler is called, the record waits."""
        digests = digests_with(minimum_delay=0, increment_delay=0, maximum_delay=0)
        digests.handler("mail:*", channel="mail")(receiver)
        digests.notify("mail:ada", 1, key="a", now=T - 200)
        receiver.fail(DOWN)
        digests.notify("mail:bob", 1, key="b", now=T)
        receiver.calls.clear()

        assert digests.notify("mail:ada", 2, key="c", now=T) is False

        assert receiver.calls == []
        assert (digests.timeline("mail:ada").state, digests.timeline("mail:ada").pending) == ("waiting", 1)

    def test_nothing_passes_a_closed_channel(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. Not what was flushed, nor a block; schedule gives what probes, and nothing else."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T)
        work(digests, receiver, now=T)
        receiver.calls.clear()

        for timeline in READERS:
            digests.flush(timeline, now=T + 1)
        work(digests, receiver, now=T + 1)
        digests.add("mail:new", 1, now=T + 1)
        with pytest.raises(InvalidState, match="its channel mail is unavailable: refused"):
            deliver(digests, "mail:new", now=T + 1)
        assert scheduled(digests, T + 1) == []

        assert receiver.calls == []
        assert len(scheduled(digests, T + 30)) == 1

    def test_an_outage_is_told_when_it_begins_and_when_it_ends(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. ChannelDown with its reason, ChannelUp with its duration, once each."""
        told: list[Event] = []
        digests.subscribe(lambda event: told.append(event) if isinstance(event, ChannelDown | ChannelUp) else None)
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T)
        work_until(digests, receiver, T, T + 60)
        receiver.is_back()
        work_until(digests, receiver, T + 60, T + 200)

        down, up = told
        assert isinstance(down, ChannelDown)
        assert isinstance(up, ChannelUp)
        assert (down.channel, down.reason) == ("mail", "refused")
        assert 4 <= down.retry_in <= 6
        assert (up.channel, up.reason) == ("mail", "refused")
        first = min(message.at for message in receiver.messages)
        assert up.down_for == first - T

    def test_explain_says_what_a_timeline_waits_for(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. The channel, since when, why, and when it is tried again; also without handlers."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T)
        work(digests, receiver, now=T)

        why = digests.explain("mail:bob", now=T + 1)

        assert why.outage == digests.outages(now=T + 1)[0]
        assert why.outage.patterns == ("mail:*",)
        assert "Its channel mail is unavailable since" in str(why)
        assert "failed" not in digests.explain("mail:ada", now=T + 1).arithmetic  # an outage is no failure
        assert "(refused)" in str(why)
        assert digests.explain("chat:bob", now=T + 1).outage is None

    def test_a_handler_that_names_no_channel_puts_off_its_own_digest(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. `raise Unavailable` for its timeline alone: uncounted, and nothing else waits."""
        digests.handler("mail:*")(receiver)
        receiver.fail(Unavailable("busy", after=7), "mail:ada")
        add_to_all(digests, "r", now=T)

        work(digests, receiver, now=T)

        assert digests.outages(now=T) == []
        assert sorted(message.timeline for message in receiver.messages) == ["mail:bob", "mail:eve"]
        assert digests.timeline("mail:ada").due == T + 7
        assert attempts(digests) == {0}

    def test_a_channel_that_a_handler_names_as_it_fails_closes_its_pattern(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. `raise Unavailable(channel=…)`: the timelines of that handler wait, those of others do not."""
        digests.handler("mail:*")(receiver)
        digests.handler("chat:*")(receiver)
        receiver.fail(Unavailable("refused", channel="crm"), *READERS)
        digests.add("mail:ada", 1, now=T)
        work(digests, receiver, now=T)

        for timeline in ("mail:bob", "chat:bob"):
            digests.add(timeline, 1, now=T + 1)
        work(digests, receiver, now=T + 1)

        assert [outage.channel for outage in digests.outages(now=T + 1)] == ["crm"]
        assert receiver.calls == ["mail:ada", "chat:bob"]

    def test_a_function_says_which_timelines_share_a_channel(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. One handler with a channel for each tenant: only the timelines of one wait."""
        digests.handler("hook:*", channel=lambda timeline: timeline.rpartition(":")[0])(receiver)
        receiver.fail(DOWN, "hook:acme:1", "hook:acme:2")
        digests.add("hook:acme:1", 1, now=T)
        work(digests, receiver, now=T)

        for timeline in ("hook:acme:2", "hook:other:1"):
            digests.add(timeline, 1, now=T + 1)
        work(digests, receiver, now=T + 1)

        assert receiver.calls == ["hook:acme:1", "hook:other:1"]

    def test_a_digest_that_is_delivered_at_most_once_is_not_completed_for_a_closed_channel(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 62. The note is looked at before it is completed."""
        digests, other = digests_with(), digests_with()
        other.handler("mail:*", channel="mail")(receiver)
        digests.handler("mail:*", channel="mail", at_most_once=True)(receiver)
        receiver.fail(DOWN)
        other.add("mail:ada", 1, now=T)
        work(other, receiver, now=T)

        digests.add("mail:bob", 1, now=T + 1)
        work(digests, receiver, now=T + 1)

        assert receiver.calls == ["mail:ada"]
        assert digests.timeline("mail:bob").pending == 1

    def test_an_outage_closes_the_channel_of_a_digest_that_is_delivered_at_most_once_immediately(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. Also if it answered a moment ago: each further attempt would lose a digest."""
        digests.handler("mail:*", channel="mail", at_most_once=True)(receiver)
        digests.add("mail:first", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, now=T + 1)
        work(digests, receiver, now=T + 1)

        digests.add("mail:bob", 1, now=T + 2)
        work(digests, receiver, now=T + 2)

        assert receiver.calls == ["mail:first", "mail:ada"]
        assert digests.timeline("mail:bob").pending == 1

    def test_a_note_that_can_t_be_read_counts_as_open(self, digests: Digests, store: Store, receiver: Receiver) -> None:
        """Fact 62. Damage must not keep back what could be delivered."""
        digests.handler("mail:*", channel="mail")(receiver)
        assert store.swap_note(0, "channels", None, b"\xffgarbled")
        digests.add("mail:ada", 1, now=T)

        work(digests, receiver, now=T)

        assert [message.timeline for message in receiver.messages] == ["mail:ada"]

    def test_a_channel_that_was_named_as_it_failed_opens_again(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. Also if its handler declares none, and whatever the handler delivers next is its answer."""
        told: list[Event] = []
        digests.subscribe(lambda event: told.append(event) if isinstance(event, ChannelUp) else None)
        digests.handler("mail:*")(receiver)
        receiver.fail(Unavailable("refused", channel="crm"))
        add_to_all(digests, "r", now=T)
        work_until(digests, receiver, T, T + 60)
        receiver.is_back()

        work_until(digests, receiver, T + 60, T + 200)

        assert len(receiver.messages) == len(READERS)
        assert len(told) == 1
        assert digests.outages(now=T + 200) == []

    def test_an_empty_digest_opens_nothing(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 62. Only what got to the channel can be its answer."""
        told: list[Event] = []
        digests.subscribe(lambda event: told.append(event) if isinstance(event, ChannelUp) else None)
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:empty", 1, now=T - 400)
        work(digests, receiver, now=T - 400)
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, now=T - 150)
        digests.deliver("mail:ada", now=T - 150)

        for timeline in scheduled(digests, T):  # among them the one whose cool-down is over, with nothing pending
            digests.deliver(timeline, now=T)

        assert told == []
        assert [outage.channel for outage in digests.outages(now=T)] == ["mail"]

    def test_a_refusal_of_a_handler_is_an_answer(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 63. A channel that refuses a digest works."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(DeliveryFailed("no such mailbox", retry=False))

        work_until(digests, receiver, T + 5, T + 60)

        assert digests.ledger().dead == 1
        assert digests.outages(now=T + 60) == []

    def test_whatever_an_error_says_the_attempt_ends(self, digests: Digests, receiver: Receiver) -> None:
        """Fact 65. Texts that can't be written, or are huge, are shortened where they are noted."""
        digests.handler("mail:*", channel="mail\udce9" * 1000)(receiver)
        receiver.fail(Unavailable("\udce9" * 1_000_000))
        ended: list[Event] = []
        digests.subscribe(lambda event: ended.append(event) if isinstance(event, Ended) else None)
        add_to_all(digests, "r", now=T)

        work(digests, receiver, now=T)

        assert len(ended) == len(READERS)
        [outage] = digests.outages(now=T)
        assert len(outage.channel) + len(outage.reason) <= 1000
        assert digests.ledger().open == len(READERS)

    def test_a_worker_without_the_handler_leaves_what_is_behind_a_closed_channel(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 62. The note says which timelines wait: their records stay pending."""
        digests, other = digests_with(), digests_with()
        digests.handler("mail:*", channel="mail")(receiver)
        other.handler("chat:*")(receiver)
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, now=T)
        work(digests, receiver, now=T)
        digests.add("mail:bob", 1, now=T + 1)

        for second in (1, 30):  # also when a probe is due
            work(other, receiver, now=T + second)

        assert digests.timeline("mail:bob").pending == 1

    @pytest.mark.parametrize("name", [5, "", " "], ids=repr)
    def test_a_channel_has_a_name(self, digests: Digests, name: Any) -> None:
        """Fact 50. What is no name is refused by `handler` and by `Unavailable`."""
        with pytest.raises(ConfigError, match="channel"):
            digests.handler("mail:*", channel=name)(Receiver())
        with pytest.raises(ConfigError, match="channel"):
            Unavailable("refused", channel=name)

    def test_an_outage_leaves_nothing_behind(self, digests: Digests, store: Store, receiver: Receiver) -> None:
        """Fact 30. When all is delivered, no note is left either."""
        before = dict(store.footprint())
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T)
        work_until(digests, receiver, T, T + 30)
        receiver.is_back()

        work_until(digests, receiver, T + 30, T + 1000, step=10)

        assert len(receiver.messages) == len(READERS)
        assert dict(store.footprint()) == before

    # A channel of which a part is away

    @in_sync_mode_only
    def test_a_channel_of_which_a_part_is_away_delivers_through_the_rest(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 81. With 5 % of the messages refused, readers together get 90 % of their digests, each of them 80 %."""
        workers = [digests_with(minimum_delay=5, increment_delay=0) for _ in range(2)]
        for digests in workers:
            digests.handler("mail:*", channel="mail")(receiver)
        readers = [f"mail:{number}" for number in range(10)]
        receiver.failure = Lottery(0.05)

        for step in range(200):  # each reader gets a record every ten seconds
            workers[0].add(readers[step % 10], step, now=T + step)
            work(workers[step % 2], receiver, now=T + step)

        got = Counter(message.timeline for message in receiver.messages)
        assert sum(got.values()) >= 0.9 * 200
        assert min(got[reader] for reader in readers) >= 0.8 * 20
        assert len({message.key for message in receiver.messages}) == len(receiver.messages)
        assert workers[0].ledger().dead == 0
        assert workers[0].verify()

    def test_a_channel_that_just_answered_is_closed_by_three_timelines_and_five_seconds_without_an_answer(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 81. One message that is refused closes it for none of the others."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:first", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T + 100)

        for second in (100, 102, 104):
            work(digests, receiver, now=T + second)
            assert digests.outages(now=T + second) == []
        work(digests, receiver, now=T + 106)

        assert [outage.channel for outage in digests.outages(now=T + 106)] == ["mail"]
        assert attempts(digests) == {0}

    def test_two_timelines_do_not_close_a_channel_that_just_answered(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 81. However often they meet it; when it has not answered for two minutes, the next one does."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:eve", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(DOWN)
        for timeline in ("mail:ada", "mail:bob"):
            digests.add(timeline, 1, now=T + 1)

        work_until(digests, receiver, T + 1, T + 120, step=1)
        assert digests.outages(now=T + 120) == []
        work_until(digests, receiver, T + 121, T + 190, step=1)

        assert [outage.channel for outage in digests.outages(now=T + 190)] == ["mail"]

    def test_two_timelines_without_an_answer_close_a_channel_that_just_answered(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. Each message that may have gone out fixes what its digest carries: there must be few of them."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:first", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(UNKNOWN)

        for second, timeline in enumerate(READERS):
            digests.add(timeline, 1, now=T + 1 + second)
            work(digests, receiver, now=T + 1 + second)

        assert [outage.channel for outage in digests.outages(now=T + 3)] == ["mail"]
        assert "mail:eve" not in receiver.calls

    @in_sync_mode_only
    def test_an_answer_through_another_worker_keeps_the_channel_open(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 81. While a suspicion is noted, answers are noted too, so that every worker knows of them."""
        one, other = digests_with(), digests_with()
        for digests in (one, other):
            digests.handler("mail:*", channel="mail")(receiver)
        one.add("mail:first", 1, now=T)
        work(one, receiver, now=T)
        receiver.fail(DOWN, *READERS)

        for second, timeline in enumerate(READERS):
            one.add(timeline, 1, now=T + 4 * second)
            work(one, receiver, now=T + 4 * second)
            other.add(f"mail:{second}", 1, now=T + 4 * second + 1)
            work(other, receiver, now=T + 4 * second + 1)

        assert one.outages(now=T + 10) == []
        assert len(receiver.messages) == 1 + len(READERS)

    @in_sync_mode_only
    def test_a_worker_that_got_no_answer_itself_believes_the_note(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 81. A process that has just started does not close a channel that answers others."""
        one, other = digests_with(), digests_with()
        for digests in (one, other):
            digests.handler("mail:*", channel="mail")(receiver)
        one.add("mail:first", 1, now=T)
        work(one, receiver, now=T)
        receiver.fail(DOWN)
        one.add("mail:ada", 1, now=T + 1)
        work(one, receiver, now=T + 1)

        other.add("mail:bob", 1, now=T + 2)
        work(other, receiver, now=T + 2)

        assert "mail:bob" in receiver.calls
        assert other.outages(now=T + 2) == []

    @in_sync_mode_only
    def test_a_digest_that_meets_an_open_channel_is_put_off_by_itself_for_longer_each_time(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 81. Uncounted, for 2, 4, 8 … up to 60 seconds, whichever worker tries it; newer records join it."""
        workers = [digests_with(attempts=2) for _ in range(2)]
        for digests in workers:
            digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN, "mail:ada")
        digests = workers[0]
        digests.add("mail:others", 0, now=T)
        work(digests, receiver, now=T)
        digests.add("mail:ada", 1, key="first", now=T)

        at, waits = T, []
        for step in range(7):
            digests.add(f"mail:{step}", step, now=at)  # it answers others
            work(workers[step % 2], receiver, now=at)
            due = digests.timeline("mail:ada").due
            assert due is not None
            waits.append(due - at)
            at = due
        digests.add("mail:ada", 2, key="second", now=at)
        receiver.is_back()
        work(digests, receiver, now=at)

        assert waits == [2, 4, 8, 16, 32, 60, 60]
        assert receiver.messages[-1].records == ("first", "second")
        assert digests.ledger().dead == 0

    @pytest.mark.parametrize(("after", "wait"), [(0, 2), (30, 30), (3600, 120)])
    def test_a_receiver_may_name_the_time_for_which_one_digest_is_put_off(
        self, digests: Digests, receiver: Receiver, after: float, wait: float
    ) -> None:
        """Fact 81. At least two seconds, at most two minutes."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:bob", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(Unavailable("503", after=after), "mail:ada")
        digests.add("mail:ada", 1, now=T)

        work(digests, receiver, now=T)

        assert digests.outages(now=T) == []
        assert digests.timeline("mail:ada").due == T + wait

    @in_sync_mode_only
    def test_an_outage_of_a_channel_that_just_answered_is_one_digest_for_each_reader(
        self, digests_with: DigestsWith, receiver: Receiver
    ) -> None:
        """Fact 62. Also then nothing is counted, and each reader gets one digest with all that gathered."""
        workers = [digests_with(attempts=2, retry=PATIENT, minimum_delay=5, increment_delay=0) for _ in range(2)]
        for digests in workers:
            digests.handler("mail:*", channel="mail")(receiver)
        add_to_all(workers[0], "before", now=T - 10)
        work(workers[0], receiver, now=T - 10)
        receiver.messages.clear()
        receiver.fail(DOWN)
        for step in range(120):
            add_to_all(workers[0], f"r{step:03}", now=T + 5 * step)
            work(workers[step % 2], receiver, now=T + 5 * step)
        assert [outage.channel for outage in workers[0].outages(now=T + 600)] == ["mail"]

        receiver.is_back()
        for step in range(72):
            work(workers[step % 2], receiver, now=T + 600 + 5 * step)

        assert sorted(message.timeline for message in receiver.messages) == list(READERS)
        assert {len(message.records) for message in receiver.messages} == {120}
        assert workers[0].ledger().dead == 0

    def test_deliveries_through_a_channel_that_works_write_no_note(
        self, digests: Digests, store: Store, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fact 81. Answers are noted only while a suspicion is noted, by each worker at most once a second."""
        written = notes_written(store, monkeypatch)
        digests.handler("mail:*", channel="mail")(receiver)
        add_to_all(digests, "r", now=T)
        work(digests, receiver, now=T)
        assert written == []

        digests.add("mail:bob", 1, now=T + 399)
        work(digests, receiver, now=T + 399)
        receiver.fail(DOWN, "mail:ada", "mail:eve")
        for timeline, many in (("mail:ada", 1), ("mail:0", 2), ("mail:1", 2), ("mail:eve", 3), ("mail:2", 3)):
            digests.add(timeline, 1, now=T + 400)
            work(digests, receiver, now=T + 400)
            assert len(written) == many  # suspicions, and the first answer
        digests.add("mail:3", 1, now=T + 401)
        work(digests, receiver, now=T + 401)

        assert len(written) == 4
        assert len(receiver.messages) == 3 + 1 + 4

    def test_after_a_relapse_a_return_begins_with_half_the_rate_that_it_reached(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 81. Not with one digest per second, again and again."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        digests.add_many([(f"mail:{number:03}", 1) for number in range(200)], now=T)
        work(digests, receiver, now=T)
        receiver.is_back()
        at = back(digests, receiver, T + 4)
        for second in range(1, 5):
            work(digests, receiver, now=at + second)

        receiver.fail(DOWN)  # before the sixth second, in which 32 digests may leave
        second = 4
        while digests.outages(now=at + second)[0].next_probe is None:
            second += 1
            work(digests, receiver, now=at + second)
        receiver.is_back()
        at = back(digests, receiver, at + second)
        for second in range(1, 15):
            work(digests, receiver, now=at + second)

        left = Counter(round(message.at - at) for message in receiver.messages)
        assert all(left[second] <= 16 * 2**second + (second == 0) for second in range(15))
        assert any(left[second] > 2**second + 1 for second in range(15))

    # Clocks that are set back, workers that are killed

    @pytest.mark.parametrize("seconds", [300, 86_400])
    def test_a_clock_that_is_set_back_during_an_outage_keeps_no_channel_closed(
        self, digests: Digests, receiver: Receiver, seconds: float
    ) -> None:
        """Fact 82. The channel is probed again within two minutes, and each reader gets one digest."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T)
        work_until(digests, receiver, T, T + 400)
        receiver.calls.clear()

        back = T + 400 - seconds
        work_until(digests, receiver, back, back + 120)
        assert receiver.calls
        receiver.is_back()
        work_until(digests, receiver, back + 120, back + 480)

        assert sorted(message.timeline for message in receiver.messages) == list(READERS)
        assert digests.outages(now=back + 480) == []

    def test_a_clock_that_is_set_back_while_digests_are_put_off_delays_none_of_them(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 82. Also those that met a channel that stays open."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:bob", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(DOWN, "mail:ada")
        digests.add("mail:ada", 1, now=T)
        work(digests, receiver, now=T)
        receiver.is_back()

        work_until(digests, receiver, T - 86_400, T - 86_400 + 120)

        assert [message.timeline for message in receiver.messages] == ["mail:bob", "mail:ada"]

    @pytest.mark.parametrize("channel", ["mail", "chat"])
    @pytest.mark.parametrize("failure", [DOWN, None], ids=["failed", "answered"])
    def test_an_attempt_that_ends_after_the_clock_was_set_back_delays_no_digest_that_was_put_off(
        self, store: Store, receiver: Receiver, channel: str, failure: Exception | None
    ) -> None:
        """Fact 82. Whatever changes the note first, of the same channel or of another."""
        clock = [T]
        with Digests(store, clock=lambda: clock[0]) as digests:
            digests.handler("mail:*", channel="mail")(receiver)
            digests.handler("slow:*", channel=channel)(receiver)
            digests.add("mail:bob", 1)
            work(digests, receiver, now=T)
            digests.add("slow:eve", 1)
            pipeline = digests.engine.pipeline()
            [loaded] = run(pipeline.claim(1, room=Room())).loaded
            receiver.fail(DOWN, "mail:ada")
            for timeline in ("mail:ada", "mail:new"):  # the second one is answered
                digests.add(timeline, 1)
                work(digests, receiver, now=T)
            receiver.is_back()

            clock[0] = back = T - 86_400
            run(pipeline.end([judge(Delivery(loaded), failure)]))
            work_until(digests, receiver, back, back + 120)

        assert "mail:ada" in [message.timeline for message in receiver.messages]

    @in_sync_mode_only
    def test_a_channel_that_answered_just_before_the_clock_was_set_back_is_not_closed_by_one_message(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 82. It is closed as soon as any other."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:first", 1, now=T)
        work(digests, receiver, now=T)
        receiver.fail(DOWN)
        back = T - 86_400
        add_to_all(digests, "r", now=back)

        for second in (0, 2, 4):
            work(digests, receiver, now=back + second)
            assert digests.outages(now=back + second) == []
        work(digests, receiver, now=back + 6)

        assert [outage.channel for outage in digests.outages(now=back + 6)] == ["mail"]

    @in_sync_mode_only
    def test_an_answer_counts_although_the_outage_began_later_than_now(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 82. A delivery that was under way when the clock was set back opens the channel."""
        digests.handler("mail:*", channel="mail")(receiver)
        digests.add("mail:new", 1, now=T)
        pipeline = digests.engine.pipeline(T)
        [loaded] = run(pipeline.claim(1, room=Room())).loaded
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, now=T + 1)
        work(digests, receiver, now=T + 1)

        run(pipeline.end([Delivery(loaded).judged(DELIVERED)]))  # at T

        [outage] = digests.outages(now=T)
        assert outage.next_probe is None

    @in_sync_mode_only
    def test_after_a_probe_whose_worker_was_killed_another_timeline_probes(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. A digest that ends its workers must not be the one that probes for ever."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        add_to_all(digests, "r", now=T)
        work(digests, receiver, now=T)
        killed, at = killed_probe(digests, T + 5)
        receiver.calls.clear()

        while not receiver.calls:
            at += 1
            work(digests, receiver, now=at)

        assert receiver.calls[0] != killed

    @in_sync_mode_only
    def test_the_only_timeline_behind_a_channel_probes_again_after_its_worker_was_killed(
        self, digests: Digests, receiver: Receiver
    ) -> None:
        """Fact 62. After a while there is nothing to wait for."""
        digests.handler("mail:*", channel="mail")(receiver)
        receiver.fail(DOWN)
        digests.add("mail:ada", 1, now=T)
        work(digests, receiver, now=T)
        killed, at = killed_probe(digests, T + 5)
        receiver.is_back()

        work_until(digests, receiver, at, at + 300)

        assert killed == "mail:ada"
        assert [message.timeline for message in receiver.messages] == ["mail:ada"]


class Lottery:
    """Refuses a share of the messages, each for itself, the same ones in every run."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._drawn: Counter[str] = Counter()

    def __call__(self, digest: Digest) -> Exception | None:
        self._drawn[digest.timeline] += 1
        is_drawn = Random(f"{digest.timeline} {self._drawn[digest.timeline]}").random() < self._share
        return DOWN if is_drawn else None


def notes_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the notes about channels that are written from now on."""
    written: list[str] = []
    swap = store.swap_note

    def swap_note(partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        written.extend([name] if name == "channels" else [])
        return swap(partition, name, old, new)

    monkeypatch.setattr(store, "swap_note", swap_note)
    return written


def back(digests: Digests, receiver: Receiver, at: float) -> float:
    """Work until the channel answers; when it did."""
    many = len(receiver.messages)
    while len(receiver.messages) == many:
        at += 1
        work(digests, receiver, now=at)
    return at


def killed_probe(digests: Digests, at: float) -> tuple[str, float]:
    """Begin a probe in a worker that is killed then: the timeline, and when its lease has lapsed."""
    while True:
        pipeline = digests.engine.pipeline(at)
        page = run(pipeline.claim(10, room=Room()))
        if page.loaded:
            break
        at += 1
    [loaded] = page.loaded
    pipeline.reports.abandoned(Delivery(loaded).judged(DELIVERED), StoreError("killed"))
    return loaded.digest.timeline, at + pipeline.leases.duration / 1000


def add_to_all(digests: Digests, key: str, *, now: float) -> None:
    for timeline in READERS:
        digests.add(timeline, key, key=key, now=now)


def work(digests: Digests, receiver: Receiver, *, now: float) -> None:
    """Deliver all that may be delivered at this time."""
    receiver.now = now
    while asyncio.run(Worker(digests).run_once(now)):
        pass


def work_until(digests: Digests, receiver: Receiver, now: float, end: float, *, step: float = 5) -> None:
    while now <= end:
        work(digests, receiver, now=now)
        now += step


def attempts(digests: Digests) -> set[int]:
    """How many attempts were counted of each digest that is not finished."""
    slots = [digests.store.inspect(timeline) for timeline in READERS]
    return {slot.digest.attempt for slot in slots if slot.digest is not None}
