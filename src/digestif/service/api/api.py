"""The API: route, token, rate, endpoint, answer. Plain ASGI, since each microsecond counts."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from starlette.types import Receive, Scope, Send

from digestif.errors import DigestifError
from digestif.ids import fresh_id
from digestif.service.api.endpoints import ROUTES
from digestif.service.api.large_answers import LargeAnswers
from digestif.service.api.probes import Metrics
from digestif.service.api.problems import Problem, problem_of
from digestif.service.api.requests import BODY, COMMON, START, Answer, Request, Stream, answer, answer_of, respond
from digestif.service.api.routes import Route, Router
from digestif.service.security.authentication import principal_of
from digestif.service.security.tokens import Principal
from digestif.service.service import Service
from digestif.service.waits import Probe, Waits

LARGE_AGAIN = 5  # seconds, after which a client may ask again for a large answer
logger = logging.getLogger(__name__)


class Api:
    """Answers the requests for its routes."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._router = Router(ROUTES)
        self._large = LargeAnswers()
        self._probe, self._waits = service.part(Probe), service.part(Waits)
        service.part(Metrics)  # counts from now on

    def serves(self, raw_path: bytes) -> bool:
        """True for a path of the API, also one that leads nowhere."""
        return raw_path.startswith(b"/v1/") or self._router.knows(raw_path)

    async def serve(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        given = await self._answer(scope, headers, receive)
        if isinstance(given, Answer):
            await (self._send(scope, headers, send, given) if given.rest else respond(scope, send, given))
            return
        try:
            if scope["method"] == "HEAD":
                await respond(scope, send, Answer(200, b"", given.content_type))
            else:
                await _stream(given, receive, send)
        finally:
            given.close()

    async def _send(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send, given: Answer) -> None:
        """Send a large answer; 503 if clients have not read the large answers before it."""
        principal = principal_of(self._service, headers) or ANYONE
        with self._large.place(principal.name, given.size) as has_place:
            if not has_place:
                problem = Problem(503, "too many large answers are being sent", retry_after=LARGE_AGAIN)
                given = answer_of(problem, scope["raw_path"].decode("latin-1"))
            await respond(scope, send, given)

    async def _answer(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> Answer | Stream:
        raw_path = scope["raw_path"]
        try:
            route, keys = self._router.find(scope["method"], raw_path)
            principal = self._admitted(route, headers)
            request = Request(self._service, scope, headers, receive, principal, keys)
            if route.has_timeline:
                request.refuse_outside(keys[0])
            if self._probe.is_away and scope["method"] == "POST":
                await self._probe.ask()  # what the store has to do for new requests would pile up
            return _as_answer(route, await self._waits.until(route.endpoint(request), method=scope["method"]))
        except Problem as problem:
            return answer_of(problem, raw_path.decode("latin-1"))
        except DigestifError as error:
            return answer_of(problem_of(error), raw_path.decode("latin-1"))
        except Exception:
            number = fresh_id()
            logger.exception("request %s failed: %s %s", number, scope["method"], route.path)
            unexpected = Problem(500, f"an error that was not expected; the service's log has it as {number}")
            return answer_of(unexpected, raw_path.decode("latin-1"))

    def _admitted(self, route: Route, headers: Mapping[bytes, bytes]) -> Principal:
        """The caller, who may use this route now."""
        service = self._service
        found = principal_of(service, headers)
        if route.scope is None:
            return found or ANYONE
        if found is None:
            raise Problem(401, "send a token: Authorization: Bearer dgf_…", headers={"www-authenticate": "Bearer"})
        if wait := service.rates.wait(found.name):
            raise Problem(429, "more requests a second than this token may make", retry_after=wait)
        if not found.may(route.scope):
            raise Problem(403, f"this token lacks the scope {route.scope}")
        if route.whole and found.prefix:
            raise Problem(403, "this token has a prefix, and this concerns all timelines")
        return found


ANYONE = Principal(name="anyone", scopes=frozenset())


def _as_answer(route: Route, found: Any) -> Answer | Stream:
    if type(found) is Answer or type(found) is Stream:
        return found
    return answer(route.status, found)


async def _stream(given: Stream, receive: Receive, send: Send) -> None:
    """Send parts until there are no more, or the client has left."""
    await send({"type": START, "status": 200, "headers": [(b"content-type", given.content_type), *COMMON]})
    leaving = asyncio.create_task(_until_left(receive))
    sending = asyncio.create_task(_send_parts(given, send))
    try:
        await asyncio.wait([leaving, sending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (leaving, sending):
            task.cancel()
        await asyncio.gather(leaving, sending, return_exceptions=True)
    await send({"type": BODY, "body": b""})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_parts(given: Stream, send: Send) -> None:
    async with aclosing(given.parts) as parts:  # type: ignore[type-var]  # an async generator
        async for part in parts:
            await send({"type": BODY, "body": part, "more_body": True})
