"""What went out, and what did not: digests that ended lately, kept messages, dead letters."""

from collections.abc import Sequence
from functools import partial
from urllib.parse import urlencode

from msgspec import Struct
from starlette.responses import Response

from digestif.core.machine import may_have_gone_out
from digestif.core.records import DeadLetter, HistoryEntry, Outcome, check_timeline
from digestif.digests import Digests
from digestif.routes.archive import KeptMessage
from digestif.service import excerpts
from digestif.service.dashboard.handled import delivered_by, patterns
from digestif.service.dashboard.timelines import framed
from digestif.service.dashboard.visits import Refused, Visit, reached
from digestif.service.excerpts import Excerpts
from digestif.service.security.reach import ended_digests, letters_page, reached_letter, reached_message

PAGE = 50
RECORDS = 100


async def digests(visit: Visit) -> Response:
    timeline = _asked_timeline(visit)
    shown = await ended_digests(visit.service, visit.reader, timeline=timeline, limit=PAGE)
    addressed = await visit.service.ask(partial(_addressed, entries=shown))
    return visit.render(
        "digests.html",
        digests=shown,
        addressed=addressed,
        timeline=timeline,
        keeps=visit.service.settings.keep_messages,
        is_routed=bool(shown) or await _is_routed(visit, timeline),
    )


async def _is_routed(visit: Visit, timeline: str | None) -> bool:
    """Return True if a route delivers the timeline; without a timeline, if there is any route."""
    workers = await visit.digests.workers()
    if timeline is None:
        return bool(patterns(visit, workers))
    return delivered_by(visit, workers, timeline) is not None


class Addressed(Struct, frozen=True):
    """Whom a digest is for, and its subject if its message is kept."""

    recipient: str
    subject: str | None = None


def _addressed(digests: Digests, *, entries: Sequence[HistoryEntry]) -> dict[str, Addressed]:
    """Look at the kept messages of digests. For others the route says the recipient, unless by a function."""
    found: dict[str, Addressed] = {}
    for entry in entries:
        kept = digests.message(entry.id) if entry.outcome is Outcome.DELIVERED else None
        route = digests.engine.route_of(entry.timeline)
        if kept is not None:
            found[entry.id] = Addressed(kept.recipient, kept.subject)
        elif route is not None and route.split is None and not callable(route.to):
            found[entry.id] = Addressed(route.recipient(entry.timeline))
    return found


async def digest(visit: Visit) -> Response:
    """A message that was sent, if messages are kept."""
    return visit.render("digest.html", kept=await _kept(visit))


async def message(visit: Visit) -> Response:
    return framed(visit, await _kept(visit))


async def _kept(visit: Visit) -> KeptMessage:
    found = await reached_message(visit.service, visit.reader, visit.asked("id"))
    if found is None:
        raise Refused(
            404, "No message of this digest is kept", "Messages are kept by choice, and the oldest leave first."
        )
    return found


async def dead_letters(visit: Visit) -> Response:
    timeline = _asked_timeline(visit)
    after = visit.asked("after") or None
    page = await letters_page(visit.service, visit.reader, timeline=timeline, after=after, limit=PAGE)
    kept = {} if timeline is None else {"timeline": timeline}
    more = None if page.after is None else "/dead-letters?" + urlencode({**kept, "after": page.after})
    return visit.render(
        "dead_letters.html",
        letters=page.letters,
        timeline=timeline,
        more=more,
        is_first=not visit.asked("after"),
    )


async def dead_letter(visit: Visit) -> Response:
    return await show_letter(visit, await asked_letter(visit))


async def asked_letter(visit: Visit) -> DeadLetter:
    """The dead letter of the request, if there is one that the principal reaches."""
    found = await reached_letter(visit.service, visit.reader, visit.asked("id"))
    if found is None:
        raise Refused(404, "There is no such dead letter", "It was replayed, requeued or discarded.")
    return found


async def show_letter(visit: Visit, letter: DeadLetter, *, problem: str | None = None, status: int = 200) -> Response:
    read = partial(excerpts.dead_records_at, letter_id=letter.id, limit=RECORDS)
    records = await visit.service.part(Excerpts).read(read)
    is_doubtful = may_have_gone_out(letter) or bool(letter.served)
    return visit.render(
        "dead_letter.html", status=status, letter=letter, records=records, problem=problem, is_doubtful=is_doubtful
    )


def _asked_timeline(visit: Visit) -> str | None:
    asked = visit.asked("timeline")
    return reached(visit, check_timeline(asked)) if asked else None
