"""Visits: a request to the dashboard with its session and its principal, and what is refused before a page sees it."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from math import ceil
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from digestif.aio import AsyncDigests
from digestif.clock import wall_clock
from digestif.errors import DigestifError, StoreError
from digestif.service.api.problems import problem_of
from digestif.service.api.requests import MOST_PARAMETERS
from digestif.service.dashboard import messages
from digestif.service.dashboard.rendering import environment, rendered
from digestif.service.security.logins import LogInLimit
from digestif.service.security.sessions import (
    COOKIE,
    LIFETIME,
    Session,
    Sessions,
    cookie_of,
    is_logged_out,
    shared_secret,
)
from digestif.service.security.tokens import LOCAL, Principal
from digestif.service.service import Service
from digestif.service.settings import Scope
from digestif.service.waits import Waits
from digestif.stores.base import Store

FORM_BYTES = 64 * 1024
FORM_FIELDS = 60  # a page of selected dead letters, and what comes with them
SAID = "digestif_said"  # the cookie that carries the message of an action to the page after it
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers would send forms with `Origin: null`
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Refused(Exception):
    """A request that gets an error page."""

    def __init__(self, status: int, title: str, detail: str, wait: float | None = None) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.wait = status, title, detail, wait


class Page(HTMLResponse):
    """A page that is rendered when it is sent, beside the event loop."""

    def __init__(self, service: Service, render: Callable[[], str], **options: Any) -> None:
        super().__init__(**options)
        self._service, self._render = service, render

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self.body = self.render(await self._service.beside(self._render))
        self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


class Visit:
    """One request: what it asks for, who sent it, and how its page is rendered."""

    def __init__(self, service: Service, request: Request, session: Session, sessions: Sessions) -> None:
        self.service, self.request = service, request
        self.session, self.sessions = session, sessions
        self.principal = _principal(service, session)
        self.now = wall_clock()
        self.form: dict[str, str] = {}
        self.fields: list[tuple[str, str]] = []  # of the form, those of one name all

    @property
    def digests(self) -> AsyncDigests:
        return self.service.digests

    @property
    def reader(self) -> Principal:
        """The principal of a page that only those who may read reach."""
        assert self.principal is not None
        return self.principal

    @property
    def is_admin(self) -> bool:
        return self.principal is not None and self.principal.may(Scope.ADMIN)

    @property
    def sees_everything(self) -> bool:
        return self.principal is not None and not self.principal.prefix

    @property
    def is_current(self) -> bool:
        """True as long as the session lasts and its token is known, for answers that take long."""
        return wall_clock() < self.session.expires and _principal(self.service, self.session) is not None

    def asked(self, name: str, default: str = "") -> str:
        """A parameter of the address, or a field of the form."""
        return self.form.get(name, self.request.query_params.get(name, default))

    def selected(self, name: str) -> list[str]:
        """The values of all fields of the form with this name, such as checkboxes, each once."""
        return list(dict.fromkeys(value for field, value in self.fields if field == name))

    def cookie(self, name: str) -> str | None:
        return cookie_of(self.request.scope["headers"], name)

    def render(self, template: str, *, status: int = 200, **facts: Any) -> Response:
        name = self.cookie(SAID) or ""
        said = messages.text_of(name)
        render = partial(
            rendered,
            template,
            visit=self,
            principal=self.principal,
            has_tokens=bool(self.service.tokens),
            form_token=self.sessions.form_token(self.session),
            here=self.here,
            page=self.request.scope["path"],
            now=self.now,
            said=said,
            said_kind="good" if messages.has_changed(name) else "note",
            **facts,
        )
        response = Page(self.service, render, status_code=status)
        if said is not None and "HX-Request" not in self.request.headers:
            response.delete_cookie(SAID, path="/", httponly=True, samesite="strict")
        return response

    @property
    def here(self) -> str:
        """The path and the query of this page. Those of `request.url` stay in a cache of the standard library."""
        scope = self.request.scope
        query = scope["query_string"].decode("latin-1")
        return f"{scope['path']}?{query}" if query else str(scope["path"])

    def went_to(self, place: str, said: str) -> Response:
        """Go on to a page, which shows a message."""
        response = RedirectResponse(place, status_code=303)
        response.set_cookie(SAID, said, max_age=60, path="/", httponly=True, samesite="strict", secure=self.is_https)
        return response

    @property
    def address(self) -> str:
        """Where people reach the service, for lines to paste."""
        return self.service.settings.public or f"http://{self.request.headers.get('host', '')}"

    @property
    def is_https(self) -> bool:
        return (self.service.settings.public or "").startswith("https:")

    def remember(self, response: Response) -> None:
        """Give the browser its session, unless it has sent it."""
        cookie = self.sessions.sealed(self.session)
        if self.cookie(COOKIE) != cookie:
            response.set_cookie(
                COOKIE, cookie, max_age=LIFETIME, path="/", httponly=True, samesite="strict", secure=self.is_https
            )


Answer = Callable[[Visit], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


class Reception:
    """Makes endpoints of pages and actions: finds the session, and refuses what must not reach them."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.limit = LogInLimit()
        self._waits = service.part(Waits)
        self._sessions: tuple[Store, Sessions] | None = None

    def page(self, answer: Answer, *, whole: bool = False) -> Endpoint:
        """A page for those who may read; `whole` if it concerns all timelines."""

        async def checked(visit: Visit) -> Response:
            if visit.principal is None:
                return _to_log_in(visit)
            _check(visit.principal, Scope.READ, whole=whole)
            return await answer(visit)

        return self._endpoint(checked)

    def action(self, answer: Answer) -> Endpoint:
        """A form that changes something, for those who may."""

        async def checked(visit: Visit) -> Response:
            await check_form(visit)
            if visit.principal is None:
                return RedirectResponse("/login", status_code=303)
            _check(visit.principal, Scope.ADMIN, whole=False)
            return await answer(visit)

        return self._endpoint(checked)

    def open(self, answer: Answer) -> Endpoint:
        """A page for everybody: the log-in."""
        return self._endpoint(answer)

    def refusal(self, status: int, title: str, detail: str) -> Callable[[Request, Exception], Awaitable[Response]]:
        """Make a handler of exceptions that answers with an error page."""

        async def refuse(_: Visit) -> Response:
            raise Refused(status, title, detail)

        endpoint = self._endpoint(refuse)

        async def handle(request: Request, _: Exception) -> Response:
            return await endpoint(request)

        return handle

    def _endpoint(self, answer: Answer) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                visit = await self._waits.until(self._visit(request), method=request.method)
            except StoreError as error:
                return finished(_bare(_refused(error)))
            except Refused as refused:
                return finished(_bare(refused))
            try:
                response = await self._waits.until(answer(visit), method=request.method)
            except (Refused, DigestifError) as error:
                response = _refusal(visit, error)
            visit.remember(response)
            return finished(response)

        return endpoint

    async def _visit(self, request: Request) -> Visit:
        if request.scope["query_string"].count(b"&") >= MOST_PARAMETERS:
            raise Refused(400, "The address can’t be read", f"It has more than {MOST_PARAMETERS} parameters.")
        sessions = await self._of_store(self.service.digests.store)
        now = wall_clock()
        session = sessions.opened(cookie_of(request.scope["headers"], COOKIE), now=now)
        self._count(session)
        if session is None or await self._is_logged_out(session):
            return Visit(self.service, request, sessions.begin(now=now), sessions)
        return Visit(self.service, request, sessions.renewed(session, now=now), sessions)

    def _count(self, session: Session | None) -> None:
        """Count a request as the API does, before the store is asked. The log-in has a limit of its own."""
        principal = _principal(self.service, session)
        wait = 0.0 if principal is None else self.service.rates.wait(principal.name)
        if wait:
            raise Refused(
                429,
                "More requests than your token may make",
                "Pages and the API share the limit of requests a second. Load the page again.",
                wait=wait,
            )

    async def _is_logged_out(self, session: Session) -> bool:
        if not session.token:
            return False
        return await self.service.in_thread(partial(is_logged_out, self.service.digests.store, session))

    async def _of_store(self, store: Store) -> Sessions:
        if self._sessions is None or self._sessions[0] is not store:
            self._sessions = store, Sessions(await asyncio.to_thread(shared_secret, store))
        return self._sessions[1]


