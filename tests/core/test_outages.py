"""The rules of outages: when a channel is closed, who probes it, who waits until when, and how digests return."""

import pytest

from digestif.core.outages import (
    FIRST_INTERVAL,
    FORGOTTEN,
    LONGEST_INTERVAL,
    LONGEST_PUT_OFF,
    PROBE,
    RETURN_SECONDS,
    SHORTEST_PUT_OFF,
    SILENCE,
    Outage,
    Phase,
    after_answer,
    after_grant,
    after_no_answer,
    after_probe_begun,
    after_probe_extended,
    after_probe_lapsed,
    after_set_back,
    after_unavailable,
    after_unknown,
    kept_until,
    may_probe,
    put_off_delay,
    shown,
    with_pattern,
)

NOW = 1_700_000_000_000
DAY = 86_400_000


def closed(**changes: object) -> Outage:
    outage = after_unavailable(None, "ada", "refused", now=NOW, after=None, chance=0.5)
    return Outage(**{**{name: getattr(outage, name) for name in Outage.__struct_fields__}, **changes})


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 4_000), (0.5, 5_000), (1.0, 6_000)])
def test_a_channel_that_is_unavailable_is_closed_and_probed_after_five_seconds(chance: float, wait: int) -> None:
    outage = after_unavailable(None, "ada", "refused", now=NOW, after=None, chance=chance)

    assert (outage.phase, outage.since, outage.reason) == (Phase.CLOSED, NOW, "refused")
    assert outage.probe_at == NOW + wait
    assert not may_probe(outage, "eve", now=NOW + wait - 1)
    assert may_probe(outage, "eve", now=NOW + wait)


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

    assert not may_probe(outage, "eve", now=NOW + 5_000 + PROBE - 1)
    assert may_probe(outage, "eve", now=NOW + 5_000 + PROBE)
    longer = after_probe_extended(outage, "bob", now=NOW + 5_000 + PROBE - 1)
    assert not may_probe(longer, "eve", now=NOW + 5_000 + PROBE)
    assert after_probe_extended(outage, "eve", now=NOW + 5_000 + PROBE - 1) == outage


def test_a_probe_that_never_reached_the_channel_is_soon_repeated_by_another() -> None:
    outage = after_no_answer(after_probe_begun(closed(), "bob", "me", now=NOW + 5_000), "bob", now=NOW + 5_100)

    assert (outage.probe_at, outage.interval) == (NOW + 6_100, FIRST_INTERVAL)
    assert may_probe(outage, "eve", now=NOW + 6_100)


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
    assert (suspected.phase, suspected.met) == (Phase.SUSPECTED, ("ada",))

    assert after_unknown(suspected, "ada", "no answer", now=NOW + 1, chance=0).phase is Phase.SUSPECTED
    assert after_unknown(suspected, "bob", "no answer", now=NOW + 1, chance=0).phase is Phase.CLOSED
    assert after_unknown(suspected, "bob", "no answer", now=NOW + 600_000, chance=0).phase is Phase.SUSPECTED


# A channel that answered within the longest interval


def met(outage: Outage | None, timeline: str, now: int, *, answered: int = NOW - 1) -> Outage:
    return after_unavailable(outage, timeline, "503", now=now, after=None, chance=0.5, answered=answered)


def met_by(*timelines: str, since: int = NOW) -> Outage:
    outage = None
    for timeline in timelines:
        outage = met(outage, timeline, since)
    assert outage is not None
    return outage


@pytest.mark.parametrize(
    ("timelines", "after", "phase"),
    [
        (("ada", "bob"), SILENCE, Phase.CLOSED),
        (("ada", "bob"), SILENCE - 1, Phase.SUSPECTED),
        (("ada", "ada"), SILENCE, Phase.SUSPECTED),
        (("ada",), SILENCE, Phase.SUSPECTED),
    ],
)
def test_a_channel_that_answered_is_closed_by_three_timelines_and_five_seconds_of_silence(
    timelines: tuple[str, ...], after: int, phase: Phase
) -> None:
    assert met(met_by(*timelines), "eve", NOW + after).phase is phase


@pytest.mark.parametrize(
    ("answered", "phase"),
    [
        (NOW - LONGEST_INTERVAL, Phase.SUSPECTED),
        (NOW - LONGEST_INTERVAL - 1, Phase.CLOSED),
        (0, Phase.CLOSED),
        (NOW + DAY, Phase.CLOSED),
    ],
)
def test_a_channel_that_has_not_answered_for_two_minutes_is_closed_by_the_first(answered: int, phase: Phase) -> None:
    assert met(None, "ada", NOW, answered=answered).phase is phase


