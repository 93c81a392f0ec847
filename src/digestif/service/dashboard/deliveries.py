"""What went out, and what did not: digests that ended lately, kept messages, dead letters."""

from functools import partial
from urllib.parse import urlencode

from starlette.responses import Response

from digestif.core.machine import may_have_gone_out
from digestif.core.records import DeadLetter, check_timeline
from digestif.routes.archive import KeptMessage
from digestif.service.dashboard.timelines import framed
from digestif.service.dashboard.visits import Refused, Visit, reached

PAGE = 50
SEARCHED = 500  # entries that are read for those whose token has a prefix
RECORDS = 100


async def digests(visit: Visit) -> Response:
    timeline = _asked_timeline(visit)
    prefix = "" if visit.principal is None else visit.principal.prefix
    found = await visit.digests.history(timeline, limit=PAGE, prefix=prefix)
    shown = [entry for entry in found if _reaches(visit, entry.timeline)]
    return visit.render("digests.html", digests=shown, timeline=timeline, keeps=visit.service.settings.keep_messages)


async def digest(visit: Visit) -> Response:
    """A message that was sent, if messages are kept."""
    return visit.render("digest.html", kept=await _kept(visit))


async def message(visit: Visit) -> Response:
    return framed(await _kept(visit))


async def _kept(visit: Visit) -> KeptMessage:
    found = await visit.digests.message(visit.asked("id"))
    if found is None:
        raise Refused(
            404, "No message of this digest is kept", "Messages are kept by choice, and the oldest leave first."
        )
    reached(visit, found.timeline)
    return found


async def dead_letters(visit: Visit) -> Response:
    timeline = _asked_timeline(visit)
    limit = PAGE if timeline is not None or visit.sees_everything else SEARCHED
    found = await visit.digests.dead_letters(timeline, visit.asked("after") or None, limit)
    kept = {} if timeline is None else {"timeline": timeline}
    more = "/dead-letters?" + urlencode({**kept, "after": found[-1].id}) if len(found) == limit else None
    return visit.render(
        "dead_letters.html",
        letters=[letter for letter in found if _reaches(visit, letter.timeline)],
        timeline=timeline,
        more=more,
        is_first=not visit.asked("after"),
    )


async def dead_letter(visit: Visit) -> Response:
    return await show_letter(visit, await asked_letter(visit))


async def asked_letter(visit: Visit) -> DeadLetter:
    """The dead letter of the request, if the principal reaches its timeline."""
    store = visit.digests.store
    found = await visit.service.in_thread(partial(store.letter, visit.asked("id")))
    if found is None:
        raise Refused(404, "There is no such dead letter", "It was replayed, requeued or discarded meanwhile.")
    reached(visit, found.timeline)
    return found


async def show_letter(visit: Visit, letter: DeadLetter, *, problem: str | None = None, status: int = 200) -> Response:
    records = await visit.digests.dead_records(letter.id, limit=RECORDS)
    is_doubtful = may_have_gone_out(letter) or bool(letter.served)
    return visit.render(
        "dead_letter.html", status=status, letter=letter, records=records, problem=problem, is_doubtful=is_doubtful
    )


def _asked_timeline(visit: Visit) -> str | None:
    asked = visit.asked("timeline")
    return reached(visit, check_timeline(asked)) if asked else None


def _reaches(visit: Visit, timeline: str) -> bool:
    return visit.principal is not None and visit.principal.reaches(timeline)
