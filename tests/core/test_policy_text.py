"""Policies as text: one form for people, configuration and stores."""

from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from digestif import ConfigError, Exponential, Intervals, Policy, Retry, Window
from digestif.core.durations import read_duration, written_duration
from digestif.core.policy_text import debounce
from tests.core.calendar_oracle import combined, rules

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("default", Policy()),
        ("immediate", Policy.immediate()),
        ("hourly", Policy.hourly()),
        ("hourly,capacity=50", Policy.hourly(capacity=50)),
        ("minimum=1m,increment=10s,maximum=5m", Policy(minimum_delay=60, increment_delay=10, maximum_delay=300)),
        ("debounce:2m/15m", Policy.debounce(quiet=120, maximum=900)),
        ("daily@09:00 Europe/Berlin", Policy.daily("09:00", tz=BERLIN)),
        ("daily@09:00+17:00 Europe/Berlin", Policy.daily("09:00", "17:00", tz=BERLIN)),
        ("daily@09:00 UTC jitter=10m urgent", Policy.daily("09:00", tz="UTC", jitter=600, urgent=True)),
        ("daily@09:00 UTC,first=5m,ttl=30d", Policy.daily("09:00", tz="UTC", first_delay=300, ttl=30 * 86_400)),
        ("weekly@mon 08:30 Europe/Berlin", Policy.weekly("mon 08:30", tz=BERLIN)),
        ("weekly@mon,thu 08:30 UTC,max_records=5", Policy.weekly("mon,thu 08:30", tz="UTC", max_records=5)),
        ("weekly@mon-sun 08:30 UTC", Policy.weekly("mon-sun 08:30", tz="UTC")),
        ("quiet@22:00-07:00 Europe/Berlin", Policy.quiet_hours("22:00-07:00", tz=BERLIN)),
        (
            "window=cron@0,30 8-18 * * MON,TUE UTC & hours@mon-fri 08:00-18:00+sat 10:00-24:00 Europe/Berlin",
            Policy(
                window=Window.cron("0,30 8-18 * * mon,tue", tz="UTC")
                & Window.hours("mon-fri 08:00-18:00", "sat 10:00-24:00", tz=BERLIN)
            ),
        ),
        ("immediate,window=monthly@last 08:00 UTC", Policy.immediate(window=Window.monthly(-1, "08:00", tz="UTC"))),
        ("first=5m,backoff=exponential 5m 2", Policy.stepped(Exponential(300, limit=2))),
        (
            "backoff=intervals 0:30s 1:5m else 15m,ttl=none",
            Policy(backoff=Intervals({0: 30, 1: 300}, default=900), ttl=None),
        ),
        ("retry=1s*3..1h~0.5", Policy(retry=Retry(initial=1, factor=3, jitter=0.5))),
        (
            "capacity=none,max_bytes=none,attempts=3,lapses=1,redelivery=same",
            Policy(capacity=None, max_bytes=None, attempts=3, lapses=1, redelivery="same"),
        ),
    ],
)
def test_a_policy_and_its_text(text: str, policy: Policy) -> None:
    assert str(policy) == text
    assert Policy.parse(text) == policy


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (" minimum = 60s , maximum_delay=300 ", Policy(minimum_delay=60, maximum_delay=300)),
        ("default,ttl=1d12h", Policy(ttl=129_600)),
        ("hourly,minimum=10m", Policy.hourly(minimum_delay=600)),
        ("daily@ 9:00 UTC", Policy.daily("09:00", tz="UTC")),
        ("minimum=500ms", Policy(minimum_delay=0.5)),
        ("quiet=none", Policy()),
        ("monthly@last 08:00 UTC", Policy.immediate(window=Window.monthly(-1, "08:00", tz="UTC"))),
        (
            "cron@0,30 8 * * * UTC,capacity=5",
            Policy.immediate(window=Window.cron("0,30 8 * * *", tz="UTC"), capacity=5),
        ),
        ("hours@mon-fri 08:00-18:00 UTC", Policy(window=Window.hours("mon-fri 08:00-18:00", tz="UTC"))),
        ("daily@09:00 UTC urgent jitter=10m", Policy.daily("09:00", tz="UTC", jitter=600, urgent=True)),
    ],
)
def test_a_text_may_be_written_in_other_ways(text: str, policy: Policy) -> None:
    assert Policy.parse(text) == policy


