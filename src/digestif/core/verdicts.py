"""Verdicts: what happens to a digest after an attempt, decided without a clock and without I/O."""

from dataclasses import dataclass
from enum import StrEnum

from digestif.core.policy import Policy
from digestif.core.texts import reason_of, shortened
from digestif.core.times import Millis, is_duration, to_millis
from digestif.errors import ConfigError

PATIENCE = 60.0  # seconds to wait for a receiver that throttles without naming a time


class RetryLater(Exception):
    """Raise it in a handler: the attempt failed, try again after `after` seconds.

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
    """Raise it in a handler to discard the digest. It is not delivered, and its records count as deleted."""

    def __init__(self, reason: str = "the handler discarded it") -> None:
        super().__init__(reason)


class DeliveryFailed(Exception):
    """A channel could not deliver. `retry` says whether it is worth trying again, `after` how many seconds from now.

    Raise it in a channel or a handler. Without `retry` the digest is buried at once. `throttled` says that the receiver
    asked to wait: the digest is tried again later, merged with newer records, and the attempt does not count.
    """

    def __init__(self, reason: str, *, retry: bool = True, after: float | None = None, throttled: bool = False) -> None:
        if after is not None and not is_duration(after):
            raise ConfigError(f"after: {shortened(after)} is not a number of seconds ≥ 0")
        super().__init__(reason)
        self.retry = retry
        self.after = after
        self.throttled = throttled


class UnexpectedFailure(DeliveryFailed):
    """An unexpected exception in the delivery to one of several recipients; that exception is its `__cause__`."""


def is_deliberate(error: BaseException | None) -> bool:
    """True for errors that a channel or a handler raises on purpose: their traceback would say nothing new."""
    if isinstance(error, UnexpectedFailure):
        return False
    return error is None or isinstance(error, DeliveryFailed | RetryLater | Discard)


class Ending(StrEnum):
    """How an attempt ends."""

    DELIVERED = "delivered"
    FAILED = "failed"  # it counts, and the digest is tried again
    PUT_OFF = "put off"  # it does not count, and the digest is tried again
    RETURNED = "returned"  # as put off, but at once: the worker stops
    BURIED = "buried"  # the digest becomes a dead letter
    DISCARDED = "discarded"  # its records count as deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the outcome of an attempt means for its digest."""

    ending: Ending
    reason: str = ""
    delay: Millis | None = None  # until the next attempt; None: at once
    unknown: bool = False  # it may have gone out, so it is frozen
    error: BaseException | None = None  # raised by the handler, or while its call was prepared


DELIVERED = Verdict(ending=Ending.DELIVERED)


def judge(error: BaseException | None, *, attempt: int, policy: Policy, chance: float) -> Verdict:
    """The verdict on an attempt that ended with this error, or with none."""
    match error:
        case None:
            return DELIVERED
        case Discard():
            return Verdict(ending=Ending.DISCARDED, reason=reason_of(error))
        case DeliveryFailed(throttled=True):
            patience = max(PATIENCE, policy.retry.delay(attempt, chance=chance))
            return put_off(reason_of(error), delay=to_millis(patience if error.after is None else error.after))
        case DeliveryFailed(retry=False):
            return bury(error)
        case _ if attempt >= policy.attempts:
            return bury(error)
        case RetryLater(after=after) | DeliveryFailed(after=after) if is_duration(after):
            assert after is not None
            return _try_again(error, to_millis(after))
        case _:
            return _try_again(error, to_millis(policy.retry.delay(attempt, chance=chance)))


def judge_block(error: BaseException, *, attempt: int, policy: Policy, records: int) -> Verdict:
    """The verdict on a block that raised: try again at once, or bury after the last attempt.

    An empty digest is never buried. After an interrupt the digest may have gone out.
    """
    if not isinstance(error, Exception):
        return give_back(begun=True)
    is_last = attempt >= policy.attempts and records > 0
    return bury(error) if is_last else _try_again(error, None)


def bury(error: BaseException) -> Verdict:
    return Verdict(ending=Ending.BURIED, reason=reason_of(error), error=error)


def put_off(reason: str, *, delay: Millis | None = None) -> Verdict:
    """Try again later; the attempt does not count: nothing was tried, or the receiver asked to wait."""
    return Verdict(ending=Ending.PUT_OFF, reason=reason, delay=delay)


def give_back(*, begun: bool) -> Verdict:
    """The worker stops. If the handler had begun, the digest may have gone out."""
    return Verdict(ending=Ending.RETURNED, unknown=begun)


def poison(lapses_alone: int, policy: Policy) -> Verdict | None:
    """Bury a digest whose lease lapsed too often while it was tried alone; None for any other."""
    if lapses_alone < policy.lapses:
        return None
    times = "once" if lapses_alone == 1 else f"{lapses_alone} times"
    return Verdict(
        ending=Ending.BURIED, reason=f"its lease lapsed {times} while it was tried alone: it ends its workers"
    )


def _try_again(error: BaseException, delay: Millis | None) -> Verdict:
    return Verdict(ending=Ending.FAILED, reason=reason_of(error), delay=delay, error=error)
