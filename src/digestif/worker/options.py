"""The numbers that a worker is given and their bounds: one rule for programs and for files of settings."""

from digestif.core.texts import shortened
from digestif.core.times import in_seconds, is_duration
from digestif.errors import ConfigError

LEAST_SECONDS = {"poll": 0.001, "grace": 0.0, "start_timeout": 0.001}  # options that are durations; the others count


def check_number(name: str, value: object) -> None:
    """Raise ConfigError if the worker would refuse this value of an option."""
    if name in LEAST_SECONDS:
        check_seconds(name, value)
    else:
        check_count(name, value)


def check_count(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name}: {shortened(value)} is not a whole number ≥ 1")


def check_seconds(name: str, value: object) -> float:
    """Return the seconds of a duration. Raises ConfigError if the option does not allow them."""
    least = LEAST_SECONDS[name]
    seconds: float = in_seconds(value)
    if not is_duration(seconds) or seconds < least:
        raise ConfigError(f"{name}: {shortened(value)} is not a number of seconds ≥ {least:g}")
    return seconds
