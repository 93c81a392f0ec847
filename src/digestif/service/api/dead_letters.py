"""Endpoints about dead letters: list, show, replay, requeue, discard."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from digestif.aio import AsyncDigests
from digestif.core.records import DeadLetter
from digestif.digests import Digests
from digestif.service import excerpts
from digestif.service.api.actions import Changed
from digestif.service.api.fields import Key, Limit, given
from digestif.service.api.problems import Problem
from digestif.service.api.requests import Answer, Request, encode, listing
from digestif.service.api.shapes import DeadLetterAnswer, RecordAnswer, letter_answer
from digestif.service.excerpts import Excerpts
from digestif.service.security.audit import noted
from digestif.service.security.reach import letters_page, reached_letter


class DeadLettersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which dead letters."""

    timeline: Key | UnsetType = UNSET
    after: str | UnsetType = UNSET
    limit: Limit = 100


class DeadLettersAnswer(Struct, frozen=True):
    """A page of dead letters, the oldest first; `after` is null at the end."""

    dead_letters: Sequence[DeadLetterAnswer]  # type: ignore[valid-type]  # made from the engine's own
    after: str | None


class LetterQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many of its records."""

    limit: Limit = 100


class LetterContents(Struct, frozen=True):
    """A dead letter, and its newest records whose values can be read: at most `limit`, and 8 MiB."""

    letter: DeadLetterAnswer  # type: ignore[valid-type]
    contents: Sequence[RecordAnswer]


class RequeueOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """`force` requeues what may have gone out, too."""

    force: bool = False


async def list_letters(request: Request) -> Answer:
    query, principal = request.query(DeadLettersQuery), request.principal
    timeline = given(query.timeline)
    if timeline is not None:
        request.refuse_outside(timeline)
    page = await letters_page(
        request.service, principal, timeline=timeline, after=given(query.after), limit=query.limit
    )
    found = (encode(letter_answer(letter)) for letter in page.letters)
    return await request.service.beside(partial(listing, "dead_letters", found, after=page.after))


async def _letter(request: Request) -> DeadLetter:
    """The dead letter in the path. 404 if there is none that the token reaches."""
    letter = await reached_letter(request.service, request.principal, request.keys[0])
    if letter is None:
        raise Problem(404, "there is no such dead letter")
    return letter


async def show(request: Request) -> Answer:
    query, letter = request.query(LetterQuery), await _letter(request)

    def read(digests: Digests) -> Answer:
        records = excerpts.dead_records(digests, letter.id, query.limit)
        return listing("contents", records, letter=letter_answer(letter))

    return await request.service.part(Excerpts).read(read)


async def _act(request: Request, what: str, call: Callable[..., Coroutine[Any, Any, bool]], **options: Any) -> Changed:
    letter = await _letter(request)
    service, change = request.service, call(request.service.digests, letter.id, **options)
    changed = await noted(
        change, service, request.principal, what, timeline=letter.timeline, subject=letter.id, is_change=bool
    )
    return Changed(changed)


async def replay(request: Request) -> Changed:
    return await _act(request, "replay", AsyncDigests.replay)


_options = msgspec.json.Decoder(RequeueOptions)


async def requeue(request: Request) -> Changed:
    has_body = request.headers.get(b"content-type") is not None
    given = await request.json(_options) if has_body else RequeueOptions()
    return await _act(request, "requeue", AsyncDigests.requeue, force=given.force)


async def discard(request: Request) -> Changed:
    return await _act(request, "discard", AsyncDigests.discard)
