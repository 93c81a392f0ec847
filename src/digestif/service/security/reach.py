"""What a principal sees of lists and ids. API and dashboard ask here, so that both show the same.

A list for a principal with a prefix depends on nothing that others have: its pages are full as long as more follow, and
what it does not reach is as if it did not exist. The cursors of all lists are sealed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from digestif.core.explain import Explanation
from digestif.core.records import DeadLetter, HistoryEntry, State, Timeline, TimelinesPage
from digestif.intake.patterns import stars
from digestif.routes.archive import KeptMessage
from digestif.service.security.cursors import Cursors
from digestif.service.security.tokens import Principal
from digestif.service.service import Service
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.damage import Unreadable

TIMELINES_READ = 500  # in one call, where some are passed over
LETTERS_READ = 500
SLICES = 20  # calls in one request
LARGEST_SLICE = 2 * PAGE_TIMELINES  # timelines, in one call for a list of the dashboard
MOST_LOOKED_AT = 10_000  # timelines, in one request…
MOST_CALLS = 100  # …which needs no more calls than this
UNNAMED = "it does not answer"  # in place of the reason of an outage


class LettersPage(NamedTuple):
    """Dead letters, and the sealed cursor of the next page; None at the end."""

    letters: list[DeadLetter]
    after: str | None


async def timelines_page(
    service: Service,
    principal: Principal,
    *,
    prefix: str,
    after: str | None,
    limit: int,
    state: State | None = None,
    paused: bool | None = None,
) -> TimelinesPage:
    """A page of the timelines with a prefix, which the principal reaches.

    For a principal with a prefix they come in the order of their names, those of a state too: no others are read. Then
    a page is short only at the end, or behind 10,000 own timelines of other states.
    """
    query = ("timelines", prefix, state, str(paused))
    cursors = service.part(Cursors)
    place = await cursors.open(after, principal, *query)
    if principal.prefix:
        found = await _by_name(service, prefix=prefix, after=place, limit=limit, wanted=_filter(state, paused))
    else:
        found = await service.digests.timelines_page(state, prefix, place, limit, paused)
    return TimelinesPage(found.timelines, await cursors.seal(found.after, principal, *query))


def _filter(state: State | None, paused: bool | None) -> Callable[[Timeline], bool] | None:
    """Which timelines are listed; None: all of them. Paused ones are in no list of a state but that of idle ones."""
    if state is None and paused is None:
        return None
    is_paused = False if paused is None and state is not State.IDLE else paused
    return lambda timeline: state in (None, timeline.state) and is_paused in (None, timeline.paused)


async def _by_name(
    service: Service, *, prefix: str, after: str | None, limit: int, wanted: Callable[[Timeline], bool] | None
) -> TimelinesPage:
    shown: list[Timeline] = []
    most = limit + 1 if wanted is None else TIMELINES_READ
    for _ in range(SLICES):
        found = await service.digests.timelines(prefix=prefix, after=after, limit=most)
        shown += found if wanted is None else filter(wanted, found)
        if len(shown) > limit:
            return TimelinesPage(shown[:limit], shown[limit - 1].key)
        if len(found) < most:
            return TimelinesPage(shown, None)
        after = found[-1].key
    return TimelinesPage(shown, after)


class Order(Struct, frozen=True, kw_only=True):
    """An order of timelines that the store has an index for. Without one of these they come by name."""

    state: State | None = None
    paused: bool | None = None
    due: bool = False


class Found(NamedTuple):
    """The timelines that were wanted among those looked at, and the sealed cursor to go on; None at the end."""

    timelines: list[Timeline]
    looked: int
    after: str | None


class Criteria(Struct, frozen=True, kw_only=True):
    """Which timelines are wanted, and in which order they are looked at."""

    name: tuple[str, ...]  # cursors are bound to it
    prefix: str
    wanted: Callable[[Timeline], bool]
    order: Order = Order()
    is_past: Callable[[Timeline], bool] = lambda _: False  # in this order no later timeline is wanted


async def find_timelines(
    service: Service, principal: Principal, criteria: Criteria, *, after: str | None, limit: int | None
) -> Found:
    """Look for timelines that the principal reaches until there is a page of them, or 10,000 were looked at.

    For a principal with a prefix they come by name: no others are read. By name a page has at most `limit` timelines,
    in another order it may have more. Without a limit it has all that were found.
    """
    cursors, order = service.part(Cursors), Order() if principal.prefix else criteria.order
    place = await cursors.open(after, principal, *criteria.name)
    shown: list[Timeline] = []
    looked, size = 0, limit or LARGEST_SLICE
    if limit is not None and order == Order():
        size = 2 * limit  # more than a page, so that a full page is known to be the last one
    for _ in range(MOST_CALLS):
        found, place = await _slice(service, criteria.prefix, order, after=place, limit=size)
        size = min(2 * size, LARGEST_SLICE)
        shown += await service.beside(partial(matching, criteria.wanted, found))
        if limit is not None and order == Order() and len(shown) > limit:
            shown, place = shown[:limit], shown[limit - 1].key
            found = found[: 1 + found.index(shown[-1])]
        looked += len(found)
        if found and order != Order() and criteria.is_past(found[-1]):
            place = None
        is_full = limit is not None and len(shown) >= limit
        if place is None or is_full or looked >= MOST_LOOKED_AT:
            break
    return Found(shown, looked, await cursors.seal(place, principal, *criteria.name))


def matching(wanted: Callable[[Timeline], bool], found: Sequence[Timeline]) -> list[Timeline]:
    """Return the timelines that are wanted. With many patterns of workers that may take seconds."""
    return list(filter(wanted, found))


async def _slice(
    service: Service, prefix: str, order: Order, *, after: str | None, limit: int
) -> tuple[list[Timeline], str | None]:
    """Read timelines in an order, and where to go on."""
    if order == Order():
        found = await service.digests.timelines(prefix=prefix, after=after, limit=limit)
        return found, found[-1].key if len(found) == limit else None
    page = await service.digests.timelines_page(
        order.state, after=after, limit=limit, paused=order.paused, due=order.due
    )
    return page.timelines, page.after


async def letters_page(
    service: Service, principal: Principal, *, timeline: str | None, after: str | None, limit: int
) -> LettersPage:
    """A page of dead letters that the principal reaches, the oldest first.

    It is short only at the end, or behind 10,000 letters of others.
    """
    query, cursors = ("dead letters", timeline), service.part(Cursors)
    place = await cursors.open(after, principal, *query)
    shown: list[DeadLetter] = []
    most = limit + 1 if timeline is not None or not principal.prefix else LETTERS_READ
    for _ in range(SLICES):
        found = await service.digests.dead_letters(timeline, place, most)
        shown += [letter for letter in found if principal.reaches(letter.timeline)]
        is_full, place = len(shown) > limit, found[-1].id if found else None
        if is_full:
            shown, place = shown[:limit], shown[limit - 1].id
            break
        if len(found) < most:
            return LettersPage(shown, None)
    return LettersPage(shown, await cursors.seal(place, principal, *query))


async def ended_digests(
    service: Service, principal: Principal, *, timeline: str | None, limit: int
) -> list[HistoryEntry]:
    """The latest digests that the principal reaches."""
    found = await service.digests.history(timeline, limit, prefix=principal.prefix)
    return [entry for entry in found if principal.reaches(entry.timeline)]


async def reached_letter(service: Service, principal: Principal, letter_id: str) -> DeadLetter | None:
    """A dead letter by its id; None if there is none, or the principal does not reach its timeline."""
    try:
        letter = await service.in_thread(partial(service.digests.store.letter, letter_id))
    except Unreadable as error:
        if principal.reaches(error.damage.timeline or ""):
            raise
        return None
    return letter if letter is not None and principal.reaches(letter.timeline) else None


async def reached_message(service: Service, principal: Principal, digest_id: str) -> KeptMessage | None:
    """The kept message of a digest; None if there is none, or the principal does not reach its timeline."""
    found: KeptMessage | None = await service.digests.message(digest_id)
    return found if found is not None and principal.reaches(found.timeline) else None


async def explanation(service: Service, principal: Principal, timeline: str) -> Explanation:
    """Why a timeline is due when it is.

    To a principal with a prefix an outage names no patterns of others, and no reason: that is what the channel said of
    a digest of anybody, such as a reply with an address.
    """
    found = await service.digests.explain(timeline)
    outage = found.outage
    if outage is None or not principal.prefix:
        return found
    own = tuple(pattern for pattern in outage.patterns if stars(pattern, timeline) is not None)
    return replace(found, outage=replace(outage, patterns=own, reason=UNNAMED))