def _to_log_in(visit: Visit) -> Response:
    if "HX-Request" in visit.request.headers:  # a part of a page: the whole of it has to be loaded again
        return Response(status_code=401, headers={"HX-Refresh": "true"})
    return RedirectResponse(f"/login?next={quote(visit.here, safe='')}", status_code=303)


def finished(response: Response) -> Response:
    """A response with the headers that all have, unless it has its own."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def check_form(visit: Visit) -> None:
    """Read the form of a request, and refuse it unless it comes from one of our own pages."""
    visit.fields = await _form(visit.request)
    visit.form = dict(visit.fields)
    if _is_foreign(visit) or not visit.sessions.is_form_token(visit.session, visit.form.pop("form_token", "")):
        raise Refused(
            403,
            "This form was not sent by the dashboard",
            "Nothing was changed. Open the page again and repeat it there.",
        )


async def _form(request: Request) -> list[tuple[str, str]]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused(415, "This is no form", "Actions are sent by the forms of the dashboard.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            raise Refused(413, "The form is too large", f"At most {FORM_BYTES:,} bytes are read.")
    try:
        text = body.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS)
    except ValueError:
        raise Refused(400, "The form can't be read", "It is not what the dashboard sends.") from None


def _is_foreign(visit: Visit) -> bool:
    """True if the browser says that a page of another site has sent the request."""
    headers = visit.request.headers
    site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
    host = headers.get("host", "").encode("latin-1")
    return site != "same-origin" or (
        origin is not None and visit.service.hosts.is_foreign(origin.encode("latin-1"), host)
    )


def _principal(service: Service, session: Session | None) -> Principal | None:
    if not service.tokens:
        return LOCAL
    return service.tokens.holder(session.token) if session is not None and session.token else None


def _check(principal: Principal, scope: Scope, *, whole: bool) -> None:
    if not principal.may(scope):
        raise Refused(403, "Your token does not allow this", f"It lacks the scope “{scope}”.")
    if whole and principal.prefix:
        raise Refused(
            403, "This concerns all timelines", f"Your token reaches those that begin with “{principal.prefix}”."
        )


def reached(visit: Visit, timeline: str) -> str:
    """A timeline, if the principal reaches it."""
    if visit.principal is None or not visit.principal.reaches(timeline):
        raise Refused(
            403, "Your token does not reach this timeline", "It is limited to timelines with another beginning."
        )
    return timeline


def _refusal(visit: Visit, error: Refused | DigestifError) -> Response:
    if isinstance(error, DigestifError):
        error = _refused(error)
    response = visit.render(
        "refusal.html", status=error.status, code=error.status, title=error.title, detail=error.detail
    )
    return _with_wait(response, error)


def _refused(error: DigestifError) -> Refused:
    """What an error of the engine is for a reader: the same as for callers of the API."""
    problem = problem_of(error)
    wait = problem.headers.get("retry-after")
    title = "The store can’t do this now" if isinstance(error, StoreError) else "That did not work"
    return Refused(problem.status, title, problem.detail, wait=None if wait is None else float(wait))


async def broken(_request: Request, _error: Exception) -> Response:
    """The page for an error that was not expected. The server logs the error."""
    return finished(_bare(Refused(500, "Something went wrong", "The log of the service has the error.")))


def _bare(refused: Refused) -> Response:
    """An error page without a session, which needs the store."""
    page = environment().get_template("bare.html").render(title=refused.title, detail=refused.detail)
    return _with_wait(HTMLResponse(page, status_code=refused.status), refused)


def _with_wait(response: Response, refused: Refused) -> Response:
    if refused.wait is not None:
        response.headers["Retry-After"] = str(max(1, ceil(refused.wait)))
    return response
