"""Interrupted attempts: how far each has come, and what that means for its digest."""

from typing import TypeAlias

from digestif.attempts.delivery import Delivery
from digestif.attempts.leases import HeldLease
from digestif.attempts.stages import Claimed, Completed, Judged
from digestif.attempts.steps import NotBegun
from digestif.core.verdicts import give_back

Stage: TypeAlias = Claimed | Completed | Delivery  # a Delivery once its handler or block may have begun


class BegunAttempts:
    """The attempts that a generator of steps has begun, each with the latest stage that matters to an interrupt."""

    def __init__(self) -> None:
        self._stages: dict[HeldLease, Stage] = {}

    def reach(self, stage: Stage) -> None:
        """Note that an attempt has reached a stage."""
        held = stage.held if isinstance(stage, Claimed | Delivery) else stage.claimed.held
        self._stages[held] = stage

    def returned(self, interrupt: BaseException) -> list[Judged]:
        """Return the attempts that have not ended, judged to be given back."""
        return [_returned(stage, interrupt) for held, stage in self._stages.items() if held.is_running]


def _returned(stage: Stage, interrupt: BaseException) -> Judged:
    match stage:
        case Claimed():
            return Judged(stage, give_back(begun=False))
        case Completed():
            return Delivery(stage).judged(give_back(begun=False))
        case Delivery():
            return stage.judged(give_back(begun=not isinstance(interrupt, NotBegun)))