def test_a_head_of_several_rules_has_delays_only_if_all_of_them_are_hours() -> None:
    daily, quiet = Window.daily("09:00", tz="UTC"), Window.quiet("sat,sun 00:00-24:00", tz="UTC")
    hours = Window.hours("08:00-18:00", tz="UTC")

    assert Policy.parse(f"{daily} & {quiet}") == Policy.immediate(window=daily & quiet)
    assert Policy.parse(f"{quiet} & {daily}") == Policy.immediate(window=quiet & daily)
    assert Policy.parse(f"{quiet} & {hours}") == Policy(window=quiet & hours)


def test_every_field_of_a_policy_can_be_written() -> None:
    changed = {
        "first_delay": 1,
        "minimum_delay": 2,
        "increment_delay": 3,
        "maximum_delay": 400,
        "quiet": 5,
        "backoff": Exponential(1, 2),
        "max_records": 5,
        "capacity": 6,
        "max_bytes": 7,
        "ttl": 86_400,
        "attempts": 9,
        "retry": Retry(initial=10),
        "lapses": 11,
        "give_up_after": 12,
        "redelivery": "same",
        "window": Window.quiet("22:00-23:00", tz="UTC"),
    }

    assert set(changed) == {field.name for field in fields(Policy)}
    for name, value in changed.items():
        policy = Policy(**{name: value})  # type: ignore[arg-type]
        assert str(policy) != "default"
        assert Policy.parse(str(policy)) == policy


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "policy: '' is not the text of a policy"),
        (5, "policy: 5 is not the text"),
        ("dayly@09:00 UTC", "policy: 'dayly@09:00 UTC' is unknown; did you mean daily@"),
        ("hourli", "policy: 'hourli' is unknown; did you mean hourly"),
        ("hourly@09:00 UTC", "policy: 'hourly@09:00 UTC' is unknown; did you mean hourly"),
        ("daily", "policy: 'daily' is unknown; did you mean daily@"),
        ("montly@1 09:00 UTC", "policy: 'montly@1 09:00 UTC' is unknown; did you mean monthly@"),
        ("DAILY@09:00 UTC", "policy: 'DAILY@09:00 UTC' is unknown; did you mean daily@"),
        ("Immediate", "policy: 'Immediate' is unknown; did you mean immediate"),
        ("daily 09:00 UTC", "policy: 'daily 09:00 UTC' is unknown; did you mean daily@"),
        (",capacity=5", "policy: '' is unknown; there are default"),
        ("debounce 2m/15m", "policy: 'debounce 2m/15m' is unknown; did you mean debounce:2m/15m"),
        ("x", "policy: 'x' is unknown; there are default, .*debounce.*, daily@.*, cron@.*, quiet@"),
        ("daily@09:00 UTC urgent urgent", "window: .* has urgent twice"),
        ("daily@09:00 UTC jitter=5m urgent jitter=5m", "window: .* has jitter twice"),
        ("daily@09:00 jitter=5m", "window: 'daily@09:00 jitter=5m' lacks a time zone; write daily@09:00 Europe/Berlin"),
        ("debounce:5m", "policy: 'debounce:5m' lacks the longest wait"),
        ("debounce:5m/x", "debounce: 'x' is not a duration"),
        ("daily@9 am Europe/Berlin", "daily: '9 am' is not a time of day"),
        ("daily@09:00", "window: 'daily@09:00' lacks a time zone; write daily@09:00 Europe/Berlin"),
        ("weekly@mon 09:00", "window: .* lacks a time zone; write weekly@mon 09:00 Europe/Berlin"),
        ("cron@0 9 * * *", r"window: .* lacks a time zone; write cron@0 9 \* \* \* Europe/Berlin"),
        ("daily@", "window: .* lacks a time zone; write daily@09:00 Europe/Berlin"),
        ("daily@ UTC", "window: .* lacks a time; write daily@09:00 UTC"),
        ("hours@UTC", "window: .* lacks hours; write hours@mon-fri 08:00-18:00 UTC"),
        ("weekly@mon", "window: .* lacks a time; write weekly@mon 08:30 Europe/Berlin"),
        ("monthly@last", "window: .* lacks a time; write monthly@1 08:00 Europe/Berlin"),
        ("daily@+02:00", "window: .* lacks a time; write daily@09:00 Europe/Berlin"),
        ("monthly@1 UTC", 'monthly: give at least one, such as "08:00"'),
        ("5m", "policy: '5m' is unknown; there are default, .*, minimum=5m"),
        ("daily@09:00 Europe/Berln", "tz: .* did you mean Europe/Berlin"),
        ("weekly@mun 08:30 UTC", "weekly: .* did you mean sun"),
        ("minimun=5m", "minimun: no such part of a policy; did you mean minimum"),
        ("minimum=5x", "minimum: '5x' is not a duration such as 90s"),
        ("minimum=", "minimum: '' is not a duration"),
        ("minimum=none", "minimum: 'none' is not a duration"),
        ("minimum=5m,minimum_delay=3m", "minimum_delay: given twice"),
        ("minimum=2h", "minimum_delay: 7200 is more than maximum_delay"),
        ("capacity=0", "capacity: 0 is not a whole number"),
        ("capacity=many", "capacity: 'many' is not a whole number"),
        ("backoff=exp 3", "backoff: 'exp 3' is neither exponential"),
        ("backoff=", "backoff: "),
        ("backoff=intervals 0:30s", "backoff: "),
        ("backoff=exponential 5m 65", "limit: 65"),
        ("retry=5s", "retry: '5s' is not a ladder such as 5s"),
        ("retry=5s*x..1h~0.2", "retry: 'x' is not a number"),
        ("redelivery=maybe", "redelivery: 'maybe'"),
        ("window=dialy@09:00 UTC", "window: .* did you mean daily"),
        ("window=DAILY@09:00 UTC", "window: .* did you mean daily"),
        ("window=", "window: "),
        ("weekly@mon 09:00 UTC,ttl=8d", "ttl: .* at least 14d"),
    ],
)
def test_a_wrong_text_is_a_config_error_that_names_the_part(text: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^{complaint}"):
        Policy.parse(text)


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (Policy(backoff=lambda n: 5.0), "backoff"),
        (Policy.daily("09:00", tz=lambda _: "UTC"), "window"),
        (Policy.immediate(window=Window.monthly(1, "09:00", tz=lambda _: "UTC")), "window"),
    ],
)
def test_a_policy_with_a_callable_can_not_be_written(policy: Policy, field: str) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: .* can't be written as text"):
        str(policy)


