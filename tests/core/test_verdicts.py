"""Verdicts as tables: what becomes of a digest after each kind of error, at the last attempt and before."""

from dataclasses import replace

import pytest

from digestif import ConfigError, DeliveryFailed, Discard, Policy, Retry, RetryLater, Unavailable
from digestif.core.verdicts import (
    DELIVERED,
    LONGEST_PATIENCE,
    PATIENCE,
    Ending,
    Verdict,
    give_back,
    judge,
    judge_block,
    poison,
    put_off,
)

LAST = 3
QUICK = Policy(attempts=LAST, lapses=2, retry=Retry(initial=10, factor=2, jitter=0))
SLOW = Policy(attempts=LAST, lapses=2, retry=Retry(initial=500, factor=2, maximum=3600, jitter=0))
ONCE = Policy(attempts=1, lapses=1)

BOOM = ValueError("boom")
EXIT = SystemExit(3)
MEMORY = MemoryError("full")
LATER = RetryLater("busy")
LATER_7 = RetryLater("busy", after=7)
LATER_0 = RetryLater("busy", after=0)
UNWANTED = Discard("gone")
FAILED = DeliveryFailed("500")
FAILED_7 = DeliveryFailed("500", after=7)
REFUSED = DeliveryFailed("410", retry=False)
REFUSED_7 = DeliveryFailed("410", retry=False, after=7)
THROTTLED = DeliveryFailed("429", throttled=True)
THROTTLED_7 = DeliveryFailed("429", throttled=True, after=7)
THROTTLED_0 = DeliveryFailed("429", throttled=True, after=0)
THROTTLED_FOR_GOOD = DeliveryFailed("429", throttled=True, retry=False)
UNKNOWN = DeliveryFailed("no answer", unknown=True)
DOWN = Unavailable("refused")
DOWN_7 = Unavailable("refused", after=7)


def failed(error: BaseException, reason: str, seconds: float | None) -> Verdict:
    delay = None if seconds is None else round(seconds * 1000)
    return Verdict(ending=Ending.FAILED, reason=reason, delay=delay, error=error)


def buried(error: BaseException, reason: str) -> Verdict:
    return Verdict(ending=Ending.BURIED, reason=reason, error=error)


def patient(error: DeliveryFailed, seconds: float) -> Verdict:
    delay = round(seconds * 1000)
    return Verdict(ending=Ending.PUT_OFF, reason=f"DeliveryFailed: {error}", delay=delay, error=error)


def uncertain(seconds: float | None) -> Verdict:
    """The verdict on UNKNOWN."""
    delay = None if seconds is None else round(seconds * 1000)
    reason = "DeliveryFailed: no answer"
    return Verdict(ending=Ending.PUT_OFF, reason=reason, delay=delay, error=UNKNOWN, unknown=True)


def outage(error: Unavailable, seconds: float | None) -> Verdict:
    delay = None if seconds is None else round(seconds * 1000)
    return Verdict(ending=Ending.PUT_OFF, reason="Unavailable: refused", delay=delay, error=error)


DISCARDED = Verdict(ending=Ending.DISCARDED, reason="Discard: gone")


