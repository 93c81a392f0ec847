"""The rules of outages: when a channel is closed, who probes it, who waits until when, and how digests return."""

import pytest

from digestif.core.outages import (
    FIRST_INTERVAL,
    FORGOTTEN,
    LONGEST_INTERVAL,
    PROBE,
    RETURN_SECONDS,
    Outage,
    Phase,
    after_answer,
    after_grant,
    after_no_answer,
    after_probe_begun,
    after_probe_extended,
    after_unavailable,
    after_unknown,
    kept_until,
    may_probe,
    with_pattern,
)

NOW = 1_000_000


def closed(**changes: object) -> Outage:
    outage = after_unavailable(None, "ada", "refused", now=NOW, after=None, chance=0.5)
    return Outage(**{**{name: getattr(outage, name) for name in Outage.__struct_fields__}, **changes})


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 4_000), (0.5, 5_000), (1.0, 6_000)])
def test_a_channel_that_is_unavailable_is_closed_and_probed_after_five_seconds(chance: float, wait: int) -> None:
    outage = after_unavailable(None, "ada", "refused", now=NOW, after=None, chance=chance)

    assert (outage.phase, outage.since, outage.reason) == (Phase.CLOSED, NOW, "refused")
    assert outage.probe_at == NOW + wait
    assert not may_probe(outage, now=NOW + wait - 1)
    assert may_probe(outage, now=NOW + wait)


@pytest.mark.parametrize(("after", "wait"), [(1_000, 5_000), (30_000, 30_000), (9_000_000, 120_000)])
def test_a_receiver_may_say_when_it_is_back_within_reason(after: int, wait: int) -> None:
    assert after_unavailable(None, "ada", "503", now=NOW, after=after, chance=0).probe_at == NOW + wait


def test_each_probe_that_fails_doubles_the_interval_up_to_two_minutes() -> None:
    outage, intervals = closed(), []
    for _ in range(7):
        outage = after_probe_begun(outage, "bob", "me", now=outage.probe_at)
        began = outage.probe_at
        outage = after_unavailable(outage, "bob", "still", now=began, after=None, chance=0.5)
        intervals.append(outage.probe_at - began)

    assert intervals == [10_000, 20_000, 40_000, 80_000, 120_000, 120_000, 120_000]
    assert outage.since == NOW
    assert outage.reason == "still"


def test_what_others_meet_lengthens_nothing() -> None:
    outage = after_probe_begun(closed(), "bob", "me", now=NOW + 5_000)

    assert after_unavailable(outage, "eve", "late", now=NOW + 5_001, after=None, chance=0) == outage


def test_one_digest_probes_at_a_time_and_another_when_it_takes_too_long() -> None:
    outage = after_probe_begun(closed(), "bob", "me", now=NOW + 5_000)

    assert not may_probe(outage, now=NOW + 5_000 + PROBE - 1)
    assert may_probe(outage, now=NOW + 5_000 + PROBE)
    longer = after_probe_extended(outage, "bob", now=NOW + 5_000 + PROBE - 1)
    assert not may_probe(longer, now=NOW + 5_000 + PROBE)
    assert after_probe_extended(outage, "eve", now=NOW + 5_000 + PROBE - 1) == outage


def test_a_probe_that_never_reached_the_channel_is_soon_repeated_by_another() -> None:
    outage = after_no_answer(after_probe_begun(closed(), "bob", "me", now=NOW + 5_000), "bob", now=NOW + 5_100)

    assert (outage.probe_at, outage.interval) == (NOW + 6_100, FIRST_INTERVAL)
    assert may_probe(outage, now=NOW + 6_100)


def test_the_last_prober_comes_back_after_all_others() -> None:
    outage = closed(prober="bob", probe_until=0)
    last = kept_until(outage, "bob", now=NOW, crowd=1, chance=0)

    assert all(
        kept_until(outage, "eve", now=now, crowd=1, chance=1) <= last for now in range(NOW, outage.probe_at + 1, 100)
    )
    assert kept_until(outage, "eve", now=NOW, crowd=1, chance=0) == outage.probe_at


