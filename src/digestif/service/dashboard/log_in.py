"""Logging in with a token, and out again."""

from functools import partial

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from digestif.service.dashboard.visits import Reception, Refused, Visit, check_form
from digestif.service.security.sessions import log_out
from digestif.service.security.tokens import fingerprint
from digestif.service.settings import Scope


def routes(reception: Reception) -> list[Route]:
    async def log_in(visit: Visit) -> Response:
        return await _log_in(visit, reception)

    return [
        Route("/login", reception.open(_ask), methods=["GET"]),
        Route("/login", reception.open(log_in), methods=["POST"]),
        Route("/logout", reception.open(_log_out), methods=["POST"]),
    ]


async def _ask(visit: Visit) -> Response:
    if visit.principal is not None:
        return RedirectResponse(_next(visit), status_code=303)
    return visit.render("log_in.html", next=_next(visit), problem=None)


async def _log_in(visit: Visit, reception: Reception) -> Response:
    await check_form(visit)
    token = visit.asked("token").strip()
    holder = visit.service.tokens.find(token)
    if holder is None:
        return _unknown(visit, reception)
    if not holder.may(Scope.READ):
        problem = "This token may add records, not look: the dashboard needs the scope “read”."
        return visit.render("log_in.html", status=403, next=_next(visit), problem=problem)
    visit.session = visit.sessions.begin(token=fingerprint(token), now=visit.now)
    return RedirectResponse(_next(visit), status_code=303)


def _unknown(visit: Visit, reception: Reception) -> Response:
    """The answer to a wrong token. A right one never gets here: behind a proxy all visitors have one address."""
    address = visit.request.client.host if visit.request.client else "?"
    if wait := reception.limit.wait(address):
        detail = f"Try another token in {int(wait) + 1} s; a token that is known here is let in at any time."
        raise Refused(429, "Too many log-ins have failed", detail, wait=wait)
    reception.limit.failed(address)
    return visit.render("log_in.html", status=401, next=_next(visit), problem="This token is not known here.")


async def _log_out(visit: Visit) -> Response:
    await check_form(visit)
    if visit.session.token:  # without one it opens nothing that others may not see
        await visit.service.in_thread(partial(log_out, visit.digests.store, visit.session))
    visit.session = visit.sessions.begin(now=visit.now)
    return visit.went_to("/login", "logged-out")


def _next(visit: Visit) -> str:
    """The page that was asked for before the log-in; never one of another site."""
    asked = visit.asked("next", "/")
    is_own = asked.startswith("/") and not asked.startswith(("//", "/\\", "/login")) and asked.isprintable()
    return asked if is_own else "/"
