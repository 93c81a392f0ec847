"""The overview: what came in, what went out, and whether anything needs attention."""

from collections.abc import Sequence
from functools import partial

import msgspec
from starlette.responses import RedirectResponse, Response

from digestif.core.ledger import FATES, Ledger
from digestif.core.records import Timeline
from digestif.core.workers import LiveWorker
from digestif.notes.workers import UNHANDLED_LOOKED_AT, unhandled_among
from digestif.service.dashboard.handled import finder
from digestif.service.dashboard.series import RANGES, Series, rates, series, totals
from digestif.service.dashboard.standing import ENDED, channels_of, first_route
from digestif.service.dashboard.visits import Visit

CHANNELS = 6  # that are shown
LATEST = 10  # digests and dead letters that are shown
LATE = 60.0  # seconds from which lateness is worth a look
SKETCH = (600, 160)  # width and height of the drawing for browsers without script


async def overview(visit: Visit) -> Response:
    if not visit.sees_everything:
        return RedirectResponse("/timelines", status_code=303)
    ledger, looked = await visit.digests.ledger(), await visit.digests.overview()
    backlog = looked.backlog
    outages, chosen = await visit.digests.outages(), _chosen(visit)
    samples = await visit.digests.samples(since=visit.now - RANGES[chosen])
    curves = series(samples, now=visit.now, length=RANGES[chosen])
    ended, failures = await visit.digests.history(limit=ENDED), await visit.digests.failures()
    workers = await visit.digests.workers()
    due = await visit.digests.timelines_page(due=True, limit=UNHANDLED_LOOKED_AT)
    return visit.render(
        "overview.html",
        ledger=ledger,
        fates=[(fate, getattr(ledger, fate)) for fate in FATES],
        backlog=backlog,
        at_least=looked.at_least,
        is_late=backlog.late > LATE,
        totals=totals(samples, since=visit.now - RANGES[chosen]),
        lately_a_minute=rates(samples, now=visit.now),
        outages=outages,
        failures=failures,
        channels=channels_of(visit, outages, ended, failures)[:CHANNELS],
        workers=workers,
        unhandled=await visit.service.beside(partial(_unhandled, visit, due.timelines, workers)),
        more_due=due.after is not None,
        ended=ended[:LATEST],
        letters=await visit.digests.dead_letters(limit=LATEST),
        chosen=chosen,
        ranges=RANGES,
        sketch=sketches(curves),
        is_new=_is_new(ledger),
        **first_route(visit),
    )


def _unhandled(visit: Visit, timelines: Sequence[Timeline], workers: list[LiveWorker]) -> list[str]:
    """Return the names of timelines that neither this service nor a live worker delivers."""
    find = finder(visit, workers)
    return [key for key in unhandled_among(timelines, workers) if find(key) is None]


async def curves(visit: Visit) -> Response:
    """The curves as JSON, for the script that draws them."""
    length = RANGES[_chosen(visit)]
    samples = await visit.digests.samples(since=visit.now - length - 60)
    found = series(samples, now=visit.now, length=length)
    return Response(msgspec.json.encode(found), media_type="application/json")


def sketches(curves: Series) -> dict[str, str]:
    """The curves as points of polylines, for browsers without script."""
    named = {name: getattr(curves, name) for name in ("events", "messages", "pending", "late")}
    named["out"] = curves.messages  # by its own scale
    most = max((value or 0 for values in (named["events"], named["messages"]) for value in values), default=0)
    tops = {"events": most, "messages": most}
    return {
        name: _points(values, top=tops.get(name, max((value or 0 for value in values), default=0)))
        for name, values in named.items()
    }


def _points(values: list[float | None], *, top: float) -> str:
    width, height = SKETCH
    step = width / max(1, len(values) - 1)
    known = [(place * step, value) for place, value in enumerate(values) if value is not None]
    return " ".join(f"{x:.1f},{height - (height - 4) * value / (top or 1):.1f}" for x, value in known)


def _chosen(visit: Visit) -> str:
    asked = visit.asked("range", "6h")
    return asked if asked in RANGES else "6h"


def _is_new(ledger: Ledger) -> bool:
    return ledger.accepted == 0 and ledger.declined == 0
