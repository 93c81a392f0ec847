"""What the page about a week says is so: its tables and its picture are made anew, its sentences are asserted."""

import re
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from digestif import Policy
from tests.docs.pages import blocks
from tests.docs.week.events import BERLIN, SPRING, WEEKS, Storm, Week, arrivals, is_night, local, storms
from tests.docs.week.outcomes import POLICIES, Delivery, Outcome, outcomes
from tests.docs.week.page import PAGE, written
from tests.docs.week.picture import PICTURE, draw

HALF_AN_HOUR = 1800

each_policy = pytest.mark.parametrize("policy", POLICIES)
each_week = pytest.mark.parametrize("week", WEEKS, ids=lambda week: week.name)

Found = dict[str, dict[str, Outcome]]


@pytest.fixture(scope="module")
def found() -> Found:
    """The outcome of each week with each policy."""
    return {week.name: outcomes(week) for week in WEEKS}


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text("utf-8")


# The page and the picture


def test_the_tables_of_the_page_are_the_real_ones(page: str, found: Found) -> None:
    """If not: ./dev python -m tests.docs.week."""
    assert page == written(page, found)


def test_the_picture_is_the_real_one(found: Found) -> None:
    """Byte for byte. If not: ./dev python -m tests.docs.week."""
    assert PICTURE.read_bytes() == draw(SPRING, found["spring"]).encode()


def test_the_page_shows_the_policies_that_were_used(page: str) -> None:
    namespace: dict[str, dict[str, Policy]] = {}
    exec(blocks(page)[0].text, namespace)

    assert namespace["policies"] == POLICIES


# Events


@each_week
def test_a_week_has_all_that_the_page_says(page: str, week: Week) -> None:
    least, most, shortest, longest = claimed(page, r"storms of (\d+) to (\d+)\nevents within (\d+) to (\d+) minutes")
    times, bursts = arrivals(week), storms(week)
    at_work = [at for at in times if local(at).weekday() < 5 and 8 <= local(at).hour < 18]

    assert (least, most) == (min(storm.events for storm in bursts), max(storm.events for storm in bursts))
    assert (shortest, longest) == (min(storm.minutes for storm in bursts), max(storm.minutes for storm in bursts))
    assert len(bursts) == 5
    assert sum(is_night(storm.start) for storm in bursts) == 2
    assert sum(storm.start < week.change.timestamp() < end(storm) for storm in bursts) == 1
    assert len(at_work) > len(times) / 2
    assert {local(at).weekday() for at in times} == set(range(7))


@each_week
def test_the_clock_changes_in_the_middle_of_the_week(week: Week) -> None:
    at = week.change.timestamp()

    assert local(at - 1).utcoffset() != local(at).utcoffset()
    assert local(at).weekday() == 6
    assert week.moment(3, 0) < at < week.moment(4, 0)


# Every policy


@each_week
@each_policy
def test_every_event_is_delivered_exactly_once_and_not_before_it_arrived(found: Found, week: Week, policy: str) -> None:
    outcome = found[week.name][policy]
    delivered = [event for delivery in outcome.deliveries for event in delivery.events]

    assert delivered == list(range(len(outcome.times)))
    assert min(outcome.waits) >= 0


@each_week
@pytest.mark.parametrize(
    ("policy", "bound"),
    [
        ("default", timedelta(minutes=30)),  # maximum_delay
        ("hourly", timedelta(hours=1)),  # the cool-down
        ("daily", timedelta(hours=25)),  # from 09:00 to 09:00 on the long day
        ("quiet hours", timedelta(hours=10, minutes=30)),  # maximum_delay, then the long night
    ],
)
def test_no_event_waits_longer_than_the_policy_allows(found: Found, week: Week, policy: str, bound: timedelta) -> None:
    assert POLICIES[policy].longest_wait == bound.total_seconds()
    assert max(found[week.name][policy].waits) <= bound.total_seconds()


