"""Policies that are stored for single timelines: which one is in force, what it moves, and cadences that are off."""

from typing import Any

import pytest
from msgspec.structs import replace

from digestif import ConfigError, Digest, Digests, InvalidState, Policy, Record, Retry, Window
from digestif.stores.base import Store
from digestif.testing.conformance.actions import (
    Boom,
    add_all,
    assert_leaves_at,
    deliver,
    fail,
    keys,
    let_wait,
    numbered,
    scheduled,
)
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.deliver import failing, sent_by, work
from digestif.testing.conformance.windows import (
    BERLIN,
    SOON,
    Deliverer,
    by_ticks,
    by_worker,
    clock,
    deliveries,
    either_way,
    nine,
)
from digestif.testing.footprint import assert_nothing_left
from digestif.testing.modes import Mode, digests_in

DAILY = Policy.daily("09:00", tz=BERLIN)
INSTANT = Policy.immediate()
QUIET = Policy.quiet_hours("22:00-07:00", tz=BERLIN)


def cooling(seconds: float) -> Policy:
    """A policy that is known by its cool-down."""
    return Policy(minimum_delay=seconds, increment_delay=0, maximum_delay=seconds)


def source(digests: Digests, timeline: str) -> str:
    return digests.policy_of(timeline).source


def cool_down(digests: Digests, timeline: str, minimum_delay: float | None = None) -> float:
    """Deliver a record at noon; how long the timeline waits then."""
    digests.add(timeline, "a", now=clock("12:00"))
    deliver(digests, timeline, minimum_delay, now=clock("12:00"))
    due = digests.timeline(timeline).due
    assert due is not None
    return due - clock("12:00")