def test_a_process_that_got_no_answer_itself_believes_the_note() -> None:
    suspected = met_by("ada")

    assert met(suspected, "bob", NOW + 1, answered=0).phase is Phase.SUSPECTED


def test_an_answer_in_between_lets_the_count_and_the_silence_begin_again() -> None:
    suspected = met_by("ada", "bob")

    answered = after_answer(suspected, began=NOW - 9_000, now=NOW + 4_000)
    assert answered is not None
    assert met(answered, "eve", NOW + 6_000, answered=0).met == ("eve",)
    assert met(suspected, "eve", NOW + 6_000, answered=NOW + 4_000).met == ("eve",)  # noted by this process only


def test_an_answer_to_a_suspicion_is_remembered_for_two_minutes() -> None:
    answered = after_answer(met_by("ada"), began=NOW, now=NOW + 1)
    assert answered is not None
    assert (answered.phase, answered.met, answered.answered) == (Phase.SUSPECTED, (), NOW + 1)

    assert after_answer(answered, began=NOW, now=NOW + LONGEST_INTERVAL - 1) == answered
    assert after_answer(answered, began=NOW, now=NOW + LONGEST_INTERVAL) is None
    assert answered.is_over(NOW + LONGEST_INTERVAL)


def test_lost_answers_of_two_timelines_close_a_channel_that_answered() -> None:
    outage = None
    for timeline, phase in (("ada", Phase.SUSPECTED), ("ada", Phase.SUSPECTED), ("bob", Phase.CLOSED)):
        outage = after_unknown(outage, timeline, "504", now=NOW, chance=0, answered=NOW - 1)
        assert outage.phase is phase


def test_two_timelines_are_enough_if_a_message_may_have_gone_out_although_the_channel_is_unavailable() -> None:
    outage = after_unavailable(
        met_by("ada"), "bob", "reset", now=NOW, after=None, chance=0.5, answered=NOW - 1, unknown=True
    )

    assert outage.is_closed


def test_an_answer_between_lost_answers_lets_the_count_begin_again() -> None:
    suspected = after_unknown(None, "ada", "504", now=NOW, chance=0, answered=NOW - 1)

    assert after_unknown(suspected, "bob", "504", now=NOW + 2, chance=0, answered=NOW + 1).met == ("bob",)


@pytest.mark.parametrize("phase", [None, Phase.SUSPECTED, Phase.RETURNING])
def test_a_digest_that_does_not_come_again_closes_its_channel_immediately(phase: Phase | None) -> None:
    known = None if phase is None else closed(phase=phase, answered=NOW - 1, returned=NOW - 1)

    outage = after_unavailable(
        known, "ada", "503", now=NOW, after=None, chance=0.5, answered=NOW - 1, at_most_once=True
    )

    assert outage.is_closed


def test_a_channel_that_returns_is_not_closed_by_the_first_that_fails() -> None:
    returning = closed(phase=Phase.RETURNING, returned=NOW)

    assert met(returning, "eve", NOW + 500, answered=0).phase is Phase.RETURNING
    assert after_unknown(returning, "eve", "504", now=NOW + 500, chance=0).phase is Phase.RETURNING


@pytest.mark.parametrize(("second", "rates"), [(0, [1, 2]), (1, [1, 2]), (4, [8, 16]), (9, [256, 512])])
def test_after_a_relapse_the_return_begins_with_half_the_rate_that_it_reached(second: int, rates: list[int]) -> None:
    outage = closed(phase=Phase.RETURNING, returned=NOW)
    failed = NOW + second * 1000
    for timeline in ("ada", "bob", "eve"):
        outage = met(outage, timeline, failed, answered=0)
    outage = met(outage, "ada", failed + SILENCE, answered=0)
    assert outage.is_closed

    back = failed + 60_000
    returning = after_answer(outage, began=back, now=back)
    assert returning is not None
    assert [granted_in(returning, back + 1000 * number) for number in range(2)] == rates


