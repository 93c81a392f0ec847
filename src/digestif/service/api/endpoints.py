"""The routes of the API."""

from starlette.routing import BaseRoute

from digestif.service.service import Service


def routes(service: Service) -> list[BaseRoute]:
    """The routes under /v1, and those for probes and metrics."""
    return []
