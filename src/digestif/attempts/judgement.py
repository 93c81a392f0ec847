"""Judgement: what errors of handlers, errors of blocks, and interrupts mean for attempts.

The rules are those of `core/verdicts.py`, asked with what the lease of an attempt says.
"""

from typing import TypeAlias

from digestif.attempts.delivery import Delivery
from digestif.attempts.leases import HeldLease
from digestif.attempts.stages import Claimed, Completed, Judged
from digestif.attempts.steps import NotBegun, original
from digestif.core import verdicts
from digestif.core.verdicts import Verdict, give_back
from digestif.ids import chance

Stage: TypeAlias = Claimed | Completed | Delivery  # a Delivery once its handler or block may have begun


def judge(delivery: Delivery, error: BaseException | None) -> Judged:
    """Decide what the error of a handler, or None, means for the digest."""
    return delivery.judged(verdict_on(delivery.loaded.claimed, error))


def verdict_on(claimed: Claimed, error: BaseException | None) -> Verdict:
    """Return what the error of a handler, or None, means for its digest."""
    attempt, failing = claimed.held.lease.attempt, claimed.held.failing()
    return verdicts.judge(original(error), attempt=attempt, policy=claimed.policy, chance=chance(), failing=failing)


def verdict_on_block(claimed: Claimed, error: BaseException, records: int) -> Verdict:
    """Return what the error of a caller's block means for its digest, which has this number of records."""
    attempt, failing = claimed.held.lease.attempt, claimed.held.failing()
    return verdicts.judge_block(
        original(error), attempt=attempt, policy=claimed.policy, records=records, failing=failing
    )


class BegunAttempts:
    """The attempts that a generator of steps has begun, each with the latest stage that matters to an interrupt."""

    def __init__(self) -> None:
        self._stages: dict[HeldLease, Stage] = {}

    def reach(self, stage: Stage) -> None:
        """Note that an attempt has reached a stage."""
        held = stage.held if isinstance(stage, Claimed | Delivery) else stage.claimed.held
        self._stages[held] = stage

    def is_completed(self, held: HeldLease) -> bool:
        """Return True if the attempt is known to have been completed before its delivery."""
        return isinstance(self._stages.get(held), Completed)

    def returned(self, interrupt: BaseException) -> list[Judged]:
        """Return the attempts that have not ended, judged to be given back."""
        return [_returned(stage, interrupt) for held, stage in self._stages.items() if held.is_running]


def _returned(stage: Stage, interrupt: BaseException) -> Judged:
    match stage:
        case Claimed():
            return Judged(stage, give_back(begun=False))
        case Completed():
            return stage.judged(give_back(begun=False))
        case Delivery():
            return stage.judged(give_back(begun=not isinstance(interrupt, NotBegun)))
