"""How long to wait: backoff strategies for cool-downs, and the delays between attempts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from digestif.core.texts import shortened
from digestif.core.times import Duration, in_seconds, is_duration
from digestif.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base` doubled at each iteration, `limit` times at most: 300, 600, 1200, 1200… for (300, limit=2)."""

    base: float
    limit: int

    if TYPE_CHECKING:  # a timedelta is kept as its seconds

        def __init__(self, base: Duration, limit: int) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", in_seconds(self.base))
        if not is_duration(self.base):
            raise ConfigError(f"base: {shortened(self.base)} is not a number of seconds ≥ 0")
        if type(self.limit) is not int or not 0 <= self.limit <= 64:
            raise ConfigError(f"limit: {shortened(self.limit)} is not a whole number from 0 to 64")

    def __call__(self, iteration: int) -> float:
        return self.base * 2.0 ** min(iteration, self.limit)

    @property
    def longest(self) -> float:
        return self(self.limit)


@dataclass(frozen=True, slots=True)
class Intervals:
    """A delay for each listed iteration, and a default for the others."""

    steps: Mapping[int, float]
    default: float

    if TYPE_CHECKING:

        def __init__(self, steps: Mapping[int, Duration], default: Duration) -> None: ...

    def __post_init__(self) -> None:
        if any(isinstance(delay, timedelta) for delay in self.steps.values()):
            steps = {iteration: in_seconds(delay) for iteration, delay in self.steps.items()}
            object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "default", in_seconds(self.default))
        for iteration, delay in self.steps.items():
            if type(iteration) is not int or iteration < 0:
                raise ConfigError(f"steps: {shortened(iteration)} is not an iteration (a whole number ≥ 0)")
            if not is_duration(delay):
                raise ConfigError(f"steps: {shortened(delay)} is not a number of seconds ≥ 0")
        if not is_duration(self.default):
            raise ConfigError(f"default: {shortened(self.default)} is not a number of seconds ≥ 0")

    def __call__(self, iteration: int) -> float:
        return self.steps.get(iteration, self.default)

    @property
    def longest(self) -> float:
        return max([self.default, *self.steps.values()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The wait after a failed attempt: exponential up to a maximum, spread by jitter.

    The caller gives the random number (0 ≤ chance < 1), so that the rule stays pure.
    """

    initial: float = 5
    factor: float = 2
    maximum: float = 3600
    jitter: float = 0.2  # the delay is shortened by up to this share, at random

    if TYPE_CHECKING:

        def __init__(
            self, *, initial: Duration = ..., factor: float = ..., maximum: Duration = ..., jitter: float = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("initial", "maximum"):
            object.__setattr__(self, name, in_seconds(getattr(self, name)))
        for name in ("initial", "factor", "maximum"):
            if not is_duration(getattr(self, name)):
                raise ConfigError(f"retry.{name}: {shortened(getattr(self, name))} is not a finite number ≥ 0")
        if not is_duration(self.jitter) or self.jitter > 1:
            raise ConfigError(f"retry.jitter: {shortened(self.jitter)} is not a number from 0 to 1")

    def delay(self, attempt: int, *, chance: float) -> float:
        """Seconds to wait after the given attempt (1 is the first) failed."""
        try:
            delay = min(self.initial * self.factor ** min(attempt - 1, 64), self.maximum)
        except OverflowError:  # the factor is large
            delay = self.maximum
        return delay * (1 - self.jitter * chance)
