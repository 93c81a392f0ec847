"""What people decide about dead letters, one or several: replay, requeue, discard."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from starlette.responses import Response

from digestif.core.records import DeadLetter
from digestif.errors import DigestifError, StoreError
from digestif.service.api.problems import problem_of
from digestif.service.dashboard.actions import noted_for
from digestif.service.dashboard.deliveries import asked_letter, show_letter
from digestif.service.dashboard.messages import counted
from digestif.service.dashboard.visits import Answer, Refused, Visit
from digestif.service.security.reach import reached_letter
from digestif.stores.damage import Unreadable

LetterDeed = Callable[[Visit, DeadLetter], Coroutine[Any, Any, bool]]
GONE = "It was replayed, requeued or discarded in the meantime."


class Decision(Struct, frozen=True):
    """What is done to a dead letter, and how messages and the audit log call that."""

    name: str
    done: str
    deed: LetterDeed
    asks: bool = False  # before it is done, since it deletes records


class Failure(Struct, frozen=True):
    """A selected dead letter that stayed as it was, and why."""

    letter_id: str
    timeline: str | None
    reason: str


async def _replay(visit: Visit, letter: DeadLetter) -> bool:
    return bool(await visit.digests.replay(letter.id))


async def _requeue(visit: Visit, letter: DeadLetter) -> bool:
    return bool(await visit.digests.requeue(letter.id, force=visit.asked("force") == "yes"))


async def _discard(visit: Visit, letter: DeadLetter) -> bool:
    return bool(await visit.digests.discard(letter.id))


def _on_letters(decision: Decision) -> Answer:
    """A decision about the dead letters that a form names: the one of its own page, or those selected in the list."""

    async def answer(visit: Visit) -> Response:
        ids = visit.selected("id")
        if not ids:
            return visit.went_to(list_of(visit), "not-selected")
        if decision.asks and visit.asked("confirmed") != "yes":
            return await _question(visit, ids)
        return await (_decide_one(visit, decision) if len(ids) == 1 else _decide(visit, decision, ids))

    return answer


def list_of(visit: Visit) -> str:
    """The address of the list that a decision came from."""
    timeline = visit.asked("timeline")
    return f"/dead-letters?{urlencode({'timeline': timeline})}" if timeline else "/dead-letters"


async def _question(visit: Visit, ids: Sequence[str]) -> Response:
    """Ask before dead letters are discarded, and say how many records go with them."""
    looked_up = [await reached_letter(visit.service, visit.reader, each) for each in ids]
    found = [letter for letter in looked_up if letter is not None]
    if not found:
        raise Refused(404, "There is no such dead letter", GONE)
    return visit.render(
        "discard.html", letters=found, records=sum(letter.records for letter in found), list=list_of(visit)
    )


async def _decide_one(visit: Visit, decision: Decision) -> Response:
    letter = await asked_letter(visit)
    try:
        is_done = await _do(visit, decision, letter)
    except StoreError:
        raise
    except DigestifError as error:
        problem = problem_of(error)
        return await show_letter(visit, letter, problem=problem.detail, status=problem.status)
    return visit.went_to(list_of(visit), decision.done if is_done else "not-there")


async def _decide(visit: Visit, decision: Decision, ids: Sequence[str]) -> Response:
    """Decide about each letter by itself: one that can't be changed does not keep the others from it."""
    failures = [failure for each in ids if (failure := await _failure(visit, decision, each)) is not None]
    done = len(ids) - len(failures)
    if not failures:
        return visit.went_to(list_of(visit), counted(f"letters-{decision.done}", done))
    return visit.render(
        "decided.html",
        status=200 if done else 409,
        decision=decision,
        done=done,
        failures=failures,
        list=list_of(visit),
    )


async def _failure(visit: Visit, decision: Decision, letter_id: str) -> Failure | None:
    """Do what was decided about a letter; if that does not work, say why."""
    try:
        letter = await reached_letter(visit.service, visit.reader, letter_id)
    except Unreadable as error:
        return Failure(letter_id, None, str(error))
    if letter is None:
        return Failure(letter_id, None, GONE)
    try:
        return None if await _do(visit, decision, letter) else Failure(letter_id, letter.timeline, GONE)
    except StoreError:
        raise
    except DigestifError as error:
        return Failure(letter_id, letter.timeline, problem_of(error).detail)


async def _do(visit: Visit, decision: Decision, letter: DeadLetter) -> bool:
    deed = decision.deed(visit, letter)
    return await noted_for(visit, deed, decision.name, letter.timeline, letter.id, is_change=bool)


ON_DEAD_LETTERS = {
    "/dead-letter/replay": _on_letters(Decision("replay", "replayed", _replay)),
    "/dead-letter/requeue": _on_letters(Decision("requeue", "requeued", _requeue)),
    "/dead-letter/discard": _on_letters(Decision("discard", "discarded", _discard, asks=True)),
}
