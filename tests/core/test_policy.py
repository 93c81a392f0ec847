"""Policies are checked as a whole, and say what is wrong with them."""

from typing import Any

import pytest

from digestif import ConfigError, Exponential, Intervals, Policy, Retry


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
        ({"window": "09:00-17:00"}, "window"),
        ({"minimum": 5}, "minimum: no such option of Policy; did you mean"),
    ],
)
def test_a_wrong_policy_is_a_config_error_that_names_the_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{field}"):
        Policy(**options)


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