def test_the_rate_of_a_return_does_not_grow_while_nothing_answers() -> None:
    outage = met(closed(phase=Phase.RETURNING, returned=NOW), "ada", NOW + 2_000, answered=0)

    assert granted_in(outage, NOW + 8_000) == granted_in(outage, NOW + 2_000) == 4
    assert not outage.is_over(NOW + RETURN_SECONDS * 1000)
    answered = after_answer(outage, began=NOW, now=NOW + 8_000)
    assert answered is not None
    assert granted_in(answered, NOW + 8_000) == 256


def granted_in(outage: Outage, now: int) -> int:
    """How many digests may leave in the second of a return."""
    count = 0
    while True:
        outage, granted = after_grant(outage, now=now)
        if granted == 0:
            return count
        count += granted


def test_a_digest_is_put_off_for_twice_as_long_each_time_up_to_a_minute() -> None:
    now, waits = NOW, []
    for _ in range(7):
        waits.append(put_off_delay(NOW, now=now, after=None))
        now += waits[-1]

    assert waits == [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


@pytest.mark.parametrize(
    ("since", "after", "wait"),
    [
        (NOW, 0, SHORTEST_PUT_OFF),
        (NOW + DAY, 30_000, 30_000),
        (NOW, DAY, LONGEST_INTERVAL),
        (0, 1_000, LONGEST_PUT_OFF),
    ],
)
def test_a_receiver_may_ask_for_a_longer_put_off_within_reason(since: int, after: int, wait: int) -> None:
    assert put_off_delay(since, now=NOW, after=after) == wait


# Probes that do not end


def test_after_a_probe_that_did_not_end_another_timeline_is_next() -> None:
    begun = NOW + 5_000
    outage = after_probe_begun(closed(), "bob", "me", now=begun)
    ended = begun + PROBE

    assert may_probe(outage, "eve", now=ended)
    assert not may_probe(outage, "bob", now=ended + FIRST_INTERVAL - 1)
    assert may_probe(outage, "bob", now=ended + FIRST_INTERVAL)  # there may be no other
    assert kept_until(outage, "bob", now=ended, crowd=1, chance=0) >= ended + FIRST_INTERVAL


def test_a_lapse_ends_a_probe() -> None:
    outage = after_probe_begun(closed(), "bob", "me", now=NOW + 5_000)

    lapsed = after_probe_lapsed(outage, "bob", now=NOW + 9_000)

    assert may_probe(lapsed, "eve", now=NOW + 9_000)
    assert not may_probe(lapsed, "bob", now=NOW + 9_000)
    assert after_probe_lapsed(outage, "eve", now=NOW + 9_000) == outage


def test_a_timeline_that_was_scheduled_to_probe_may_do_so_in_another_process_however_late() -> None:
    outage = after_probe_begun(closed(), "bob", "me", now=NOW + 5_000)

    for now in (NOW + 6_000, NOW + 5_000 + PROBE):
        assert may_probe(outage, "bob", now=now, is_ready=True)
    assert not may_probe(outage, "eve", now=NOW + 6_000, is_ready=True)


# A clock that was set back


@pytest.mark.parametrize("field", ["since", "probe_at", "probe_until", "returned", "met_since", "answered"])
def test_a_time_too_far_ahead_counts_as_past(field: str) -> None:
    outage = closed(prober="bob", **{field: NOW + DAY})
    assert outage.is_ahead(NOW)

    assert may_probe(outage, "eve", now=max(NOW, closed().probe_at))
    assert kept_until(outage, "eve", now=NOW, crowd=1, chance=1) <= NOW + LONGEST_INTERVAL
    assert not outage.is_over(NOW)


def test_an_outage_is_corrected_when_the_clock_was_set_back() -> None:
    outage = after_probe_begun(closed(), "bob", "me", now=NOW + 5_000)
    back = NOW - DAY

    corrected = after_set_back(outage, now=back)

    assert (corrected.since, corrected.probe_at, corrected.probe_until) == (back, back, 0)
    assert not corrected.is_ahead(back)
    assert shown("mail", outage, now=back).next_probe == back / 1000
    assert after_set_back(outage, now=NOW) == outage


def test_an_answer_counts_even_if_the_outage_began_later_than_now() -> None:
    answered = after_answer(closed(), began=NOW - DAY, now=NOW - DAY + 1)

    assert answered is not None
    assert answered.phase is Phase.RETURNING


@pytest.mark.parametrize("phase", [Phase.SUSPECTED, Phase.RETURNING])
def test_what_does_not_close_a_channel_is_over_when_the_clock_was_set_back(phase: Phase) -> None:
    assert closed(phase=phase, returned=NOW).is_over(NOW - DAY)


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
