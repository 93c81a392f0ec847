"""The ASGI application: the API under /v1, the dashboard, and what guards both."""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from digestif.service.api.api import Api
from digestif.service.api.problems import Problem
from digestif.service.api.requests import answer_of, respond
from digestif.service.dashboard.pages import dashboard
from digestif.service.security.headers import headers_of
from digestif.service.service import Service

SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


def application(service: Service) -> ASGIApp:
    """The application of a service."""
    return Application(service, dashboard(service))


class Application:
    """Refuses what comes under a foreign name or from a page of another site; gives the rest to API or dashboard."""

    def __init__(self, service: Service, dashboard: ASGIApp) -> None:
        self._service = service
        self._api = Api(service)
        self._dashboard = dashboard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._dashboard(scope, receive, send)
            return
        headers = headers_of(scope["headers"])
        if headers is None:
            await respond(scope, send, answer_of(Problem(400, "a header was given twice", closes=True), ""))
        elif problem := self._refused(scope, headers):
            await respond(scope, send, answer_of(problem, ""))
        elif self._api.serves(scope["raw_path"]):
            await self._api.serve(scope, headers, receive, send)
        else:
            await self._dashboard(scope, receive, send)

    def _refused(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Problem | None:
        hosts = self._service.hosts
        host = headers.get(b"host")
        if host is None or not hosts.are_ours(host):
            return Problem(421, "this service does not answer to that host name; `hosts` in its settings adds names")
        if scope["method"] in SAFE:
            return None
        origin = headers.get(b"origin")
        if origin is not None and hosts.is_foreign(origin, host):
            return Problem(403, "a page of another site may not change anything here")
        return None
