"""The routes of the dashboard."""

from starlette.routing import BaseRoute

from digestif.service.service import Service


def routes(service: Service) -> list[BaseRoute]:
    """The pages, their actions, and the files that they load."""
    return []
