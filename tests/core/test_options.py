"""Options that do not exist are refused with the one that may be meant."""

from collections.abc import Callable
from typing import Any

import pytest

from digestif import AsyncDigests, ConfigError, Digests, Policy, Window


@pytest.mark.parametrize(
    "call",
    [
        Policy.daily,
        Policy.weekly,
        Policy.quiet_hours,
        Window.daily,
        Window.weekly,
        Window.hours,
        Window.quiet,
        Window.cron,
    ],
)
def test_a_zone_is_called_tz(call: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^zone: no such option of {call.__qualname__}; did you mean tz\?$"):
        call("22:00-07:00", zone="Europe/Berlin")


def test_a_misspelt_option_of_a_window_or_a_policy_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^jiter: no such option of Window\.monthly; did you mean jitter\?$"):
        Window.monthly(1, "08:00", tz="UTC", jiter=60)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"^capcity: no such option of Policy\.daily; did you mean capacity\?$"):
        Policy.daily("08:00", capcity=60)  # type: ignore[call-arg]

    assert Policy.daily("08:00", tz="UTC", capacity=60).capacity == 60


@pytest.mark.parametrize("engine", [Digests, AsyncDigests])
def test_a_misspelt_option_of_an_engine_is_named(engine: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^polcy: no such option of {engine.__name__}; did you mean policy\?$"):
        engine("memory://", polcy=Policy.hourly())