# Numbers and names of other types


class Measured(float):
    """A number that is written as no text form is, as those of numpy are."""

    def __repr__(self) -> str:
        return f"np.float64({float(self)!r})"

    __str__ = __repr__


class Named(str, Enum):  # noqa: UP042  # not a StrEnum, which is written as its value anyway
    BERLIN = "Europe/Berlin"
    SAME = "same"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Policy(minimum_delay=Measured(0.5)), "minimum=0.5s"),
        (Policy(minimum_delay=Measured(60)), "minimum=1m"),
        (Policy.debounce(quiet=Measured(0.5), maximum=Measured(1.5)), "debounce:0.5s/1.5s"),
        (Policy(backoff=Exponential(Measured(0.5), 2)), "backoff=exponential 0.5s 2"),
        (Policy(backoff=Intervals({0: Measured(0.5)}, Measured(60))), "backoff=intervals 0:0.5s else 1m"),
        (
            Policy(retry=Retry(initial=Measured(0.5), factor=Measured(1.5), jitter=Measured(0.1))),
            "retry=0.5s*1.5..1h~0.1",
        ),
        (Policy.daily("09:00", tz="UTC", jitter=Measured(0.5)), "daily@09:00 UTC jitter=0.5s"),
        (Policy.daily("09:00", tz=Named.BERLIN), "daily@09:00 Europe/Berlin"),
        (Policy(redelivery=Named.SAME), "redelivery=same"),  # type: ignore[arg-type]  # equal to a name that is right
    ],
)
def test_a_subclass_of_a_number_or_a_text_is_written_as_its_plain_value(policy: Policy, text: str) -> None:
    assert str(policy) == text
    assert Policy.parse(text) == policy