@pytest.mark.parametrize(
    ("error", "attempt", "policy", "verdict"),
    [
        (None, 1, QUICK, DELIVERED),
        (None, LAST, QUICK, DELIVERED),
        (None, LAST + 1, QUICK, DELIVERED),
        (None, 1, ONCE, DELIVERED),
        #
        (BOOM, 1, QUICK, failed(BOOM, "ValueError: boom", 10)),
        (BOOM, 2, QUICK, failed(BOOM, "ValueError: boom", 20)),
        (BOOM, 1, SLOW, failed(BOOM, "ValueError: boom", 500)),
        (BOOM, LAST, QUICK, buried(BOOM, "ValueError: boom")),
        (BOOM, LAST + 1, QUICK, buried(BOOM, "ValueError: boom")),
        (BOOM, 1, ONCE, buried(BOOM, "ValueError: boom")),
        (EXIT, 1, QUICK, failed(EXIT, "SystemExit: 3", 10)),
        (EXIT, LAST, QUICK, buried(EXIT, "SystemExit: 3")),
        (MEMORY, 1, QUICK, failed(MEMORY, "MemoryError: full", 10)),
        (MEMORY, LAST, QUICK, buried(MEMORY, "MemoryError: full")),
        #
        (LATER, 1, QUICK, failed(LATER, "RetryLater: busy", 10)),
        (LATER, 2, QUICK, failed(LATER, "RetryLater: busy", 20)),
        (LATER_7, 1, QUICK, failed(LATER_7, "RetryLater: busy", 7)),
        (LATER_7, 2, QUICK, failed(LATER_7, "RetryLater: busy", 7)),
        (LATER_0, 1, QUICK, failed(LATER_0, "RetryLater: busy", 0)),
        (LATER_7, LAST, QUICK, buried(LATER_7, "RetryLater: busy")),
        (LATER_7, 1, ONCE, buried(LATER_7, "RetryLater: busy")),
        #
        (UNWANTED, 1, QUICK, DISCARDED),
        (UNWANTED, LAST, QUICK, DISCARDED),
        (UNWANTED, 1, ONCE, DISCARDED),
        #
        (FAILED, 1, QUICK, failed(FAILED, "DeliveryFailed: 500", 10)),
        (FAILED, 1, SLOW, failed(FAILED, "DeliveryFailed: 500", 500)),
        (FAILED_7, 1, SLOW, failed(FAILED_7, "DeliveryFailed: 500", 7)),
        (FAILED, LAST, QUICK, buried(FAILED, "DeliveryFailed: 500")),
        (FAILED_7, LAST, QUICK, buried(FAILED_7, "DeliveryFailed: 500")),
        (FAILED_7, 1, ONCE, buried(FAILED_7, "DeliveryFailed: 500")),
        (REFUSED, 1, QUICK, buried(REFUSED, "DeliveryFailed: 410")),
        (REFUSED, LAST, QUICK, buried(REFUSED, "DeliveryFailed: 410")),
        (REFUSED_7, 1, QUICK, buried(REFUSED_7, "DeliveryFailed: 410")),
        #
        (THROTTLED, 1, QUICK, patient(THROTTLED, PATIENCE)),
        (THROTTLED, 1, SLOW, patient(THROTTLED, 500)),
        (THROTTLED, 2, SLOW, patient(THROTTLED, 1000)),
        (THROTTLED, LAST, QUICK, patient(THROTTLED, PATIENCE)),
        (THROTTLED, LAST + 1, QUICK, patient(THROTTLED, 80)),
        (THROTTLED, 1, ONCE, patient(THROTTLED, PATIENCE)),
        (THROTTLED_7, 1, SLOW, patient(THROTTLED_7, 7)),
        (THROTTLED_7, LAST, QUICK, patient(THROTTLED_7, 7)),
        (THROTTLED_0, 1, QUICK, patient(THROTTLED_0, 0)),
        (THROTTLED_FOR_GOOD, 1, QUICK, patient(THROTTLED_FOR_GOOD, PATIENCE)),
        #
        (UNKNOWN, 1, QUICK, uncertain(10)),
        (UNKNOWN, LAST, QUICK, uncertain(10)),
        (DOWN, 1, QUICK, outage(DOWN, PATIENCE)),
        (DOWN, LAST + 1, ONCE, outage(DOWN, PATIENCE)),
        (DOWN_7, LAST, QUICK, outage(DOWN_7, 7)),
    ],
)
def test_what_a_handler_did(error: BaseException | None, attempt: int, policy: Policy, verdict: Verdict) -> None:
    assert judge(error, attempt=attempt, policy=policy, chance=0.5) == verdict


HOUR = 3_600_000
IMPATIENT = Policy(attempts=LAST, retry=Retry(initial=10, jitter=0), give_up_after=3600)


@pytest.mark.parametrize(
    ("error", "failing", "verdict"),
    [
        (BOOM, HOUR - 1, failed(BOOM, "ValueError: boom", 10)),
        (BOOM, HOUR, buried(BOOM, "ValueError: boom")),
        (THROTTLED, 70_000, patient(THROTTLED, 70)),
        (THROTTLED, HOUR - 1, patient(THROTTLED, LONGEST_PATIENCE)),
        (THROTTLED, HOUR, buried(THROTTLED, "DeliveryFailed: 429")),
        (THROTTLED_7, HOUR, buried(THROTTLED_7, "DeliveryFailed: 429")),
        (UNKNOWN, 9_000, uncertain(10)),
        (UNKNOWN, 70_000, uncertain(70)),
        (UNKNOWN, HOUR, replace(buried(UNKNOWN, "DeliveryFailed: no answer"), unknown=True)),
        (DOWN, HOUR, outage(DOWN, PATIENCE)),
        (None, HOUR, DELIVERED),
    ],
)
def test_a_digest_that_failed_for_so_long_is_given_up_unless_its_channel_is_to_blame(
    error: BaseException | None, failing: int, verdict: Verdict
) -> None:
    assert judge(error, attempt=1, policy=IMPATIENT, chance=0, failing=failing) == verdict


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [(Policy(), 3.5 * 86_400), (Policy(ttl=None), 3.5 * 86_400), (Policy(ttl=86_400), 43_200), (IMPATIENT, 3600)],
)
def test_by_default_a_digest_is_tried_for_half_its_ttl(policy: Policy, seconds: float) -> None:
    assert policy.patience == seconds


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 10), (0.5, 7.5), (1.0, 5)])
def test_chance_shortens_the_wait_by_the_jitter_of_the_policy(chance: float, seconds: float) -> None:
    policy = Policy(retry=Retry(initial=10, jitter=0.5))

    assert judge(BOOM, attempt=1, policy=policy, chance=chance) == failed(BOOM, "ValueError: boom", seconds)


