"""The routes of the dashboard."""

from starlette.routing import BaseRoute, Route

from digestif.service.dashboard import actions, assets, deliveries, live, log_in, overview, standing, timelines
from digestif.service.dashboard.visits import Reception
from digestif.service.service import Service


def routes(service: Service) -> list[BaseRoute]:
    """The pages, their actions, and the files that they load."""
    reception = Reception(service)
    return [assets.route(), *_pages(reception), *_actions(reception), *log_in.routes(reception)]


def _pages(reception: Reception) -> list[Route]:
    page = reception.page
    return [
        Route("/", page(overview.overview), methods=["GET"]),
        Route("/live", page(live.live), methods=["GET"]),
        Route("/series", page(overview.curves, whole=True), methods=["GET"]),
        Route("/timelines", page(timelines.timelines), methods=["GET"]),
        Route("/timeline", page(timelines.timeline), methods=["GET"]),
        Route("/timeline/preview", page(timelines.preview), methods=["GET"]),
        Route("/timeline/delete", page(timelines.confirm_delete), methods=["GET"]),
        Route("/digests", page(deliveries.digests), methods=["GET"]),
        Route("/digest", page(deliveries.digest), methods=["GET"]),
        Route("/digest/message", page(deliveries.message), methods=["GET"]),
        Route("/dead-letters", page(deliveries.dead_letters), methods=["GET"]),
        Route("/dead-letter", page(deliveries.dead_letter), methods=["GET"]),
        Route("/channels", page(standing.channels, whole=True), methods=["GET"]),
        Route("/workers", page(standing.workers, whole=True), methods=["GET"]),
        Route("/status", page(standing.status, whole=True), methods=["GET"]),
    ]


def _actions(reception: Reception) -> list[Route]:
    found = {**actions.ON_TIMELINES, **actions.ON_DEAD_LETTERS}
    return [Route(path, reception.action(answer), methods=["POST"]) for path, answer in found.items()]
