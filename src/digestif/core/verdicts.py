"""What becomes of a digest after an attempt: a decision as a value, made without a clock and without I/O."""

from dataclasses import dataclass

from digestif.core.policy import Policy
from digestif.core.texts import reason_of, shortened
from digestif.core.times import Millis, is_duration, to_millis
from digestif.errors import ConfigError

PATIENCE = 60.0  # seconds, for a receiver that asks for it and does not say how much


class RetryLater(Exception):
    """Raise it in a handler: the attempt failed, try again after so many seconds.

    Without `after` the policy's retry says when. It counts as an attempt; after the last one the digest is buried.
    """

    def __init__(
        self, reason: str = "the handler asked to be called again later", *, after: float | None = None
    ) -> None:
        if after is not None and not is_duration(after):
            raise ConfigError(f"after: {shortened(after)} is not a number of seconds ≥ 0")
        super().__init__(reason)
        self.after = after


class Discard(Exception):
    """Raise it in a handler: nobody wants this digest. It is not delivered, and its records count as deleted."""

    def __init__(self, reason: str = "the handler discarded it") -> None:
        super().__init__(reason)


class DeliveryFailed(Exception):
    """A channel could not deliver. `retry` says whether it is worth trying again, `after` how many seconds from now.

    Raise it in a channel or a handler. Without `retry` the digest is buried at once. `throttled` says that the receiver
    asked for patience: it comes again later, together with what is added until then, and that counts as no attempt.
    """

    def __init__(self, reason: str, *, retry: bool = True, after: float | None = None, throttled: bool = False) -> None:
        if after is not None and not is_duration(after):
            raise ConfigError(f"after: {shortened(after)} is not a number of seconds ≥ 0")
        super().__init__(reason)
        self.retry = retry
        self.after = after
        self.throttled = throttled


@dataclass(frozen=True, slots=True)
class Deliver:
    """It was delivered."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """It failed and comes again after a delay."""

    delay: Millis | None  # None: at once
    reason: str


@dataclass(frozen=True, slots=True)
class Bury:
    """It is given up and becomes a dead letter."""

    reason: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Nobody wants it."""

    reason: str


@dataclass(frozen=True, slots=True)
class PutOff:
    """Nothing was tried, or nobody knows how it ended: it comes again, and the attempt does not count."""

    delay: Millis | None  # None: at once
    unknown: bool = False  # it may have gone out, so it comes again exactly as it was
    reason: str = ""  # of a receiver that asked for patience


Verdict = Deliver | TryAgain | Bury | Drop | PutOff


def judge(error: BaseException | None, *, attempt: int, policy: Policy, chance: float) -> Verdict:
    """The verdict on an attempt that ended with this error, or with none."""
    match error:
        case None:
            return Deliver()
        case Discard():
            return Drop(reason_of(error))
        case DeliveryFailed(throttled=True):
            patience = max(PATIENCE, policy.retry.delay(attempt, chance=chance))
            return PutOff(to_millis(patience if error.after is None else error.after), reason=reason_of(error))
        case DeliveryFailed(retry=False):
            return Bury(reason_of(error))
        case _ if attempt >= policy.attempts:
            return Bury(reason_of(error))
        case RetryLater(after=after) | DeliveryFailed(after=after) if is_duration(after):
            assert after is not None
            return TryAgain(to_millis(after), reason_of(error))
        case _:
            return TryAgain(to_millis(policy.retry.delay(attempt, chance=chance)), reason_of(error))


def is_poison(lapses: int, policy: Policy) -> bool:
    """True if delivering a digest has ended so many of its workers that nobody should try again."""
    return lapses >= policy.lapses


def poison(lapses: int) -> Bury:
    return Bury(f"{lapses} leases lapsed: delivering it seems to end its workers")
