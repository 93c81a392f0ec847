"""Policies are checked as a whole, and say what is wrong with them."""

from typing import Any

import pytest

from digestif import ConfigError, Exponential, Intervals, Policy, Retry, Window
from digestif.intake.overrides import override_of


def test_the_three_delays_default_to_five_minutes_thirty_seconds_and_half_an_hour() -> None:
    policy = Policy()

    assert (policy.minimum_delay, policy.increment_delay, policy.maximum_delay) == (300, 30, 1800)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"minimum_delay": 10, "maximum_delay": 5}, "minimum_delay"),
        ({"maximum_delay": 100, "minimum_delay": 1, "ttl": 199}, "ttl"),
        ({"first_delay": 4 * 86_400}, "ttl"),
        ({"backoff": Exponential(86_400, limit=5)}, "ttl"),
        ({"quiet": 2000}, "quiet"),
        ({"first_delay": 10**5000}, "first_delay"),
        ({"backoff": 5}, "backoff"),
        ({"minimum_delay": -1}, "minimum_delay"),
        ({"increment_delay": float("nan")}, "increment_delay"),
        ({"maximum_delay": float("inf")}, "maximum_delay"),
        ({"first_delay": True}, "first_delay"),
        ({"first_delay": "5"}, "first_delay"),
        ({"first_delay": 10**400}, "first_delay"),
        ({"quiet": -5}, "quiet"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": 1.5}, "capacity"),
        ({"max_records": 0}, "max_records"),
        ({"attempts": 0}, "attempts"),
        ({"lapses": 0}, "lapses"),
        ({"retry": 5}, "retry"),
        ({"redelivery": "maybe"}, "redelivery"),
        ({"window": "09:00-17:00"}, "window: '09:00-17:00' is not a Window"),
        ({"window": "daily@09:00 UTC"}, "window: .* is not a Window .*; Window.parse reads a text"),
        ({"minimum": 5}, "minimum: no such option of Policy; did you mean"),
        (
            {"minimum_delay": "5m"},
            r'minimum_delay: \'5m\' is not a number .*; write 300, or Policy.parse\("minimum=5m"\)',
        ),
        ({"ttl": " 2d"}, r'ttl: .*; write 172800, or Policy.parse\("ttl=2d"\)'),
        ({"quiet": "soon"}, r"quiet: 'soon' is not a number of seconds from 0 to 1e\+10$"),
        ({"minimum_delay": 3600}, "minimum_delay: 3600 is more than maximum_delay 1800; make that at least 3600"),
    ],
)
def test_a_wrong_policy_is_a_config_error_that_names_the_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{field}"):
        Policy(**options)


def test_a_policy_without_names_of_options_says_how_to_read_a_text() -> None:
    with pytest.raises(ConfigError, match=r"Policy: 'daily@09:00 UTC' is no option; .*; Policy.parse reads a text"):
        positional: Any = Policy
        positional("daily@09:00 UTC")


def test_presets_have_the_names_people_say() -> None:
    strategy = Intervals({0: 30, 1: 300}, default=900)

    assert Policy.immediate() == Policy(minimum_delay=0, increment_delay=0, maximum_delay=0)
    assert Policy.debounce(quiet=60, maximum=600).quiet == 60
    assert Policy.hourly(capacity=5).capacity == 5
    assert Policy.stepped(strategy).first_delay == 30
    assert Policy.stepped(strategy).backoff is strategy


def test_a_backoff_never_waits_so_long_that_records_could_expire() -> None:
    policy = Policy(backoff=lambda n: 10.0 if n < 64 else 10_000_000.0, ttl=3600)

    assert policy.cool_down(1) == 10_000
    assert policy.cool_down(64) == 1_800_000


@pytest.mark.parametrize(
    ("backoff", "complaint"),
    [
        (lambda n: float("nan"), "backoff: gives nan for iteration 7"),
        (lambda n: -1.0, "backoff: gives -1.0"),
        (lambda n: "soon", "backoff: gives 'soon'"),
        ([10, 20].__getitem__, "backoff: fails for iteration 7: IndexError"),
    ],
)
def test_a_backoff_that_misbehaves_is_named_when_it_is_asked(backoff: Any, complaint: str) -> None:
    policy = Policy(backoff=backoff)

    with pytest.raises(ConfigError, match=complaint):
        policy.cool_down(7)


@pytest.mark.parametrize("backoff", [lambda n: 2**n, lambda n: 60 * 2.0**n, lambda n: 10**5000 if n else 0])
def test_any_callable_serves_as_a_backoff(backoff: Any) -> None:
    policy = Policy(backoff=backoff)

    assert policy.cool_down(0) == backoff(0) * 1000
    assert policy.cool_down(60) == policy.ttl * 1000 / 2  # type: ignore[operator]


