"""Verdicts: what happens to a digest after an attempt, decided without a clock and without I/O."""

from dataclasses import dataclass, replace
from enum import StrEnum

from digestif.core.policy import Policy
from digestif.core.texts import reason_of, shortened
from digestif.core.times import Duration, Millis, in_seconds, is_duration, to_millis, to_seconds
from digestif.errors import ConfigError

PATIENCE = 60.0  # seconds to wait for a receiver that throttles without naming a time…
LONGEST_PATIENCE = 900.0  # …longer, the longer it goes on, up to this


class RetryLater(Exception):
    """Raise it in a handler: the attempt failed, try again after `after` seconds.

    Without `after` the policy's retry says when. It counts as an attempt; after the last one the digest is buried.
    """

    def __init__(
        self, reason: str = "the handler asked to be called again later", *, after: Duration | None = None
    ) -> None:
        seconds: float | None = in_seconds(after)
        if seconds is not None and not is_duration(seconds):
            raise ConfigError(f"after: {shortened(after)} is not a number of seconds ≥ 0")
        super().__init__(reason)
        self.after = seconds


class Discard(Exception):
    """Raise it in a handler, or in a function of a route, to discard the digest: its records count as deleted.

    With `delete` its timeline is deleted with all that waits, its dead letters and its history: nobody is there to
    read them. A function that is asked about one of several recipients discards only the message to that one.
    """

    def __init__(self, reason: str = "the handler discarded it", *, delete: bool = False) -> None:
        super().__init__(reason)
        self.delete = delete


class DeliveryFailed(Exception):
    """A channel could not deliver. `retry` says whether it is worth trying again, `after` how many seconds from now.

    Raise it in a channel or a handler. Without `retry` the digest is buried at once. `throttled` says that the receiver
    asked to wait: the digest is tried again later, merged with newer records, and the attempt does not count. `unknown`
    says that the message may have gone out: the digest comes again exactly as it was, and the attempt does not count.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry: bool = True,
        after: Duration | None = None,
        throttled: bool = False,
        unknown: bool = False,
    ) -> None:
        seconds: float | None = in_seconds(after)
        if seconds is not None and not is_duration(seconds):
            raise ConfigError(f"after: {shortened(after)} is not a number of seconds ≥ 0")
        super().__init__(reason)
        self.retry = retry
        self.after = seconds
        self.throttled = throttled
        self.unknown = unknown


class Unavailable(DeliveryFailed):
    """The channel can't be used at all now: no message would get through. The attempt does not count.

    Raised by a channel, or by a handler that names a `channel`, it closes that channel for all workers: its digests
    keep gathering records, and one at a time tries whether it is back. A channel that answered a moment ago stays open
    until other timelines meet the same. A handler that names none puts off its own digest only. `after` is when the
    next attempt may be of use, in seconds.
    """

    def __init__(
        self,
        reason: str = "the handler says that it is unavailable",
        *,
        channel: str | None = None,
        after: Duration | None = None,
        unknown: bool = False,
    ) -> None:
        if channel is not None and not is_name(channel):
            raise ConfigError(f"channel: {shortened(channel)} is not the name of a channel")
        super().__init__(reason, after=after, unknown=unknown)
        self.channel = channel


def is_name(channel: object) -> bool:
    """True for what may name a channel."""
    return isinstance(channel, str) and bool(channel.strip())


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
    is_alone: bool = False  # its channel was unavailable for it, and is open for others
    deletes: bool = False  # its timeline is deleted with it


DELIVERED = Verdict(ending=Ending.DELIVERED)


def judge(
    error: BaseException | None, *, attempt: int, policy: Policy, chance: float, failing: Millis | None = None
) -> Verdict:
    """The verdict on an attempt that ended with this error, or with none.

    `failing` is for how long attempts have failed for the digest's own sake; None: this is the first. Where the fault
    is the channel's, `Outages` decides when to try again.
    """
    match error:
        case None:
            return DELIVERED
        case Discard():
            return Verdict(ending=Ending.DISCARDED, reason=reason_of(error), deletes=error.delete)
        case Unavailable():
            return _outage(error)
        case _ if _is_spent(failing, policy):
            return bury(error)
        case DeliveryFailed(throttled=True):
            wait = max(PATIENCE, policy.retry.delay(attempt, chance=chance))
            patience = max(wait, min(to_seconds(failing or 0), LONGEST_PATIENCE))
            return put_off(reason_of(error), delay=_unless_given(error.after, to_millis(patience)), error=error)
        case DeliveryFailed(retry=False):
            return bury(error)
        case DeliveryFailed(unknown=True):
            return put_off(reason_of(error), delay=_unless_given(error.after, _doubled(failing, policy)), error=error)
        case _ if attempt >= policy.attempts:
            return bury(error)
        case RetryLater(after=after) | DeliveryFailed(after=after) if is_duration(after):
            assert after is not None
            return _try_again(error, to_millis(after))
        case _:
            return _try_again(error, to_millis(policy.retry.delay(attempt, chance=chance)))


def _is_spent(failing: Millis | None, policy: Policy) -> bool:
    """True if the digest has been tried for as long as its policy allows."""
    return failing is not None and failing >= to_millis(policy.patience)


def _doubled(failing: Millis | None, policy: Policy) -> Millis:
    """The wait after an attempt that may have gone out: as long as it has failed by now, so that few are sent twice."""
    return max(to_millis(policy.retry.delay(1, chance=0)), failing or 0)


def _unless_given(after: float | None, delay: Millis) -> Millis:
    return delay if after is None else to_millis(after)


def judge_block(
    error: BaseException, *, attempt: int, policy: Policy, records: int, failing: Millis | None = None
) -> Verdict:
    """The verdict on a block that raised: try again at once, or bury after the last attempt.

    An empty digest is never buried. After an interrupt the digest may have gone out.
    """
    if not isinstance(error, Exception):
        return give_back(begun=True)
    if isinstance(error, Unavailable):
        return replace(_outage(error), delay=None)
    is_last = _is_spent(failing, policy) or (attempt >= policy.attempts and not is_unknown(error))
    if is_last and records > 0:
        return bury(error)
    return put_off(reason_of(error), error=error) if is_unknown(error) else _try_again(error, None)


def bury(error: BaseException) -> Verdict:
    return Verdict(ending=Ending.BURIED, reason=reason_of(error), error=error, unknown=is_unknown(error))


def put_off(reason: str, *, delay: Millis | None = None, error: BaseException | None = None) -> Verdict:
    """Try again later; the attempt does not count: nothing was tried, or the digest is not to blame."""
    return Verdict(ending=Ending.PUT_OFF, reason=reason, delay=delay, error=error, unknown=is_unknown(error))


def _outage(error: Unavailable) -> Verdict:
    """Try again later. If the channel is known, all of its digests wait for it: `Outages` decides for how long."""
    delay = to_millis(PATIENCE if error.after is None else error.after)
    return put_off(reason_of(error), delay=delay, error=error)


def is_unknown(error: BaseException | None) -> bool:
    """True if the error says that the message may have gone out."""
    return isinstance(error, DeliveryFailed) and error.unknown


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