@each_week
@each_policy
def test_a_storm_is_a_few_messages(page: str, found: Found, week: Week, policy: str) -> None:
    (most,) = claimed(page, r"No policy makes more than (\d+) messages of any of the storms")
    outcome = found[week.name][policy]

    assert [storm for storm in storms(week) if len(messages_of(storm, outcome)) > most] == []


def messages_of(storm: Storm, outcome: Outcome) -> list[Delivery]:
    return [
        delivery
        for delivery in outcome.deliveries
        if any(storm.start <= outcome.times[event] <= end(storm) for event in delivery.events)
    ]


def end(storm: Storm) -> float:
    return storm.start + 60 * storm.minutes


# One policy each


@each_week
def test_the_default_sends_fewer_messages_than_events(page: str, found: Found, week: Week) -> None:
    """By the factor that the page claims."""
    (factor,) = claimed(page, r"one message for (\d+) events on average")
    outcome = found[week.name]["default"]

    assert factor * len(outcome.deliveries) <= len(outcome.times)


@each_week
def test_the_default_keeps_its_cool_down(found: Found, week: Week) -> None:
    times = [delivery.at for delivery in found[week.name]["default"].deliveries]

    assert min(after - before for before, after in pairwise(times)) >= Policy().minimum_delay


@each_week
def test_hourly_messages_are_an_hour_apart_and_well_under_half_of_the_default(found: Found, week: Week) -> None:
    times = [delivery.at for delivery in found[week.name]["hourly"].deliveries]

    assert min(after - before for before, after in pairwise(times)) >= 3600
    assert len(times) < 0.45 * len(found[week.name]["default"].deliveries)


@each_week
def test_exactly_one_daily_digest_leaves_on_each_day_also_when_the_clock_changes(found: Found, week: Week) -> None:
    """At nine, from Thursday to the Thursday after."""
    days = [week.change.date() + timedelta(days=day - 3) for day in range(8)]
    delivered = [local(delivery.at).replace(tzinfo=None) for delivery in found[week.name]["daily"].deliveries]

    assert delivered == [datetime(day.year, day.month, day.day, 9) for day in days]  # noqa: DTZ001  # in Berlin


@each_week
def test_a_daily_digest_carries_what_arrived_since_the_one_before(found: Found, week: Week) -> None:
    outcome = found[week.name]["daily"]
    expected = [next_nine(at) for at in outcome.times]

    assert [delivery.at for delivery in outcome.deliveries for _ in delivery.events] == expected


def next_nine(at: float) -> float:
    """The first 09:00 in Berlin at or after an instant."""
    date = (local(at).replace(tzinfo=None) + timedelta(hours=15) - timedelta(microseconds=1)).date()
    return datetime(date.year, date.month, date.day, 9, tzinfo=BERLIN).timestamp()


@each_week
def test_nothing_leaves_at_night_with_quiet_hours(found: Found, week: Week) -> None:
    """The default does send at night."""
    assert found[week.name]["quiet hours"].at_night == []
    assert found[week.name]["default"].at_night != []


@each_week
def test_with_quiet_hours_what_waits_longer_than_half_an_hour_leaves_together_at_seven(
    found: Found, week: Week
) -> None:
    outcome = found[week.name]["quiet hours"]
    late = [one for one in outcome.deliveries if one.at - outcome.times[one.events[0]] > HALF_AN_HOUR]

    assert {f"{local(delivery.at):%H:%M:%S}" for delivery in late} == {"07:00:00"}
    assert week.moment(3, 7) in [delivery.at for delivery in late]  # after the night of the change
    assert [at for at in outcome.times if is_night(at)] == [
        outcome.times[event] for one in late for event in one.events if is_night(outcome.times[event])
    ]


def claimed(page: str, pattern: str) -> list[int]:
    """The numbers in a sentence of the page."""
    (sentence,) = re.finditer(pattern, page)
    return [int(number) for number in sentence.groups()]
