"""The list of timelines: how it is searched, filtered and sorted, and how much of the store is read for that.

Orders for which the store has an index are read from it. Everything else is looked for in a bounded number of
timelines, and the page says how many they were.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from urllib.parse import urlencode

from msgspec import Struct, structs
from starlette.responses import Response

from digestif.core.machine import IDLE
from digestif.core.records import KEY_BYTES, HistoryEntry, Outcome, State, Timeline
from digestif.digests import Digests
from digestif.service.dashboard.handled import finder, patterns
from digestif.service.dashboard.visits import Visit
from digestif.service.security.reach import (
    TIMELINES_READ,
    Criteria,
    Found,
    Order,
    ended_digests,
    find_timelines,
    letters_page,
    matching,
)
from digestif.stores.base import HISTORY_LIMIT
from digestif.stores.damage import Unreadable

PAGE = 50
ENDED = 100  # latest digests that tell how the last digest of a timeline ended
LETTERS = 500  # dead letters that are searched for idle timelines
INSPECTED = 100  # timelines that are looked up because history or a dead letter names them
BEGINNINGS = 10  # prefixes that a search looks up in the index of names
PAUSED = "paused"
STATES = (State.WAITING, State.READY, State.OPEN, PAUSED, State.IDLE)
BY_INDEX = (State.WAITING, State.READY, State.OPEN)
ONLY = {"due": "due now", "pending": "with records", "failing": "to be retried", "unhandled": "without a route"}
SORTS = {"name": "name", "due": "due time", "pending": "pending records"}


class Query(Struct, frozen=True, kw_only=True):
    """What the address of the page asks for; an empty text asks for nothing."""

    search: str = ""  # a part of the name
    prefix: str = ""
    state: str = ""
    only: str = ""
    route: str = ""
    cadence: str = ""
    sort: str = ""

    def address(self, **changes: str) -> str:
        """Return the address of the page with some parameters changed."""
        asked = {name: text for name, text in structs.asdict(structs.replace(self, **changes)).items() if text}
        return "/timelines" + ("?" + urlencode(asked) if asked else "")

    @property
    def is_filtered(self) -> bool:
        """True if only some of the timelines are wanted."""
        return self != Query(sort=self.sort)


async def timelines(visit: Visit) -> Response:
    workers = await visit.digests.workers()
    routes = patterns(visit, workers) if visit.sees_everything else []
    query, deliverer = _asked(visit, routes), await visit.service.beside(partial(finder, visit, workers))
    is_first = not visit.asked("after")
    found, is_sorted = await _found(visit, query, deliverer), _is_sorted_here(visit, query)
    shown = found.timelines[:PAGE] if is_sorted else found.timelines
    if is_first and query.search and found.after is not None and not is_sorted:
        shown = _without_repeats([*await _beginning(visit, query, routes, deliverer), *shown])
    has_idle = is_first and _shows_idle(query)
    history = await _history(visit, limit=HISTORY_LIMIT if has_idle else ENDED)
    unhandled, retried = await visit.service.beside(partial(_marked, shown, deliverer))
    return visit.render(
        "timelines.html",
        query=query,
        timelines=shown,
        ended={entry.timeline: entry for entry in reversed(history)},
        unhandled=unhandled,
        retried=retried,
        matches=len(found.timelines),
        looked=found.looked,
        is_sorted=is_sorted,
        is_by_due=_by_due(visit, query),
        sorted_by=_sorted_by(visit, query),
        idle=await _idle(visit, query, deliverer, history) if has_idle else None,
        more=None if found.after is None else _more(query, found.after),
        is_first=is_first,
        is_full=len(shown) >= PAGE,
        is_live=found.looked <= TIMELINES_READ,
        states=("", *STATES),
        choices=_choices(visit, routes),
    )


def _asked(visit: Visit, routes: Sequence[str]) -> Query:
    """Read the query of the address. Values that the page does not offer count as empty."""
    known = {**_choices(visit, routes), "state": STATES}
    chosen = {name: asked for name, choices in known.items() if (asked := visit.asked(name)) in choices}
    prefix, own = visit.asked("prefix"), visit.reader.prefix
    within = prefix if prefix.startswith(own) and prefix != own else ""
    return Query(search=visit.asked("search").strip()[:KEY_BYTES], prefix=within, **chosen)


def _choices(visit: Visit, routes: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return what each select of the page offers, with its words."""
    cadences = {name: name for name in visit.digests.cadences}
    return {"only": ONLY, "route": {name: name for name in routes}, "cadence": cadences, "sort": SORTS}