INTERRUPTED = Verdict(ending=Ending.RETURNED, unknown=True)
INTERRUPT = KeyboardInterrupt()


@pytest.mark.parametrize(
    ("error", "attempt", "policy", "records", "verdict"),
    [
        (BOOM, 1, QUICK, 1, failed(BOOM, "ValueError: boom", None)),
        (BOOM, 2, SLOW, 1, failed(BOOM, "ValueError: boom", None)),
        (BOOM, LAST, QUICK, 1, buried(BOOM, "ValueError: boom")),
        (BOOM, LAST + 1, QUICK, 1, buried(BOOM, "ValueError: boom")),
        (BOOM, 1, ONCE, 1, buried(BOOM, "ValueError: boom")),
        (BOOM, 1, ONCE, 0, failed(BOOM, "ValueError: boom", None)),
        # a block is no handler: these errors have no special meaning
        (LATER_7, 1, QUICK, 1, failed(LATER_7, "RetryLater: busy", None)),
        (LATER_7, LAST, QUICK, 1, buried(LATER_7, "RetryLater: busy")),
        (UNWANTED, 1, QUICK, 1, failed(UNWANTED, "Discard: gone", None)),
        (THROTTLED_7, 1, QUICK, 1, failed(THROTTLED_7, "DeliveryFailed: 429", None)),
        (REFUSED, 1, QUICK, 1, failed(REFUSED, "DeliveryFailed: 410", None)),
        # but these say that the attempt does not count
        (UNKNOWN, LAST, QUICK, 1, uncertain(None)),
        (DOWN, LAST, QUICK, 1, outage(DOWN, None)),
        # interrupts
        (INTERRUPT, 1, QUICK, 1, INTERRUPTED),
        (INTERRUPT, LAST, QUICK, 1, INTERRUPTED),
        (INTERRUPT, 1, ONCE, 1, INTERRUPTED),
        (EXIT, LAST, QUICK, 1, INTERRUPTED),
        (GeneratorExit(), LAST, QUICK, 0, INTERRUPTED),
    ],
)
def test_what_a_block_raised(
    error: BaseException, attempt: int, policy: Policy, records: int, verdict: Verdict
) -> None:
    assert judge_block(error, attempt=attempt, policy=policy, records=records) == verdict


def dead(times: str) -> Verdict:
    return Verdict(
        ending=Ending.BURIED, reason=f"its lease lapsed {times} while it was tried alone: it ends its workers"
    )


@pytest.mark.parametrize(
    ("lapses_alone", "policy", "verdict"),
    [
        (0, QUICK, None),
        (1, QUICK, None),
        (2, QUICK, dead("2 times")),
        (3, QUICK, dead("3 times")),
        (0, ONCE, None),
        (1, ONCE, dead("once")),
    ],
)
def test_who_lapsed_alone_too_often_is_poison(lapses_alone: int, policy: Policy, verdict: Verdict | None) -> None:
    assert poison(lapses_alone, policy) == verdict


@pytest.mark.parametrize(
    ("verdict", "ending", "delay", "unknown"),
    [
        (put_off("no hand is free"), Ending.PUT_OFF, None, False),
        (put_off("no hand is free", delay=1000), Ending.PUT_OFF, 1000, False),
        (give_back(begun=False), Ending.RETURNED, None, False),
        (give_back(begun=True), Ending.RETURNED, None, True),
    ],
)
def test_without_a_handler(verdict: Verdict, ending: Ending, delay: int | None, unknown: bool) -> None:
    assert (verdict.ending, verdict.delay, verdict.unknown, verdict.error) == (ending, delay, unknown, None)


@pytest.mark.parametrize("kind", [RetryLater, DeliveryFailed])
@pytest.mark.parametrize("after", [-1, "7", float("nan"), float("inf"), True])
def test_a_wait_that_is_no_number_of_seconds_is_refused(kind: type[Exception], after: object) -> None:
    with pytest.raises(ConfigError, match="after: "):
        kind("busy", after=after)  # type: ignore[call-arg]  # both take it