def test_retries_double_up_to_a_maximum_and_chance_shortens_them() -> None:
    retry = Retry(initial=5, factor=2, maximum=60, jitter=0.2)

    assert [retry.delay(attempt, chance=0) for attempt in (1, 2, 3, 4, 5, 500)] == [5, 10, 20, 40, 60, 60]
    assert retry.delay(1, chance=0.5) == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Exponential(-1, 2), "base"),
        (lambda: Exponential(1, -1), "limit"),
        (lambda: Exponential(1, 65), "limit"),
        (lambda: Intervals({-1: 5}, 5), "steps"),
        (lambda: Intervals({0: -5}, 5), "steps"),
        (lambda: Intervals({}, float("inf")), "default"),
        (lambda: Retry(initial=-1), "retry.initial"),
        (lambda: Retry(jitter=2), "retry.jitter"),
    ],
)
def test_a_wrong_strategy_is_a_config_error_that_names_the_field(make: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{field}"):
        make()


# Windows

DAY = 86_400


def test_calendar_presets_have_no_delays_of_their_own_and_quiet_hours_the_default_ones() -> None:
    daily = Policy.daily("09:00", "17:00", tz="Europe/Vienna", jitter=600, urgent=True, capacity=5)

    assert daily == Policy(
        first_delay=0,
        minimum_delay=0,
        increment_delay=0,
        maximum_delay=0,
        capacity=5,
        window=Window.daily("09:00", "17:00", tz="Europe/Vienna", jitter=600, urgent=True),
    )
    assert Policy.weekly("mon 08:30", tz="UTC") == Policy.immediate(window=Window.weekly("mon 08:30", tz="UTC"))
    assert Policy.quiet_hours("22:00-07:00", tz="UTC") == Policy(window=Window.quiet("22:00-07:00", tz="UTC"))


def test_the_ttl_grows_with_the_gap_of_the_window() -> None:
    assert Policy.daily("09:00", tz="UTC").ttl == 7 * DAY
    assert Policy.weekly("mon 08:30", tz="UTC").ttl == pytest.approx(2.1 * 7 * DAY)
    assert Policy.weekly("mon 08:30", tz="UTC", first_delay=DAY).ttl == pytest.approx(2.1 * 8 * DAY)
    assert Policy.weekly("mon 08:30", tz="UTC", ttl=None).ttl is None
    assert Policy.weekly("mon 08:30", tz="UTC", ttl=30 * DAY).ttl == 30 * DAY


def test_a_ttl_that_is_too_short_for_the_window_is_a_config_error_that_says_how_long_it_must_be() -> None:
    with pytest.raises(ConfigError, match=r"^ttl: .* make it at least 14d$"):
        Policy.weekly("mon 08:30", tz="UTC", ttl=13 * DAY)

    assert Policy.weekly("mon 08:30", tz="UTC", ttl=14 * DAY).ttl == 14 * DAY


def test_the_longest_wait_is_that_of_the_delays_and_then_of_the_window() -> None:
    assert Policy(window=Window.quiet("22:00-07:00", tz="UTC")).longest_wait == 1800 + 9 * 3600


def test_a_cool_down_leaves_room_for_the_gap_before_records_expire() -> None:
    policy = Policy(backoff=lambda _: 1e9, window=Window.weekly("mon 08:30", tz="UTC"), ttl=20 * DAY)

    assert policy.cool_down(5) == 3 * DAY * 1000


def test_openings_reach_as_far_as_the_longest_delay() -> None:
    hourly = Policy(window=Window.cron("0 * * * *", tz="UTC"), maximum_delay=10 * 3600)

    assert len(hourly.openings("t", 0).numbers) == 12  # type: ignore[union-attr]
    assert len(hourly.openings("t", 0, far=True).numbers) == 12  # type: ignore[union-attr]
    assert len(hourly.openings("t", 0).numbers) == 12  # type: ignore[union-attr]
    assert Policy().openings("t", 0) is None


def test_in_zone_moves_the_window_and_lets_the_ttl_follow() -> None:
    assert Policy.weekly("mon 08:30", tz="UTC").in_zone("Asia/Tokyo") == Policy.weekly("mon 08:30", tz="Asia/Tokyo")
    assert Policy.weekly("sun 02:30", tz="UTC").in_zone("Europe/Rome") == Policy.weekly("sun 02:30", tz="Europe/Rome")
    assert Policy.daily("09:00", tz="UTC", ttl=9 * DAY).in_zone("Asia/Tokyo").ttl == 9 * DAY
    assert Policy().in_zone("Asia/Tokyo") == Policy()


# Cool-downs for stores


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(), (300_000,)),
        (Policy.stepped(Exponential(300, limit=2)), (300_000, 600_000, 1_200_000)),
        (Policy.stepped(Intervals({0: 30, 2: 300}, default=900)), (30_000, 900_000, 300_000, 900_000)),
        (Policy(backoff=Intervals({}, default=900)), (900_000,)),
    ],
)
def test_cool_downs_are_listed_until_they_stay_the_same(policy: Policy, expected: tuple[int, ...]) -> None:
    assert policy.cool_downs() == expected
    assert policy.cool_down(1000) == expected[-1]


@pytest.mark.parametrize("backoff", [lambda n: 5.0, Intervals({256: 5}, default=1), Intervals({255: 5}, default=1)])
def test_cool_downs_that_can_not_be_listed_are_a_config_error(backoff: Any) -> None:
    with pytest.raises(ConfigError, match=r"^backoff: "):
        Policy(backoff=backoff).cool_downs()


# Stored for a timeline


class Renamed(Policy):
    """Says more than its text does."""


class Unread(Policy):
    def __str__(self) -> str:
        return "fortnightly"


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (Renamed(capacity=50), "policy: its text 'capacity=50' reads back as another policy"),
        (Unread(), "policy: its text 'fortnightly' can't be read back: policy: "),
    ],
)
def test_a_policy_that_its_text_does_not_give_back_is_not_stored(policy: Policy, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^{complaint}"):
        override_of(policy, "t", now=0)


def test_a_policy_is_stored_as_its_text() -> None:
    assert override_of(Policy.hourly(capacity=50), "t", now=0).text == "hourly,capacity=50"