class PoliciesInForce(Suite):
    """Fact 59. First found: the call's delays, the stored override, the route's or handler's, the engine's."""

    def test_the_policy_in_force_is_the_first_that_is_found(self, digests_with: DigestsWith) -> None:
        """Fact 59. The call's, the override's, the handler's, the engine's: each is the cool-down in its turn."""
        digests = digests_with(minimum_delay=40, maximum_delay=40)
        digests.handler("mail:*", policy=cooling(30))(lambda _: None)
        for timeline in ("mail:own", "mail:given"):
            digests.set_policy(timeline, cooling(20), now=clock("11:00"))

        waits = [cool_down(digests, timeline) for timeline in ("other", "mail:ada", "mail:own")]
        waits.append(cool_down(digests, "mail:given", 10))

        assert waits == [40, 30, 20, 10]

    def test_the_delays_of_a_call_come_first_in_an_add(self, digests_with: DigestsWith) -> None:
        """Fact 59. first_delay, increment_delay and maximum_delay of the call; the rest is the override's."""
        digests = digests_with(increment_delay=500)
        digests.set_policy("t", Policy(first_delay=100, increment_delay=60), now=clock("11:00"))
        digests.set_policy("u", Policy(minimum_delay=300, increment_delay=60), now=clock("11:00"))

        digests.add("t", "a", first_delay=5, now=clock("12:00"))
        let_wait(digests, "u", due=clock("12:05"), last=clock("12:00"))
        dues = []
        given: list[dict[str, Any]] = [{}, {"increment_delay": 7}, {"maximum_delay": 310}]
        for delays in given:
            digests.add("u", "a", now=clock("12:00"), **delays)
            dues.append(digests.timeline("u").due)

        assert digests.timeline("t").due == clock("12:00:05")
        assert dues == [clock("12:06"), clock("12:06:07"), clock("12:05:10")]

    def test_where_a_policy_comes_from_can_be_asked(self, digests_with: DigestsWith) -> None:
        """Fact 59. policy_of and explain name the policy and its source."""
        digests = digests_with(minimum_delay=40, maximum_delay=40)
        digests.handler("mail:*", policy=cooling(30))(lambda _: None)
        digests.route("page:*", channel="terminal://", policy=cooling(25))
        digests.set_policy("mail:own", cooling(20), now=clock("11:00"))
        digests.prefer("mail:chosen", "hourly", now=clock("11:00"))
        expected = {
            "other": ("engine", 40),
            "mail:ada": ("handler mail:*", 30),
            "page:ada": ("route page:*", 25),
            "mail:own": ("override", 20),
            "mail:chosen": ("cadence hourly", 3600),
        }

        found = {timeline: digests.policy_of(timeline) for timeline in expected}
        explained = {timeline: digests.explain(timeline, now=clock("12:00")).to_dict() for timeline in expected}

        assert {name: (one.source, one.policy.minimum_delay) for name, one in found.items()} == expected
        assert {name: one["source"] for name, one in explained.items()} == {n: s for n, (s, _) in expected.items()}
        assert {name: one["policy"] for name, one in explained.items()} == {n: str(p.policy) for n, p in found.items()}

    def test_a_policy_may_be_a_function_of_the_timeline(self, store: Store, mode: Mode) -> None:
        """Fact 59. Of the engine and of a handler; the override comes before it."""
        with digests_in(mode, store, policy=lambda timeline: cooling(len(timeline))) as digests:
            digests.handler("mail:*", policy=lambda timeline: cooling(100 + len(timeline)))(lambda _: None)
            digests.set_policy("mail:own", cooling(7), now=clock("11:00"))

            waits = [cool_down(digests, timeline) for timeline in ("ab", "abcd", "mail:ada", "mail:own")]

            assert waits == [2, 4, 108, 7]
            assert [source(digests, timeline) for timeline in ("ab", "mail:ada")] == ["engine", "handler mail:*"]

    def test_a_function_is_asked_again_when_its_answers_are_forgotten(self, store: Store, mode: Mode) -> None:
        """Fact 59. What a function answered holds for a while; forget_policies ends that."""
        answers = {"t": cooling(10)}
        with digests_in(mode, store, policy=lambda timeline: answers[timeline]) as digests:
            waits = [cool_down(digests, "t")]
            answers["t"] = cooling(20)
            digests.delete("t", now=clock("12:00"))

            digests.forget_policies("t")
            waits.append(cool_down(digests, "t"))

        assert waits == [10, 20]

    def test_two_engines_follow_an_override_alike(self, digests_with: DigestsWith) -> None:
        """Fact 59. One has a window in its code, the other has none: both do what is stored for the timeline."""
        calm, plain = digests_with(**nine()), digests_with(minimum_delay=40, maximum_delay=40)
        sent = sent_by(plain, "*")
        calm.handler("*")(sent.append)
        plain.set_policy("t", cooling(600), now=clock("11:00"))
        plain.set_policy("u", QUIET, now=clock("11:00"))

        assert calm.add("t", "a", now=clock("12:00")) is True
        deliver(calm, "t", now=clock("12:00"))
        assert [engine.timeline("t").due for engine in (calm, plain)] == [clock("12:10")] * 2
        assert plain.add("u", "a", now=clock("23:00")) is False
        for engine in (calm, plain):
            work(engine, now=clock("23:00"))
        assert sent == []
        assert plain.timeline("u").due == clock("07:00", day=1)
        assert [source(engine, "u") for engine in (calm, plain)] == ["override", "override"]

    def test_capacity_and_ttl_of_an_override_hold(self, digests_with: DigestsWith) -> None:
        """Fact 59. Every number of the policy is the override's, not the delays alone."""
        digests = digests_with(capacity=100, ttl=None)
        digests.set_policy("t", Policy(capacity=2, minimum_delay=0, maximum_delay=60, ttl=600), now=clock("11:00"))

        add_all(digests, "t", numbered(range(5), since=clock("12:00")), now=clock("12:00"))

        assert keys(digests.peek("t")) == ["r4", "r3"]
        assert digests.ledger().dropped == 3
        digests.maintenance(now=clock("12:09:59.999"))
        assert digests.ledger().expired == 0
        digests.maintenance(now=clock("12:10"))
        assert digests.ledger().expired == 2

    def test_the_capacity_of_an_override_holds_at_each_add(self, digests_with: DigestsWith) -> None:
        """Fact 59. Records that join a ready timeline one by one respect the capacity of the override."""
        digests = digests_with(capacity=100)
        digests.set_policy("t", Policy(capacity=2), now=clock("11:00"))

        for record in numbered(range(5), since=clock("12:00")):
            digests.add("t", record, now=clock("12:00"))

        assert (digests.timeline("t").pending, digests.ledger().dropped) == (2, 3)
        assert keys(digests.peek("t")) == ["r4", "r3"]

    def test_attempts_and_retries_are_those_of_the_override(self, digests_with: DigestsWith) -> None:
        """Fact 59. One attempt in the override, eight in the code: buried after the first."""
        digests = digests_with(retry=SOON)
        failing(digests, "*")
        digests.set_policy("strict", Policy(attempts=1), now=clock("11:00"))
        digests.set_policy("patient", Policy(retry=Retry(initial=100, jitter=0)), now=clock("11:00"))
        for timeline in ("strict", "patient", "plain"):
            digests.add(timeline, "a", now=clock("12:00"))

        work(digests, now=clock("12:00"))

        assert [letter.timeline for letter in digests.dead_letters()] == ["strict"]
        assert digests.timeline("patient").due == clock("12:01:40")
        assert digests.timeline("plain").due == clock("12:00:10")

    def test_a_policy_may_be_given_as_text(self, digests_with: DigestsWith) -> None:
        """Fact 59. The text of a policy is the same as the policy."""
        digests = digests_with()

        digests.set_policy("t", str(DAILY), now=clock("11:00"))
        digests.set_policy("u", "minimum=20s,increment=0s,maximum=20s", now=clock("11:00"))

        assert digests.policy_of("t").policy == DAILY
        assert cool_down(digests, "u") == 20

    @pytest.mark.parametrize("wrong", ["no policy", None, 5, "minimum=1h,maximum=1s"])
    def test_what_is_no_policy_is_refused(self, digests: Digests, store: Store, wrong: object) -> None:
        """Fact 50. ConfigError, and nothing is written."""
        with pytest.raises(ConfigError):
            digests.set_policy("t", wrong, now=clock("11:00"))  # type: ignore[arg-type]

        assert_nothing_left(store)

    def test_a_policy_with_a_function_can_not_be_stored(self, digests: Digests, store: Store) -> None:
        """Fact 59. What holds a callable can't be written: ConfigError."""
        with pytest.raises(ConfigError):
            digests.set_policy("t", Policy(backoff=lambda _: 5.0), now=clock("11:00"))

        assert_nothing_left(store)

    def test_an_override_survives_idle_but_not_delete(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 60. The timeline becomes idle, and keeps its policy; deleted, it has that of the code."""
        digests = digests_with(minimum_delay=40, maximum_delay=40)
        sent_by(digests, "t")
        digests.set_policy("t", cooling(20), now=clock("11:00"))
        waits = [cool_down(digests, "t")]
        work(digests, now=clock("12:30"))
        assert digests.timeline("t").state == "idle"

        waits.append(cool_down(digests, "t"))
        assert digests.delete("t", now=clock("12:40")) is True
        waits.append(cool_down(digests, "t"))

        assert waits == [20, 20, 40]
        digests.delete("t", now=clock("12:50"))
        assert_nothing_left(store)

    def test_a_cleared_override_leaves_nothing(self, digests: Digests, store: Store) -> None:
        """Fact 60. Set for an idle timeline, and cleared: nothing is left; there was something to clear, once."""
        digests.set_policy("t", DAILY, now=clock("11:00"))

        answers = [digests.clear_policy("t", now=clock("11:00")) for _ in range(2)]

        assert answers == [True, False]
        assert source(digests, "t") == "engine"
        assert_nothing_left(store)

    def test_an_override_is_not_lost_when_records_expire_or_a_block_ends_empty(self, digests_with: DigestsWith) -> None:
        """Fact 60. Whichever way a timeline becomes idle, its policy stays."""
        digests = digests_with()
        digests.set_policy("expired", Policy(first_delay=60, ttl=3600), now=clock("11:00"))
        digests.set_policy("empty", cooling(20), now=clock("11:00"))
        digests.add("expired", "a", now=clock("12:00"))
        digests.add("empty", "a", key="a", now=clock("12:00"))
        digests.retract("empty", "a", now=clock("12:00"))

        deliver(digests, "empty", now=clock("12:00"))
        digests.maintenance(now=clock("13:00"))

        for timeline in ("expired", "empty"):
            assert (digests.timeline(timeline).state, source(digests, timeline)) == ("idle", "override")


class ChangedPolicies(Suite):
    """Fact 60. Another policy moves what waits, and touches nothing else."""

    def test_from_daily_to_instant_it_is_due_now_and_back_at_the_next_time(self, digests_with: DigestsWith) -> None:
        """Fact 60. Daily to instant: due now. Instant to daily: due at the next 09:00."""
        digests = digests_with(**nine())
        digests.add("t", "a", key="a", now=clock("10:00"))

        digests.set_policy("t", INSTANT, now=clock("12:00"))
        instant = digests.timeline("t").due
        digests.set_policy("t", DAILY, now=clock("13:00"))
        daily = digests.timeline("t").due
        digests.set_policy("t", INSTANT, now=clock("14:00"))

        assert (instant, daily) == (clock("12:00"), clock("09:00", day=1))
        assert digests.timeline("t").due == clock("14:00")
        assert scheduled(digests, clock("14:00")) == ["t"]
        assert keys(deliver(digests, "t", now=clock("14:00"))) == ["a"]

    @either_way
    def test_what_is_due_now_is_delivered_now(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 60. Moved to now by one engine, delivered by another whose code says daily."""
        digests = digests_with(**nine())
        sent = sent_by(digests, "t")
        digests.add("t", "a", key="a", now=clock("10:00"))
        run(digests, clock("11:00"))

        digests_with().set_policy("t", INSTANT, now=clock("12:00"))

        assert deliveries(digests, run, sent, [clock("12:00")]) == [(clock("12:00"), ["a"])]

    def test_it_counts_from_the_last_delivery(self, digests_with: DigestsWith) -> None:
        """Fact 60. The last delivery + the new cool-down, never before now."""
        digests = digests_with(minimum_delay=300, increment_delay=0)
        let_wait(digests, "t", due=clock("12:05"), last=clock("12:00"))
        digests.add("t", "a", now=clock("12:01"))

        dues = []
        for seconds in (600, 90, 30):
            digests.set_policy("t", cooling(seconds), now=clock("12:01"))
            dues.append(digests.timeline("t").due)

        assert dues == [clock("12:10"), clock("12:01:30"), clock("12:01")]

    def test_it_counts_from_the_first_record_before_the_first_delivery(self, digests_with: DigestsWith) -> None:
        """Fact 60. Never delivered: the first arrival + the new first_delay, never before now."""
        digests = digests_with(first_delay=300)
        for minute in ("12:00", "12:01"):
            digests.add("t", minute, now=clock(minute))

        dues = []
        for seconds in (600, 90, 30):
            digests.set_policy("t", Policy(first_delay=seconds), now=clock("12:01"))
            dues.append(digests.timeline("t").due)

        assert dues == [clock("12:10"), clock("12:01:30"), clock("12:01")]

    def test_urgent_records_and_full_timelines_stay_so(self, digests_with: DigestsWith) -> None:
        """Fact 60. within and max_records act on the new time as on any other; the window comes last."""
        digests = digests_with(minimum_delay=300, increment_delay=0)
        for timeline in ("urgent", "full", "daily"):
            let_wait(digests, timeline, due=clock("12:05"), last=clock("12:00"))
        digests.add("urgent", "a", within=240, now=clock("12:00"))
        add_all(digests, "full", numbered(range(3)), now=clock("12:00"))
        digests.add("daily", "a", within=240, now=clock("12:00"))

        digests.set_policy("urgent", cooling(600), now=clock("12:01"))
        digests.set_policy("full", Policy(minimum_delay=600, max_records=3), now=clock("12:01"))
        digests.set_policy("daily", DAILY, now=clock("12:01"))

        assert digests.timeline("urgent").due == clock("12:04")
        assert digests.timeline("full").due == clock("12:01")
        assert digests.timeline("daily").due == clock("09:00", day=1)

    def test_an_urgent_record_passes_a_new_window_that_lets_it(self, digests_with: DigestsWith) -> None:
        """Fact 58. within=240 at 12:00, then daily with urgent=True: due at 12:04."""
        digests = digests_with(first_delay=300)
        digests.add("t", "a", within=240, now=clock("12:00"))

        digests.set_policy("t", Policy(**nine(urgent=True)), now=clock("12:01"))

        assert_leaves_at(digests, "t", clock("12:04"))
        assert len(deliver(digests, "t", now=clock("12:04"))) == 1

    def test_an_open_digest_is_not_touched(self, digests_with: DigestsWith) -> None:
        """Fact 60. Set while a digest is open: it ends as ever, and the timeline goes on by the new policy."""
        digests = digests_with(minimum_delay=300)
        digests.add("t", Record("a", 1, 0.0), now=clock("12:00"))

        with digests.digest("t", now=clock("12:00")) as digest:
            digests.set_policy("t", DAILY, now=clock("12:00"))
            assert digests.timeline("t").state == "open"

        assert keys(digest) == ["a"]
        assert (digests.ledger().delivered, digests.timeline("t").due) == (1, clock("09:00", day=1))

    def test_cleared_during_a_digest_the_policy_of_the_code_goes_on(self, digests_with: DigestsWith) -> None:
        """Fact 60. Cleared while a digest is open: the cool-down is that of the code."""
        digests = digests_with(minimum_delay=40, maximum_delay=40)
        digests.set_policy("t", cooling(20), now=clock("11:00"))
        digests.add("t", "a", now=clock("12:00"))

        with digests.digest("t", now=clock("12:00")):
            digests.clear_policy("t", now=clock("12:00"))

        assert digests.timeline("t").due == clock("12:00:40")

    @either_way
    def test_replaced_during_a_delivery_the_later_one_decides(self, digests_with: DigestsWith, run: Deliverer) -> None:
        """Fact 60. A handler sets another policy for the timeline whose digest it delivers."""
        digests = digests_with(minimum_delay=40, maximum_delay=40)
        other = digests_with()
        digests.handler("t")(lambda _: other.set_policy("t", cooling(600), now=clock("12:00")))
        digests.add("t", "a", now=clock("12:00"))
        if run is by_ticks:
            digests.deliver("t", now=clock("12:00"))
        else:
            by_worker(digests, clock("12:00"))

        assert digests.timeline("t").due == clock("12:10")

    def test_a_ready_timeline_is_judged_when_it_is_opened(self, digests_with: DigestsWith) -> None:
        """Fact 60. Ready, then daily: it is not moved; a caller that opens it is refused, and it waits for 09:00."""
        digests = digests_with()
        digests.add("t", "a", key="a", now=clock("12:00"))

        digests.set_policy("t", DAILY, now=clock("12:01"))

        assert digests.timeline("t").state == "ready"
        with pytest.raises(InvalidState):
            deliver(digests, "t", now=clock("12:02"))
        assert_leaves_at(digests, "t", clock("09:00", day=1))
        assert keys(deliver(digests, "t", now=clock("09:00", day=1))) == ["a"]

    def test_an_unfinished_digest_keeps_its_time(self, digests_with: DigestsWith) -> None:
        """Fact 60. A failed attempt is retried by its ladder, whatever policy comes."""
        digests = digests_with(retry=SOON)
        sent = failing(digests, "t", times=1)
        digests.add("t", "a", now=clock("12:00"))
        work(digests, now=clock("12:00"))

        digests.set_policy("t", DAILY, now=clock("12:00:01"))

        assert digests.timeline("t").due == clock("12:00:10")
        work(digests, now=clock("12:00:10"))
        assert [digest.attempt for digest in sent] == [1, 2]
        assert digests.timeline("t").due == clock("09:00", day=1)

    def test_what_was_flushed_leaves_whatever_policy_comes(self, digests_with: DigestsWith) -> None:
        """Fact 60. A timeline with a pass is not moved."""
        digests = digests_with(**nine())
        digests.add("t", "a", key="a", now=clock("10:00"))
        digests.flush("t", now=clock("12:00"))
        digests.maintenance(clock("12:00"), now=clock("12:01"))

        digests.set_policy("t", Policy.daily("18:00", tz=BERLIN), now=clock("12:02"))

        assert digests.timeline("t").due == clock("12:00")
        scheduled(digests, clock("12:03"))
        assert keys(deliver(digests, "t", now=clock("12:03"))) == ["a"]

    def test_clearing_restores_the_policy_of_the_code(self, digests_with: DigestsWith) -> None:
        """Fact 60. What waits moves by the policy in the code."""
        digests = digests_with(minimum_delay=300, increment_delay=0)
        let_wait(digests, "t", due=clock("12:05"), last=clock("12:00"))
        digests.add("t", "a", now=clock("12:01"))
        digests.set_policy("t", DAILY, now=clock("12:01"))
        assert digests.timeline("t").due == clock("09:00", day=1)

        assert digests.clear_policy("t", now=clock("12:02")) is True

        assert digests.timeline("t").due == clock("12:05")
        assert source(digests, "t") == "engine"

    def test_clearing_restores_the_window_of_the_code(self, digests_with: DigestsWith) -> None:
        """Fact 60. The code says daily: cleared, the timeline waits for 09:00 again."""
        digests = digests_with(**nine())
        digests.add("t", "a", now=clock("10:00"))
        digests.set_policy("t", Policy(first_delay=18_000, maximum_delay=18_000), now=clock("10:00"))
        assert digests.timeline("t").due == clock("15:00")

        digests.clear_policy("t", now=clock("11:00"))

        assert digests.timeline("t").due == clock("09:00", day=1)

    @pytest.mark.parametrize(
        ("expires", "due"),
        [(clock("17:00:00.001"), clock("17:00")), (clock("17:00"), clock("09:00")), (clock("09:00"), clock("08:30"))],
        ids=["after the opening", "with the opening", "before any opening"],
    )
    def test_records_do_not_expire_while_they_wait_for_an_opening(
        self, digests_with: DigestsWith, expires: float, due: float
    ) -> None:
        """Fact 60. The next opening lies at or past the expiry: the last one before it, else now with a pass."""
        digests = digests_with(first_delay=600, maximum_delay=600, ttl=expires - clock("08:00"))
        digests.add("t", "a", now=clock("08:00"))
        own = Policy(first_delay=7200, maximum_delay=7200, window=Window.daily("09:00", "17:00", tz=BERLIN))

        digests.set_policy("t", own, now=clock("08:30"))

        assert digests.timeline("t").due == due
        assert scheduled(digests, due) == ["t"]
        assert len(deliver(digests, "t", now=due)) == 1

    def test_only_records_that_are_still_pending_can_expire(self, digests_with: DigestsWith) -> None:
        """Fact 60. A record that would expire before the opening was retracted: the others wait for it."""
        brief, lasting = (digests_with(first_delay=600, maximum_delay=600, ttl=ttl) for ttl in (3600, None))
        brief.add("t", "a", key="brief", now=clock("12:00"))
        lasting.add("t", "b", now=clock("12:00"))
        brief.retract("t", "brief", now=clock("12:01"))

        brief.set_policy("t", DAILY, now=clock("12:02"))

        assert brief.timeline("t").due == clock("09:00", day=1)

    def test_openings_of_an_override_that_have_ended_are_found_anew(self, digests_with: DigestsWith) -> None:
        """Fact 60. Years later the stored override is as good as new: a record waits for the next 09:00."""
        digests = digests_with()
        sent = sent_by(digests, "t")
        digests.set_policy("t", DAILY, now=clock("12:00"))
        digests.add("t", "a", key="a", now=clock("12:00", day=728))

        left = deliveries(digests, by_worker, sent, [clock("12:00", day=728), clock("08:59", day=729)])

        assert left == []
        assert digests.timeline("t").due == clock("09:00", day=729)
        assert deliveries(digests, by_worker, sent, [clock("09:00", day=729)]) == [(clock("09:00", day=729), ["a"])]
        digests.add("t", "b", now=clock("12:00", day=729))
        assert digests.timeline("t").due == clock("09:00", day=730)

    def test_openings_of_an_override_that_the_calendar_no_longer_has_are_replaced(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 60. They were stored by older zone data, an hour later: after one delivery the next is at 09:00."""
        digests = digests_with()
        sent = sent_by(digests, "t")
        digests.set_policy("t", DAILY, now=clock("12:00"))
        override = store.inspect("t").override
        assert override is not None
        assert override.terms.openings is not None
        later = tuple(number + 3_600_000 for number in override.terms.openings.numbers)
        openings = replace(override.terms.openings, numbers=later)
        store.refresh_override("t", replace(override, terms=replace(override.terms, openings=openings)))
        digests.add("t", "a", key="a", now=clock("12:00"))

        left = deliveries(digests, by_worker, sent, [clock("09:00", day=1), clock("10:00", day=1)])
        digests.add("t", "b", now=clock("12:00", day=1))

        assert left == [(clock("10:00", day=1), ["a"])]
        assert digests.timeline("t").due == clock("09:00", day=2)

    def test_another_policy_in_the_code_is_planned_on_request(self, digests_with: DigestsWith) -> None:
        """Fact 60. replan moves what waits by the policies of the code, of a pattern; the answer is how many."""
        old, new = digests_with(minimum_delay=300, increment_delay=0), digests_with(minimum_delay=900)
        for timeline in ("mail:a", "mail:b", "page:c", "mail:own", "mail:retried"):
            let_wait(old, timeline, due=clock("12:05"), last=clock("12:00"))
            old.add(timeline, "a", now=clock("12:01"))
        old.set_policy("mail:own", cooling(600), now=clock("12:01"))
        old.flush("mail:retried", now=clock("12:01"))
        fail(old, "mail:retried", now=clock("12:01"))

        assert new.replan("mail:*", now=clock("12:02")) == 2
        assert new.replan("mail:*", now=clock("12:02")) == 0

        assert [new.timeline(timeline).due for timeline in ("mail:a", "mail:b")] == [clock("12:15")] * 2
        assert new.timeline("page:c").due == clock("12:05")
        assert new.timeline("mail:own").due == clock("12:10")
        assert new.timeline("mail:retried").state == "ready"

    def test_a_restart_with_other_code_plans_what_waits_again(self, digests_with: DigestsWith) -> None:
        """Fact 60. The policy in the code changed while records wait: a worker that starts moves them, once."""
        old, new = digests_with(minimum_delay=300, increment_delay=0), digests_with(**nine())
        assert old.replan_changed(now=clock("11:00")) == 0
        let_wait(old, "t", due=clock("12:05"), last=clock("12:00"))
        old.add("t", "a", now=clock("12:01"))

        moved = [new.replan_changed(now=clock("12:02")) for _ in range(2)]

        assert moved == [1, 0]
        assert new.timeline("t").due == clock("09:00", day=1)
        assert old.replan_changed(now=clock("12:03")) == 1
        assert new.timeline("t").due == clock("12:05")

    def test_another_answer_of_a_function_is_planned_on_request(self, store: Store, mode: Mode) -> None:
        """Fact 60. The function answers otherwise while records wait: replan moves them."""
        answers = {"t": Policy(minimum_delay=300, increment_delay=0)}
        with digests_in(mode, store, policy=lambda timeline: answers[timeline]) as digests:
            let_wait(digests, "t", due=clock("12:05"), last=clock("12:00"))
            digests.add("t", "a", now=clock("12:01"))
            answers["t"] = DAILY

            digests.forget_policies()
            assert digests.replan(now=clock("12:02")) == 1

            assert digests.timeline("t").due == clock("09:00", day=1)


class CadencesThatPeopleChoose(Suite):
    def test_a_chosen_cadence_is_in_force_and_known(self, digests: Digests) -> None:
        """Fact 59. prefer stores a cadence and a zone; preference tells them."""
        assert digests.preference("t") is None

        digests.prefer("t", "daily", zone=BERLIN, now=clock("11:00"))
        digests.add("t", "a", now=clock("12:00"))

        found = digests.preference("t")
        assert found is not None
        assert (found.cadence, found.zone) == ("daily", BERLIN)
        assert (found.policy, source(digests, "t")) == (digests.policy_of("t").policy, "cadence daily")
        assert digests.timeline("t").due == clock("09:00", day=1)

    def test_another_cadence_replaces_it_and_clearing_ends_it(self, digests: Digests) -> None:
        """Fact 60. From daily to instant it is due now; cleared, nothing is chosen."""
        digests.prefer("t", "daily", zone=BERLIN, now=clock("11:00"))
        digests.add("t", "a", now=clock("12:00"))

        digests.prefer("t", "instant", now=clock("12:30"))
        due = digests.timeline("t").due
        assert digests.clear_policy("t", now=clock("12:30")) is True

        assert due == clock("12:30")
        assert digests.preference("t") is None

    def test_instant_lets_notifications_deliver_within_the_call(self, digests: Digests) -> None:
        """Fact 60. Chosen during a cool-down of the code's policy: what is notified then leaves, one by one."""
        sent = sent_by(digests, "t")
        let_wait(digests, "t", due=clock("13:00"), last=clock("12:00"))

        digests.prefer("t", "instant", now=clock("12:01"))
        answers = [digests.notify("t", name, key=name, now=clock("12:02")) for name in "abc"]

        assert answers == [True] * 3
        assert [keys(digest) for digest in sent] == [["a"], ["b"], ["c"]]

    def test_a_notification_finds_the_time_that_was_chosen(self, digests: Digests) -> None:
        """Fact 60. Daily, and no worker came at 09:00: it leaves with the next notification, not with one before."""
        sent = sent_by(digests, "t")
        digests.prefer("t", "daily", zone=BERLIN, now=clock("08:00"))

        answers = [
            digests.notify("t", time, key=time, now=clock(time)) for time in ("08:30", "08:59", "09:20", "09:30")
        ]

        assert answers == [False, False, True, False]
        assert [sorted(keys(digest)) for digest in sent] == [["08:30", "08:59", "09:20"]]

    @pytest.mark.parametrize(("cadence", "zone"), [("dayly", None), ("daily", "Mars/Olympus"), (None, None)])
    def test_what_is_unknown_is_refused(self, digests: Digests, store: Store, cadence: str, zone: str | None) -> None:
        """Fact 50. An unknown cadence or zone: ConfigError, and nothing is written."""
        with pytest.raises(ConfigError):
            digests.prefer("t", cadence, zone=zone, now=clock("11:00"))

        assert_nothing_left(store)


class TimelinesThatAreOff(Suite):
    """Fact 61. Switched off: nothing is accepted, and what waits is deleted."""

    def test_nothing_is_accepted_and_that_is_counted(self, digests: Digests) -> None:
        """Fact 61. add answers False and counts `declined`, outside the equation; nothing is stored."""
        digests.prefer("t", "off", now=clock("11:00"))

        answers = [digests.add("t", "a", now=clock("12:00"))]
        answers += add_all(digests, "t", numbered(range(3)), now=clock("12:00"))

        assert answers == [False] * 4
        ledger = digests.ledger()
        assert (ledger.declined, ledger.accepted, ledger.pending) == (4, 0, 0)
        assert digests.timeline("t").state == "idle"
        assert keys(digests.peek("t")) == []
        assert ledger.balanced
        assert digests.verify()

    def test_the_timeline_says_what_was_chosen(self, digests: Digests) -> None:
        """Fact 61. One by one and in lists: whether it is off, and the cadence."""
        digests.prefer("t", "off", now=clock("11:00"))
        digests.prefer("u", "daily", now=clock("11:00"))

        listed = digests.timelines()
        found = [digests.timeline(key) for key in ("t", "u")]

        assert [(each.off, each.cadence) for each in found] == [(True, "off"), (False, "daily")]
        assert listed == found

    def test_nothing_is_delivered(self, digests: Digests) -> None:
        """Fact 61. notify answers False, and no handler is called."""
        sent = sent_by(digests, "t")
        digests.prefer("t", "off", now=clock("11:00"))

        assert digests.notify("t", "a", now=clock("12:00")) is False
        work(digests, now=clock("12:00"))

        assert sent == []

    def test_others_of_the_same_batch_are_accepted(self, digests: Digests) -> None:
        """Fact 61. One of two timelines is off: the records of the other are accepted."""
        digests.prefer("off", "off", now=clock("11:00"))
        batch = [(timeline, Record(timeline, 1, 0.0)) for timeline in ("off", "on", "off")]

        answers = digests.add_many(batch, now=clock("12:00"))

        assert answers == [False, True, False]
        assert (digests.ledger().declined, digests.ledger().accepted) == (2, 1)

    @pytest.mark.parametrize("state", ["ready", "waiting", "retry", "ready again", "paused"])
    def test_what_waits_is_deleted_and_counted(self, digests_with: DigestsWith, state: str) -> None:
        """Fact 61. Choosing it removes pending records and an unfinished digest that is not open, counted deleted."""
        digests = digests_with(retry=SOON)
        sent = failing(digests, "t", times=1)
        digests.add("t", "a", key="a", first_delay=600 if state == "waiting" else None, now=clock("12:00"))
        if state == "retry":
            work(digests, now=clock("12:00"))
        elif state == "ready again":
            fail(digests, "t", now=clock("12:00"))
        elif state == "paused":
            digests.pause("t", now=clock("12:00"))
        digests.add("t", "b", key="b", now=clock("12:00"))
        before = len(sent)

        digests.prefer("t", "off", now=clock("12:01"))

        ledger = digests.ledger()
        assert (ledger.deleted, ledger.pending, ledger.open, ledger.declined) == (2, 0, 0, 0)
        assert digests.timeline("t").pending == 0
        assert digests.timeline("t").paused is (state == "paused")
        assert digests.verify()
        work(digests, now=clock("13:00"))
        assert len(sent) == before

    def test_dead_letters_and_history_stay(self, digests_with: DigestsWith) -> None:
        """Fact 61. Nothing else is removed."""
        digests = digests_with(attempts=1)
        failing(digests, "t", times=1)
        digests.add("t", "a", now=clock("12:00"))
        work(digests, now=clock("12:00"))
        digests.add("t", "b", now=clock("12:30"))

        digests.prefer("t", "off", now=clock("12:31"))

        assert (digests.ledger().dead, digests.ledger().deleted) == (1, 1)
        assert len(digests.dead_letters("t")) == 1
        assert len(digests.history("t")) == 1

    def test_an_open_digest_may_end(self, digests: Digests) -> None:
        """Fact 61. Switched off while it is delivered: the digest ends as ever, what was pending is deleted."""
        digests.add("t", Record("a", 1, 0.0), now=clock("12:00"))

        with digests.digest("t", now=clock("12:00")) as digest:
            digests.add("t", "b", now=clock("12:00"))
            digests.prefer("t", "off", now=clock("12:00"))
            digests.add("t", "c", now=clock("12:00"))

        assert keys(digest) == ["a"]
        ledger = digests.ledger()
        assert (ledger.delivered, ledger.deleted, ledger.declined, ledger.open) == (1, 1, 1, 0)
        assert digests.verify()

    def test_an_open_digest_that_is_empty_may_end_too(self, digests: Digests) -> None:
        """Fact 61. Switched off while an empty digest is open: its block ends without an error."""
        digests.add("t", "a", key="a", now=clock("12:00"))
        digests.retract("t", "a", now=clock("12:00"))

        with digests.digest("t", now=clock("12:00")) as digest:
            digests.prefer("t", "off", now=clock("12:00"))

        assert keys(digest) == []
        assert digests.timeline("t").state == "idle"

    def test_a_timeline_that_cools_down_goes_on_cooling_down(self, digests_with: DigestsWith) -> None:
        """Fact 61. Switched off and on again within the cool-down: that still holds."""
        digests = digests_with(minimum_delay=300, increment_delay=0)
        sent = sent_by(digests, "t")
        let_wait(digests, "t", due=clock("12:05"), last=clock("12:00"))

        digests.prefer("t", "off", now=clock("12:01"))
        work(digests, now=clock("12:02"))
        digests.clear_policy("t", now=clock("12:03"))

        assert digests.notify("t", "a", now=clock("12:03")) is False
        assert (digests.timeline("t").due, sent) == (clock("12:05"), [])

    @pytest.mark.parametrize("way", ["block", "worker"])
    def test_an_open_digest_that_fails_is_discarded(self, digests_with: DigestsWith, way: str) -> None:
        """Fact 61. Switched off while it is delivered, and the attempt fails: no other one, counted deleted."""
        digests, other = digests_with(retry=SOON), digests_with()
        attempts = []

        @digests.handler("t")
        def switch_off_and_fail(digest: Digest) -> None:
            attempts.append(digest.attempt)
            other.prefer("t", "off", now=clock("12:00"))
            raise Boom

        digests.add("t", "a", now=clock("12:00"))
        if way == "block":
            with pytest.raises(Boom), digests.digest("t", now=clock("12:00")) as digest:
                switch_off_and_fail(digest)
        else:
            work(digests, now=clock("12:00"))

        work(digests, now=clock("12:10"))

        ledger = digests.ledger()
        assert attempts == [1]
        assert (ledger.deleted, ledger.open, ledger.dead, ledger.delivered) == (1, 0, 0, 0)
        assert digests.verify()

    def test_turning_it_on_again_brings_nothing_back(self, digests: Digests) -> None:
        """Fact 61. Another cadence, or none: the next record is accepted, and comes alone."""
        sent = sent_by(digests, "t")
        digests.add("t", "before", key="before", now=clock("12:00"))
        digests.prefer("t", "off", now=clock("12:01"))
        digests.add("t", "declined", key="declined", now=clock("12:02"))

        digests.prefer("t", "instant", now=clock("12:03"))
        digests.notify("t", "after", key="after", now=clock("12:04"))
        work(digests, now=clock("12:10"))

        assert [keys(digest) for digest in sent] == [["after"]]
        ledger = digests.ledger()
        assert (ledger.accepted, ledger.delivered, ledger.deleted, ledger.declined) == (2, 1, 1, 1)

    def test_clearing_turns_it_on_again(self, digests: Digests) -> None:
        """Fact 61. Without a preference the policy of the code holds, and records are accepted."""
        digests.prefer("t", "off", now=clock("12:00"))
        assert digests.clear_policy("t", now=clock("12:01")) is True

        assert digests.add("t", "a", now=clock("12:02")) is True

    def test_it_is_off_in_every_process(self, digests_with: DigestsWith) -> None:
        """Fact 61. Chosen through one engine, in force in the other."""
        one, other = digests_with(), digests_with(**nine())
        one.prefer("t", "off", now=clock("12:00"))

        assert other.add("t", "a", now=clock("12:01")) is False
        assert other.ledger().declined == 1

    def test_nothing_is_left_when_it_is_deleted(self, digests: Digests, store: Store) -> None:
        """Fact 61. Off survives idle and is gone with the timeline."""
        sent_by(digests, "t")
        digests.add("t", "a", now=clock("12:00"))
        digests.prefer("t", "off", now=clock("12:00"))
        work(digests, now=clock("12:10"))
        assert digests.add("t", "b", now=clock("12:11")) is False

        digests.delete("t", now=clock("12:12"))

        assert_nothing_left(store)
        assert digests.add("t", "c", now=clock("12:13")) is True


class Overrides(PoliciesInForce, ChangedPolicies, CadencesThatPeopleChoose, TimelinesThatAreOff):
    """All topics of this file."""
