"""Endpoints about timelines: list, show, peek, explain, trace, and what operators do with them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from digestif.core.explain import Explanation
from digestif.core.records import State
from digestif.digests import Digests
from digestif.notes.workers import is_unhandled
from digestif.service import excerpts
from digestif.service.api.fields import Limit, given
from digestif.service.api.problems import Problem
from digestif.service.api.requests import Answer, Request, encode, listing
from digestif.service.api.shapes import (
    RecordAnswer,
    SightingAnswer,
    TimelineAnswer,
    sighting_answer,
    timeline_answer,
)
from digestif.service.excerpts import Excerpts, LargePreview
from digestif.service.security import reach


class TimelinesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which timelines."""

    state: State | UnsetType = UNSET
    prefix: str = ""
    after: str | UnsetType = UNSET  # from the page before
    limit: Limit = 100


class TimelinesAnswer(Struct, frozen=True):
    """A page of timelines. It may be short, or empty, although there are more: `after` is null at the end only."""

    timelines: Sequence[TimelineAnswer]  # type: ignore[valid-type]  # made from the engine's own
    after: str | None


class PeekQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many records."""

    limit: Limit = 100


class RecordsAnswer(Struct, frozen=True):
    """The records that the next digest would carry, newest first: at most `limit`, and 8 MiB. `total` counts all."""

    records: Sequence[RecordAnswer]
    total: int


class TraceAnswer(Struct, frozen=True):
    """What is known of a record, its latest version first."""

    sightings: Sequence[SightingAnswer]


async def list_timelines(request: Request) -> Answer:
    """List the timelines that are stored."""
    query = request.query(TimelinesQuery)
    prefix = reached_prefix(request, query.prefix)
    page = await reach.timelines_page(
        request.service,
        request.principal,
        state=given(query.state),
        prefix=prefix,
        after=given(query.after),
        limit=query.limit,
    )
    workers = await request.service.digests.workers()
    found = (timeline_answer(each, unhandled=is_unhandled(each.key, workers)) for each in page.timelines)
    return await request.service.beside(partial(listing, "timelines", map(encode, found), after=page.after))


def reached_prefix(request: Request, wanted: str) -> str:
    """The prefix of a search, narrowed to what the token reaches."""
    own = request.principal.prefix
    if own.startswith(wanted):
        return own
    request.refuse_outside(wanted)
    return wanted


async def show(request: Request) -> Any:
    """Show what is known about a timeline; an unknown one is idle."""
    digests, [timeline] = request.service.digests, request.keys
    found, workers = await digests.timeline(timeline), await digests.workers()
    return timeline_answer(found, unhandled=is_unhandled(timeline, workers))


async def peek(request: Request) -> Answer:
    """Show the records that the next digest would carry."""
    query = request.query(PeekQuery)

    def read(digests: Digests) -> Answer:
        found = excerpts.peek(digests, request.keys[0], query.limit)
        return listing("records", found.records, total=found.total)

    return await request.service.part(Excerpts).read(read)


async def explain(request: Request) -> Explanation:
    """Explain why a timeline is due when it is."""
    return await reach.explanation(request.service, request.principal, request.keys[0])


async def trace(request: Request) -> TraceAnswer:
    """Find out what became of a record, as far as history reaches."""
    timeline, record = request.keys
    sightings = await request.service.digests.trace(timeline, record)
    return TraceAnswer([sighting_answer(sighting) for sighting in sightings])


class PreviewAnswer(Struct, frozen=True):
    """The message that would be sent now."""

    subject: str
    text: str
    html: str


async def preview(request: Request) -> PreviewAnswer:
    """Render what the timeline's route would send now. 404 without a route or records."""
    service, [timeline] = request.service, request.keys
    try:
        render = await service.part(Excerpts).read(partial(excerpts.prepare_preview, timeline=timeline))
    except LargePreview:
        raise Problem(413, "the records are too large for a preview") from None
    if render is None:
        raise Problem(404, "there is nothing to send, or no route for this timeline")
    message = await service.beside(render)
    return PreviewAnswer(message.subject, message.text, message.html)
