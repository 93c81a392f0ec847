"""The page of one timeline."""

import re
from datetime import UTC
from functools import partial
from typing import Any

from msgspec import Struct
from starlette.responses import HTMLResponse, Response

from digestif.channels.base import Message
from digestif.core.explain import Explanation
from digestif.core.records import Outcome, State, Timeline, check_timeline
from digestif.core.times import clock_in, instant_in
from digestif.core.windows.zones import zone_of
from digestif.errors import ConfigError
from digestif.service import excerpts
from digestif.service.dashboard.choices import PARTS, described_cadences, draft_of
from digestif.service.dashboard.handled import delivered_by
from digestif.service.dashboard.life import life
from digestif.service.dashboard.rendering import rendered
from digestif.service.dashboard.visits import Page, Refused, Visit, reached
from digestif.service.excerpts import Excerpts, LargePreview
from digestif.service.security import reach

RECORDS = 100  # pending records that a page shows
PREVIEWED = 400  # records that a preview may read
NOTHING_PENDING = "A preview needs at least one pending record."
NO_ROUTE = "There is no preview: this service has no route for this timeline."
NOT_SENT = "There is no preview: the route of this timeline would send nothing."
HISTORY = 40
LETTERS = 20
MESSAGE_HEADERS = {  # of a message inside a page: nothing but its own styles and pictures that it carries itself
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'; sandbox"
    ),
    "X-Frame-Options": "SAMEORIGIN",
}


def asked_timeline(visit: Visit) -> str:
    return reached(visit, check_timeline(visit.asked("key")))


async def timeline(visit: Visit) -> Response:
    return await show(visit, asked_timeline(visit))


async def show(visit: Visit, key: str, *, problem: str | None = None, status: int = 200) -> Response:
    """The page of a timeline; with a problem, if an action on it did not work."""
    return visit.render("timeline.html", status=status, problem=problem, **await _facts(visit, key))


async def _facts(visit: Visit, key: str) -> dict[str, Any]:
    digests = visit.digests
    found = await digests.timeline(key)
    explanation = await reach.explanation(visit.service, visit.reader, key)
    records = await visit.service.part(Excerpts).read(partial(excerpts.peek_at, timeline=key, limit=RECORDS))
    history = await digests.history(key, limit=HISTORY)
    preference = await digests.preference(key)
    carried = found.pending + found.in_digest
    deliverer = await visit.service.beside(partial(delivered_by, visit, await digests.workers(), key))
    return {
        "timeline": found,
        "explanation": explanation,
        "sentences": _sentences(explanation, now=visit.now),
        "records": records,
        "carried": carried,
        "history": history,
        "delivered": next((entry for entry in history if entry.outcome is Outcome.DELIVERED), None),
        "letters": await digests.dead_letters(key, limit=LETTERS),
        "preference": preference,
        "cadences": described_cadences(digests.cadences),
        "has_own_policy": explanation.source == "override",
        "typed": visit.form,
        "draft": draft_of(visit.asked),
        "parts": PARTS,
        "life": await visit.service.beside(partial(life, records, history, explanation, now=visit.now)),
        "is_delivered": found.off or deliverer is not None,
        "likely_pattern": _likely_pattern(key),
        "nothing_pending": NOTHING_PENDING,
        "preview": await _envelope(visit, key) if 0 < carried <= PREVIEWED else None,
    }


def _sentences(explanation: Explanation, *, now: float) -> list[str]:
    """The explanation with whole instants in place of times by the clock: pages show them in the reader's zone."""
    zone = UTC if explanation.zone is None else zone_of(explanation.zone)
    sentences = [sentence.removeprefix(f"{explanation.timeline}: ") for sentence in explanation.sentences()]
    for at in filter(None, (explanation.aligned, explanation.next)):
        for lead in ("until", "is"):
            short, whole = (f" {lead} {text}" for text in (clock_in(at, zone, now=now), instant_in(at, zone)))
            sentences = [sentence.replace(short, whole) for sentence in sentences]
    return sentences


def _likely_pattern(key: str) -> str:
    """A pattern for a route that would deliver a timeline: that of its kind, such as mail:*, else any."""
    kind = re.match(r"[A-Za-z0-9_.-]{1,40}:", key)
    return f"{kind[0]}*" if kind else "*"


class Envelope(Struct, frozen=True):
    """What stands above the preview of a message, or why there is no preview."""

    message: Message | None = None
    problem: str | None = None


async def _envelope(visit: Visit, key: str) -> Envelope | None:
    """Render the next message for its subject and recipient; None for a refresh, which leaves the preview as it is."""
    if "HX-Request" in visit.request.headers:
        return None
    try:
        message = await _next_message(visit, key)
        return Envelope(message=message, problem=None if message else await _why_nothing(visit, key))
    except LargePreview:
        return Envelope(problem="The values of its records are too large for a preview.")
    except ConfigError as error:
        return Envelope(problem=f"The message can’t be rendered: {error}")


async def preview(visit: Visit) -> Response:
    """What would be sent now, on a page of its own that may do nothing."""
    key = asked_timeline(visit)
    found = await visit.digests.timeline(key)
    if found.pending + found.in_digest > PREVIEWED:
        raise Refused(413, "Too many records for a preview", f"A preview reads at most {PREVIEWED}.")
    try:
        message = await _next_message(visit, key)
        return framed(visit, message, nothing="" if message else await _why_nothing(visit, key))
    except LargePreview:
        raise Refused(413, "Too much for a preview", "The values of its records are too large.") from None


async def _next_message(visit: Visit, key: str) -> Message | None:
    """Render what would be sent now; None as `_why_nothing` says. Raises LargePreview and ConfigError."""
    render = await visit.service.part(Excerpts).read(partial(excerpts.prepare_preview, timeline=key))
    return None if render is None else await visit.service.beside(render)


async def _why_nothing(visit: Visit, key: str) -> str:
    """Say why nothing would be sent now. A delivery may have emptied the timeline after the page began to read."""
    found = await visit.digests.timeline(key)
    if found.pending + found.in_digest == 0:
        return NOTHING_PENDING
    has_route = await visit.service.part(Excerpts).read(partial(excerpts.has_route, timeline=key))
    return NOT_SENT if has_route else NO_ROUTE


def framed(visit: Visit, message: Any | None, *, nothing: str = "") -> Response:
    """A message as the document of a frame: its HTML, else its text; without a message, `nothing` says why."""
    if message is not None and message.html:
        return HTMLResponse(message.html, headers=MESSAGE_HEADERS)
    text = None if message is None else message.text
    return Page(visit.service, partial(rendered, "framed.html", text=text, nothing=nothing), headers=MESSAGE_HEADERS)


async def confirm_delete(visit: Visit) -> Response:
    key = asked_timeline(visit)
    letters = await visit.digests.dead_letters(key, limit=LETTERS)
    return visit.render(
        "delete.html", timeline=await visit.digests.timeline(key), letters=letters, is_all=len(letters) < LETTERS
    )


async def confirm_off(visit: Visit) -> Response:
    """Ask before a cadence is chosen that deletes what is pending."""
    key = asked_timeline(visit)
    found = await visit.digests.timeline(key)
    return visit.render(
        "off.html",
        timeline=found,
        deleted=deleted_by_off(found),
        cadence=visit.asked("cadence"),
        zone=visit.asked("zone"),
    )


def deleted_by_off(timeline: Timeline) -> int:
    """Return how many records are deleted if the timeline is switched off: a digest that is open is still delivered."""
    return timeline.pending + (0 if timeline.state is State.OPEN else timeline.in_digest)
