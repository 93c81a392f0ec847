"""The ASGI application: the API under /v1, the dashboard, and what guards both."""

from starlette.applications import Starlette
from starlette.types import ASGIApp

from digestif.service.api import endpoints
from digestif.service.dashboard import pages
from digestif.service.service import Service


def application(service: Service) -> ASGIApp:
    """The application of a service."""
    app = Starlette(routes=[*endpoints.routes(service), *pages.routes(service)])
    app.state.service = service
    return app
