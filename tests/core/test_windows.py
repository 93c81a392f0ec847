"""Windows: the times and hours of the calendar at which a digest may leave."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digestif import ConfigError, Window
from digestif.core.machine import Slot, Unfinished
from digestif.core.records import State
from digestif.core.times import FARTHEST
from digestif.core.windows import admission
from digestif.core.windows.zones import zone_of
from tests.core.calendar_oracle import ZONES, clock_changes, instant

BERLIN = "Europe/Berlin"
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def at(text: str, zone: str = BERLIN) -> int:
    """Milliseconds of a local time such as "2026-03-28 09:00"."""
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def first_times(window: Window, since: str, count: int) -> list[int]:
    """The first times from a local time in Berlin on."""
    found: list[int] = []
    for _ in range(count):
        time = window.first("t", at(since), found[-1] if found else None)
        assert time is not None
        found.append(time)
    return found


# Times


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window.daily("17:00", "09:00", tz=BERLIN), ["2026-02-27 09:00", "2026-02-27 17:00", "2026-02-28 09:00"]),
        (Window.weekly("mon 08:30", tz=BERLIN), ["2026-03-02 08:30", "2026-03-09 08:30", "2026-03-16 08:30"]),
        (Window.weekly("fri-sat 08:30", tz=BERLIN), ["2026-02-27 08:30", "2026-02-28 08:30", "2026-03-06 08:30"]),
        (Window.weekly("Sunday,Tuesday 8:30", tz=BERLIN), ["2026-03-01 08:30", "2026-03-03 08:30", "2026-03-08 08:30"]),
        (Window.monthly(1, "08:00", tz=BERLIN), ["2026-03-01 08:00", "2026-04-01 08:00", "2026-05-01 08:00"]),
        (Window.monthly(31, "08:00", tz=BERLIN), ["2026-02-28 08:00", "2026-03-31 08:00", "2026-04-30 08:00"]),
        (Window.monthly(-1, "08:00", tz=BERLIN), ["2026-02-28 08:00", "2026-03-31 08:00", "2026-04-30 08:00"]),
        (Window.cron("*/20 8 * * 1-5", tz=BERLIN), ["2026-02-27 08:00", "2026-02-27 08:20", "2026-02-27 08:40"]),
        (Window.cron("0 9 29 2 *", tz=BERLIN), ["2028-02-29 09:00", "2032-02-29 09:00", "2036-02-29 09:00"]),
        (Window.cron("0 9 * * fri#1", tz=BERLIN), ["2026-03-06 09:00", "2026-04-03 09:00", "2026-05-01 09:00"]),
    ],
    ids=str,
)
def test_times_come_in_turn(window: Window, expected: list[str]) -> None:
    assert first_times(window, "2026-02-27 00:00", 3) == [at(text) for text in expected]


def test_after_a_delivery_at_exactly_nine_the_next_time_is_tomorrow() -> None:
    window = Window.daily("09:00", tz=BERLIN)
    nine = at("2026-06-01 09:00")

    assert window.first("t", nine, None) == nine
    assert window.first("t", nine - HOUR, nine - 1) == nine
    assert window.first("t", nine - HOUR, nine) == at("2026-06-02 09:00")


def test_a_time_in_the_gap_is_its_end_and_one_in_the_overlap_the_first() -> None:
    window = Window.daily("02:30", tz=BERLIN)

    assert first_times(window, "2026-03-29 00:00", 2) == [at("2026-03-29 03:00"), at("2026-03-30 02:30")]
    assert first_times(window, "2026-10-25 00:00", 2) == [at("2026-10-25 02:30"), at("2026-10-26 02:30")]


def test_times_that_fall_on_the_same_instant_count_once() -> None:
    window = Window.daily("02:00", "02:30", "03:00", tz=BERLIN)

    assert first_times(window, "2026-03-29 00:00", 2) == [at("2026-03-29 03:00"), at("2026-03-30 02:00")]


def test_a_day_that_was_left_out_has_its_time_when_the_next_one_begins() -> None:
    window = Window.daily("09:00", tz="Pacific/Apia")  # without 30 December 2011

    assert window.first("t", at("2011-12-29 09:01", "Pacific/Apia"), None) == at("2011-12-31 00:00", "Pacific/Apia")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time", ["00:00", "00:30", "01:45", "02:00", "02:15", "02:30", "03:00", "23:59"])
def test_at_every_clock_change_of_forty_years_each_day_has_its_time_once(zone: str, time: str) -> None:
    window = Window.daily(time, tz=zone)
    minute = int(time[:2]) * 60 + int(time[3:])

    for change in clock_changes(zone):
        days = range(change // DAY - 2, change // DAY + 3)
        expected = sorted({instant(zone, day * 1440 + minute) for day in days})
        found, following = [], expected[0]
        while following <= expected[-1]:
            found.append(following)
            following = window.first("t", following, following) or 0
        assert found == expected


# Hours


@pytest.mark.parametrize(
    ("window", "asked", "opens"),
    [
        (Window.hours("mon-fri 08:00-18:00", tz=BERLIN), "2026-06-05 17:59", "2026-06-05 17:59"),
        (Window.hours("mon-fri 08:00-18:00", tz=BERLIN), "2026-06-05 18:00", "2026-06-08 08:00"),
        (Window.hours("mon-fri 08:00-18:00", "sat 10:00-12:00", tz=BERLIN), "2026-06-05 18:00", "2026-06-06 10:00"),
        (Window.hours("22:00-02:00", tz=BERLIN), "2026-06-05 01:59", "2026-06-05 01:59"),
        (Window.hours("fri 22:00-02:00", tz=BERLIN), "2026-06-05 01:59", "2026-06-05 22:00"),
        (Window.hours("20:00-24:00", tz=BERLIN), "2026-06-05 23:59", "2026-06-05 23:59"),
        (Window.hours("20:00-24:00", tz=BERLIN), "2026-06-06 00:00", "2026-06-06 20:00"),
        (Window.hours("00:00-24:00", tz=BERLIN), "2026-06-06 00:00", "2026-06-06 00:00"),
        (Window.hours("sat-sun 00:00-24:00", tz=BERLIN), "2026-06-07 12:00", "2026-06-07 12:00"),
        (Window.quiet("22:00-07:00", tz=BERLIN), "2026-06-05 21:59", "2026-06-05 21:59"),
        (Window.quiet("22:00-07:00", tz=BERLIN), "2026-06-05 22:00", "2026-06-06 07:00"),
        (Window.quiet("22:00-07:00", tz=BERLIN), "2026-06-06 06:59", "2026-06-06 07:00"),
        (Window.quiet("sat,sun 00:00-24:00", tz=BERLIN), "2026-06-06 00:00", "2026-06-08 00:00"),
        (Window.daily("09:00", tz=BERLIN), "2026-06-06 00:00", "2026-06-06 00:00"),
    ],
    ids=str,
)
def test_hours_open_where_they_begin_and_are_closed_where_they_end(window: Window, asked: str, opens: str) -> None:
    assert window.next_hours("t", at(asked)) == at(opens)


def test_the_ends_of_hours_follow_the_clock_change() -> None:
    window = Window.quiet("22:00-02:30", tz=BERLIN)

    assert window.next_hours("t", at("2026-03-29 01:59")) == at("2026-03-29 03:00")
    assert window.next_hours("t", at("2026-10-25 01:59")) == at("2026-10-25 02:30")


def test_hours_that_a_clock_change_leaves_out_do_not_open_that_day() -> None:
    window = Window.hours("02:00-03:00", tz=BERLIN)

    assert window.next_hours("t", at("2026-03-28 03:00")) == at("2026-03-30 02:00")


# Together


def test_of_times_and_hours_the_times_inside_all_hours_count() -> None:
    window = (
        Window.cron("0 * * * *", tz=BERLIN)
        & Window.hours("08:00-10:00", tz=BERLIN)
        & Window.quiet("sat,sun 00:00-24:00", tz=BERLIN)
    )

    assert first_times(window, "2026-06-05 00:00", 3) == [
        at(text) for text in ("2026-06-05 08:00", "2026-06-05 09:00", "2026-06-08 08:00")
    ]
    assert (window.has_times, window.has_hours) == (True, True)


def test_times_of_two_windows_both_count() -> None:
    window = Window.daily("09:00", tz=BERLIN) & Window.daily("09:00", tz="America/New_York")

    assert first_times(window, "2026-06-05 00:00", 2) == [at("2026-06-05 09:00"), at("2026-06-05 15:00")]


def test_hours_of_two_windows_must_both_be_open() -> None:
    window = Window.hours("08:00-18:00", tz=BERLIN) & Window.hours("08:00-18:00", tz="America/New_York")

    assert window.openings("t", at("2026-06-05 00:00"), reach=0).numbers[:2] == (
        at("2026-06-05 14:00"),
        at("2026-06-05 18:00"),
    )


def test_hours_that_are_always_open_do_not_cut_others() -> None:
    window = Window.hours("00:00-24:00", tz="Asia/Kolkata") & Window.quiet("22:00-07:00", tz=BERLIN)

    assert window.openings("t", at("2026-06-05 12:00"), reach=0).numbers[:2] == (
        at("2026-06-05 07:00"),
        at("2026-06-05 22:00"),
    )


def test_a_combination_is_urgent_if_all_its_parts_are() -> None:
    urgent, calm = Window.daily("09:00", tz=BERLIN, urgent=True), Window.quiet("22:00-07:00", tz=BERLIN)

    assert urgent.urgent
    assert not (urgent & calm).urgent
    assert (urgent & Window.quiet("22:00-07:00", tz=BERLIN, urgent=True)).urgent


# Openings


def test_openings_begin_with_the_last_time_and_reach_as_far_as_they_are_asked_to() -> None:
    window = Window.daily("09:00", tz=BERLIN)
    now = at("2026-06-05 12:00")

    expected = [at(f"2026-06-{day:02} 09:00") for day in range(5, 30)]
    assert list(window.openings("t", now, reach=0).numbers) == expected[:4]
    assert list(window.openings("t", now, reach=9 * DAY).numbers)[:11] == expected[:11]
    assert window.openings("t", now, reach=10_000 * DAY).numbers[:25] == tuple(expected)
    assert len(window.openings("t", now, reach=10_000 * DAY).numbers) == 32


def test_openings_of_hours_are_spans_from_the_one_that_contains_now() -> None:
    window = Window.hours("08:00-18:00", tz=BERLIN, urgent=True)
    inside = window.openings("t", at("2026-06-05 12:00"), reach=0)
    outside = window.openings("t", at("2026-06-05 18:00"), reach=0)

    assert (inside.hours, inside.urgent) == (True, True)
    assert inside.numbers[:2] == (at("2026-06-05 08:00"), at("2026-06-05 18:00"))
    assert outside.numbers[:2] == (at("2026-06-06 08:00"), at("2026-06-06 18:00"))
    assert len(inside.numbers) == 8


def test_timelines_of_a_zone_share_their_openings_until_the_next_one() -> None:
    window = Window.daily("09:00", tz=BERLIN)
    morning, noon = at("2026-06-05 09:00"), at("2026-06-05 12:00")

    known = window.openings("t", morning, reach=HOUR)

    assert window.openings("other", noon, reach=HOUR) is known
    assert window.openings("t", morning + DAY - 1, reach=HOUR) is known
    assert window.openings("t", morning + DAY, reach=HOUR) is not known


def test_more_zones_than_are_remembered_are_still_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("digestif.core.windows.openings.MOST_ZONES", 2)
    window = Window.daily("09:00", tz=lambda timeline: timeline)

    for zone in [*ZONES, *ZONES]:
        assert window.openings(zone, at("2026-06-05 00:00", zone), reach=0).numbers[1] == at("2026-06-05 09:00", zone)


def test_openings_can_be_asked_from_many_threads() -> None:
    window = Window.daily("09:00", "17:00", tz=lambda timeline: ZONES[int(timeline) % 6])
    now = at("2026-03-25 00:00")

    def numbers(of: Window, number: int) -> tuple[int, ...]:
        return of.openings(str(number), now + number % 50 * 4 * HOUR, reach=DAY).numbers

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda number: numbers(window, number), range(1000)))

    assert found == [numbers(Window(window.rules), number) for number in range(1000)]


@pytest.mark.parametrize("time", [-FARTHEST * 1000, -1, 0, FARTHEST * 1000], ids=str)
@pytest.mark.parametrize(
    "window",
    [
        Window.daily("09:00", tz=BERLIN, jitter=600),
        Window.monthly(31, "09:00", tz=BERLIN),
        Window.cron("0 9 29 2 *", tz=BERLIN),
        Window.quiet("22:00-07:00", tz=BERLIN),
        Window.daily("09:00", tz=BERLIN) & Window.hours("mon 00:00-24:00", tz=BERLIN),
    ],
    ids=str,
)
def test_no_time_is_too_far_away_to_be_asked(window: Window, time: int) -> None:
    later = window.first("t", int(time), None)
    opens = window.next_hours("t", int(time))

    assert (later is None) == (time > 9e14)
    assert opens is None or opens >= time
    assert len(window.openings("t", int(time), reach=DAY).numbers) >= 4 or later is None
    assert admission(Slot(State.READY, at=int(time)), window, "t", now=int(time)) != time


# Jitter


def test_jitter_spreads_timelines_evenly_and_always_alike() -> None:
    window = Window.daily("09:00", tz=BERLIN, jitter=600)
    nine, tomorrow = at("2026-06-05 09:00"), at("2026-06-06 09:00")
    buckets = [0] * 20

    for number in range(100_000):
        numbers = window.openings(f"user:{number}", nine - 1, reach=0).numbers
        buckets[(numbers[1] - nine) // 30_000] += 1
        assert numbers[2] - tomorrow == numbers[1] - nine

    assert min(buckets) > 4_700
    assert max(buckets) < 5_300


def test_jitter_puts_off_the_begin_of_hours_but_not_their_end() -> None:
    window = Window.hours("08:00-18:00", tz=BERLIN, jitter=600)
    begins, ends = window.openings("t", at("2026-06-05 00:00"), reach=0).numbers[:2]

    assert at("2026-06-05 08:00") < begins < at("2026-06-05 08:10")
    assert ends == at("2026-06-05 18:00")
    assert window.next_hours("t", at("2026-06-05 08:00")) == begins


@pytest.mark.parametrize(
    "window",
    [
        Window.daily("09:00", tz=BERLIN, jitter=3600) & Window.daily("09:30", tz=BERLIN),
        Window.daily("09:00", tz=BERLIN, jitter=3600) & Window.weekly("tue,fri 08:50", tz=BERLIN, jitter=7200),
        Window.daily("07:30", "09:00", tz=BERLIN, jitter=3000) & Window.hours("08:00-10:00", tz=BERLIN),
        Window.daily("09:00", "10:00", tz=BERLIN, jitter=60) & Window.hours("08:00-10:00", tz=BERLIN, jitter=1800),
    ],
    ids=str,
)
def test_openings_are_those_of_the_calendar_whatever_the_share_of_the_jitter(window: Window) -> None:
    for minute in range(0, 240, 7):
        now = at("2026-06-05 07:00") + minute * MINUTE
        for timeline in map(str, range(12)):
            last = following = window.first(timeline, now - 4 * DAY, None)
            while following is not None and following <= now:
                last, following = following, window.first(timeline, following, following)
            numbers = window.openings(timeline, now, reach=2 * DAY).numbers

            assert numbers[0] == last
            for earlier, later in pairwise(numbers):
                assert window.first(timeline, earlier, earlier) == later


def test_hours_that_touch_each_other_begin_once() -> None:
    window = Window.hours("08:00-12:00", "12:00-18:00", tz=BERLIN, jitter=600)

    assert window.next_hours("t", at("2026-06-05 12:00")) == at("2026-06-05 12:00")
    assert window.openings("t", at("2026-06-05 09:00"), reach=0).numbers[1] == at("2026-06-05 18:00")


def test_jitter_closes_nothing_that_is_always_open() -> None:
    window = Window.hours("00:00-24:00", tz=BERLIN, jitter=600)

    assert window.next_hours("t", at("2026-06-05 00:00")) == at("2026-06-05 00:00")
    assert window.openings("t", at("2026-06-05 00:00"), reach=0).numbers[0] == at("2026-06-05 00:00")


# Whether it may leave now


def ready(due: str, *, last: str | None = None, **more: object) -> Slot:
    return Slot(State.READY, at=at(due), last=None if last is None else at(last), pending=1, **more)  # type: ignore[arg-type]


RETRY = Unfinished(id="d", batch=0, records=1, opened=0)
DAILY = Window.daily("09:00", tz=BERLIN)
QUIET = Window.quiet("22:00-07:00", tz=BERLIN)


@pytest.mark.parametrize(
    ("window", "slot", "now", "until"),
    [
        (None, ready("2026-06-05 10:00"), "2026-06-05 10:00", None),
        (DAILY, ready("2026-06-05 10:00"), "2026-06-05 23:00", "2026-06-06 09:00"),
        (DAILY, ready("2026-06-05 08:00"), "2026-06-05 09:40", None),
        (DAILY, ready("2026-06-05 09:00", last="2026-06-05 09:00"), "2026-06-05 09:10", "2026-06-06 09:00"),
        (DAILY, ready("2026-06-05 10:00", digest=RETRY), "2026-06-05 10:00", None),
        (DAILY, ready("2026-06-05 10:00", passes=True), "2026-06-05 10:00", None),
        (DAILY, ready("2026-06-05 12:00", by_delays=at("2026-06-05 08:00")), "2026-06-05 11:00", None),
        (QUIET, ready("2026-06-05 21:59"), "2026-06-05 21:59", None),
        (QUIET, ready("2026-06-05 21:00"), "2026-06-05 23:00", "2026-06-06 07:00"),
        (QUIET, ready("2026-06-05 21:00", digest=RETRY), "2026-06-05 23:00", "2026-06-06 07:00"),
        (QUIET, ready("2026-06-05 21:00", digest=RETRY, passes=True), "2026-06-05 23:00", None),
        (DAILY & QUIET, ready("2026-06-05 08:00"), "2026-06-05 23:00", "2026-06-06 07:00"),
        (DAILY & QUIET, ready("2026-06-05 10:00"), "2026-06-05 23:00", "2026-06-06 09:00"),
    ],
)
def test_a_timeline_waits_for_its_times_and_hours(
    window: Window | None, slot: Slot, now: str, until: str | None
) -> None:
    assert admission(slot, window, "t", now=at(now)) == (None if until is None else at(until))


# Zones


def test_the_zone_may_depend_on_the_timeline() -> None:
    window = Window.daily("09:00", tz=lambda timeline: "Asia/Kolkata" if timeline == "asha" else BERLIN)
    midnight = at("2026-06-05 00:00", "Asia/Kolkata")

    assert window.holds_callable
    assert window.zone_of("asha") == "Asia/Kolkata"
    assert window.first("asha", midnight, None) == at("2026-06-05 09:00", "Asia/Kolkata")
    assert window.openings("asha", midnight, reach=0).numbers[1] == at("2026-06-05 09:00", "Asia/Kolkata")
    assert window.openings("bert", midnight, reach=0).numbers[1] == at("2026-06-05 09:00")


def _failing(timeline: str) -> str:
    raise LookupError(timeline)


@pytest.mark.parametrize("ask", ["zone_of", "openings", "first", "next_hours"])
@pytest.mark.parametrize(
    ("tz", "complaint"),
    [
        (_failing, "tz: the callable fails for 't': LookupError"),
        (lambda _: "Mars", "tz: 'Mars'"),
        (lambda _: 5, "tz: .*5"),
    ],
)
def test_a_callable_without_an_answer_is_a_config_error(tz: Callable[[str], str], complaint: str, ask: str) -> None:
    window = Window.hours("08:00-18:00", tz=tz)
    asked: dict[str, Callable[[], object]] = {
        "zone_of": lambda: window.zone_of("t"),
        "openings": lambda: window.openings("t", 0, reach=0),
        "first": lambda: window.first("t", 0, None),
        "next_hours": lambda: window.next_hours("t", 0),
    }

    with pytest.raises(ConfigError, match=complaint):
        asked[ask]()


@given(
    st.lists(st.sampled_from(["", ".", "..", "a", "Europe", "America", "Berlin", "é", "\0", "\ud800", "x" * 300])).map(
        "/".join
    )
    | st.text(max_size=40)
)
@example("/" * 5000)
@example("/".join("a" * 900))
@example("/".join("a" * 20_000))
@example("Europe/" * 2000 + "Berlin")
@example("x" * 100_000)
def test_any_text_is_a_zone_or_refused_as_one(name: str) -> None:
    try:
        answer = zone_of(name).key
    except ConfigError as error:
        answer = str(error)

    assert answer == name or (answer.startswith("tz: ") and len(answer) < 300)


def test_in_zone_moves_every_part_to_another_zone() -> None:
    window = Window.daily("09:00", tz=lambda _: BERLIN) & Window.quiet("22:00-07:00", tz="UTC")

    assert window.in_zone("Asia/Tokyo") == Window.daily("09:00", tz="Asia/Tokyo") & Window.quiet(
        "22:00-07:00", tz="Asia/Tokyo"
    )
    with pytest.raises(ConfigError, match="did you mean Asia/Tokyo"):
        window.in_zone("Asia/Tokio")


@pytest.mark.parametrize("zone", ["CEST", "cest", "PST", "BST", "IST", "AEST", "Z", "UTC+2", "GMT+2", "+02:00"])
def test_no_zone_is_suggested_for_an_abbreviation_because_it_may_have_another_offset(zone: str) -> None:
    with pytest.raises(ConfigError, match=r"UTC, instead of an abbreviation or an offset$") as wrong:
        Window.daily("09:00", tz=zone)

    assert "did you mean" not in str(wrong.value)


@pytest.mark.parametrize("place", ["Asia/Mumbai", "Mumbai", "Munich", "Europe/Munich", "America/Dallas", "Germany"])
def test_no_other_place_is_suggested_for_one_that_has_no_zone_of_its_name(place: str) -> None:
    with pytest.raises(ConfigError, match=r"is not an IANA time zone such as Europe/Berlin$"):
        Window.daily("09:00", tz=place)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("utc", "UTC"), ("cet", "CET"), ("Berlin", "Europe/Berlin"), ("Rome", "Europe/Rome"), ("Tokyo ", "Asia/Tokyo")],
)
def test_a_zone_in_other_letters_or_without_its_continent_is_suggested(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"did you mean {meant}\?"):
        Window.daily("09:00", tz=typed)


# As values


def test_windows_that_mean_the_same_are_equal() -> None:
    window = Window.weekly("mon 08:30", "tue 8:30", tz=BERLIN)

    assert window == Window.weekly("tue,mon 08:30", tz=BERLIN)
    assert hash(window) == hash(Window.weekly("tue,mon 08:30", tz=BERLIN))
    assert window != Window.weekly("mon 08:30", tz=BERLIN)
    assert window != Window.weekly("mon,tue 08:30", tz="UTC")
    assert window != Window.weekly("mon,tue 08:30", tz=BERLIN, jitter=5)
    assert window != Window.weekly("mon,tue 08:30", tz=BERLIN, urgent=True)
    assert pickle.loads(pickle.dumps(window)) == window


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Window.daily("09:00", tz="UTC"), Window.quiet("22:00-07:00", tz="UTC")),
        (Window.weekly("mon 09:00", tz="UTC"), Window.cron("0 9 * * *", tz="UTC")),
        (Window.daily("09:00", tz="UTC"), Window.daily("10:00", tz="UTC")),
        (Window.daily("09:00", tz="UTC"), Window.daily("09:00", tz=BERLIN)),
        (Window.daily("09:00", tz="UTC"), Window.daily("09:00", tz="UTC", jitter=5)),
        (Window.daily("09:00", tz="UTC"), Window.daily("09:00", tz="UTC", urgent=True)),
        (Window.daily("09:00", tz="UTC"), Window.daily("09:00", tz=lambda _: "UTC")),
        (Window.daily("09:00", tz=lambda _: BERLIN), Window.daily("09:00", tz=lambda _: "UTC")),
        (Window.daily("09:00", tz={"t": BERLIN}.__getitem__), Window.daily("09:00", tz={"t": "UTC"}.__getitem__)),
    ],
)
def test_combined_windows_are_equal_in_either_order(a: Window, b: Window) -> None:
    assert a & b == b & a
    assert hash(a & b) == hash(b & a)
    assert Window((*b.rules, *a.rules, *b.rules)) == a & b


def test_times_are_written_before_hours_then_by_kind_spec_and_zone() -> None:
    text = (
        "cron@0 9 * * * UTC & daily@09:00 Asia/Tokyo & daily@09:00 UTC & daily@10:00 Asia/Tokyo & hours@08:00-18:00 UTC"
    )

    assert str(Window.parse(" & ".join(reversed(text.split(" & "))))) == text


def test_a_window_reads_as_the_calls_that_make_it() -> None:
    window = Window.monthly(-1, "12:00", tz=BERLIN, jitter=600) & Window.hours(
        "mon-fri 8:00-18:00", tz="UTC", urgent=True
    )

    assert repr(window) == (
        "Window.monthly(-1, '12:00', tz='Europe/Berlin', jitter=600)"
        " & Window.hours('mon-fri 08:00-18:00', tz='UTC', urgent=True)"
    )
    assert eval(repr(window)) == window
    assert str(window) == "monthly@last 12:00 Europe/Berlin jitter=10m & hours@mon-fri 08:00-18:00 UTC urgent"
    assert Window.parse(str(window)) == window


def test_a_window_can_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        DAILY.urgent = True  # type: ignore[misc]


# Judged when it is made


@pytest.mark.parametrize(
    "make",
    [
        lambda: Window.quiet("00:00-24:00", tz="UTC"),
        lambda: Window.daily("09:00", tz="UTC") & Window.hours("20:00-22:00", tz="UTC"),
        lambda: Window.daily("18:00", tz="UTC") & Window.hours("08:00-18:00", tz="UTC"),
        lambda: Window.hours("08:00-10:00", tz="UTC") & Window.hours("10:00-12:00", tz="UTC"),
        lambda: Window.hours("08:00-08:10", tz="UTC", jitter=600),
        lambda: Window.daily("08:05", tz="UTC") & Window.hours("08:00-10:00", tz="UTC", jitter=600),
        lambda: Window.daily("09:55", tz="UTC", jitter=600) & Window.hours("08:00-10:00", tz="UTC"),
        lambda: Window.monthly(1, "09:00", tz="UTC") & Window.quiet("mon-sun 08:00-10:00", tz="UTC"),
        lambda: Window.daily("09:00", tz=lambda _: "UTC") & Window.hours("20:00-22:00", tz=lambda _: "UTC"),
        lambda: Window.cron("0 0 31 2,4 *", tz="UTC"),
    ],
)
def test_a_window_that_never_opens_is_a_config_error(make: Callable[[], Window]) -> None:
    with pytest.raises(ConfigError, match=r"never open|day-of-month"):
        make()


@pytest.mark.parametrize(
    ("window", "hours"),
    [
        (Window.daily("09:00", tz="UTC"), 24),
        (Window.daily("09:00", tz=BERLIN), 25),
        (Window.daily("09:00", tz=lambda _: "UTC"), 26),
        (Window.daily("09:00", "17:00", tz="UTC"), 16),
        (Window.weekly("mon 08:30", tz="UTC"), 7 * 24),
        (Window.weekly("mon,tue 08:30", tz="UTC"), 6 * 24),
        (Window.monthly(1, "08:00", tz="UTC"), 31 * 24),
        (Window.cron("* * * * *", tz="UTC"), 1 / 60),
        (Window.cron("*/20 8-18 * * 1-5", tz="UTC"), 24 * 3 - 10 - 40 / 60),
        (Window.cron("0 0 29 2 *", tz="UTC"), (8 * 365 + 1) * 24),
        (Window.hours("mon-fri 08:00-18:00", tz="UTC"), 62),
        (Window.hours("00:00-24:00", tz="UTC"), 0),
        (Window.quiet("22:00-07:00", tz="UTC"), 9),
        (Window.quiet("22:00-07:00", tz="UTC", jitter=1800), 9.5),
        (Window.cron("*/20 * * * *", tz="UTC") & Window.quiet("22:00-07:00", tz="UTC"), 9 + 20 / 60),
        (Window.daily("09:00", tz="UTC") & Window.hours("mon-fri 00:00-24:00", tz="UTC"), 72),
        (Window.hours("08:00-18:00", tz="UTC") & Window.quiet("sat,sun 00:00-24:00", tz="UTC"), 62),
        (Window.monthly(1, "09:00", tz="UTC") & Window.hours("mon-fri 00:00-24:00", tz="UTC"), 91 * 24),
        (Window.daily("09:00", tz="UTC") & Window.weekly("mon 10:00", tz="UTC"), 24),
    ],
)
def test_the_longest_gap_is_known_when_a_window_is_made(window: Window, hours: float) -> None:
    assert window.longest_gap == pytest.approx(hours * 3600)


# Wrong input


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Window.daily(tz="UTC"), "daily: give at least one"),
        (lambda: Window.daily("9 am", tz="UTC"), "daily: '9 am' is not a time of day"),
        (lambda: Window.daily("24:00", tz="UTC"), "daily: '24:00'"),
        (lambda: Window.daily("09:60", tz="UTC"), "daily: '09:60'"),
        (lambda: Window.daily("٠٩:٠٠", tz="UTC"), "daily: "),
        (lambda: Window.daily(9, tz="UTC"), "daily: 9 is not a text"),  # type: ignore[arg-type]
        (lambda: Window.weekly("08:30", tz="UTC"), "weekly: '08:30' is not days and a time"),
        (lambda: Window.weekly("mun 08:30", tz="UTC"), "weekly: 'mun' is not a day of the week; did you mean sun"),
        (lambda: Window.weekly("wensday 08:30", tz="UTC"), "weekly: 'wensday' .*; did you mean wed"),
        (lambda: Window.monthly(0, "08:30", tz="UTC"), "monthly: 0 is not a day of the month"),
        (lambda: Window.monthly(32, "08:30", tz="UTC"), "monthly: 32"),
        (lambda: Window.monthly(True, "08:30", tz="UTC"), "monthly: True"),
        (lambda: Window.monthly(1, tz="UTC"), "monthly: give at least one"),
        (lambda: Window.cron("* * * *", tz="UTC"), "cron: .* five fields"),
        (lambda: Window.cron("0 * * * * *", tz="UTC"), "cron: .* five fields"),
        (lambda: Window.cron("61 * * * *", tz="UTC"), "cron: '61 .*': Bad minute"),
        (lambda: Window.cron(5, tz="UTC"), "cron: 5"),  # type: ignore[arg-type]
        (lambda: Window.hours("8 to 6", tz="UTC"), "hours: .* is not a span"),
        (lambda: Window.hours("08:00-08:00", tz="UTC"), "hours: .* is empty"),
        (lambda: Window.hours("08:00-24:30", tz="UTC"), "hours: '24:30'"),
        (lambda: Window.quiet("24:00-07:00", tz="UTC"), "quiet: '24:00'"),
        (lambda: Window.daily("09:00", tz="Europe/Berln"), "tz: 'Europe/Berln' .* did you mean Europe/Berlin"),
        (lambda: Window.daily("09:00", tz="europe/berlin"), "tz: 'europe/berlin' .* did you mean Europe/Berlin"),
        (lambda: Window.daily("09:00", tz="New York"), "tz: 'New York' .* did you mean America/New_York"),
        (lambda: Window.daily("09:00", tz="/etc/passwd"), "tz: '/etc/passwd'"),
        (lambda: Window.daily("09:00", tz=""), "tz: ''"),
        (lambda: Window.daily("09:00", tz="localtime"), "tz: 'localtime' means whatever the machine has"),
        (lambda: Window.daily("09:00", tz="posixrules"), "tz: 'posixrules' means whatever"),
        (lambda: Window.daily("09:00", tz="Factory"), "tz: 'Factory' means whatever"),
        (lambda: Window.daily("09:00", tz="posix/localtime"), "tz: 'posix/localtime' means whatever"),
        (
            lambda: Window.daily("09:00", tz="localtim"),
            r"tz: 'localtim' is not an IANA time zone such as Europe/Berlin$",
        ),
        (lambda: Window.daily("09:00", tz=5), "tz: 5 is not the name"),  # type: ignore[arg-type]
        (lambda: Window.daily("09:00", tz="UTC", jitter=-1), "jitter: -1"),
        (lambda: Window.daily("09:00", tz="UTC", jitter=float("inf")), "jitter: inf"),
        (lambda: Window.daily("09:00", tz="UTC", jitter=32 * 86_400), "jitter: "),
        (lambda: Window.daily("09:00", tz="UTC", urgent=1), "urgent: 1"),  # type: ignore[arg-type]
        (lambda: Window("09:00"), "window: make one with Window.daily"),  # type: ignore[arg-type]
        (lambda: Window(()), "window: make one with"),
        (lambda: Window.parse("daily@09:00"), "window: 'daily@09:00' lacks a time zone"),
        (lambda: Window.parse("dayly@09:00 UTC"), "window: .*did you mean daily"),
        (lambda: Window.parse(5), "window: 5"),  # type: ignore[arg-type]
        (lambda: Window.parse("monthly@first 09:00 UTC"), "monthly: 'first'"),
    ],
)
def test_wrong_input_is_a_config_error_that_says_what_to_do(make: Callable[[], Window], complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^{complaint}"):
        make()


def test_a_window_is_combined_only_with_a_window() -> None:
    with pytest.raises(TypeError):
        DAILY & "22:00-07:00"  # type: ignore[operator]


def test_a_callable_that_can_not_be_hashed_is_refused_by_name() -> None:
    class Zones:
        __hash__ = None  # type: ignore[assignment]  # as that of a plain dataclass

        def __call__(self, timeline: str) -> str:
            return "UTC"

    with pytest.raises(ConfigError, match=r"^tz: .* can't be hashed"):
        Window.daily("09:00", tz=Zones())


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (Window.hours("09:00-09:01", tz="UTC"), 60),
        (Window.hours("09:00-10:00", "12:00-12:05", tz="UTC"), 300),
        (Window.hours("09:00-10:00", tz="UTC", jitter=3540), 60),
        (Window.hours("09:00-10:00", tz="UTC") & Window.quiet("09:02-22:00", tz="UTC"), 120),
        (Window.daily("09:00", tz="UTC") & Window.hours("09:00-09:01", tz="UTC"), 60),
        (Window.hours("09:00-09:01", tz=lambda timeline: "Asia/Tokyo"), 60),
    ],
)
def test_hours_that_are_shorter_than_two_looks_may_be_missed(window: Window, seconds: float) -> None:
    assert window.missed_by(seconds / 2) is None
    assert f"is open for {seconds} s" in (window.missed_by(seconds / 2 + 1) or "")


@pytest.mark.parametrize(
    "window", [Window.daily("09:00", tz="UTC"), Window.hours("00:00-24:00", tz="UTC")], ids=["times", "always open"]
)
def test_times_are_never_missed_nor_are_hours_that_never_end(window: Window) -> None:
    assert window.missed_by(86_400) is None
