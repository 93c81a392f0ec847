"""The routes of the dashboard."""

from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from digestif.service.dashboard import (
    actions,
    assets,
    decisions,
    deliveries,
    listing,
    live,
    log_in,
    overview,
    records,
    standing,
    timelines,
)
from digestif.service.dashboard.visits import Reception, broken
from digestif.service.service import Service


def dashboard(service: Service) -> Starlette:
    """The application of the dashboard."""
    reception = Reception(service)
    made = Starlette(routes=_routes(reception), exception_handlers=_refusals(reception))
    made.router.redirect_slashes = False  # they would name the scheme of the proxy's connection, not the client's
    made.state.service = service
    return made


def _refusals(reception: Reception) -> dict[Any, Callable[[Request, Exception], Any]]:
    """What is answered where no page can be."""
    return {
        404: reception.refusal(404, "There is no such page", "The address may be mistyped, or from an older release."),
        405: reception.refusal(405, "This address takes no such request", "Forms are sent from their own pages."),
        Exception: broken,
    }


def _routes(reception: Reception) -> list[BaseRoute]:
    """The pages, their actions, and the files that they load."""
    pages = _pages(reception)
    return [assets.route(), *pages, *_actions(reception), *log_in.routes(reception), _without_slash(pages)]


def _pages(reception: Reception) -> list[Route]:
    page = reception.page
    return [
        Route("/", page(overview.overview), methods=["GET"]),
        Route("/live", page(live.live), methods=["GET"]),
        Route("/series", page(overview.curves, whole=True), methods=["GET"]),
        Route("/timelines", page(listing.timelines), methods=["GET"]),
        Route("/timeline", page(timelines.timeline), methods=["GET"]),
        Route("/timeline/record", page(records.record), methods=["GET"]),
        Route("/timeline/preview", page(timelines.preview), methods=["GET"]),
        Route("/timeline/delete", page(timelines.confirm_delete), methods=["GET"]),
        Route("/timeline/off", page(timelines.confirm_off), methods=["GET"]),
        Route("/digests", page(deliveries.digests), methods=["GET"]),
        Route("/digest", page(deliveries.digest), methods=["GET"]),
        Route("/digest/message", page(deliveries.message), methods=["GET"]),
        Route("/dead-letters", page(deliveries.dead_letters), methods=["GET"]),
        Route("/dead-letter", page(deliveries.dead_letter), methods=["GET"]),
        Route("/channels", page(standing.channels, whole=True), methods=["GET"]),
        Route("/workers", page(standing.workers, whole=True), methods=["GET"]),
        Route("/status", page(standing.status, whole=True), methods=["GET"]),
    ]


def _without_slash(pages: Sequence[Route]) -> Route:
    """Lead from a page's address with a slash behind it to the page, whatever scheme and host a proxy has."""
    paths = {page.path for page in pages}

    async def redirect(request: Request) -> Response:
        path, query = request.scope["path"].rstrip("/"), request.scope["query_string"].decode("latin-1")
        if path not in paths:
            raise HTTPException(404)
        return RedirectResponse(f"{path}?{query}" if query else path)

    return Route("/{path:path}/", redirect, methods=["GET"])


def _actions(reception: Reception) -> list[Route]:
    found = {**actions.ON_TIMELINES, **decisions.ON_DEAD_LETTERS}
    return [Route(path, reception.action(answer), methods=["POST"]) for path, answer in found.items()]