def _more(query: Query, after: str) -> str:
    address = query.address()
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'after': after})}"


async def _found(visit: Visit, query: Query, deliverer: Callable[[str], str | None]) -> Found:
    """Look for the timelines that are wanted, in the order in which the store can be read."""
    is_sorted = _is_sorted_here(visit, query)
    criteria = Criteria(
        name=("list", *structs.astuple(query)),
        prefix=_prefix(visit, query),
        wanted=_wanted(visit, query, deliverer),
        order=_order(visit, query),
        is_past=lambda timeline: query.only == "due" and not _is_due(timeline, now=visit.now),
    )
    after = visit.asked("after") or None
    found = await find_timelines(visit.service, visit.reader, criteria, after=after, limit=None if is_sorted else PAGE)
    return found._replace(timelines=sorted(found.timelines, key=_SORTED_BY[query.sort])) if is_sorted else found


def _order(visit: Visit, query: Query) -> Order:
    """Return the index by which the store is read; without one it is read by name."""
    if _by_due(visit, query):
        return Order(due=True)
    if query.sort or query.search or query.prefix or not visit.sees_everything:
        return Order()
    if query.state == PAUSED:
        return Order(paused=True)
    return Order(state=State(query.state)) if query.state in BY_INDEX else Order()


def _sorted_by(visit: Visit, query: Query) -> str | None:
    """Return the column by which the list is sorted; None if the page does not show it."""
    order = _order(visit, query)
    if _is_sorted_here(visit, query) or order == Order():
        return query.sort or "name"
    return "due" if order.due or order.state in (State.WAITING, State.READY) else None


def _by_due(visit: Visit, query: Query) -> bool:
    """True if the list is read from the index of due times, in which only waiting and ready timelines are."""
    if not visit.sees_everything or query.state not in ("", State.WAITING, State.READY):
        return False
    return query.sort == "due" or (query.only in ("due", "failing") and not query.sort)


def _is_sorted_here(visit: Visit, query: Query) -> bool:
    """True if no index has the order that is asked for."""
    return query.sort == "pending" or (query.sort == "due" and not _by_due(visit, query))


def _prefix(visit: Visit, query: Query) -> str:
    """Return what the names begin with: what is asked for, else the literal beginning of the route's pattern."""
    return query.prefix or visit.reader.prefix or query.route.partition("*")[0]


def _wanted(visit: Visit, query: Query, deliverer: Callable[[str], str | None]) -> Callable[[Timeline], bool]:
    """Return what a timeline must be to be listed."""
    tests: list[Callable[[Timeline], bool]] = [lambda each: each.key.startswith(query.prefix)]
    if query.search:
        tests.append(partial(_is_named, query.search.casefold()))
    if query.state:
        tests.append(partial(_is_in, query.state))
    if query.only:
        only: dict[str, Callable[[Timeline], bool]] = {
            "due": lambda each: _carried(each) > 0 and _is_due(each, now=visit.now),
            "pending": lambda each: _carried(each) > 0,
            "failing": partial(_is_retried, deliverer),
            "unhandled": partial(_is_unhandled, deliverer),
        }
        tests.append(only[query.only])
    if query.route:
        tests.append(lambda each: deliverer(each.key) == query.route)
    if query.cadence:
        tests.append(lambda each: each.cadence == query.cadence)
    return lambda each: all(test(each) for test in tests)


def _is_named(part: str, timeline: Timeline) -> bool:
    return part in timeline.key.casefold()


def _is_in(state: str, timeline: Timeline) -> bool:
    """True if a timeline is on the list of a state; paused ones are on a list of their own, idle ones on both."""
    if state == PAUSED:
        return timeline.paused
    return timeline.state == state and (not timeline.paused or state == State.IDLE)


def _carried(timeline: Timeline) -> int:
    return timeline.pending + timeline.in_digest


def _due(timeline: Timeline) -> float | None:
    return timeline.was_due if timeline.state is State.READY else timeline.due


def _is_due(timeline: Timeline, *, now: float) -> bool:
    at = _due(timeline)
    return at is not None and at <= now and not timeline.paused


def _is_unhandled(deliverer: Callable[[str], str | None], timeline: Timeline) -> bool:
    """True if no route delivers a timeline, unless it is switched off."""
    return not timeline.off and deliverer(timeline.key) is None


