"""The submission of verdicts to the store: one call for all attempts that end the same way."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

from digestif.attempts.stages import Judged, JudgedCompleted
from digestif.attempts.steps import Call, Steps
from digestif.core.texts import LONGEST_TEXT, shortened_text, traceback_of
from digestif.core.times import Millis
from digestif.core.verdicts import Ending, Unavailable, is_deliberate
from digestif.errors import ConfigError, StoreError
from digestif.stores.base import Burial, Completion, Release, Store
from digestif.stores.deletion import delete_held, delete_timeline

# How an attempt ended; None if its lease was lost and nothing was changed; an error if the store did not answer.
Answer: TypeAlias = Ending | StoreError | None
Done: TypeAlias = bool | Ending | StoreError  # what a verb answers: whether it was done, or what was done instead

logger = logging.getLogger("digestif")


def submit(store: Store, judged: Sequence[Judged], *, now: Millis | None) -> Steps[list[Answer]]:
    """Give the verdicts to the store; the answer to each is how its attempt has ended."""
    answers: list[Answer] = []
    by_verb: dict[Verb, list[int]] = {}
    for place, each in enumerate(judged):
        answers.append(each.verdict.ending)
        verb = _verb_of(each)
        if verb is not None:
            by_verb.setdefault(verb, []).append(place)
    for verb, places in by_verb.items():
        given = yield from _answers(verb, store, [judged[place] for place in places], now=now)
        for place, answer in zip(places, given, strict=True):
            answers[place] = answer
    return answers


def _verb_of(judged: Judged) -> "Verb | None":
    """Return the call of the store that ends an attempt; None if the store has its digest no more."""
    if isinstance(judged, JudgedCompleted):
        return DELETE_TIMELINE if judged.verdict.deletes else None
    return DELETE if judged.verdict.deletes else VERBS[judged.verdict.ending]


def _answers(verb: "Verb", store: Store, judged: Sequence[Judged], *, now: Millis | None) -> Steps[list[Answer]]:
    """Make one call. If it fails in a way that no store should, end each alone: one of them is to blame."""
    try:
        done: Sequence[Done] = yield Call(verb.name, partial(verb.call, store, judged, now))
    except StoreError as error:
        known = error.answers or [None] * len(judged)
        done = [error if answer is None else answer for answer in known]
    except Exception as error:
        if len(judged) > 1:
            each_alone = []
            for each in judged:
                each_alone += yield from _answers(verb, store, [each], now=now)
            return each_alone
        logger.exception("%s can't be ended; it comes again when its lease has lapsed", judged[0].held.timeline)
        return [Unanswerable(f"the store failed: {error}")]
    return [_answer(each, answer) for each, answer in zip(judged, done, strict=True)]


class Unanswerable(StoreError):
    """The store fails whenever this attempt is to be ended. There is no use in trying again."""


def _answer(judged: Judged, done: Done) -> Answer:
    if isinstance(done, bool):
        return judged.verdict.ending if done else None
    return done


def _complete(store: Store, judged: Sequence[Judged], now: Millis | None) -> Sequence[bool]:
    return store.complete([_completion(each) for each in judged], now=now)


def _completion(judged: Judged) -> Completion:
    receipt = shortened_text("; ".join(judged.receipts), LONGEST_TEXT) or None
    plan = judged.plan
    return Completion(
        judged.held.lease,
        plan.cool_down,
        plan.max_records,
        receipt,
        plan.openings,
        plan.given,
        judged.carried.keys,
        plan.ttl,
    )


def _release(store: Store, judged: Sequence[Judged], now: Millis | None) -> Sequence[bool]:
    return store.release([_released(each) for each in judged], now=now)


def _released(judged: Judged) -> Release:
    verdict, at = judged.verdict, judged.held.store_time()
    counted = verdict.ending is Ending.FAILED
    return Release(
        judged.held.lease,
        None if verdict.delay is None else _within_hours(judged, at + verdict.delay),
        freeze=verdict.unknown or (counted and judged.claimed.policy.redelivery == "same"),
        counted=counted,
        unknown=verdict.unknown,
        tried=_tried(judged, at),
        read=judged.carried.keys is not None,
    )


def _tried(judged: Judged, at: Millis) -> Millis | None:
    """Return since when attempts fail for the digest's own sake. A channel that is closed ends that."""
    verdict, tried = judged.verdict, judged.held.lease.tried
    if verdict.error is None or verdict.is_alone:  # nothing was tried, or the digest is not to blame
        return tried
    if isinstance(verdict.error, Unavailable) and not verdict.unknown:
        return None
    return at if tried is None else tried


def _within_hours(judged: Judged, at: Millis) -> Millis:
    """Return the first time from `at` on at which the hours of the window let another attempt begin."""
    window = judged.claimed.policy.window
    if window is None or judged.held.lease.passes:
        return at
    with suppress(ConfigError):  # a user's function failed; the next attempt is asked for again
        return window.next_hours(judged.held.timeline, at) or at
    return at


def _bury(store: Store, judged: Sequence[Judged], now: Millis | None) -> Sequence[bool]:
    return store.bury([_burial(each) for each in judged], now=now)


def _burial(judged: Judged) -> Burial:
    verdict, plan = judged.verdict, judged.plan
    return Burial(
        judged.held.lease,
        verdict.reason,
        plan.cool_down,
        plan.max_records,
        "" if is_deliberate(verdict.error) else traceback_of(verdict.error),
        plan.openings,
        plan.given,
        unknown=verdict.unknown,
        ttl=plan.ttl,
    )


def _discard(store: Store, judged: Sequence[Judged], now: Millis | None) -> Sequence[Done]:
    """Bury digests, and discard their dead letters. What can't be discarded stays buried."""
    done: list[Done] = [Ending.BURIED if is_buried else False for is_buried in _bury(store, judged, now)]
    for place, each in enumerate(judged):
        if done[place]:
            with suppress(StoreError):
                store.discard(each.held.lease.digest_id, now=now)
                done[place] = Ending.DISCARDED
    return done


def _delete(store: Store, judged: Sequence[Judged], now: Millis | None) -> Sequence[Done]:
    return [_delete_one(store, each, now) for each in judged]


def _delete_one(store: Store, judged: Judged, now: Millis | None) -> Done:
    try:
        return delete_held(store, judged.held.lease, now=now)
    except StoreError as error:
        return error


def _delete_timelines(store: Store, judged: Sequence[Judged], now: Millis | None) -> Sequence[bool]:
    for each in judged:
        with suppress(StoreError):  # the next digest finds its audience gone, too
            delete_timeline(store, each.held.timeline, now=now)
    return [True] * len(judged)


class Verb(NamedTuple):
    """A call of the store that ends attempts."""

    name: str
    call: Callable[[Store, Sequence[Judged], Millis | None], Sequence[Done]]


RELEASE = Verb("release", _release)
DELETE = Verb("delete", _delete)
DELETE_TIMELINE = Verb("delete", _delete_timelines)
VERBS = {
    Ending.DELIVERED: Verb("complete", _complete),
    Ending.FAILED: RELEASE,
    Ending.PUT_OFF: RELEASE,
    Ending.RETURNED: RELEASE,
    Ending.BURIED: Verb("bury", _bury),
    Ending.DISCARDED: Verb("discard", _discard),
}