@pytest.mark.parametrize(("crowd", "spread"), [(1, 1_250), (600, 1_250), (5_000, 10_000), (10**6, LONGEST_INTERVAL)])
def test_a_crowd_comes_back_slowly(crowd: int, spread: int) -> None:
    outage = closed()

    assert kept_until(outage, "eve", now=NOW, crowd=crowd, chance=1) == outage.probe_at + spread


def test_an_answer_opens_the_channel_unless_the_attempt_is_older_than_the_outage() -> None:
    outage = closed()

    assert after_answer(outage, began=NOW - 1, now=NOW + 9_000) == outage
    answered = after_answer(outage, began=NOW, now=NOW + 9_000)
    assert answered is not None
    assert (answered.phase, answered.returned, answered.since) == (Phase.RETURNING, NOW + 9_000, NOW)


def test_a_return_lets_twice_as_many_leave_each_second() -> None:
    outage = closed(phase=Phase.RETURNING, returned=NOW)
    left = []
    for second in range(RETURN_SECONDS):
        assert not outage.is_over(NOW + second * 1000 + 999)
        count = 0
        while True:
            outage, granted = after_grant(outage, now=NOW + second * 1000)
            if granted == 0:
                break
            count += granted
        left.append(count)

    assert left == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert outage.is_over(NOW + RETURN_SECONDS * 1000)


def test_a_lost_answer_is_a_suspicion_until_another_timeline_meets_it() -> None:
    suspected = after_unknown(None, "ada", "no answer", now=NOW, chance=0)
    assert (suspected.phase, suspected.suspect) == (Phase.SUSPECTED, "ada")

    assert after_unknown(suspected, "ada", "no answer", now=NOW + 1, chance=0).phase is Phase.SUSPECTED
    assert after_unknown(suspected, "bob", "no answer", now=NOW + 1, chance=0).phase is Phase.CLOSED
    assert after_unknown(suspected, "bob", "no answer", now=NOW + 600_000, chance=0).phase is Phase.SUSPECTED
    assert after_answer(suspected, began=NOW, now=NOW + 1) is None


def test_a_channel_that_fails_while_it_returns_is_closed_anew() -> None:
    outage = closed(phase=Phase.RETURNING, returned=NOW, interval=40_000)

    again = after_unavailable(outage, "eve", "refused", now=NOW + 500, after=None, chance=0.5)

    assert (again.phase, again.since, again.probe_at) == (Phase.CLOSED, NOW + 500, NOW + 5_500)


def test_a_lost_answer_while_it_returns_is_the_fault_of_one_digest_at_first() -> None:
    outage = closed(phase=Phase.RETURNING, returned=NOW)

    once = after_unknown(outage, "ada", "no answer", now=NOW + 1, chance=0)
    assert once.phase is Phase.RETURNING

    assert after_unknown(once, "bob", "no answer", now=NOW + 2, chance=0).phase is Phase.CLOSED


def test_patterns_are_noted_once_and_not_without_end() -> None:
    outage = with_pattern(with_pattern(closed(), "mail:*"), "mail:*")
    assert outage.patterns == ("mail:*",)

    for number in range(100):
        outage = with_pattern(outage, f"p{number}")
    assert len(outage.patterns) == 50


def test_a_receiver_that_asks_for_a_day_is_probed_within_two_minutes_all_the_same() -> None:
    probed = after_probe_begun(closed(), "bob", "me", now=NOW + 5_000)

    again = after_unavailable(probed, "bob", "503", now=NOW + 5_000, after=86_400_000, chance=0)

    assert again.probe_at == NOW + 5_000 + LONGEST_INTERVAL


def test_a_closed_channel_to_which_nothing_comes_is_forgotten_after_a_day() -> None:
    outage = closed()

    assert not outage.is_over(outage.probe_at + FORGOTTEN)
    assert outage.is_over(outage.probe_at + FORGOTTEN + 1)


def test_an_outage_explains_failures_that_began_with_it_or_just_before() -> None:
    outage = closed()

    assert outage.explains(NOW - 600_000)
    assert not outage.explains(NOW - 600_001)