def _is_retried(deliverer: Callable[[str], str | None], timeline: Timeline) -> bool:
    """True if a timeline has an unfinished digest that is not being delivered: an attempt failed or was put off.

    Digests that no route delivers are put off, too, and are not meant here.
    """
    return timeline.in_digest > 0 and timeline.state is not State.OPEN and not _is_unhandled(deliverer, timeline)


def _marked(shown: Sequence[Timeline], deliverer: Callable[[str], str | None]) -> tuple[set[str], set[str]]:
    """Return the names of those that no route delivers, and of those that are retried."""
    unhandled = {each.key for each in shown if _is_unhandled(deliverer, each)}
    return unhandled, {each.key for each in shown if _is_retried(deliverer, each)}


_SORTED_BY: dict[str, Callable[[Timeline], tuple[float, str]]] = {
    "pending": lambda each: (-_carried(each), each.key),
    "due": lambda each: (float("inf") if (at := _due(each)) is None else at, each.key),
}


async def _beginning(
    visit: Visit, query: Query, routes: Sequence[str], deliverer: Callable[[str], str | None]
) -> list[Timeline]:
    """Look up the names that begin with the search, also behind the beginning of a pattern: ada finds mail:ada.

    The index of names has them, however many timelines there are.
    """
    before = ["", visit.reader.prefix, *(each[:-1] for each in routes if each.find("*") == len(each) - 1)]
    beginnings = dict.fromkeys(f"{text}{query.search}" for text in before)
    within, wanted = _prefix(visit, query), _wanted(visit, query, deliverer)
    found: list[Timeline] = []
    for beginning in [each for each in beginnings if each.startswith(within)][:BEGINNINGS]:
        found += await visit.digests.timelines(prefix=beginning, limit=PAGE)
    return (await visit.service.beside(partial(matching, wanted, found)))[:PAGE]


def _without_repeats(found: Sequence[Timeline]) -> list[Timeline]:
    return list({each.key: each for each in found}.values())


async def _history(visit: Visit, *, limit: int) -> list[HistoryEntry]:
    """Return the latest digests of all timelines, the latest first."""
    return await ended_digests(visit.service, visit.reader, timeline=None, limit=limit)


class Idle(Struct, frozen=True):
    """A timeline of which nothing is stored but its history or a dead letter. Times are None if they are not known."""

    key: str
    delivered: float | None
    ended: HistoryEntry | None = None  # its latest digest


class IdleTimelines(Struct, frozen=True):
    """Idle timelines that are known. `is_all` is False if more are named than were looked up."""

    timelines: list[Idle]
    is_all: bool


def _shows_idle(query: Query) -> bool:
    """True if idle timelines may be among those that are asked for."""
    is_asked = query.state == State.IDLE or (bool(query.search or query.route) and not query.state)
    return is_asked and query.sort in ("", "name") and not (query.only or query.cadence)


async def _idle(
    visit: Visit, query: Query, deliverer: Callable[[str], str | None], history: Sequence[HistoryEntry]
) -> IdleTimelines:
    """Look for idle timelines in the history and in dead letters."""
    page = await letters_page(visit.service, visit.reader, timeline=None, after=None, limit=LETTERS)
    named = dict.fromkeys([entry.timeline for entry in history] + [letter.timeline for letter in page.letters])
    wanted = await visit.service.beside(partial(_wanted_names, query, deliverer, named))
    stored = await visit.service.ask(partial(_stored, keys=wanted[:INSPECTED]))
    ended = {entry.timeline: entry for entry in reversed(history)}
    delivered = {entry.timeline: entry.ended for entry in reversed(history) if entry.outcome is Outcome.DELIVERED}
    idle = [Idle(key, delivered.get(key), ended.get(key)) for key in wanted[:INSPECTED] if key not in stored]
    return IdleTimelines(idle, is_all=len(wanted) <= INSPECTED)


def _wanted_names(query: Query, deliverer: Callable[[str], str | None], names: Iterable[str]) -> list[str]:
    """Return the names that a query asks for."""
    part = query.search.casefold()
    found = [key for key in names if part in key.casefold() and key.startswith(query.prefix)]
    return [key for key in found if deliverer(key) == query.route] if query.route else found


def _stored(digests: Digests, *, keys: Sequence[str]) -> set[str]:
    """Return those of these timelines that are stored, readable or not."""
    return {key for key in keys if _is_stored(digests, key)}


def _is_stored(digests: Digests, key: str) -> bool:
    try:
        return digests.store.inspect(key) != IDLE
    except Unreadable:
        return True
