"""The submission of verdicts to the store: one call for all attempts that end the same way."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from digestif.attempts.attempt import Attempt
from digestif.core.texts import LONGEST_TEXT, shortened_text, traceback_of
from digestif.core.times import Millis
from digestif.core.verdicts import Ending, Unavailable, Verdict, is_deliberate
from digestif.errors import ConfigError, StoreError
from digestif.stores.base import Burial, Completion, Release, Store
from digestif.stores.deletion import delete_held

Judged = tuple[Attempt, Verdict]
Answer = bool | StoreError  # False: the lease was lost, and nothing was changed; an error: the store did not answer

logger = logging.getLogger("digestif")


def submit(store: Store, judged: Sequence[Judged], *, now: Millis | None) -> list[Answer]:
    """Give the verdicts to the store, and its answer to each."""
    calls: dict[Ending, Callable[[Sequence[Judged]], Sequence[Answer]]] = {
        Ending.DELIVERED: lambda some: store.complete([_completion(*one) for one in some], now=now),
        Ending.FAILED: lambda some: store.release([_release(*one) for one in some], now=now),
        Ending.BURIED: lambda some: store.bury([_burial(*one) for one in some], now=now),
        Ending.DISCARDED: lambda some: _discard(store, some, now=now),
    }
    answers: list[Answer] = [False] * len(judged)
    for ending, call in calls.items():
        places = [place for place, (_, verdict) in enumerate(judged) if _CALLED_AS[verdict.ending] is ending]
        if places:
            for place, answer in zip(places, _answers(call, [judged[place] for place in places]), strict=True):
                answers[place] = answer
    return answers


_CALLED_AS = {ending: ending for ending in Ending} | {
    Ending.PUT_OFF: Ending.FAILED,
    Ending.RETURNED: Ending.FAILED,
}


def _answers(call: Callable[[Sequence[Judged]], Sequence[Answer]], judged: Sequence[Judged]) -> Sequence[Answer]:
    """Make one call. If it fails in a way that no store should, end each alone: one of them is to blame."""
    try:
        return list(call(judged))
    except StoreError as error:
        return [error if answer is None else answer for answer in error.answers or [None] * len(judged)]
    except Exception as error:
        if len(judged) > 1:
            return [answer for one in judged for answer in _answers(call, [one])]
        logger.exception("%s can't be ended; it comes again when its lease has lapsed", judged[0][0].timeline)
        return [Unanswerable(f"the store failed: {error}")]


class Unanswerable(StoreError):
    """The store fails whenever this attempt is to be ended. There is no use in trying again."""


def _completion(attempt: Attempt, _: Verdict) -> Completion:
    receipt = shortened_text("; ".join(attempt.receipts), LONGEST_TEXT) or None
    plan = attempt.plan
    keys = attempt.newest_keys()
    return Completion(
        attempt.lease, plan.cool_down, plan.max_records, receipt, plan.openings, plan.given, keys, plan.ttl
    )


def _release(attempt: Attempt, verdict: Verdict) -> Release:
    at = attempt.store_time()
    until = None if verdict.delay is None else _within_hours(attempt, at + verdict.delay)
    counted = verdict.ending is Ending.FAILED
    freeze = verdict.unknown or (counted and attempt.policy.redelivery == "same")
    tried = _tried(attempt, verdict, at)
    return Release(
        attempt.lease,
        until,
        freeze=freeze,
        counted=counted,
        unknown=verdict.unknown,
        tried=tried,
        read=attempt.is_read,
    )


def _tried(attempt: Attempt, verdict: Verdict, at: Millis) -> Millis | None:
    """Since when attempts fail for the digest's own sake. A channel that is closed ends that."""
    if verdict.error is None or verdict.is_alone:  # nothing was tried, or the digest is not to blame
        return attempt.lease.tried
    if isinstance(verdict.error, Unavailable) and not verdict.unknown:
        return None
    if attempt.lease.tried is not None:
        return attempt.lease.tried
    return at


def _within_hours(attempt: Attempt, at: Millis) -> Millis:
    """The first time from `at` on at which the hours of the window let another attempt begin."""
    window = attempt.policy.window
    if window is None or attempt.lease.passes:
        return at
    with suppress(ConfigError):  # a user's function failed; the next attempt is asked for again
        return window.next_hours(attempt.timeline, at) or at
    return at


def _burial(attempt: Attempt, verdict: Verdict) -> Burial:
    traceback = "" if is_deliberate(verdict.error) else traceback_of(verdict.error)
    plan = attempt.plan
    return Burial(
        attempt.lease,
        verdict.reason,
        plan.cool_down,
        plan.max_records,
        traceback,
        plan.openings,
        plan.given,
        unknown=verdict.unknown,
        ttl=plan.ttl,
    )


def _discard(store: Store, judged: Sequence[Judged], *, now: Millis | None) -> Sequence[Answer]:
    """Discard digests, some of them with their timelines."""
    kept = [one for one in judged if not one[1].deletes]
    discarded = iter(_discard_alone(store, kept, now=now) if kept else ())
    return [_delete(store, *one, now=now) if one[1].deletes else next(discarded) for one in judged]


def _discard_alone(store: Store, judged: Sequence[Judged], *, now: Millis | None) -> Sequence[bool]:
    answers = store.bury([_burial(*one) for one in judged], now=now)
    for (attempt, _), is_buried in zip(judged, answers, strict=True):
        if is_buried:
            attempt.is_dead = True
            with suppress(StoreError):  # it stays a dead letter
                store.discard(attempt.lease.digest_id, now=now)
                attempt.is_dead = False
    return answers


def _delete(store: Store, attempt: Attempt, _: Verdict, *, now: Millis | None) -> Answer:
    try:
        return delete_held(store, attempt.lease, now=now)
    except StoreError as error:
        return error
