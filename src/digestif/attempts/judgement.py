"""Judgement: the rules of `core/verdicts.py`, asked with what the lease of an attempt says."""

from digestif.attempts.stages import Claimed
from digestif.attempts.steps import original
from digestif.core.verdicts import Verdict, judge, judge_block
from digestif.ids import chance


def verdict_on(claimed: Claimed, error: BaseException | None) -> Verdict:
    """Return what the error of a handler, or None, means for its digest."""
    attempt, failing = claimed.held.lease.attempt, claimed.held.failing()
    return judge(original(error), attempt=attempt, policy=claimed.policy, chance=chance(), failing=failing)


def verdict_on_block(claimed: Claimed, error: BaseException, records: int) -> Verdict:
    """Return what the error of a caller's block means for its digest, which has this number of records."""
    attempt, failing = claimed.held.lease.attempt, claimed.held.failing()
    return judge_block(original(error), attempt=attempt, policy=claimed.policy, records=records, failing=failing)