@pytest.mark.parametrize("iteration", [10**19, 10**5000], ids=["long", "huge"])
def test_an_iteration_that_could_not_be_read_back_can_not_be_written(iteration: int) -> None:
    with pytest.raises(ConfigError, match=r"^backoff: .* can't be written as text"):
        str(Policy(backoff=Intervals({iteration: 60}, 60)))


# Random policies

delays = st.floats(0, 1e4) | st.integers(0, 100_000) | st.sampled_from([0.1, 1 / 3, 1e-7, 60.0, 90.0])
counts = st.none() | st.integers(1, 10**12)


def _debounce(**options: Any) -> Policy:
    return Policy(**{**debounce(60.5, 600), **options})


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    minimum, maximum = sorted([draw(delays), draw(delays)])
    backoff = draw(
        st.none()
        | st.builds(Exponential, delays, st.integers(0, 5))
        | st.builds(Intervals, st.dictionaries(st.integers(0, 300), delays, max_size=3), delays)
    )
    options: dict[str, Any] = {
        "first_delay": draw(delays),
        "minimum_delay": minimum,
        "increment_delay": draw(delays),
        "maximum_delay": maximum,
        "quiet": draw(st.none() | st.just(minimum)),
        "backoff": backoff,
        "max_records": draw(counts),
        "capacity": draw(counts),
        "max_bytes": draw(counts),
        "attempts": draw(st.integers(1, 10**6)),
        "retry": draw(st.builds(Retry, initial=delays, factor=delays, maximum=delays, jitter=st.floats(0, 1))),
        "lapses": draw(st.integers(1, 9)),
        "redelivery": draw(st.sampled_from(["merge", "same"])),
        "window": combined(draw(rules((1, 1)))) if draw(st.booleans()) else None,
        "ttl": draw(st.none() | st.floats(5e9, 1e10)),
    }
    kept = draw(st.sets(st.sampled_from(sorted(options))))
    presets: list[Callable[..., Policy]] = [Policy, Policy.immediate, Policy.hourly, _debounce]
    preset = draw(st.sampled_from(presets))
    try:
        made: Policy = preset(**{name: value for name, value in options.items() if name in kept})
    except ConfigError:  # the fields do not fit each other
        made = Policy(**options | {"ttl": None})
    return made


@settings(max_examples=80, deadline=None)
@given(policies())
def test_every_policy_without_a_callable_reads_back_equal(policy: Policy) -> None:
    assert Policy.parse(str(policy)) == policy
    assert str(Policy.parse(str(policy))) == str(policy)


@given(st.floats(0, 1e10) | st.integers(0, 10**10))
def test_a_duration_reads_back_to_the_last_bit(seconds: float) -> None:
    assert read_duration("ttl", written_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "1m30s"), (300, "5m"), (5400, "1h30m"), (172_800, "2d"), (0.5, "0.5s"), (90_061, "1d1h1m1s")],
)
def test_durations_are_written_as_people_say_them(seconds: float, text: str) -> None:
    assert written_duration(seconds) == text
